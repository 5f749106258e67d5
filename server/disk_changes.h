// Pure: what a change of the settings means for the disks of a running data server.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "server/data_config.h"

namespace stria {

struct DiskChanges {
  std::vector<DiskSpec> added;     // in the order of the settings
  std::vector<size_t> dropped;     // by their numbers
  std::vector<std::string> later;  // paths of those whose label or channel is another, which counts after a restart
  bool operator==(const DiskChanges&) const = default;
};

// `now`: of each number; one without a path is none. Disks are told by their paths.
DiskChanges CompareDisks(const std::vector<DiskSpec>& now, const std::vector<DiskSpec>& wanted);

}  // namespace stria
