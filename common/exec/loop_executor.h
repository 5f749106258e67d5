// The executor of a real process: runs on the thread that calls Run(), and on threads that help it.
//
// Mostly another thread's post is the only work there is, and waking a thread for it takes longer than the work. With PostOrRun
// the thread that posts also runs it, and what follows from it, if the executor is idle. One thread at a time runs the
// executor's work, and it sees everything that was done before.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
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
  void Post(std::function<void()> fn) override;  // any thread; never run by a helper
  void PostOrRun(std::function<void()> fn) override;
  bool OnOwnThread() const override;
  bool OthersWait() const override;
  void EndHelp() override;

  // Runs until Stop(). Makes this the thread's current executor.
  void Run();
  // Any thread, also a signal-safe context is not needed: call it from a normal thread.
  void Stop();

 private:
  bool HasWork() const { return !shared_.empty() || HasReady(); }  // REQUIRES: mu_, not busy_
  void RunReady();
  void Help(std::unique_lock<std::mutex>* lock);

  mutable std::mutex mu_;
  std::condition_variable cv_;
  std::vector<std::function<void()>> posted_;  // guarded by mu_
  std::vector<std::function<void()>> shared_;  // guarded by mu_: of PostOrRun, run by either
  bool running_ = false;                       // guarded by mu_: inside Run
  bool busy_ = false;                          // guarded by mu_: a thread runs the executor's work
  bool stop_ = false;                          // guarded by mu_
  bool sleeping_ = false;                      // guarded by mu_: the own thread
  int64_t sleeps_until_ns_ = 0;                // guarded by mu_
  bool no_helpers_ = false;                    // guarded by mu_
  std::atomic<std::thread::id> own_thread_;
};

}  // namespace stria
