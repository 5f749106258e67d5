#include "client/fuse/find_node.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include <memory>
#include <vector>

namespace stria {
namespace {

bool SameHost(const sockaddr* a, const sockaddr* b) {
  if (a == nullptr || b == nullptr || a->sa_family != b->sa_family) return false;
  if (a->sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(a)->sin_addr.s_addr == reinterpret_cast<const sockaddr_in*>(b)->sin_addr.s_addr;
  }
  return a->sa_family == AF_INET6 && memcmp(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr,
                                            &reinterpret_cast<const sockaddr_in6*>(b)->sin6_addr, sizeof(in6_addr)) == 0;
}

bool IsLoopback(const sockaddr* a) {
  if (a->sa_family == AF_INET) return (ntohl(reinterpret_cast<const sockaddr_in*>(a)->sin_addr.s_addr) >> 24) == 127;
  return a->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr);
}

}  // namespace

NodeFound FindOwnNode(const ClusterMap& map, const std::function<bool(const std::string& address)>& is_here) {
  std::vector<std::string> here;
  for (const NodeInfo& n : map.nodes) {
    if (is_here(n.address)) here.push_back(n.name);
  }
  if (here.size() == 1) return {here[0], "this machine is node " + here[0] + "; it reads data on its own disks directly"};
  if (here.empty()) return {"", "this machine is no node of the cluster: nothing lies nearer than the rest"};
  std::string names;
  for (const std::string& n : here) names += (names.empty() ? "" : ", ") + n;
  return {"", "this machine has several nodes (" + names + "): nothing lies nearer than the rest, unless node=NAME is given"};
}

bool IsOwnAddress(const std::string& address) {
  std::string host = address.substr(0, address.rfind(':'));
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> names(found, &freeaddrinfo);
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return false;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> own(list, &freeifaddrs);
  for (const addrinfo* a = names.get(); a != nullptr; a = a->ai_next) {
    if (IsLoopback(a->ai_addr)) return true;
    for (const ifaddrs* i = own.get(); i != nullptr; i = i->ifa_next) {
      if (SameHost(a->ai_addr, i->ifa_addr)) return true;
    }
  }
  return false;
}

}  // namespace stria
