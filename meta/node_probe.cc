#include "meta/node_probe.h"

#include <memory>
#include <optional>
#include <utility>

namespace stria {

Task<void> NodeProbe::Run() {
  while (true) {
    co_await Round();
    co_await Sleep(kProbeRoundNs);
  }
}

// A request that costs nothing, and that only the server with that disk answers well.
Task<bool> NodeProbe::Reaches(NodeInfo node, TargetId disk) {
  const ClusterMap map = cluster_->Map();
  const std::shared_ptr<DataService> service = connector_->Connect(node.address);
  InventoryRequest request;
  request.header.cluster = map.cluster;
  request.header.incarnation = map.incarnation;
  request.header.seen_term = map.term;
  request.header.seen_proof = map.term_proof;
  request.header.timeout_ns = kProbeTimeoutNs;
  request.target = disk;
  request.limit = 1;
  std::optional<Result<InventoryReply>> reply = co_await WithTimeout(kProbeTimeoutNs, service->Inventory(std::move(request)));
  if (!reply) co_return false;
  switch (reply->code()) {
    case FsError::kUnavailable:
    case FsError::kDeadline:
    case FsError::kNoEnt:  // another answers there
    case FsError::kWrongCluster:
    case FsError::kVersion: co_return false;
    default: co_return true;
  }
}

Task<void> NodeProbe::Round() {
  const int64_t now_ns = Executor::Current().NowNs();
  const ClusterMap map = cluster_->Map();
  std::erase_if(tried_, [&](const auto& t) { return map.FindNode(t.first) == nullptr; });
  std::vector<NodeId> due;
  std::vector<Task<bool>> tries;
  for (const NodeInfo& n : map.nodes) {
    if (n.state != NodeState::kUp) continue;
    Tried& t = tried_[n.id];
    if (t.address == n.address && t.at_ns != 0 && t.reached && now_ns - t.at_ns < kProbeAgainNs) continue;
    TargetId disk;
    for (TargetId id : cluster_->Targets(n.id)) {
      if (cluster_->IsReachable(id)) disk = id;
    }
    if (!disk) continue;
    t.address = n.address;
    t.at_ns = now_ns;
    due.push_back(n.id);
    tries.push_back(Reaches(n, disk));
  }
  const auto reached = co_await WhenAll(std::move(tries));
  for (size_t i = 0; i < due.size(); ++i) {
    if (const auto t = tried_.find(due[i]); t != tried_.end()) t->second.reached = reached[i];
  }
  std::vector<NodeId> cannot;
  for (const auto& [id, t] : tried_) {
    if (!t.reached) cannot.push_back(id);
  }
  told_(std::move(cannot));
}

}  // namespace stria
