// How much of a connection's bytes is protected after the handshake, which is TLS 1.3 always.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace stria {

// In the order of what they protect. Names are in settings and on the wire.
enum class WireMode : uint8_t {
  kAuth = 1,       // a MAC over head and fields of each frame; payloads have their CRC, which is no protection against people
  kIntegrity = 2,  // a MAC over all of each frame, in the clear
  kPrivacy = 3,    // everything in TLS records
};
inline constexpr WireMode kAllWireModes[] = {WireMode::kPrivacy, WireMode::kIntegrity, WireMode::kAuth};

constexpr std::string_view WireModeName(WireMode m) {
  return m == WireMode::kPrivacy ? "privacy" : m == WireMode::kIntegrity ? "integrity" : "auth";
}
inline std::optional<WireMode> ParseWireMode(std::string_view name) {
  for (const WireMode m : kAllWireModes) {
    if (WireModeName(m) == name) return m;
  }
  return std::nullopt;
}

}  // namespace stria
