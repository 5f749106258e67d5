// Sizes, and arithmetic whose rounding is in its name.
#pragma once

#include <cstdint>

#include "common/compiler.h"

namespace stria {

inline constexpr uint64_t kKiB = 1024;
inline constexpr uint64_t kMiB = 1024 * kKiB;
inline constexpr uint64_t kGiB = 1024 * kMiB;
inline constexpr uint64_t kTiB = 1024 * kGiB;

inline constexpr int64_t kMicrosecond = 1000;  // all durations and times are int64_t nanoseconds
inline constexpr int64_t kMillisecond = 1000 * kMicrosecond;
inline constexpr int64_t kSecond = 1000 * kMillisecond;

constexpr uint64_t DivCeil(uint64_t a, uint64_t b) { return (a + b - 1) / b; }
constexpr uint64_t AlignDown(uint64_t a, uint64_t b) { return a - a % b; }
constexpr uint64_t AlignUp(uint64_t a, uint64_t b) { return DivCeil(a, b) * b; }

}  // namespace stria
