// How much lies on some disks.
#pragma once

#include <cstdint>
#include <vector>

#include "common/exec/task.h"
#include "meta/cluster/cluster_state.h"
#include "meta/store/txn.h"

namespace stria {

struct DiskWeight {
  uint64_t stripes = 0, bytes = 0;
  uint64_t homeless = 0;  // stripes that have more columns than there are other disks: some stay where they are
  size_t others = 0;      // disks that take new columns
};
// Walks all shards of live stripes on them. `store` and `cluster` outlive the task.
Task<Result<DiskWeight>> WeighDisks(MetaStore* store, const ClusterState* cluster, std::vector<TargetId> targets);

}  // namespace stria
