#include "client/fuse/groups_cache.h"

#include <utility>

namespace stria {

GroupsCache::Groups GroupsCache::Get(pid_t thread, uint32_t uid, uint32_t gid, int64_t now_ns, const Ask& ask, bool afresh) {
  const Key key{thread, uid, gid};
  if (!afresh) {
    std::lock_guard<std::mutex> lock(mu_);
    auto it = entries_.find(key);
    if (it != entries_.end() && now_ns < it->second.until_ns) return {it->second.groups, true};
  }
  Entry fresh{ask(), now_ns + kGroupsValidNs};
  Groups groups{fresh.groups, false};
  std::lock_guard<std::mutex> lock(mu_);
  if (entries_.size() >= kMaxGroupsCached) {
    std::erase_if(entries_, [now_ns](const auto& e) { return e.second.until_ns <= now_ns; });
    if (entries_.size() >= kMaxGroupsCached) entries_.clear();
  }
  entries_.insert_or_assign(key, std::move(fresh));
  return groups;
}

}  // namespace stria
