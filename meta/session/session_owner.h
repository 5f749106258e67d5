// Whose a session is, and by which export it was opened: what its record says of that (session_table.h), and whether a caller is
// the same. Pure.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "api/types.h"
#include "common/error.h"
#include "common/ids.h"
#include "trust/exports.h"
#include "trust/identity.h"

namespace stria {

inline constexpr size_t kMaxSessionsOfOwner = 64;  // lapsed ones too

// As its peer's certificate said. The same name with another key is another owner: the certificate was revoked, or the name given away.
struct SessionOwner {
  std::string name;  // "": opened without proof
  Sha256Hash key{};
  auto operator<=>(const SessionOwner&) const = default;
};
SessionOwner OwnerOf(const OpHeader& h);

// What a session was given. An export that changes binds it at once: it is judged again (Coherence).
struct SessionGrant {
  std::optional<Export> by;    // none: opened without proof
  std::string path = "/";      // that was asked for
  std::string address;         // of who asked: exports may name networks
  InodeId root = kRootInode;   // of the path, when the session was opened
  bool operator==(const SessionGrant&) const = default;
  bool read_only() const { return by && by->read_only; }
  bool confined() const { return by && by->path != "/"; }
};

// "10.0.0.7:40112" -> "10.0.0.7": a connection has another port.
inline std::string_view HostIn(std::string_view address) { return address.substr(0, address.rfind(':')); }

// Whether the caller is the session's owner: kAccess with a sentence. A session that was opened without proof is not taken by who
// proves a name, nor the other way round.
Error MayUse(SessionId session, const SessionOwner& owner, const OpHeader& h);

// How many sessions each owner has. Those without proof are not counted.
class SessionsOfOwners {
 public:
  void Add(const SessionOwner& owner);
  void Remove(const SessionOwner& owner);
  bool Full(const SessionOwner& owner) const;
  bool Has(const SessionOwner& owner) const { return count_.contains(owner); }

 private:
  std::map<SessionOwner, size_t> count_;
};

}  // namespace stria
