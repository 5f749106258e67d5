#include "common/lock_ranges.h"

#include <algorithm>
#include <iterator>

#include "common/check.h"

namespace stria {

void LockRanges::Set(const LockRange& r) {
  CHECK(r.first <= r.last, "a lock of no bytes");
  LockRange now = r;
  auto it = ranges_.lower_bound(r.first);
  // The one before may reach into the range, or end just where it begins.
  if (it != ranges_.begin() && std::prev(it)->second.last + 1 >= r.first) --it;
  while (it != ranges_.end() && (it->first <= r.last || it->first - 1 == r.last)) {
    const LockRange old = it->second;
    if (old.type == r.type) {
      now.first = std::min(now.first, old.first);
      now.last = std::max(now.last, old.last);
      it = ranges_.erase(it);
      continue;
    }
    if (!Overlap(old, r)) {  // a neighbour of another type
      ++it;
      continue;
    }
    it = ranges_.erase(it);
    if (old.first < r.first) ranges_[old.first] = {old.first, r.first - 1, old.type, old.pid};
    if (old.last > r.last) ranges_[r.last + 1] = {r.last + 1, old.last, old.type, old.pid};
  }
  if (r.type != LockType::kNone) ranges_[now.first] = now;
}

void LockRanges::Weaken(const LockRange& r) {
  for (const LockRange& mine : All()) {
    if (!Overlap(mine, r) || mine.type <= r.type) continue;
    Set({std::max(mine.first, r.first), std::min(mine.last, r.last), r.type, r.pid});
  }
}

void LockRanges::Strengthen(const LockRange& r) {
  const std::vector<LockRange> before = All();
  Set(r);
  for (const LockRange& mine : before) {
    if (!Overlap(mine, r) || mine.type <= r.type) continue;
    Set({std::max(mine.first, r.first), std::min(mine.last, r.last), mine.type, mine.pid});
  }
}

std::optional<LockRange> LockRanges::Conflict(const LockRange& r) const {
  auto it = ranges_.upper_bound(r.first);
  if (it != ranges_.begin() && std::prev(it)->second.last >= r.first) --it;
  for (; it != ranges_.end() && it->first <= r.last; ++it) {
    if (Excludes(it->second.type, r.type)) return it->second;
  }
  return std::nullopt;
}

bool LockRanges::Has(const LockRange& r) const {
  auto it = ranges_.upper_bound(r.first);
  if (it == ranges_.begin()) return false;
  const LockRange& mine = std::prev(it)->second;
  return mine.type == r.type && mine.last >= r.last;
}

std::vector<LockRange> LockRanges::All() const {
  std::vector<LockRange> out;
  out.reserve(ranges_.size());
  for (const auto& [first, r] : ranges_) out.push_back(r);
  return out;
}

}  // namespace stria
