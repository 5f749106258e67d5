// Supplementary groups of the threads that make requests. The kernel does not send them; asking costs the reading of a file in
// /proc. They are remembered per (thread, uid, gid) for kGroupsValidNs. Meanwhile a thread may change its groups (setgroups),
// and another thread may get its number. So the remembered groups may only allow. Before they refuse an operation, the adapter
// reads the groups anew and tries again (FuseAdapter::Carry). For operations whose result depends on the groups
// (Identity::kCallerNow) it always reads them anew. Thread-safe. Bound: kMaxGroupsCached entries.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "common/units.h"

namespace stria {

inline constexpr int64_t kGroupsValidNs = 1 * kSecond;
inline constexpr size_t kMaxGroupsCached = 1024;

class GroupsCache {
 public:
  using Ask = std::function<std::vector<uint32_t>()>;
  struct Groups {
    std::vector<uint32_t> ids;
    bool remembered = false;
  };
  // The groups, from `ask` if they are not remembered, or are not to be taken from memory.
  Groups Get(pid_t thread, uint32_t uid, uint32_t gid, int64_t now_ns, const Ask& ask, bool afresh = false);

 private:
  using Key = std::tuple<pid_t, uint32_t, uint32_t>;
  struct Entry {
    std::vector<uint32_t> groups;
    int64_t until_ns = 0;
  };
  std::mutex mu_;
  std::map<Key, Entry> entries_;  // guarded by mu_
};

}  // namespace stria
