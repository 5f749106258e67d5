// gRPC's knobs, common to client and server. Only grpc_*.cc include this.
#pragma once

#include <cstdint>

#include <grpc/grpc.h>
#include <grpc/support/time.h>

#include "common/units.h"

namespace stria {

inline constexpr int kReconnectFirstMs = 100;
inline constexpr int kReconnectMaxMs = 1000;
inline constexpr int kKeepaliveMs = 10'000;
inline constexpr int kKeepaliveTimeoutMs = 5'000;
inline constexpr int kMinPingIntervalMs = kKeepaliveMs / 2;  // servers bear pings this often
// Frames as large as a bulk message, so that it arrives in few slices.
inline constexpr int kHttp2FrameBytes = 4 * static_cast<int>(kMiB);
// Flow control window of a stream, until gRPC's own measurements take over.
inline constexpr int kHttp2LookaheadBytes = 4 * static_cast<int>(kMiB);
// Bytes that one read of a socket asks for: at first, at least, at most.
inline constexpr int kReadChunkBytes = 256 * static_cast<int>(kKiB);
inline constexpr int kMinReadChunkBytes = 64 * static_cast<int>(kKiB);
inline constexpr int kMaxReadChunkBytes = static_cast<int>(kMiB);

inline gpr_timespec GrpcDeadline(int64_t ns_from_now) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(ns_from_now, GPR_TIMESPAN));
}

}  // namespace stria
