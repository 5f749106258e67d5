// IP addresses and networks: "10.3.0.0/16", "fd00::/8", "10.3.0.7".
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace stria {

// IPv4 as IPv6 has it (::ffff:a.b.c.d), so that there is one form.
struct IpAddress {
  std::array<uint8_t, 16> bytes{};
  auto operator<=>(const IpAddress&) const = default;
  bool is_v4() const;
  std::string ToString() const;
};
std::optional<IpAddress> ParseIp(std::string_view text);
// Of "10.0.0.7:5", "[fd00::1]:5", "10.0.0.7"; none of "unix:..." and of names.
std::optional<IpAddress> IpOfAddress(std::string_view address);

struct Network {
  IpAddress base;
  uint8_t bits = 128;  // of the IPv6 form: /16 of IPv4 is 112
  bool operator==(const Network&) const = default;
  bool Has(const IpAddress& a) const;
  std::string ToString() const;
};
// Refuses one with bits beyond its prefix ("10.3.1.0/16"): nobody knows what was meant.
std::optional<Network> ParseNetwork(std::string_view text);

}  // namespace stria
