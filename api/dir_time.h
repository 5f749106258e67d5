// The times of a directory after a change of its entries at `now_ns` by the maker's clock. They do not go back for clocks that
// differ a little; a time further ahead was set by a program (utimes), and ends.
#pragma once

#include <cstdint>

#include "common/units.h"

namespace stria {

inline int64_t DirTime(int64_t before_ns, int64_t now_ns) {
  constexpr int64_t kClocksDifferNs = 60 * kSecond;
  return before_ns > now_ns && before_ns - now_ns < kClocksDifferNs ? before_ns : now_ns;
}

}  // namespace stria
