// The byte ranges that one owner has locked in one file, as fcntl(2) keeps them: a new lock replaces the owner's old ones in
// its range, so ranges are split, and neighbours of one type are merged. Pure. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace stria {

// Numbers are on the wire.
enum class LockType : uint8_t {
  kNone = 0,   // unlocked
  kRead = 1,   // shared
  kWrite = 2,  // exclusive
};

inline constexpr uint64_t kLockToEnd = INT64_MAX;  // `last` of a lock without an end, as the kernel's OFFSET_MAX

// Bytes [first, last], both included.
struct LockRange {
  uint64_t first = 0;
  uint64_t last = kLockToEnd;
  LockType type = LockType::kNone;
  uint32_t pid = 0;  // the process that set it, for F_GETLK
  bool operator==(const LockRange&) const = default;
};

// True if locks of two owners on the same byte exclude each other.
inline bool Excludes(LockType a, LockType b) {
  return a != LockType::kNone && b != LockType::kNone && (a == LockType::kWrite || b == LockType::kWrite);
}
inline bool Overlap(const LockRange& a, const LockRange& b) { return a.first <= b.last && b.first <= a.last; }

class LockRanges {
 public:
  // Gives the range this type, whatever it had; kNone unlocks. REQUIRES: first <= last.
  void Set(const LockRange& r);
  // Lowers parts of the range that are locked more strongly than `r.type` to that type.
  void Weaken(const LockRange& r);
  // Raises parts of the range that are locked less strongly than `r.type` to that type; the rest stays as it is.
  void Strengthen(const LockRange& r);
  // The first of these ranges that keeps another owner from having `r`.
  std::optional<LockRange> Conflict(const LockRange& r) const;
  // True if all of it is locked with exactly that type.
  bool Has(const LockRange& r) const;

  bool empty() const { return ranges_.empty(); }
  size_t size() const { return ranges_.size(); }
  // In order; disjoint; neighbours of one type are one.
  std::vector<LockRange> All() const;
  bool operator==(const LockRanges&) const = default;

 private:
  std::map<uint64_t, LockRange> ranges_;  // by first
};

}  // namespace stria
