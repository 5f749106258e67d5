// The metrics of the metadata server for Prometheus: of itself, and of the cluster, which nobody else knows as a whole.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "api/admin_api.h"
#include "api/meta_api.h"
#include "common/metrics.h"

namespace stria {

// What is told. Times are nanoseconds, but for those that say seconds.
struct MetaFigures {
  // The store
  uint64_t files = 0, directories = 0, stripes = 0, allocated_stripes = 0, live_bytes = 0, inline_bytes = 0;
  uint64_t narrow_stripes = 0, crowded_stripes = 0, garbage_shards = 0;
  uint64_t transactions = 0;  // since the cluster was made
  uint64_t starts = 0;        // of the server
  uint64_t disk_bytes = 0, disk_free_bytes = 0;  // of the filesystem that the store is on; 0: not known
  // Clients
  uint64_t sessions = 0, open_inodes = 0, recalls = 0, flushes = 0, lapsed = 0, fenced = 0;
  uint64_t waiting_calls = 0;  // for other clients
  int64_t longest_wait_ns = 0;
  uint64_t running_calls = 0;
  // Upkeep
  uint64_t repair_waiting = 0, repair_parked = 0, rebuilds = 0, widens = 0, folds = 0;
  ClusterMap map;
  // Of a moment ago, as they cost more; none yet right after the start.
  std::optional<StatusReply> status;
  std::optional<UpkeepReply> upkeep;
  std::optional<int64_t> certificate_end_s;  // none: it has no certificate
};

void AddMetaMetrics(const MetaFigures& figures, MetricFamilies* out);
// Of one of several metadata servers while another serves: what is its own alone. A zero would look like an empty cluster.
void AddStandbyMetrics(const MetaFigures& figures, MetricFamilies* out);

}  // namespace stria
