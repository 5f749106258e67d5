// The common part of the server programs: runs tasks on one executor until a signal or a failure. stria-meta and stria-data
// derive from it.
#pragma once

#include <string>
#include <vector>

#include "common/error.h"
#include "common/exec/loop_executor.h"
#include "common/exec/task.h"
#include "common/token.h"

namespace stria {

// The keys in that file, newest first. kNoEnt, or the error of ParseClusterKeys, with the path.
Result<std::vector<ClusterKey>> LoadClusterKeys(const std::string& path);

// A warning if others than its owner and group can read that file, or than its owner can write it; "" if not.
std::string WhoReadsClusterKeys(const std::string& path);

// Says why the program does not start; the exit code.
int RefuseToStart(const std::string& program, const Error& e);

// SIGTERM, SIGINT and SIGHUP go to the thread of DaemonFrame that waits for them; SIGPIPE is ignored. Call it before the first
// thread (the log has one): all threads inherit it.
void BlockStopSignals();

class DaemonFrame {
 public:
  // The executor is the calling thread's.
  DaemonFrame() { executor_.MakeCurrent(); }
  // A derived class cancels scope_ first: its tasks use the class's members.
  virtual ~DaemonFrame() = default;
  DaemonFrame(const DaemonFrame&) = delete;
  DaemonFrame& operator=(const DaemonFrame&) = delete;

  // Until a signal, a failure, or work that stops the executor; the exit code. REQUIRES: BlockStopSignals().
  int Run(Task<void> work);

 protected:
  // Once, at the first signal. Stops the executor in the end.
  virtual Task<void> Shutdown() = 0;
  // At SIGHUP, after the log was opened anew: reads the settings that may change while it runs.
  virtual void Reload() = 0;
  // The program serves now: tells systemd, if systemd started it.
  void SayReady();
  // Run ends with exit code 1.
  void Fail(const Error& e);
  // One line for `systemctl status`. From SayReady on systemd is told this, and that the executor goes on (WatchdogSec=).
  virtual std::string Status() { return ""; }

  LoopExecutor executor_;
  TaskScope scope_;

 private:
  void TakeSignal(int number);
  Task<void> SayAlive();

  bool ready_ = false;
  bool shutting_down_ = false;
  int exit_code_ = 0;
};

}  // namespace stria
