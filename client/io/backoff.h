// How long to wait before trying again: doubling, with jitter in [half, whole]. Pure but for the rng.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/random.h"
#include "common/units.h"

namespace stria {

inline constexpr int64_t kBackoffMinNs = 10 * kMillisecond;
inline constexpr int64_t kBackoffMaxNs = 1 * kSecond;

class Backoff {
 public:
  explicit Backoff(Random* rng, int64_t min_ns = kBackoffMinNs, int64_t max_ns = kBackoffMaxNs)
      : rng_(rng), next_ns_(min_ns), max_ns_(max_ns) {}
  int64_t NextNs() {
    const int64_t whole = next_ns_;
    next_ns_ = std::min(next_ns_ * 2, max_ns_);
    return whole / 2 + static_cast<int64_t>(rng_->Below(static_cast<uint64_t>(whole / 2 + 1)));
  }

 private:
  Random* rng_;
  int64_t next_ns_;
  int64_t max_ns_;
};

}  // namespace stria
