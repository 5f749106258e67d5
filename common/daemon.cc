#include "common/daemon.h"

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <thread>
#include <utility>

#include "common/log.h"
#include "common/log_control.h"
#include "common/notify.h"
#include "common/sentence.h"

namespace stria {
namespace {

constexpr size_t kMaxKeyFileBytes = 64 * 1024;
constexpr int64_t kStatusPeriodNs = 10 * kSecond;

sigset_t StopSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

Result<std::vector<ClusterKey>> LoadClusterKeys(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Error(FsError::kNoEnt, "cannot read the cluster key " + path);
  std::string text(kMaxKeyFileBytes, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  Result<std::vector<ClusterKey>> keys = ParseClusterKeys(text);
  if (!keys.ok()) return keys.error().WithContext(path);
  return keys;
}

std::string WhoReadsClusterKeys(const std::string& path) {
  struct stat st;
  if (stat(path.c_str(), &st) != 0 || (st.st_mode & (S_IROTH | S_IWOTH | S_IWGRP)) == 0) return "";
  char mode[8];
  std::snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(st.st_mode & 07777));
  return "the cluster key " + path + " has mode " + mode + ": a reader of it has access to all data of the cluster. " +
         "Let only root (or the user that runs the servers) read it:  chmod 600 " + path;
}

int RefuseToStart(const std::string& program, const Error& e) {
  SaySentence(program, SentenceOf(e));
  return 1;
}

void BlockStopSignals() {
  signal(SIGPIPE, SIG_IGN);
  const sigset_t set = StopSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

int DaemonFrame::Run(Task<void> work) {
  std::atomic<bool> ended = false;
  std::thread signals([this, &ended] {
    const sigset_t set = StopSignals();
    while (true) {
      int number = 0;
      sigwait(&set, &number);
      if (ended) return;
      executor_.Post([this, number] { TakeSignal(number); });
    }
  });
  scope_.Spawn(std::move(work));
  executor_.Run();
  ended = true;
  pthread_kill(signals.native_handle(), SIGTERM);
  signals.join();
  return exit_code_;
}

void DaemonFrame::TakeSignal(int number) {
  if (number == SIGHUP) {
    const bool tell = ready_ && !shutting_down_;
    if (tell) TellReloading();
    ReopenLog();
    LogInfo("SIGHUP: the log was opened anew");
    Reload();
    if (tell) TellReady(Status());
    return;
  }
  if (std::exchange(shutting_down_, true)) return;
  TellStopping();
  scope_.Spawn(Shutdown());
}

void DaemonFrame::SayReady() {
  TellReady(Status());
  if (!std::exchange(ready_, true)) scope_.Spawn(SayAlive());
}

// What waits on the executor is late when that stands still, and is not said at all then.
Task<void> DaemonFrame::SayAlive() {
  const int64_t alive_ns = AlivePeriodNs();
  std::string said = Status();
  while (true) {
    co_await Sleep(alive_ns > 0 ? std::min(alive_ns, kStatusPeriodNs) : kStatusPeriodNs);
    if (alive_ns > 0) TellAlive();
    std::string status = shutting_down_ ? said : Status();
    if (status == said) continue;
    TellStatus(status);
    said = std::move(status);
  }
}

void DaemonFrame::Fail(const Error& e) {
  LogError("{}", SentenceOf(e));
  TellStatus(SentenceOf(e));
  exit_code_ = 1;
  executor_.Stop();
}

}  // namespace stria
