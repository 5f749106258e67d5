#include "tools/cli/dev/ports.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace stria::cli {
namespace {

constexpr int kFirstPort = 15000;
constexpr int kPorts = 17000;  // up to 32,000; outgoing connections start at 32,768

}  // namespace

bool PortIsFree(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);  // old connections do not matter, listeners do
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool ok = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 && listen(fd, 1) == 0;
  close(fd);
  return ok;
}

Result<int> FindFreePort(const std::string& salt, const std::vector<int>& taken) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char c : salt) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
  const int start = static_cast<int>(hash % kPorts);
  for (int i = 0; i < kPorts; ++i) {
    const int port = kFirstPort + (start + i) % kPorts;
    if (std::find(taken.begin(), taken.end(), port) == taken.end() && PortIsFree(port)) return port;
  }
  return Error(FsError::kBusy, "no port of 127.0.0.1 is free");
}

int PortOf(const std::string& address) {
  const size_t colon = address.rfind(':');
  return colon == std::string::npos ? 0 : std::atoi(address.c_str() + colon + 1);
}

}  // namespace stria::cli
