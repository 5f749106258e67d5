// How long an answer usually takes. Pure, not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/units.h"

namespace stria {

// How long to wait for a read before racing it: mean and deviation of past ones (as TCP estimates its round trip), plus the
// time for the bytes at a modest rate.
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
