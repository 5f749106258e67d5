// Who a program is, as its certificate says: stria://CLUSTER-UUID/ROLE/NAME, the one URI among its alternative names.
//
// There is one spelling of an identity. What is spelled in another way (upper-case digits, percent signs, a slash at the
// end) is none, so that two that are compared byte by byte are the same one or are not.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/error.h"
#include "common/ids.h"

namespace stria {

enum class Role : uint8_t {
  kMeta = 1,  // the metadata server
  kData = 2,  // the data server of a node
  kClient = 3,
  kAdmin = 4,
  kMonitor = 5,  // sees status and map
};
inline constexpr Role kAllRoles[] = {Role::kMeta, Role::kData, Role::kClient, Role::kAdmin, Role::kMonitor};
std::string_view RoleName(Role role);
std::optional<Role> ParseRole(std::string_view name);

class RoleSet {
 public:
  constexpr RoleSet() = default;
  constexpr RoleSet(std::initializer_list<Role> roles) {
    for (const Role r : roles) bits_ |= Bit(r);
  }
  constexpr void Add(Role r) { bits_ |= Bit(r); }
  constexpr bool Has(Role r) const { return (bits_ & Bit(r)) != 0; }
  // "client, data"
  std::string ToString() const;

 private:
  static constexpr uint8_t Bit(Role r) { return static_cast<uint8_t>(1u << static_cast<uint8_t>(r)); }
  uint8_t bits_ = 0;
};

// A name in an identity: that of a host or a node. 1 to 128 letters, digits, '.', '-', '_'; a letter or digit comes first.
inline constexpr size_t kMaxPeerName = 128;
bool IsPeerName(std::string_view name);

struct Identity {
  Uuid cluster;
  Role role = Role::kClient;
  std::string name;
  bool operator==(const Identity&) const = default;
};
// REQUIRES: IsPeerName(id.name).
std::string FormatIdentity(const Identity& id);
// kBadRequest with a sentence.
Result<Identity> ParseIdentity(std::string_view uri);

using Sha256Hash = std::array<uint8_t, 32>;
std::string HexOf(const Sha256Hash& hash);
// 64 hex digits of lower case.
std::optional<Sha256Hash> ParseSha256(std::string_view hex);

// The other side of a connection, as its certificate proved.
struct Peer {
  Role role = Role::kClient;
  std::string name;
  std::string address;     // "10.0.0.7:40112"; for sentences, proves nothing
  Sha256Hash key_hash{};   // of its public key; renewal of a certificate with the same key keeps it
  Sha256Hash issuer{};     // of the certificate of the CA that signed
  std::string serial;      // of its certificate, hex
  int64_t not_after_s = 0;
  bool operator==(const Peer&) const = default;

  // Names it in tokens (common/bound_token.h): the first 8 bytes of its key's hash.
  uint64_t Holder() const;
  // "client wn7 at 10.0.0.7:40112"
  std::string ToString() const;
};

}  // namespace stria
