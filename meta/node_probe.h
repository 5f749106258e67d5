// Tries to reach registering data servers at the addresses that they give, at once and now and then. A server that is heard
// here is of no use if clients cannot reach it, or if another server answers at its address; status shows the findings.
// Executor's thread only.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "api/data_api.h"
#include "common/exec/task.h"
#include "meta/cluster/cluster_state.h"

namespace stria {

inline constexpr int64_t kProbeRoundNs = 2 * kSecond;
inline constexpr int64_t kProbeAgainNs = 15 * kSecond;
inline constexpr int64_t kProbeTimeoutNs = 3 * kSecond;

class NodeProbe {
 public:
  using Told = std::function<void(std::vector<NodeId> cannot_be_reached)>;
  // Both outlive it.
  NodeProbe(DataConnector* connector, const ClusterState* cluster, Told told)
      : connector_(connector), cluster_(cluster), told_(std::move(told)) {}
  Task<void> Run();  // for ever

 private:
  struct Tried {
    std::string address;
    int64_t at_ns = 0;
    bool reached = true;
  };
  Task<bool> Reaches(NodeInfo node, TargetId disk);
  Task<void> Round();

  DataConnector* const connector_;
  const ClusterState* const cluster_;
  const Told told_;
  std::map<NodeId, Tried> tried_;
};

}  // namespace stria
