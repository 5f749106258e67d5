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
// Ready coroutines that run between two looks at the clock and at posts of other threads.
constexpr int kReadyBatch = 64;
// After this a helper goes back to its own work.
constexpr int64_t kHelpNs = 200 * kMicrosecond;
}  // namespace

int64_t BoottimeNs() { return ClockNs(CLOCK_BOOTTIME); }
int64_t WallclockNs() { return ClockNs(CLOCK_REALTIME); }

LoopExecutor::~LoopExecutor() = default;

void LoopExecutor::Post(std::function<void()> fn) {
  bool wake;
  {
    std::lock_guard<std::mutex> lock(mu_);
    posted_.push_back(std::move(fn));
    wake = sleeping_ && !busy_;  // a helper wakes it when it goes
  }
  if (wake) cv_.notify_one();
}

void LoopExecutor::PostOrRun(std::function<void()> fn) {
  std::unique_lock<std::mutex> lock(mu_);
  shared_.push_back(std::move(fn));
  const bool can_help = running_ && !busy_ && !stop_ && !no_helpers_ && sleeping_ && posted_.empty() && !HasCurrent();
  if (can_help) return Help(&lock);
  const bool wake = sleeping_ && !busy_;
  lock.unlock();
  if (wake) cv_.notify_one();
}

bool LoopExecutor::OnOwnThread() const {
  return std::this_thread::get_id() == own_thread_.load(std::memory_order_relaxed);
}

bool LoopExecutor::OthersWait() const {
  if (HasReady()) return true;
  std::lock_guard<std::mutex> lock(mu_);
  return !posted_.empty() || !shared_.empty();
}

void LoopExecutor::EndHelp() {
  std::lock_guard<std::mutex> lock(mu_);
  no_helpers_ = true;
}

void LoopExecutor::RunReady() {
  if (NextTimerNs() <= NowNs()) RunDueTimers(NowNs());
  for (int i = 0; i < kReadyBatch && RunOneReady(); ++i) {
  }
}

void LoopExecutor::Help(std::unique_lock<std::mutex>* lock) {
  busy_ = true;
  std::vector<std::function<void()>> batch;
  batch.swap(shared_);  // in order: earlier posts may be there while the executor's thread wakes up
  lock->unlock();
  MakeCurrent();
  const int64_t until_ns = NowNs() + kHelpNs;
  while (true) {
    for (auto& each : batch) each();
    batch.clear();
    RunReady();
    const bool long_enough = NowNs() >= until_ns;
    lock->lock();
    if (stop_ || no_helpers_ || long_enough || !posted_.empty() || !HasWork()) break;
    batch.swap(shared_);
    lock->unlock();
  }
  busy_ = false;
  ClearCurrent();
  const bool wake = stop_ || !posted_.empty() || HasWork() || NextTimerNs() < sleeps_until_ns_;
  // With the lock held: no thread waits for a helper that was cut loose (~ThreadPool), and once the lock is free the executor
  // may be gone.
  if (wake) cv_.notify_one();
  lock->unlock();
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
  own_thread_ = std::this_thread::get_id();
  std::vector<std::function<void()>> batch, shared;
  std::unique_lock<std::mutex> lock(mu_);
  running_ = true;
  while (true) {
    if (busy_) {  // by a helper, which wakes this thread if it leaves any work, or stop_ is set
      sleeping_ = true;
      sleeps_until_ns_ = INT64_MAX;  // any timer: the time to sleep until must be found anew
      cv_.wait(lock, [this] { return !busy_; });
      sleeping_ = false;
    }
    if (stop_) break;
    if (posted_.empty() && !HasWork()) {
      const int64_t next = NextTimerNs();
      const int64_t now = NowNs();
      if (next > now) {
        sleeping_ = true;
        const int64_t nap = std::min<int64_t>(next - now, kSecond);
        sleeps_until_ns_ = now + nap;
        cv_.wait_for(lock, std::chrono::nanoseconds(nap));
        sleeping_ = false;
        continue;
      }
    }
    busy_ = true;
    batch.swap(posted_);
    shared.swap(shared_);
    lock.unlock();
    for (auto& fn : shared) fn();
    shared.clear();
    for (auto& fn : batch) fn();
    batch.clear();
    RunReady();
    lock.lock();
    busy_ = false;
  }
  running_ = false;
}

}  // namespace stria
