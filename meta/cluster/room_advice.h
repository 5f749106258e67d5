// Findings of status about nodes and disks beyond their states: refused nodes, unused disks of a node, disks that share their
// space. Pure.
#pragma once

#include <vector>

#include "api/meta_api.h"
#include "meta/cluster/cluster_state.h"

namespace stria {

std::vector<Advice> RoomAdvice(const ClusterState& cluster, int64_t wall_ns);

}  // namespace stria
