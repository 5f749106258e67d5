// How long things took, counted in buckets that dashboards and rules can name. Adding is a search in twenty numbers, and no lock.
// Not thread-safe: it is its executor's, as what it counts.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "common/units.h"

namespace stria {

class LatencyHistogram {
 public:
  // The upper ends, inclusive: 25 us to a minute.
  static constexpr std::array<int64_t, 20> kEndsNs = {
      25 * kMicrosecond,  50 * kMicrosecond,  100 * kMicrosecond, 250 * kMicrosecond, 500 * kMicrosecond,
      1 * kMillisecond,   2500 * kMicrosecond, 5 * kMillisecond,  10 * kMillisecond,  25 * kMillisecond,
      50 * kMillisecond,  100 * kMillisecond, 250 * kMillisecond, 500 * kMillisecond, 1 * kSecond,
      2500 * kMillisecond, 5 * kSecond,       10 * kSecond,       30 * kSecond,       60 * kSecond};

  // Less than nothing counts as nothing.
  void Add(int64_t took_ns) {
    took_ns = std::max<int64_t>(took_ns, 0);
    const auto end = std::lower_bound(kEndsNs.begin(), kEndsNs.end(), took_ns);
    ++buckets_[static_cast<size_t>(end - kEndsNs.begin())];
    ++count_;
    sum_ns_ += static_cast<uint64_t>(took_ns);
  }
  uint64_t count() const { return count_; }
  uint64_t sum_ns() const { return sum_ns_; }
  // Of those alone, from 0 to kEndsNs.size(), where those are that took longer than all ends.
  uint64_t bucket(size_t i) const { return buckets_.at(i); }

 private:
  std::array<uint64_t, kEndsNs.size() + 1> buckets_{};
  uint64_t count_ = 0;
  uint64_t sum_ns_ = 0;
};

}  // namespace stria
