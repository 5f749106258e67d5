#include "tools/web/listen.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cctype>

#include "common/address.h"

namespace stria::web {
namespace {

bool IsLoopbackIp(const std::string& host) {
  in_addr v4;
  in6_addr v6;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool IsIp(const std::string& host) {
  in6_addr any;
  return inet_pton(AF_INET, host.c_str(), &any) == 1 || inet_pton(AF_INET6, host.c_str(), &any) == 1;
}

}  // namespace

Result<ListenAt> ParseListen(const std::string& address, bool allow_anyone) {
  const Error wrong(FsError::kInval, "--listen wants IP[:PORT], like 127.0.0.1:" + std::to_string(kDefaultWebPort) + ", and not '" + address + "'");
  if (address.starts_with("unix:")) return wrong;
  const Result<std::string> full = WithPort(address, kDefaultWebPort);
  if (!full.ok()) return wrong;
  const size_t colon = full->rfind(':');
  ListenAt at;
  at.host = full->substr(0, colon);
  if (at.host.size() > 2 && at.host.front() == '[' && at.host.back() == ']') at.host = at.host.substr(1, at.host.size() - 2);
  if (at.host == "localhost") at.host = "127.0.0.1";
  const std::string port = full->substr(colon + 1);
  const auto [end, failed] = std::from_chars(port.data(), port.data() + port.size(), at.port);
  if (failed != std::errc() || end != port.data() + port.size() || !IsIp(at.host)) return wrong;
  at.loopback = IsLoopbackIp(at.host);
  if (!at.loopback && !allow_anyone) {
    return Error(FsError::kInval,
                 "at " + address + " everybody who reaches this machine would see the page, unencrypted: say --allow-anyone if they may, or listen on "
                 "127.0.0.1 and have a web server in front (docs/web.md)");
  }
  return at;
}

std::string FormatListen(const ListenAt& at) {
  const bool v6 = at.host.find(':') != std::string::npos;
  return (v6 ? "[" + at.host + "]" : at.host) + ":" + std::to_string(at.port);
}

bool IsLoopbackHost(std::string_view host) {
  if (host.empty()) return true;
  std::string name(host);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (name.front() == '[') {
    const size_t end = name.find(']');
    return end != std::string::npos && IsLoopbackIp(name.substr(1, end - 1)) && (end + 1 == name.size() || name[end + 1] == ':');
  }
  name = name.substr(0, name.find(':'));
  return name == "localhost" || IsLoopbackIp(name);
}

}  // namespace stria::web
