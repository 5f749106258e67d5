// When reading a file changes its atime, as Linux's default mount option relatime has it.
#pragma once

#include "api/types.h"

namespace stria {

inline bool ReadMovesAtime(const Attr& attr, int64_t read_ns) {
  constexpr int64_t kDayNs = 24 * 3600 * kSecond;
  return attr.atime_ns <= attr.mtime_ns || attr.atime_ns <= attr.ctime_ns || read_ns - attr.atime_ns >= kDayNs;
}

}  // namespace stria
