// Who may see the page: pure. The page is plain HTTP without a password, so by default it listens on this machine only, and a browser
// there is served only if it asked for this machine by name: a page of another site cannot read it by a name of its own that leads here
// (DNS rebinding).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/error.h"

namespace stria::web {

struct ListenAt {
  std::string host;       // an IP address, without brackets
  uint16_t port = 0;      // 0: any that is free
  bool loopback = true;   // nobody else reaches it
};
// IP[:PORT], [IPv6]:PORT or localhost[:PORT]. kInval with a sentence; also if others could reach it, unless `allow_anyone`.
Result<ListenAt> ParseListen(const std::string& address, bool allow_anyone);

// "127.0.0.1:7480", "[::1]:7480"
std::string FormatListen(const ListenAt& at);

// Whether a Host header names this machine's loopback: localhost, 127.x.x.x or [::1], with any port. One that is not there ("") does: a
// browser always sends it.
bool IsLoopbackHost(std::string_view host);

}  // namespace stria::web
