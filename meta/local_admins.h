// Who is an admin of the cluster by what the kernel says of it, at the metadata server's Unix socket: root, the server's own user,
// and the group stria-admin. So the first commands on the metadata server's machine need no file.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "trust/identity.h"

namespace stria {

inline constexpr char kAdminGroup[] = "stria-admin";

// Immutable; any thread.
struct LocalAdmins {
  uint32_t own_uid = 0;           // the server's
  std::optional<uint32_t> group;  // none: this machine has no such group
  std::set<uint32_t> members;     // of it, by uid

  // What this machine's lists of users and groups say now. Blocks, for as long as those who keep them take.
  static LocalAdmins Look();
  // role admin, "uid-1000"; nullopt: is no admin. `gid`: of the process, so who has it as another group must be a member.
  std::optional<Peer> PeerOf(uint32_t uid, uint32_t gid, int32_t pid) const;
};

}  // namespace stria
