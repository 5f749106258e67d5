#include "trust/network.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>

namespace stria {
namespace {
constexpr uint8_t kV4Prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr size_t kV4Bits = 96;
}  // namespace

bool IpAddress::is_v4() const { return std::equal(std::begin(kV4Prefix), std::end(kV4Prefix), bytes.begin()); }

std::string IpAddress::ToString() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (is_v4()) {
    inet_ntop(AF_INET, bytes.data() + sizeof kV4Prefix, text, sizeof text);
  } else {
    inet_ntop(AF_INET6, bytes.data(), text, sizeof text);
  }
  return text;
}

std::optional<IpAddress> ParseIp(std::string_view text) {
  const std::string s(text.substr(0, INET6_ADDRSTRLEN));
  if (s.size() != text.size() || s.find('\0') != s.npos) return std::nullopt;
  IpAddress a;
  if (inet_pton(AF_INET, s.c_str(), a.bytes.data() + sizeof kV4Prefix) == 1) {
    std::copy(std::begin(kV4Prefix), std::end(kV4Prefix), a.bytes.begin());
    return a;
  }
  if (inet_pton(AF_INET6, s.c_str(), a.bytes.data()) == 1) return a;
  return std::nullopt;
}

std::optional<IpAddress> IpOfAddress(std::string_view address) {
  if (address.starts_with('[')) {
    const size_t end = address.find(']');
    return end == address.npos ? std::nullopt : ParseIp(address.substr(1, end - 1));
  }
  if (std::count(address.begin(), address.end(), ':') == 1) address = address.substr(0, address.find(':'));
  return ParseIp(address);
}

bool Network::Has(const IpAddress& a) const {
  const size_t whole = bits / 8, rest = bits % 8;
  if (!std::equal(a.bytes.begin(), a.bytes.begin() + static_cast<ptrdiff_t>(whole), base.bytes.begin())) return false;
  return rest == 0 || ((a.bytes[whole] ^ base.bytes[whole]) >> (8 - rest)) == 0;
}

std::string Network::ToString() const {
  const bool v4 = base.is_v4() && bits >= kV4Bits;
  const size_t shown = v4 ? bits - kV4Bits : bits, full = v4 ? 32 : 128;
  return base.ToString() + (shown == full ? "" : "/" + std::to_string(shown));
}

std::optional<Network> ParseNetwork(std::string_view text) {
  const size_t slash = text.find('/');
  const std::optional<IpAddress> base = ParseIp(text.substr(0, slash));
  if (!base) return std::nullopt;
  Network n{*base, 128};
  if (slash != text.npos) {
    const std::string_view digits = text.substr(slash + 1);
    unsigned prefix = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), prefix);
    // By how it is written: "::ffff:10.0.0.0/104" is IPv6, although its address is an IPv4 one.
    const bool v4 = text.find(':') == text.npos;
    if (error != std::errc() || end != digits.data() + digits.size() || prefix > (v4 ? 32u : 128u)) return std::nullopt;
    n.bits = static_cast<uint8_t>(prefix + (v4 ? kV4Bits : 0));
  }
  for (size_t bit = n.bits; bit < 128; ++bit) {
    if ((n.base.bytes[bit / 8] >> (7 - bit % 8) & 1) != 0) return std::nullopt;
  }
  return n;
}

}  // namespace stria
