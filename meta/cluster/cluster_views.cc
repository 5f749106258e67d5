// The cluster as clients see it, and the records to be persisted.
#include <algorithm>
#include <utility>

#include "meta/cluster/cluster_state.h"

namespace stria {

ClusterMap ClusterState::Map() const {
  ClusterMap m;
  m.version = version_;
  m.cluster = cluster_;
  m.incarnation = incarnation_;
  m.term = said_.term;
  m.term_proof = said_.proof;
  for (const auto& [id, n] : nodes_) m.nodes.push_back(n.record.info);
  for (const auto& [id, t] : targets_) m.targets.push_back(t.info);
  m.bundle = bundle_;
  m.revoked = revoked_;
  return m;
}

void ClusterState::SetTrust(std::string bundle, std::vector<std::string> revoked) {
  if (bundle == bundle_ && revoked == revoked_) return;
  bundle_ = std::move(bundle);
  revoked_ = std::move(revoked);
  ++version_;
}

ClusterView ClusterState::View() const {
  ClusterView v;
  std::map<std::pair<NodeId, std::string>, uint32_t> channels;
  for (const auto& [id, t] : targets_) {
    TargetView o;
    o.target = id;
    o.node = t.info.node;
    // A disk without a named channel has one of its own.
    const std::string channel = t.info.channel.empty() ? "\n" + std::to_string(id.v) : t.info.channel;
    o.channel = channels.try_emplace({t.info.node, channel}, static_cast<uint32_t>(channels.size())).first->second;
    o.capacity_bytes = t.info.capacity_bytes;
    o.free_bytes = t.info.free_bytes;
    o.repair_reserve_bytes = t.info.capacity_bytes / 100 * options_.repair_reserve_percent;
    const ColumnState state = StateOf(id);
    o.configured = state != ColumnState::kMissing;
    o.readable = state == ColumnState::kOk || state == ColumnState::kDraining || IsLastResort(id);
    o.usable_for_new = state == ColumnState::kOk;
    v.targets.push_back(o);
  }
  return v;
}

ColumnState ClusterState::StateOf(TargetId target) const {
  auto it = targets_.find(target);
  if (it == targets_.end()) return ColumnState::kMissing;
  const Target& t = it->second;
  if (t.info.state != TargetState::kUp && t.info.state != TargetState::kDraining) return ColumnState::kMissing;
  const NodeState node = nodes_.at(t.info.node).record.info.state;
  if (node == NodeState::kOut) return ColumnState::kMissing;
  // It was to be emptied, and is not there to be copied from: an admin's word stands for the grace period.
  if (node == NodeState::kDown && t.info.state == TargetState::kDraining) return ColumnState::kMissing;
  if (node != NodeState::kUp || t.absent_since_ns) return ColumnState::kSuspect;
  return t.info.state == TargetState::kDraining ? ColumnState::kDraining : ColumnState::kOk;
}

bool ClusterState::IsBeingEmptied(TargetId target) const {
  auto it = targets_.find(target);
  if (it == targets_.end() || it->second.info.state == TargetState::kRemoved) return false;
  return it->second.info.state != TargetState::kUp ||
         nodes_.at(it->second.info.node).record.info.state == NodeState::kOut;
}

bool ClusterState::IsLastResort(TargetId target) const {
  auto it = targets_.find(target);
  return it != targets_.end() && it->second.info.state == TargetState::kFailed && !it->second.absent_since_ns &&
         nodes_.at(it->second.info.node).record.info.state == NodeState::kUp;
}

bool ClusterState::IsReachable(TargetId target) const {
  const ColumnState s = StateOf(target);
  return s == ColumnState::kOk || s == ColumnState::kDraining;
}

std::string ClusterState::EmptyingReason(TargetId target) const {
  auto it = targets_.find(target);
  if (it == targets_.end()) return "";
  const NodeInfo& n = nodes_.at(it->second.info.node).record.info;
  switch (it->second.info.state) {
    case TargetState::kFailed: return TargetName(target) + " failed";
    case TargetState::kOut: return TargetName(target) + " is out";
    case TargetState::kRemoved: return TargetName(target) + " was removed";
    case TargetState::kDraining:
    case TargetState::kUp: break;
  }
  if (n.state == NodeState::kOut) return n.name + " is out";
  if (it->second.info.state != TargetState::kDraining) return "";
  if (it->second.too_many_errors) return kTooManyErrors;
  return IsFailing(it->second) ? kPredictsFailure : "drain";
}

const NodeInfo* ClusterState::FindNode(NodeId id) const {
  auto it = nodes_.find(id);
  return it == nodes_.end() ? nullptr : &it->second.record.info;
}
const NodeInfo* ClusterState::FindNodeByName(const std::string& name) const {
  for (const auto& [id, n] : nodes_) {
    if (n.record.info.name == name) return &n.record.info;
  }
  return nullptr;
}
Uuid ClusterState::NodeOf(TargetId target) const {
  const TargetInfo* t = FindTarget(target);
  const NodeInfo* node = t == nullptr ? nullptr : FindNode(t->node);
  return node == nullptr ? Uuid() : node->uuid;
}

const TargetInfo* ClusterState::FindTarget(TargetId id) const {
  auto it = targets_.find(id);
  return it == targets_.end() ? nullptr : &it->second.info;
}
std::vector<TargetId> ClusterState::Targets(std::optional<NodeId> node) const {
  std::vector<TargetId> out;
  for (const auto& [id, t] : targets_) {
    if (t.info.state != TargetState::kRemoved && t.info.node == node.value_or(t.info.node)) out.push_back(id);
  }
  return out;
}
std::string ClusterState::TargetName(TargetId id) const {
  auto it = targets_.find(id);
  if (it == targets_.end()) return "target " + std::to_string(id.v);
  return nodes_.at(it->second.info.node).record.info.name + ":" + it->second.info.label;
}
ClusterState::Changes ClusterState::TakeChanges() {
  Changes c;
  for (NodeId id : dirty_nodes_) {
    if (nodes_.count(id)) c.nodes.push_back(nodes_.at(id).record);
  }
  for (TargetId id : dirty_targets_) {
    if (targets_.count(id)) c.targets.push_back(targets_.at(id).info);
  }
  c.nodes_removed = std::exchange(removed_nodes_, {});
  c.targets_removed = std::exchange(removed_targets_, {});
  c.refused = removed_.TakeChanges();
  c.version = version_ != saved_version_;
  saved_version_ = version_;
  dirty_nodes_.clear();
  dirty_targets_.clear();
  return c;
}

RawBytes RawOf(const ClusterState& cluster) {
  RawBytes raw;
  for (const TargetId id : cluster.Targets()) {
    const TargetInfo& t = *cluster.FindTarget(id);
    const ColumnState state = cluster.StateOf(id);
    if (state == ColumnState::kOk || state == ColumnState::kSuspect) raw.total += t.capacity_bytes;
    if (state == ColumnState::kOk) raw.free += t.free_bytes;
  }
  return raw;
}

}  // namespace stria
