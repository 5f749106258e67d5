#include "common/address.h"

#include <algorithm>
#include <charconv>

namespace stria {

Result<std::string> WithPort(std::string_view address, uint16_t default_port) {
  const auto bad = [&] {
    return Error(FsError::kInval, "'" + std::string(address) + "' is not an address: write host, host:port or [v6-address]:port");
  };
  if (address.starts_with("unix:")) return std::string(address);
  const bool brackets = address.starts_with('[');
  const size_t host_end = brackets ? address.find(']') : address.find(':');
  const std::string_view host = address.substr(0, brackets && host_end != address.npos ? host_end + 1 : host_end);
  if (host.empty() || host == "[]" || (brackets && host_end == address.npos)) return bad();
  if (host.find_first_of(" \t\n/,") != host.npos) return bad();
  const std::string_view rest = address.substr(host.size());
  if (rest.empty()) return std::string(host) + ":" + std::to_string(default_port);
  // A second colon without brackets could be anything.
  uint16_t port = 0;
  const char* const end = rest.data() + rest.size();
  const auto [parsed, error] = std::from_chars(rest.data() + 1, end, port);
  if (rest[0] != ':' || error != std::errc() || parsed != end) return bad();
  return std::string(address);
}

bool IsHostPort(std::string_view address) {
  constexpr size_t kMaxHostBytes = 253;  // of a name (RFC 1035)
  const size_t colon = address.rfind(':');
  if (colon == address.npos || colon > kMaxHostBytes || address.starts_with("unix:")) return false;
  const auto is_of_host = [](char c) {
    const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    return word || std::string_view(".-_:[]%").find(c) != std::string_view::npos;
  };
  if (!std::ranges::all_of(address, is_of_host)) return false;
  // What has no port of its own gets one here, and is another then.
  const Result<std::string> whole = WithPort(address, 0);
  const std::string_view port = address.substr(colon + 1);
  return whole.ok() && *whole == address && port.find_first_not_of('0') != port.npos;
}

Result<std::vector<std::string>> WithPorts(const std::vector<std::string>& addresses, uint16_t default_port) {
  std::vector<std::string> out;
  for (std::string_view text : addresses) {
    while (!text.empty()) {
      const std::string_view one = text.substr(0, text.find(','));
      text.remove_prefix(std::min(text.size(), one.size() + 1));
      if (one.empty()) continue;
      ASSIGN_OR_RETURN(std::string address, WithPort(one, default_port));
      out.push_back(std::move(address));
    }
  }
  return out;
}

std::string HostOfAddress(const std::string& address) { return address.substr(0, address.rfind(':')); }
std::string PortOfAddress(const std::string& address) { return address.substr(address.rfind(':') + 1); }

}  // namespace stria
