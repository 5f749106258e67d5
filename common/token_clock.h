// The time by which tokens expire: the metadata server's, not that of the server that checks them. The clocks of a room full of
// PCs differ, by hours where a time zone is wrong, and jump when they are corrected.
//
// The metadata server takes its wall clock once, when it starts, and counts on from there with a clock that never jumps. Data
// servers hear the time with each heartbeat (late by the time of the answer: tokens live that much longer).
// Not thread-safe.
#pragma once

#include <cstdint>

#include "common/exec/executor.h"

namespace stria {

class TokenClock {
 public:
  // It is token_ns by the metadata server, and now_ns by Executor::NowNs.
  void Set(int64_t token_ns, int64_t now_ns) {
    ahead_ns_ = token_ns - now_ns;
    known_ = true;
  }
  // Nanoseconds since 1970. Before the first Set: the executor's own wall clock.
  int64_t At(const Executor& executor) const {
    return known_ ? executor.NowNs() + ahead_ns_ : executor.WallNs();
  }

 private:
  int64_t ahead_ns_ = 0;  // of NowNs
  bool known_ = false;
};

}  // namespace stria
