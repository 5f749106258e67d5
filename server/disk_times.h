// How long the calls of one disk took, by what they do, and how many are under way. For the executor's thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "common/exec/executor.h"
#include "common/latency_histogram.h"

namespace stria {

enum class DiskWork : uint8_t { kRead, kWrite, kSync, kRemove, kOther };
inline constexpr std::array<const char*, 5> kDiskWorkNames = {"read", "write", "sync", "remove", "other"};

struct DiskTimes {
  std::array<LatencyHistogram, kDiskWorkNames.size()> took;
  uint64_t running = 0;

  // A call under way; it ends with the object, also if its caller has gone.
  class Call {
   public:
    Call(std::shared_ptr<DiskTimes> times, DiskWork work)
        : times_(std::move(times)), work_(work), began_ns_(Executor::Current().NowNs()) {
      ++times_->running;
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    ~Call() {
      --times_->running;
      times_->took[static_cast<size_t>(work_)].Add(Executor::Current().NowNs() - began_ns_);
    }

   private:
    const std::shared_ptr<DiskTimes> times_;  // outlives the disk, as a call under way may
    const DiskWork work_;
    const int64_t began_ns_;
  };
};

}  // namespace stria
