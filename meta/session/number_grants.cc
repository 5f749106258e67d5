#include "meta/session/number_grants.h"

#include <iterator>

namespace stria {
namespace {

// The range that has the number, or the end.
template <class Ranges>
auto Find(Ranges& ranges, InodeId ino) {
  auto after = ranges.upper_bound(ino.v);
  if (after == ranges.begin()) return ranges.end();
  auto it = std::prev(after);
  return ino.v - it->first < it->second.unused.size() ? it : ranges.end();
}

}  // namespace

void NumberGrants::Grant(SessionId s, InodeId first, uint32_t count) {
  Ranges& ranges = of_[s];
  ranges[first.v] = {std::vector<bool>(count, true), count};
  if (ranges.size() > kMaxGrants) ranges.erase(ranges.begin());
}

bool NumberGrants::Has(SessionId s, InodeId ino) const {
  auto of = of_.find(s);
  if (of == of_.end()) return false;
  auto it = Find(of->second, ino);
  return it != of->second.end() && it->second.unused[ino.v - it->first];
}

void NumberGrants::Used(SessionId s, InodeId ino) {
  if (!Has(s, ino)) return;
  auto of = of_.find(s);
  auto it = Find(of->second, ino);
  it->second.unused[ino.v - it->first] = false;
  if (--it->second.left == 0) of->second.erase(it);
  if (of->second.empty()) of_.erase(of);
}

void NumberGrants::Drop(SessionId s) { of_.erase(s); }

}  // namespace stria
