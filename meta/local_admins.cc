#include "meta/local_admins.h"

#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <vector>

namespace stria {
namespace {

constexpr size_t kFirstBytes = 16 * 1024, kMostBytes = 4 * 1024 * 1024;  // of a group's or a user's entry

// Calls `get` with more and more memory, as the getXXnam_r calls want it; true if it has found something.
template <class Get>
bool WithMemory(std::vector<char>* memory, Get get) {
  for (size_t n = kFirstBytes; n <= kMostBytes; n *= 4) {
    memory->resize(n);
    void* found = nullptr;
    const int err = get(memory->data(), n, &found);
    if (err == EINTR) n /= 4;
    if (err != ERANGE && err != EINTR) return err == 0 && found != nullptr;
  }
  return false;
}

}  // namespace

LocalAdmins LocalAdmins::Look() {
  LocalAdmins out;
  out.own_uid = geteuid();
  struct group entry = {};
  std::vector<char> memory;
  const bool there = WithMemory(&memory, [&](char* at, size_t n, void** found) {
    return getgrnam_r(kAdminGroup, &entry, at, n, reinterpret_cast<struct group**>(found));
  });
  if (!there) return out;
  out.group = entry.gr_gid;
  for (char** name = entry.gr_mem; name != nullptr && *name != nullptr; ++name) {
    passwd user = {};
    std::vector<char> more;
    const bool known = WithMemory(&more, [&](char* at, size_t n, void** found) {
      return getpwnam_r(*name, &user, at, n, reinterpret_cast<passwd**>(found));
    });
    if (known) out.members.insert(user.pw_uid);
  }
  return out;
}

std::optional<Peer> LocalAdmins::PeerOf(uint32_t uid, uint32_t gid, int32_t pid) const {
  const bool by_group = group && (gid == *group || members.contains(uid));
  if (uid != 0 && uid != own_uid && !by_group) return std::nullopt;
  Peer peer;
  peer.role = Role::kAdmin;
  peer.name = "uid-" + std::to_string(uid);
  peer.address = "pid " + std::to_string(pid) + " of this machine";
  peer.not_after_s = std::numeric_limits<int64_t>::max();
  return peer;
}

}  // namespace stria
