// Collects what a data server tells Prometheus. Executor's thread.
#pragma once

#include <vector>

#include "server/data_metrics.h"
#include "server/data_node.h"
#include "server/disk_open.h"

namespace stria {

// Without what only the program knows: calls under way, the certificate. Good until either is changed.
DataFigures GatherDataFigures(DataNode& node, const std::vector<OpenDisk>& disks);

}  // namespace stria
