// The executor of a real process: runs on the thread that calls Run().
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

#include "common/exec/executor.h"

namespace stria {

int64_t BoottimeNs();  // CLOCK_BOOTTIME
int64_t WallclockNs();  // CLOCK_REALTIME

class LoopExecutor final : public Executor {
 public:
  LoopExecutor() = default;
  ~LoopExecutor() override;

  int64_t NowNs() const override { return BoottimeNs(); }
  int64_t WallNs() const override { return WallclockNs(); }
  void Post(std::function<void()> fn) override;  // any thread

  // Runs until Stop(). Makes this the thread's current executor.
  void Run();
  // Any thread, also a signal-safe context is not needed: call it from a normal thread.
  void Stop();

 private:
  std::mutex mu_;
  std::condition_variable cv_;
  std::vector<std::function<void()>> posted_;  // guarded by mu_
  bool stop_ = false;                          // guarded by mu_
  bool sleeping_ = false;                      // guarded by mu_
};

}  // namespace stria
