#include "common/metrics_server.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <utility>

namespace stria {
namespace {

constexpr size_t kMaxRequestBytes = 8192;
constexpr int kPeerTimeoutSeconds = 2;
constexpr int kBacklog = 8;

// Splits "HOST:PORT", "[HOST]:PORT".
bool Split(const std::string& address, std::string* host, std::string* port) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon + 1 == address.size()) return false;
  *host = address.substr(0, colon);
  *port = address.substr(colon + 1);
  if (host->size() >= 2 && host->front() == '[' && host->back() == ']')
    *host = host->substr(1, host->size() - 2);
  return port->find_first_not_of("0123456789") == std::string::npos;
}

void SendAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // the peer is gone or too slow
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

}  // namespace

Result<std::unique_ptr<MetricsServer>> MetricsServer::Start(const std::string& address,
                                                            std::function<std::string()> text) {
  std::string host, port;
  addrinfo hints = {}, *found = nullptr;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  if (!Split(address, &host, &port) ||
      getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &hints, &found) != 0) {
    return Error(FsError::kInval, "'" + address + "' is not an address such as 127.0.0.1:9400 or [::]:9400");
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> freer(found, &freeaddrinfo);
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return ErrnoError(errno, "make a socket for metrics");
  const int one = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_storage bound = {};
  socklen_t length = sizeof bound;
  char service[16] = "0";
  if (bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, kBacklog) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
    const int err = errno;
    close(fd);
    return ErrnoError(err, "serve metrics at " + address);
  }
  getnameinfo(reinterpret_cast<sockaddr*>(&bound), length, nullptr, 0, service, sizeof service,
              NI_NUMERICSERV);
  const int stop = eventfd(0, EFD_CLOEXEC);
  if (stop < 0) {
    const int err = errno;
    close(fd);
    return ErrnoError(err, "make an event descriptor");
  }
  const auto number = static_cast<uint16_t>(std::stoi(service));
  return std::unique_ptr<MetricsServer>(new MetricsServer(fd, stop, number, std::move(text)));
}

MetricsServer::MetricsServer(int listen_fd, int stop_fd, uint16_t port, std::function<std::string()> text)
    : listen_fd_(listen_fd), stop_fd_(stop_fd), port_(port), text_(std::move(text)), thread_([this] {
        Loop();
      }) {}

MetricsServer::~MetricsServer() {
  const uint64_t one = 1;
  (void)!write(stop_fd_, &one, sizeof one);
  thread_.join();
  close(listen_fd_);
  close(stop_fd_);
}

void MetricsServer::Loop() {
  while (true) {
    pollfd fds[2] = {{listen_fd_, POLLIN, 0}, {stop_fd_, POLLIN, 0}};
    if (poll(fds, 2, -1) < 0) continue;
    if (fds[1].revents != 0) return;
    const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) {
      // Out of descriptors: the connection stays pending, do not spin on it.
      poll(&fds[1], 1, 100);
      continue;
    }
    Serve(fd);
    close(fd);
  }
}

void MetricsServer::Serve(int fd) {
  const timeval limit = {kPeerTimeoutSeconds, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  std::string request;
  char block[1024];
  while (request.find("\r\n\r\n") == std::string::npos) {
    const ssize_t n = recv(fd, block, sizeof block, 0);
    if (n <= 0) return;
    request.append(block, static_cast<size_t>(n));
    if (request.size() > kMaxRequestBytes) return;
  }
  const bool found = request.starts_with("GET /metrics ") || request.starts_with("GET / ");
  const std::string body = found ? text_() : "try /metrics\n";
  SendAll(fd, std::string(found ? "HTTP/1.1 200 OK" : "HTTP/1.1 404 Not Found") +
                  "\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close\r\nContent-Length: " +
                  std::to_string(body.size()) + "\r\n\r\n" + body);
}

}  // namespace stria
