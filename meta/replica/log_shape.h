// The shape of a log of batches: which sequence was written in which term. Within one term, one primary wrote each sequence once, so two
// logs whose shapes agree up to a sequence are the same up to there. Pure; any thread.
#pragma once

#include <cstdint>
#include <vector>

namespace stria {

struct LogShape {
  struct Row {
    uint64_t term = 0;
    uint64_t first = 0;  // the first sequence written in it
    bool operator==(const Row&) const = default;
  };
  std::vector<Row> rows;  // ascending in both; the first begins at sequence 1
  uint64_t last = 0;      // 0: empty

  // False for what no log has: rows that do not ascend, or begin behind `last`. Ask it of what came over a wire.
  bool IsValid() const;
  uint64_t LastTerm() const { return rows.empty() ? 0 : rows.back().term; }
  // Of a sequence from 1 to last.
  uint64_t TermOf(uint64_t seq) const;
  // Notes that the next sequence is written in `term`. REQUIRES: no term of before is higher.
  void Append(uint64_t term);
  // Forgets what is behind `seq`.
  void CutTo(uint64_t seq);
  bool operator==(const LogShape&) const = default;
};

// The last sequence that both have under the same term, with all before it; 0: none.
uint64_t CommonSeq(const LogShape& a, const LogShape& b);
inline bool IsPrefixOf(const LogShape& a, const LogShape& b) { return CommonSeq(a, b) == a.last; }
// Which of two logs is to be preferred where each may be: that of the later term, of equal ones the longer.
inline bool IsLongerThan(const LogShape& a, const LogShape& b) {
  return a.LastTerm() != b.LastTerm() ? a.LastTerm() > b.LastTerm() : a.last > b.last;
}

}  // namespace stria
