#include "meta/replica/log_shape.h"

#include <algorithm>

#include "common/check.h"

namespace stria {

bool LogShape::IsValid() const {
  if (rows.empty()) return last == 0;
  if (rows.front().first != 1 || rows.front().term == 0 || rows.back().first > last) return false;
  return std::adjacent_find(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.term >= b.term || a.first >= b.first; }) ==
         rows.end();
}

uint64_t LogShape::TermOf(uint64_t seq) const {
  CHECK(seq >= 1 && seq <= last, "no such sequence in the log");
  const auto after = std::upper_bound(rows.begin(), rows.end(), seq, [](uint64_t s, const Row& row) { return s < row.first; });
  return std::prev(after)->term;
}

void LogShape::Append(uint64_t term) {
  CHECK(term >= LastTerm() && term > 0, "terms of a log ascend");
  ++last;
  if (term != LastTerm()) rows.push_back({term, last});
}

void LogShape::CutTo(uint64_t seq) {
  last = std::min(last, seq);
  while (!rows.empty() && rows.back().first > last) rows.pop_back();
}

uint64_t CommonSeq(const LogShape& a, const LogShape& b) {
  uint64_t common = 0;
  for (size_t i = 0; i < a.rows.size() && i < b.rows.size(); ++i) {
    if (a.rows[i] != b.rows[i]) break;
    const uint64_t end_a = i + 1 < a.rows.size() ? a.rows[i + 1].first - 1 : a.last;
    const uint64_t end_b = i + 1 < b.rows.size() ? b.rows[i + 1].first - 1 : b.last;
    common = std::min(end_a, end_b);
    if (end_a != end_b) break;
  }
  return common;
}

}  // namespace stria
