#include "proto/socket_address.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <utility>

namespace stria {
namespace {

constexpr int kBacklog = 1024;
constexpr int kKeepIdleS = 10, kKeepIntervalS = 2, kKeepProbes = 3;
constexpr unsigned kUserTimeoutMs = 15'000;

using AddrInfos = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// "[::1]:7425" -> "::1", "7425"
bool Split(const std::string& address, std::string* host, std::string* port) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon + 1 == address.size()) return false;
  *host = address.substr(0, colon);
  *port = address.substr(colon + 1);
  if (host->size() >= 2 && host->front() == '[' && host->back() == ']') *host = host->substr(1, host->size() - 2);
  return !host->empty();
}

AddrInfos Resolve(const std::string& address, int flags) {
  AddrInfos out(nullptr, &freeaddrinfo);
  std::string host, port;
  if (!Split(address, &host, &port)) return out;
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) == 0) out.reset(found);
  return out;
}

std::optional<sockaddr_un> UnixAddress(const std::string& address) {
  sockaddr_un out = {};
  out.sun_family = AF_UNIX;
  const std::string path = address.substr(sizeof(kUnixPrefix) - 1);
  if (path.empty() || path.size() >= sizeof(out.sun_path)) return std::nullopt;
  memcpy(out.sun_path, path.c_str(), path.size());
  return out;
}

int NewSocket(int family) { return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

int PortOf(int fd) {
  sockaddr_storage a = {};
  socklen_t n = sizeof a;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&a), &n) != 0) return 0;
  if (a.ss_family == AF_INET6) return ntohs(reinterpret_cast<sockaddr_in6*>(&a)->sin6_port);
  return ntohs(reinterpret_cast<sockaddr_in*>(&a)->sin_port);
}

// 0 or an errno.
int ConnectWithin(int fd, const sockaddr* to, socklen_t bytes, int timeout_ms) {
  if (connect(fd, to, bytes) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd p = {fd, POLLOUT, 0};
  int n;
  do {
    n = poll(&p, 1, timeout_ms);
  } while (n < 0 && errno == EINTR);
  if (n <= 0) return n == 0 ? ETIMEDOUT : errno;
  int err = 0;
  socklen_t size = sizeof err;
  return getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &size) == 0 ? err : errno;
}

}  // namespace

void TuneSocket(int fd) {
  auto set = [fd](int level, int name, auto value) { (void)setsockopt(fd, level, name, &value, sizeof value); };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kKeepIdleS);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kKeepIntervalS);
  set(IPPROTO_TCP, TCP_KEEPCNT, kKeepProbes);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
}

Result<int> ListenOn(const std::string& address, std::string* bound, uint32_t mode) {
  const auto refused = [&address](int err) {
    return Error(FsError::kUnavailable, "cannot listen on " + address + ": " +
                                            (err == 0 ? "it is no address" : strerror(err)) +
                                            "; is the port in use or the address not of this host?");
  };
  if (address.starts_with(kUnixPrefix)) {
    const std::optional<sockaddr_un> path = UnixAddress(address);
    if (!path) return refused(ENAMETOOLONG);
    const int fd = NewSocket(AF_UNIX);
    if (fd < 0) return refused(errno);
    (void)unlink(path->sun_path);  // of a process that has ended
    // Nobody connects between the two: that takes a socket that listens.
    if (bind(fd, reinterpret_cast<const sockaddr*>(&*path), sizeof *path) == 0 && chmod(path->sun_path, mode) == 0 && listen(fd, kBacklog) == 0) {
      *bound = address;
      return fd;
    }
    const int err = errno;
    close(fd);
    return refused(err);
  }
  int err = 0;
  const AddrInfos found = Resolve(address, AI_PASSIVE);
  for (const addrinfo* a = found.get(); a != nullptr; a = a->ai_next) {
    const int fd = NewSocket(a->ai_family);
    if (fd < 0) {
      err = errno;
      continue;
    }
    const int on = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, kBacklog) == 0) {
      *bound = address.substr(0, address.rfind(':') + 1) + std::to_string(PortOf(fd));
      return fd;
    }
    err = errno;
    close(fd);
  }
  return refused(err);
}

Result<int> ConnectTo(const std::string& address, int timeout_ms) {
  const auto failed = [&address](const std::string& why) {
    return Error(FsError::kUnavailable, "cannot reach " + address + ": " + why);
  };
  if (address.starts_with(kUnixPrefix)) {
    const std::optional<sockaddr_un> path = UnixAddress(address);
    if (!path) return failed("it is no address");
    const int fd = NewSocket(AF_UNIX);
    if (fd < 0) return failed(strerror(errno));
    const int err = ConnectWithin(fd, reinterpret_cast<const sockaddr*>(&*path), sizeof *path, timeout_ms);
    if (err == 0) return fd;
    close(fd);
    return failed(strerror(err));
  }
  std::string why = "the name is not known";
  const AddrInfos found = Resolve(address, 0);
  for (const addrinfo* a = found.get(); a != nullptr; a = a->ai_next) {
    const int fd = NewSocket(a->ai_family);
    if (fd < 0) {
      why = strerror(errno);
      continue;
    }
    const int err = ConnectWithin(fd, a->ai_addr, a->ai_addrlen, timeout_ms);
    if (err == 0) {
      TuneSocket(fd);
      return fd;
    }
    close(fd);
    why = strerror(err);
  }
  return failed(why);
}

}  // namespace stria
