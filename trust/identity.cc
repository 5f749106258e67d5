#include "trust/identity.h"

#include <algorithm>
#include <cstring>

#include "common/printable.h"

namespace stria {
namespace {

constexpr std::string_view kScheme = "stria://";
constexpr size_t kUuidText = 36;
constexpr char kHex[] = "0123456789abcdef";

bool IsAlnum(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

Error NoIdentity(std::string_view uri, const char* why) {
  return Error(FsError::kBadRequest, "'" + Printable(uri.substr(0, 80)) + "' is no identity of Stria: " + why);
}

}  // namespace

std::string_view RoleName(Role role) {
  switch (role) {
    case Role::kMeta: return "meta";
    case Role::kData: return "data";
    case Role::kClient: return "client";
    case Role::kAdmin: return "admin";
    case Role::kMonitor: return "monitor";
  }
  return "?";
}

std::optional<Role> ParseRole(std::string_view name) {
  for (const Role r : kAllRoles) {
    if (RoleName(r) == name) return r;
  }
  return std::nullopt;
}

std::string RoleSet::ToString() const {
  std::string out;
  for (const Role r : kAllRoles) {
    if (!Has(r)) continue;
    if (!out.empty()) out += ", ";
    out += RoleName(r);
  }
  return out;
}

bool IsPeerName(std::string_view name) {
  if (name.empty() || name.size() > kMaxPeerName || !IsAlnum(name[0])) return false;
  return std::all_of(name.begin(), name.end(), [](char c) { return IsAlnum(c) || c == '.' || c == '-' || c == '_'; });
}

std::string FormatIdentity(const Identity& id) {
  CHECK(IsPeerName(id.name));
  return std::string(kScheme) + id.cluster.ToString() + "/" + std::string(RoleName(id.role)) + "/" + id.name;
}

Result<Identity> ParseIdentity(std::string_view uri) {
  if (!uri.starts_with(kScheme)) return NoIdentity(uri, "it does not begin with stria://");
  std::string_view rest = uri.substr(kScheme.size());
  Identity id;
  if (rest.size() < kUuidText + 1 || rest[kUuidText] != '/' ||
      !Uuid::Parse(std::string(rest.substr(0, kUuidText)), &id.cluster) ||
      id.cluster.ToString() != rest.substr(0, kUuidText) || !id.cluster) {
    return NoIdentity(uri, "it does not name a cluster");
  }
  rest.remove_prefix(kUuidText + 1);
  const size_t slash = rest.find('/');
  const std::optional<Role> role = slash == rest.npos ? std::nullopt : ParseRole(rest.substr(0, slash));
  if (!role) return NoIdentity(uri, "it does not name a role (meta, data, client, admin, monitor)");
  id.role = *role;
  id.name = rest.substr(slash + 1);
  if (!IsPeerName(id.name)) return NoIdentity(uri, "it does not end with a name of letters, digits, '.', '-' and '_'");
  return id;
}

std::string HexOf(const Sha256Hash& hash) {
  std::string out;
  for (const uint8_t b : hash) {
    out += kHex[b >> 4];
    out += kHex[b & 15];
  }
  return out;
}

std::optional<Sha256Hash> ParseSha256(std::string_view hex) {
  Sha256Hash out;
  if (hex.size() != 2 * out.size()) return std::nullopt;
  for (size_t i = 0; i < out.size(); ++i) {
    const int hi = HexValue(hex[2 * i]), lo = HexValue(hex[2 * i + 1]);
    if (hi < 0 || lo < 0) return std::nullopt;
    out[i] = static_cast<uint8_t>(hi << 4 | lo);
  }
  return out;
}

uint64_t Peer::Holder() const {
  uint64_t v;
  std::memcpy(&v, key_hash.data(), sizeof v);
  return v;
}

std::string Peer::ToString() const {
  return std::string(RoleName(role)) + " " + name + (address.empty() ? "" : " at " + address);
}

}  // namespace stria
