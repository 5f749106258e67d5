// Whether all that programs asked for goes on: who waits too long, and who waits for whom.
#pragma once

#include <cstdint>
#include <string>

#include "test/sim/sim_cluster.h"

namespace stria {

// "" if no call of any client has been under way for longer than this; else all calls that wait, and what clients, kernels and
// the metadata server say of what they wait for.
std::string Stalled(SimCluster& cluster, int64_t longest_ns);

}  // namespace stria
