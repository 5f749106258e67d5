// Supplementary groups of the threads that make requests. The kernel does not send them; asking costs
// the reading of a file in /proc. Remembered per (thread, uid, gid) for kGroupsValidNs: a program that
// changes its groups and nothing else may be judged by the old ones for that long. Thread-safe.
// Bound: kMaxGroupsCached entries.
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
  // The groups, from `ask` if they are not remembered.
  std::vector<uint32_t> Get(pid_t thread, uint32_t uid, uint32_t gid, int64_t now_ns, const Ask& ask);

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
