// Which servers and disks to leave alone for a while, and how long an answer usually takes. Small state
// machines over time given as a parameter: pure, not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>

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
  // Nobody waited for its answer to the end (reconstruction was faster).
  void Slow(int64_t now_ns) {
    if (++strikes_ >= kSlowStrikes) Failed(now_ns);
  }
  int failures() const { return failures_; }

 private:
  int failures_ = 0;  // in a row
  int strikes_ = 0;   // slow answers in a row
  int64_t avoid_until_ns_ = 0;
};

// How long to wait for a read before racing it: mean and deviation of past ones (as TCP estimates its
// round trip), plus what the bytes need at a modest rate.
class Latency {
 public:
  static constexpr int64_t kMinNs = 20 * kMillisecond;
  static constexpr int64_t kMaxNs = 1 * kSecond;
  static constexpr int64_t kFirstNs = 200 * kMillisecond;  // before anything is known
  static constexpr int64_t kNsPerByte = 20;                // 50 MB/s

  void Add(int64_t took_ns, uint64_t bytes) {
    const int64_t own = std::max<int64_t>(0, took_ns - static_cast<int64_t>(bytes) * kNsPerByte);
    if (!known_) {
      known_ = true;
      mean_ns_ = own;
      deviation_ns_ = own / 2;
      return;
    }
    const int64_t off = own > mean_ns_ ? own - mean_ns_ : mean_ns_ - own;
    deviation_ns_ += (off - deviation_ns_) / 4;
    mean_ns_ += (own - mean_ns_) / 8;
  }
  // That few take longer than; 0 before anything is known.
  int64_t UsualNs() const { return mean_ns_ + 4 * deviation_ns_; }
  int64_t HedgeAfterNs(uint64_t bytes) const {
    const int64_t base = known_ ? std::clamp(UsualNs(), kMinNs, kMaxNs) : kFirstNs;
    return base + static_cast<int64_t>(bytes) * kNsPerByte;
  }

 private:
  bool known_ = false;
  int64_t mean_ns_ = 0;
  int64_t deviation_ns_ = 0;
};

}  // namespace stria
