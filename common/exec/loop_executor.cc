#include "common/exec/loop_executor.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace stria {
namespace {
int64_t ClockNs(clockid_t id) {
  timespec t;
  clock_gettime(id, &t);
  return int64_t{t.tv_sec} * kSecond + t.tv_nsec;
}
// Ready coroutines run between two looks at the clock and at what other threads posted.
constexpr int kReadyBatch = 64;
}  // namespace

int64_t BoottimeNs() { return ClockNs(CLOCK_BOOTTIME); }
int64_t WallclockNs() { return ClockNs(CLOCK_REALTIME); }

LoopExecutor::~LoopExecutor() = default;

void LoopExecutor::Post(std::function<void()> fn) {
  bool wake;
  {
    std::lock_guard<std::mutex> lock(mu_);
    posted_.push_back(std::move(fn));
    wake = sleeping_;
  }
  if (wake) cv_.notify_one();
}

void LoopExecutor::Stop() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    stop_ = true;
  }
  cv_.notify_one();
}

void LoopExecutor::Run() {
  MakeCurrent();
  std::vector<std::function<void()>> batch;
  while (true) {
    {
      std::unique_lock<std::mutex> lock(mu_);
      if (stop_) break;
      if (posted_.empty() && !HasReady()) {
        const int64_t next = NextTimerNs();
        const int64_t now = NowNs();
        if (next > now) {
          sleeping_ = true;
          const int64_t nap = std::min<int64_t>(next - now, kSecond);
          cv_.wait_for(lock, std::chrono::nanoseconds(nap), [this] { return stop_ || !posted_.empty(); });
          sleeping_ = false;
          if (stop_) break;
        }
      }
      batch.swap(posted_);
    }
    for (auto& fn : batch) fn();
    batch.clear();
    if (NextTimerNs() <= NowNs()) RunDueTimers(NowNs());
    for (int i = 0; i < kReadyBatch && RunOneReady(); ++i) {
    }
  }
}

}  // namespace stria
