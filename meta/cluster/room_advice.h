// What status says of nodes and disks beyond their states: who is refused, which disks of a node are not in use, which
// share their space. Pure.
#pragma once

#include <vector>

#include "api/meta_api.h"
#include "meta/cluster/cluster_state.h"

namespace stria {

std::vector<Advice> RoomAdvice(const ClusterState& cluster, int64_t wall_ns);

}  // namespace stria
