// Which servers and disks to leave alone for a while: a small state machine over time given as a parameter. Pure, not
// thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/latency.h"
#include "common/units.h"

namespace stria {

// One peer (or disk). Fine -> (a hard failure, or kSlowStrikes slow answers in a row) -> avoided for a
// time that doubles with each failure -> one probe goes out while others still avoid it -> fine, or
// avoided again.
class Health {
 public:
  static constexpr int64_t kAvoidMinNs = 1 * kSecond;
  static constexpr int64_t kAvoidMaxNs = 30 * kSecond;
  static constexpr int64_t kProbeNs = 5 * kSecond;  // a probe that says nothing for so long has failed
  static constexpr int kSlowStrikes = 3;

  bool Avoided(int64_t now_ns) const { return now_ns < avoid_until_ns_; }
  // A request goes out now. After an avoided time it is the probe: others avoid the peer meanwhile.
  void Sent(int64_t now_ns) {
    if (failures_ > 0 && !Avoided(now_ns)) avoid_until_ns_ = now_ns + kProbeNs;
  }
  void Succeeded() {
    failures_ = strikes_ = 0;
    avoid_until_ns_ = 0;
  }
  void Failed(int64_t now_ns) {
    strikes_ = 0;
    const int64_t avoid = std::min(kAvoidMaxNs, kAvoidMinNs << std::min(failures_, 5));
    ++failures_;
    avoid_until_ns_ = std::max(avoid_until_ns_, now_ns + avoid);
  }
  // Its answer was not awaited to the end (reconstruction was faster).
  void Slow(int64_t now_ns) {
    if (++strikes_ >= kSlowStrikes) Failed(now_ns);
  }
  int failures() const { return failures_; }

 private:
  int failures_ = 0;  // in a row
  int strikes_ = 0;   // slow answers in a row
  int64_t avoid_until_ns_ = 0;
};

}  // namespace stria
