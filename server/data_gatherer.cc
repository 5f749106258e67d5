#include "server/data_gatherer.h"

#include <utility>

namespace stria {

DataFigures GatherDataFigures(DataNode& node, const std::deque<OpenDisk>& disks) {
  DataFigures f;
  f.registered = node.agent().registered();
  f.requests = node.server().stats();
  f.background = node.server().gate().stats();
  f.running_requests = static_cast<uint64_t>(node.server().running());
  f.background_requests = static_cast<uint64_t>(node.server().background());
  f.rebuilds = node.agent().rebuilds_done();
  f.running_rebuilds = node.agent().rebuilding();
  if (f.registered) f.clock_ahead_ns = Executor::Current().WallNs() - node.server().TokenTimeNs();
  for (size_t i = 0; i < disks.size(); ++i) {
    if (disks[i].spec.path.empty()) continue;
    DiskFigures d;
    d.label = disks[i].spec.label;
    if (disks[i].disk) d.times = &disks[i].disk->times();
    if (const auto& store = node.stores()[i]; store && node.problem(i).ok()) {
      d.usage = store->Usage();
      d.open_shards = store->open_shards();
    }
    f.disks.push_back(std::move(d));
  }
  return f;
}

}  // namespace stria
