// The metrics of a data server for Prometheus.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/metrics.h"
#include "server/background.h"
#include "server/data_server.h"
#include "server/disk_times.h"
#include "server/shard_store.h"

namespace stria {

struct DiskFigures {
  std::string label;
  std::optional<DiskUsage> usage;  // none: the disk cannot be used
  uint64_t open_shards = 0;
  const DiskTimes* times = nullptr;  // null: there is no disk. Lives as long as this
};

struct DataFigures {
  bool registered = false;  // the metadata server knows the node
  DataServerStats requests;
  GateStats background;
  uint64_t running_requests = 0, background_requests = 0;
  uint64_t running_calls = 0;  // whatever they are of
  uint64_t rebuilds = 0, running_rebuilds = 0;
  std::optional<int64_t> clock_ahead_ns;  // of this machine's clock, of the metadata server's; none before that was heard
  std::vector<DiskFigures> disks;
  std::optional<int64_t> certificate_end_s;  // none: it has no certificate
};

void AddDataMetrics(const DataFigures& figures, MetricFamilies* out);

}  // namespace stria
