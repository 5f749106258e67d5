#include "common/notify.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string_view>

#include "common/io/unique_fd.h"

namespace stria {
namespace {

constexpr int64_t kNsPerUs = 1000;
constexpr int kAlivePerTimeout = 3;  // two may come late

// What matters only now, and is told again later, waits for nobody; the rest waits for a moment.
enum class Patience : uint8_t { kNone, kSome };
constexpr timeval kSome = {.tv_sec = 2, .tv_usec = 0};

// The protocol of sd_notify(3). Its own function waits as long as nobody reads what was told before, and with it the caller.
void Tell(std::string_view text, Patience patience) {
  const char* const env = getenv("NOTIFY_SOCKET");
  const std::string_view path = env ? env : "";
  sockaddr_un to = {};
  if (path.size() < 2 || path.size() >= sizeof to.sun_path || (path[0] != '/' && path[0] != '@')) return;
  to.sun_family = AF_UNIX;
  path.copy(to.sun_path, path.size());
  if (path[0] == '@') to.sun_path[0] = 0;
  const UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) return;
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &kSome, sizeof kSome);
  const int flags = MSG_NOSIGNAL | (patience == Patience::kNone ? MSG_DONTWAIT : 0);
  (void)::sendto(fd.get(), text.data(), text.size(), flags, reinterpret_cast<const sockaddr*>(&to),
                 static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size()));
}

// A line break in it would begin another assignment.
std::string StatusText(std::string status) {
  std::replace(status.begin(), status.end(), '\n', ' ');
  return "STATUS=" + status;
}

}  // namespace

void TellReady(const std::string& status) {
  Tell(status.empty() ? "READY=1" : "READY=1\n" + StatusText(status), Patience::kSome);
}

void TellStatus(const std::string& status) { Tell(StatusText(status), Patience::kNone); }

void TellReloading() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t us = static_cast<int64_t>(now.tv_sec) * 1'000'000 + now.tv_nsec / kNsPerUs;
  Tell("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(us), Patience::kSome);
}

void TellStopping() { Tell("STOPPING=1", Patience::kSome); }

int64_t AlivePeriodNs() {
  uint64_t timeout_us = 0;
  if (sd_watchdog_enabled(0, &timeout_us) <= 0) return 0;
  return std::max<int64_t>(static_cast<int64_t>(timeout_us) * kNsPerUs / kAlivePerTimeout, 1);
}

void TellAlive() { Tell("WATCHDOG=1", Patience::kNone); }

}  // namespace stria
