// Collects what a data server tells Prometheus. Executor's thread.
#pragma once

#include <deque>

#include "server/data_metrics.h"
#include "server/data_node.h"
#include "server/disk_open.h"

namespace stria {

// Without what only the program knows: calls under way, the certificate. Good until either is changed. Disks without a path are left out:
// they are not in the settings any more.
DataFigures GatherDataFigures(DataNode& node, const std::deque<OpenDisk>& disks);

}  // namespace stria
