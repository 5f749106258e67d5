// Which disks share a filesystem, so that its space is counted once: each disk counts for its part. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "common/ids.h"

namespace stria {

class SharedSpace {
 public:
  // `filesystem`: as its node numbers it; 0: not known, or not there. Gives the disks that have other parts now.
  std::set<TargetId> Set(TargetId disk, uint64_t filesystem) {
    std::set<TargetId> changed;
    const auto it = of_.find(disk);
    if (it != of_.end()) {
      if (it->second == filesystem) return changed;
      const auto group = groups_.find(it->second);
      changed = group->second;
      group->second.erase(disk);
      if (group->second.empty()) groups_.erase(group);
      of_.erase(it);
    }
    if (filesystem == 0) return changed;
    of_[disk] = filesystem;
    groups_[filesystem].insert(disk);
    changed.insert(groups_[filesystem].begin(), groups_[filesystem].end());
    return changed;
  }
  // How many disks have the space that it reports, itself included.
  uint64_t Sharers(TargetId disk) const {
    const auto it = of_.find(disk);
    return it == of_.end() ? 1 : groups_.at(it->second).size();
  }
  // Filesystems with more than one disk.
  std::vector<std::set<TargetId>> Groups() const {
    std::vector<std::set<TargetId>> out;
    for (const auto& [_, disks] : groups_) {
      if (disks.size() > 1) out.push_back(disks);
    }
    return out;
  }

 private:
  std::map<TargetId, uint64_t> of_;
  std::map<uint64_t, std::set<TargetId>> groups_;
};

}  // namespace stria
