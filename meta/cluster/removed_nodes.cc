#include "meta/cluster/removed_nodes.h"

namespace stria {

void RemovedNodes::Load(NodeInfo node) {
  node.since_ns = 0;
  nodes_[node.id] = std::move(node);
}

void RemovedNodes::Add(NodeInfo node) {
  added_.insert(node.id);
  Load(std::move(node));
  while (nodes_.size() > kMaxRemovedNodes) Admit(nodes_.begin()->first);
}

Error RemovedNodes::Check(const Uuid& uuid, const std::string& address, int64_t wall_ns) {
  for (auto& [id, n] : nodes_) {
    if (n.uuid != uuid) continue;
    n.since_ns = wall_ns;
    n.address = address;
    return Error(FsError::kPerm, "node " + n.name + " was removed from the cluster, and is refused: stop stria-data there, or let it in:  "
                                 "stria node add " + n.name);
  }
  return Error();
}

const NodeInfo* RemovedNodes::Find(NodeId id) const {
  const auto it = nodes_.find(id);
  return it == nodes_.end() ? nullptr : &it->second;
}

void RemovedNodes::Admit(NodeId id) {
  if (nodes_.erase(id) == 0) return;
  added_.erase(id);
  dropped_.insert(id);
}

std::vector<NodeInfo> RemovedNodes::All() const {
  std::vector<NodeInfo> out;
  for (const auto& [id, n] : nodes_) out.push_back(n);
  return out;
}

std::vector<NodeInfo> RemovedNodes::AskedLately(int64_t wall_ns) const {
  std::vector<NodeInfo> out;
  for (const auto& [id, n] : nodes_) {
    if (n.since_ns > 0 && wall_ns - n.since_ns < kAsksLatelyNs) out.push_back(n);
  }
  return out;
}

RemovedNodes::Changes RemovedNodes::TakeChanges() {
  Changes c;
  for (NodeId id : std::exchange(added_, {})) c.added.push_back(nodes_.at(id));
  for (NodeId id : std::exchange(dropped_, {})) c.dropped.push_back(id);
  return c;
}

}  // namespace stria
