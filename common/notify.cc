#include "common/notify.h"

#include <systemd/sd-daemon.h>
#include <time.h>

#include <algorithm>

namespace stria {
namespace {

constexpr int64_t kNsPerUs = 1000;
constexpr int kAlivePerTimeout = 3;  // two may come late

void Tell(const std::string& text) { (void)sd_notify(0, text.c_str()); }

// A line break in it would begin another assignment.
std::string StatusText(std::string status) {
  std::replace(status.begin(), status.end(), '\n', ' ');
  return "STATUS=" + status;
}

}  // namespace

void TellReady(const std::string& status) { Tell(status.empty() ? "READY=1" : "READY=1\n" + StatusText(status)); }

void TellStatus(const std::string& status) { Tell(StatusText(status)); }

void TellReloading() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t us = static_cast<int64_t>(now.tv_sec) * 1'000'000 + now.tv_nsec / kNsPerUs;
  Tell("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(us));
}

void TellStopping() { Tell("STOPPING=1"); }

int64_t AlivePeriodNs() {
  uint64_t timeout_us = 0;
  if (sd_watchdog_enabled(0, &timeout_us) <= 0) return 0;
  return std::max<int64_t>(static_cast<int64_t>(timeout_us) * kNsPerUs / kAlivePerTimeout, 1);
}

void TellAlive() { Tell("WATCHDOG=1"); }

}  // namespace stria
