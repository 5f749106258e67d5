// Where servers listen, in text: "pc1", "pc1:7424", "10.0.0.1", "[fe80::1]:7424".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"

namespace stria {

// The default ports of stria-meta and stria-data. IANA has assigned neither (7422 to 7425 are free).
inline constexpr uint16_t kDefaultMetaPort = 7424;
inline constexpr uint16_t kDefaultDataPort = 7425;
// Of the page that stria-web serves.
inline constexpr uint16_t kDefaultWebPort = 7480;

// The address with its port, the default one if it has none. kInval with a sentence. "unix:/path" is one, too.
Result<std::string> WithPort(std::string_view address, uint16_t default_port);
// Splits several; each may be several with commas between.
Result<std::vector<std::string>> WithPorts(const std::vector<std::string>& addresses, uint16_t default_port);

// "host:port" or "[v6]:port" as others can reach it: with a port from 1 on, no longer than a name and a port can be, and no
// path of this machine.
bool IsHostPort(std::string_view address);

// The port of an address.
std::string HostOfAddress(const std::string& address);
std::string PortOfAddress(const std::string& address);

}  // namespace stria
