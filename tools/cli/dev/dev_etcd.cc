#include "tools/cli/dev/dev_etcd.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "common/exec/loop_executor.h"
#include "tools/cli/dev/ports.h"

namespace stria::cli {
namespace {

constexpr size_t kMaxAnswerBytes = 64 * 1024;

std::string Url(const std::string& address) { return "http://" + address; }

bool CanExecute(const std::string& path) { return access(path.c_str(), X_OK) == 0; }

// All that it says until it closes; "" if it is not there in time.
std::string Fetch(const std::string& address, const std::string& path, int64_t timeout_ns) {
  const int64_t end_ns = BoottimeNs() + timeout_ns;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return "";
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(PortOf(address)));
  const auto wait = [&](int16_t events) {
    pollfd one = {fd, events, 0};
    const int64_t left_ms = (end_ns - BoottimeNs()) / kMillisecond;
    return left_ms > 0 && poll(&one, 1, static_cast<int>(left_ms)) == 1;
  };
  const std::string request = "GET " + path + " HTTP/1.0\r\nHost: " + address + "\r\n\r\n";
  std::string answer;
  bool good = connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 || (errno == EINPROGRESS && wait(POLLOUT));
  good = good && send(fd, request.data(), request.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(request.size());
  while (good && answer.size() < kMaxAnswerBytes && wait(POLLIN)) {
    char some[4096];
    const ssize_t n = recv(fd, some, sizeof some, 0);
    if (n <= 0) break;
    answer.append(some, static_cast<size_t>(n));
  }
  close(fd);
  return answer;
}

}  // namespace

bool IsEtcdName(const std::string& name) {
  return name.size() == 5 && name.starts_with("etcd") && name[4] >= '1' && name[4] <= '0' + kDevEtcdMembers;
}

std::vector<std::string> EtcdCommandLine(const DevCluster& c, const DevProcess& p, const std::string& binary) {
  std::string all;
  for (const DevProcess& other : c.processes) {
    if (other.kind != DevProcess::Kind::kEtcd) continue;
    all += (all.empty() ? "" : ",") + other.name + "=" + Url(other.peer);
  }
  return {binary,
          "--name", p.name,
          "--data-dir", c.dir + "/" + p.name,
          "--listen-client-urls", Url(p.address),
          "--advertise-client-urls", Url(p.address),
          "--listen-peer-urls", Url(p.peer),
          "--initial-advertise-peer-urls", Url(p.peer),
          "--initial-cluster", all,
          "--initial-cluster-state", "new",
          "--initial-cluster-token", "stria dev in " + c.dir,  // members of another cluster that had these ports are not taken for ours
          "--heartbeat-interval", "250",  // milliseconds
          "--election-timeout", "2500",
          "--quota-backend-bytes", "268435456",
          "--max-snapshots", "2",
          "--max-wals", "2",
          "--logger", "zap",
          "--log-outputs", "stderr"};
}

Result<std::string> FindEtcd() {
  const char* path = std::getenv("PATH");
  std::string left = std::string(path == nullptr ? "" : path) + ":/usr/bin:/usr/local/bin";
  while (!left.empty()) {
    const std::string folder = left.substr(0, left.find(':'));
    left.erase(0, std::min(left.size(), folder.size() + 1));
    if (!folder.empty() && CanExecute(folder + "/etcd")) return folder + "/etcd";
  }
  return Error(FsError::kNoEnt, "several metadata servers need etcd, and this machine has none: install the package etcd-server");
}

bool SaysHealthy(const std::string& answer) {
  const size_t body = answer.find("\r\n\r\n");
  if (body == answer.npos) return false;
  const nlohmann::json j = nlohmann::json::parse(answer.substr(body + 4), nullptr, false);
  if (!j.is_object() || !j.contains("health")) return false;
  const nlohmann::json& health = j["health"];  // etcd says it as a string
  return health == "true" || health == true;
}

bool EtcdHasMajority(const std::string& address, int64_t timeout_ns) { return SaysHealthy(Fetch(address, "/health", timeout_ns)); }

}  // namespace stria::cli
