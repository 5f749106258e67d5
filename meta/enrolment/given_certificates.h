// The certificates that were given and are not over, and those of them that are not believed any more: what each says, and which
// of them have the same key or the same identity. Pure; records for the store (docs/formats.md). Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/error.h"
#include "trust/identity.h"

namespace stria {

inline constexpr size_t kMaxGivenCertificates = 65'536;

struct GivenCertificate {
  std::string serial;  // hex, the key of its record
  Role role = Role::kClient;
  std::string name;
  Sha256Hash key{};     // of its public key
  Sha256Hash issuer{};  // of the authority's certificate
  std::string token;    // id of the token that it was given for; "" for none
  std::string address;  // from where it was asked for
  int64_t given_s = 0;
  int64_t not_after_s = 0;
  bool trusted_root = false;
  bool operator==(const GivenCertificate&) const = default;
  std::string Whose() const { return std::string(RoleName(role)) + " " + name; }
};
std::string EncodeGiven(const GivenCertificate& c);
// kCorrupt.
Result<GivenCertificate> DecodeGiven(std::string_view serial, std::string_view record);

struct RevokedCertificate {
  int64_t not_after_s = 0;  // when it is over by itself, and need not be remembered any more
  Sha256Hash key{};         // zeros: it was not known here
  int64_t revoked_s = 0;    // when that was; 0: not known, in records of before it was noted
  bool operator==(const RevokedCertificate&) const = default;
};
std::string EncodeRevoked(const RevokedCertificate& r);
Result<RevokedCertificate> DecodeRevoked(std::string_view record);
// As trust/authority.h takes them: hex of lower case without leading zeros, of at most 20 bytes.
bool IsSerial(std::string_view text);

class GivenCertificates {
 public:
  // Takes the place of one with the same serial number.
  void Add(GivenCertificate c);
  void Remove(const std::string& serial);
  const GivenCertificate* Find(std::string_view serial) const;  // until the next change
  std::vector<const GivenCertificate*> OfKey(const Sha256Hash& key) const;
  std::vector<const GivenCertificate*> OfIdentity(Role role, const std::string& name) const;
  // The first that are over, in the order in which they end; at most `limit`.
  std::vector<std::string> Over(int64_t now_s, size_t limit) const;
  size_t size() const { return by_serial_.size(); }
  const std::map<std::string, GivenCertificate, std::less<>>& all() const { return by_serial_; }

 private:
  template <class Key>
  using Index = std::set<std::pair<Key, std::string>>;  // and serial
  template <class Key>
  std::vector<const GivenCertificate*> Of(const Index<Key>& index, const Key& key) const;
  using Name = std::pair<Role, std::string>;

  std::map<std::string, GivenCertificate, std::less<>> by_serial_;
  Index<Sha256Hash> by_key_;
  Index<Name> by_name_;
  Index<int64_t> by_end_;
};

}  // namespace stria
