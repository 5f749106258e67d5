#include "server/disk_changes.h"

#include <algorithm>

namespace stria {

DiskChanges CompareDisks(const std::vector<DiskSpec>& now, const std::vector<DiskSpec>& wanted) {
  const auto at = [](const std::vector<DiskSpec>& disks, const std::string& path) { return std::ranges::find(disks, path, &DiskSpec::path); };
  DiskChanges out;
  for (size_t i = 0; i < now.size(); ++i) {
    if (now[i].path.empty()) continue;
    const auto still = at(wanted, now[i].path);
    if (still == wanted.end()) out.dropped.push_back(i);
    else if (*still != now[i]) out.later.push_back(now[i].path);
  }
  for (const DiskSpec& disk : wanted) {
    if (at(now, disk.path) == now.end()) out.added.push_back(disk);
  }
  return out;
}

}  // namespace stria
