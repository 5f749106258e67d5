#include "meta/cluster/cluster_state.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/address.h"
#include "common/codec.h"
#include "common/disk_label.h"
#include "common/printable.h"
#include "meta/model/records.h"

namespace stria {

std::string EncodeNodeRecord(const NodeRecord& r) {
  ByteWriter w;
  EncodeNode(r.info, &w);
  w.U64(r.epoch.v);
  return SealRecord(1, w.str());
}

Result<NodeRecord> DecodeNodeRecord(std::string_view bytes) {
  uint8_t version = 0;
  std::string_view body;
  NodeRecord out;
  if (OpenRecord(bytes, 1, &version, &body)) {
    ByteReader r(body);
    out.info = DecodeNode(&r);
    out.epoch = Epoch(r.U64());
    if (r.ok() && out.info.id) return out;
  }
  return Error(FsError::kCorrupt, "a record of a node does not decode");
}

std::string EncodeTargetRecord(const TargetInfo& t) {
  ByteWriter w;
  EncodeTarget(t, &w);
  return SealRecord(1, w.str());
}

Result<TargetInfo> DecodeTargetRecord(std::string_view bytes) {
  uint8_t version = 0;
  std::string_view body;
  if (OpenRecord(bytes, 1, &version, &body)) {
    ByteReader r(body);
    TargetInfo out = DecodeTarget(&r);
    if (r.ok() && out.id) return out;
  }
  return Error(FsError::kCorrupt, "a record of a target does not decode");
}

void ClusterState::LoadNode(NodeRecord record, int64_t now_ns) {
  const NodeId id = record.info.id;
  Node& n = nodes_[id];
  n.record = std::move(record);
  if (n.record.info.state != NodeState::kOut) n.record.info.state = NodeState::kSuspect;
  n.last_beat_ns = now_ns;
  n.unheard = n.record.info.state != NodeState::kOut;
}

bool ClusterState::AwaitsFirstBeats() const {
  return std::any_of(nodes_.begin(), nodes_.end(), [](const auto& e) { return e.second.unheard; });
}

Result<void> ClusterState::LoadTarget(TargetInfo target) {
  if (!nodes_.count(target.node)) {
    return Error(FsError::kCorrupt, "the node of target " + std::to_string(target.id.v) + " is not in the store");
  }
  const TargetId id = target.id;
  Target& t = targets_[id];
  t.info = std::move(target);
  return Ok();
}

void ClusterState::SetState(Node& n, NodeState state, int64_t wall_ns) {
  NodeInfo& info = n.record.info;
  if (info.state == state) return;
  if (info.state == NodeState::kOut || state == NodeState::kOut) dirty_nodes_.insert(info.id);
  info.state = state;
  info.since_ns = wall_ns;
  ++version_;
}

void ClusterState::ChangeTarget(Target& t, TargetState state) {
  if (t.info.state == state) return;
  t.info.state = state;
  dirty_targets_.insert(t.info.id);
  ++version_;
}

void ClusterState::SetGivenUp(Target& t, bool given_up) {
  if (t.info.given_up == given_up) return;
  t.info.given_up = given_up;
  dirty_targets_.insert(t.info.id);
}

bool ClusterState::IsFailing(const Target& t) const {
  return options_.drain_failing_disks && t.info.smart.health == SmartHealth::kFailing && !t.forgiven_smart;
}

void ClusterState::TakeDisk(Node& n, Target& t, const DiskHello& d, int64_t now_ns) {
  TargetInfo& i = t.info;
  if (i.state == TargetState::kRemoved) n.strangers.push_back({i.label, "", TargetId(), i.id, false});
  if (i.problem != d.problem) {
    i.problem = d.problem.substr(0, kMaxProblemBytes);
    ++version_;
  }
  if (t.absent_since_ns.has_value() != d.absent) ++version_;
  if (d.failed && (i.state == TargetState::kUp || i.state == TargetState::kDraining || i.given_up)) {
    SetGivenUp(t, false);
    ChangeTarget(t, TargetState::kFailed);
  }
  SetFilesystem(i.id, d.absent || i.state == TargetState::kRemoved ? 0 : d.filesystem);
  if (d.absent) {
    if (!t.absent_since_ns) t.absent_since_ns = now_ns;
    if (std::exchange(t.out_when_gone, false) && i.state == TargetState::kFailed) {
      SetGivenUp(t, false);
      ChangeTarget(t, TargetState::kOut);
    }
    return;
  }
  t.filesystem_bytes = d.capacity_bytes;
  t.filesystem_free_bytes = d.free_bytes;
  CountSpace(t);
  i.used_bytes = d.used_bytes;
  i.read_errors = d.read_errors;
  i.write_errors = d.write_errors;
  i.checksum_errors = d.checksum_errors;
  i.read_us = d.read_us;
  t.absent_since_ns.reset();
  const uint64_t io = d.read_errors + d.write_errors;
  t.forgiven_io = std::min(t.forgiven_io, io);  // its server has started anew and counts from 0
  t.forgiven_checksums = std::min(t.forgiven_checksums, d.checksum_errors);
  t.too_many_errors = io - t.forgiven_io > options_.max_io_errors ||
                      d.checksum_errors - t.forgiven_checksums > options_.max_checksum_errors;
  if (i.given_up) {
    // Shards that were made again elsewhere meanwhile are garbage here by now, and are removed like others.
    SetGivenUp(t, false);
    ChangeTarget(t, TargetState::kUp);
  }
  i.smart = d.smart;
  for (std::string* name : {&i.smart.device, &i.smart.model, &i.smart.serial}) name->resize(std::min(name->size(), kMaxSmartNameBytes));
  i.smart.problem.resize(std::min(i.smart.problem.size(), kMaxProblemBytes));
  if (i.smart.health == SmartHealth::kGood) t.forgiven_smart = false;  // where it is not known, as after a start of the node, nothing is said
  if ((t.too_many_errors || IsFailing(t)) && i.state == TargetState::kUp) {
    ChangeTarget(t, TargetState::kDraining);  // most of it can still be read, and is copied away
  }
}

std::string ClusterState::FreeLabel(NodeId node, TargetId self, const std::string& wanted) const {
  std::set<std::string> taken;
  for (const auto& [id, t] : targets_) {
    if (t.info.node == node && id != self && t.info.state != TargetState::kRemoved) taken.insert(t.info.label);
  }
  const std::string base = wanted.empty() ? "d" + std::to_string(taken.size() + 1) : wanted;
  std::string label = base;
  for (int i = 2; taken.count(label); ++i) label = base + "-" + std::to_string(i);
  return label;
}

ClusterState::Target* ClusterState::FindDisk(Uuid disk) {
  for (auto& [id, t] : targets_) {
    if (t.info.disk_uuid == disk) return &t;
  }
  return nullptr;
}

ClusterState::Target* ClusterState::FindLabel(NodeId node, const std::string& label) {
  for (auto& [id, t] : targets_) {
    if (t.info.node == node && t.info.label == label && t.info.state != TargetState::kRemoved) return &t;
  }
  return nullptr;
}

bool ClusterState::IsElsewhere(const Target& t, NodeId node) const {
  if (t.info.node == node || t.absent_since_ns) return false;
  const NodeState state = nodes_.at(t.info.node).record.info.state;
  return state == NodeState::kUp || state == NodeState::kSuspect;
}

// A disk of the node's that has no number. False if it could have one now: it is to register again.
bool ClusterState::TakeStranger(Node& n, const DiskHello& d) {
  Stranger s{d.label, d.problem.substr(0, kMaxProblemBytes), TargetId(), TargetId(), false};
  if (!d.absent && d.failed) return true;
  if (!d.absent) {
    const Target* known = FindDisk(d.uuid);
    if (known == nullptr) return false;
    const bool of_another = known->info.node != n.record.info.id && !IsElsewhere(*known, n.record.info.id);
    s.unproved = of_another && n.unproved.contains(d.uuid);
    if (of_another && !s.unproved) return false;
    s.copy_of = known->info.id;
  }
  n.strangers.push_back(std::move(s));
  return true;
}

// Its disks have been away as long as the node; the disks of a node that was out have been given up already.
void ClusterState::TakeOver(Node& n, Uuid uuid) {
  n.record.info.uuid = uuid;
  for (auto& [id, t] : targets_) {
    if (t.info.node != n.record.info.id) continue;
    if (!t.absent_since_ns) t.absent_since_ns = n.last_beat_ns;
    const bool used = t.info.state == TargetState::kUp || t.info.state == TargetState::kDraining;
    if (n.record.info.state != NodeState::kOut || !used) continue;
    SetGivenUp(t, t.info.state == TargetState::kUp);
    ChangeTarget(t, TargetState::kFailed);
  }
}

// Whoever reads from the one goes to that address: it is not another's, nor a path on the reader's own machine. A node that is
// out has none: another machine may have got its address.
Error ClusterState::CheckAddress(const RegisterNodeRequest& r, const Node* self) const {
  if (!IsHostPort(r.address)) {
    return Error(FsError::kBadRequest, "node " + r.name + " registers with the address '" + Printable(r.address.substr(0, kMaxProblemBytes)) +
                                           "', which others cannot reach: give it host:port with --address");
  }
  for (const auto& [id, n] : nodes_) {
    const NodeInfo& other = n.record.info;
    if (&n == self || other.address != r.address || other.state == NodeState::kOut) continue;
    return Error(FsError::kExist, "the address " + r.address + " of node " + r.name + " is that of node " + other.name +
                                      ": give one of them another with --address, or first give the other up:  stria node out " + other.name);
  }
  return Error();
}

Result<ClusterState::Registered> ClusterState::Register(const RegisterNodeRequest& r, int64_t now_ns,
                                                        int64_t wall_ns, const std::function<NodeId()>& new_node,
                                                        const std::function<TargetId()>& new_target, const MayBring& may_bring) {
  if (!r.uuid || r.name.empty() || r.name.size() > kMaxNodeNameBytes || r.disks.size() > kMaxDisksPerNode) {
    return Error(FsError::kBadRequest, "a node registers without a uuid or name, or with too many disks");
  }
  for (const DiskHello& d : r.disks) {
    const std::string fault = DiskNameFault(d.label, d.channel);  // it may have no label
    if (!fault.empty()) return Error(FsError::kBadRequest, "node " + Printable(r.name) + " registers a disk that cannot be called so: " + fault);
  }
  if (Error e = removed_.Check(r.uuid, r.address, wall_ns); !e.ok()) return e;
  Node* node = nullptr;
  Node* former = nullptr;  // another of this name
  for (auto& [id, n] : nodes_) {
    if (n.record.info.uuid == r.uuid) node = &n;
    else if (n.record.info.name == r.name) former = &n;
  }
  if (former != nullptr) {
    const NodeInfo& f = former->record.info;
    if (node != nullptr) {
      return Error(FsError::kExist, "the name " + r.name + " belongs to another node, at " + f.address +
                                        "; give this one, which was " + node->record.info.name +
                                        ", another with --node-name, or first forget that one:  stria node remove " + r.name);
    }
    if (f.state == NodeState::kUp || f.state == NodeState::kSuspect) {
      return Error(FsError::kExist,
                   "the name " + r.name + " belongs to another node, heard " +
                       std::to_string((now_ns - former->last_beat_ns) / kSecond) + " s ago at " + f.address +
                       "; if this machine is to replace it, stop stria-data there, and its place is taken " +
                       std::to_string(options_.down_ns / kSecond) +
                       " s later by itself; else give this one another name with --node-name");
    }
  }
  if (Error e = CheckAddress(r, node != nullptr ? node : former); !e.ok()) return e;
  std::set<Uuid> uuids;
  for (const DiskHello& d : r.disks) {
    if (!d.uuid && !d.absent) return Error(FsError::kBadRequest, "node " + r.name + " registers a disk without a uuid");
    if (d.uuid) uuids.insert(d.uuid);
  }
  const bool is_more = node == nullptr && former == nullptr;
  if ((is_more && nodes_.size() >= kMaxNodes) || targets_.size() + r.disks.size() > kMaxTargets) {
    return Error(FsError::kBadRequest, "the cluster has as many nodes or disks as it can have");
  }
  if (former != nullptr) {
    node = former;
    TakeOver(*node, r.uuid);
  }
  if (node == nullptr) {
    const NodeId id = new_node();
    node = &nodes_[id];
    node->record.info.id = id;
    node->record.info.uuid = r.uuid;
    node->record.info.state = NodeState::kUp;
    node->record.info.since_ns = wall_ns;
  }
  NodeInfo& info = node->record.info;
  info.name = r.name;
  info.address = r.address;
  ++node->record.epoch.v;
  dirty_nodes_.insert(info.id);
  ++version_;
  node->last_beat_ns = now_ns;
  node->unheard = false;
  if (info.state == NodeState::kOut || info.state == NodeState::kDown) {
    SetState(*node, NodeState::kSuspect, wall_ns);
    if (!node->down_since_ns) node->down_since_ns = now_ns;
    node->heard_since_ns = now_ns;
  }
  Registered out{info.id, node->record.epoch, {}};
  // Labels are given anew: two disks may have changed places.
  for (auto& [id, t] : targets_) {
    if (t.info.node == info.id && uuids.count(t.info.disk_uuid)) t.info.label.clear();
  }
  node->strangers.clear();
  node->unproved.clear();
  for (const DiskHello& d : r.disks) {
    Target* target = d.uuid ? FindDisk(d.uuid) : FindLabel(info.id, d.label);
    if (target == nullptr && d.absent) {
      out.targets.push_back(TargetId());  // nothing is known of it, and nothing can be asked
      TakeStranger(*node, d);
      continue;
    }
    if (target != nullptr && IsElsewhere(*target, info.id)) {
      out.targets.push_back(TargetId());  // it was carried away, and is well; or is here, too, and one is a copy
      if (!d.absent) TakeStranger(*node, d);
      continue;
    }
    if (target != nullptr && target->info.node != info.id && !may_bring(d, target->info)) {
      out.targets.push_back(TargetId());
      node->unproved.insert(d.uuid);
      if (!d.absent) TakeStranger(*node, d);
      continue;
    }
    if (target != nullptr && std::ranges::count(out.targets, target->info.id)) {
      out.targets.push_back(TargetId());  // it was named already: a copy
      TakeStranger(*node, d);
      continue;
    }
    if (target == nullptr) {
      const TargetId id = new_target();
      target = &targets_[id];
      target->info.id = id;
      target->info.disk_uuid = d.uuid;
      target->info.state = TargetState::kUp;
    } else if (target->info.node != info.id || target->info.channel != d.channel) {
      moved_.insert(target->info.id);
    }
    const TargetId id = target->info.id;
    target->info.node = info.id;  // a disk that was moved here keeps its number and its shards
    target->info.label = FreeLabel(info.id, id, d.label);
    target->info.channel = d.channel;
    dirty_targets_.insert(id);
    out.targets.push_back(id);
    if (!d.absent) SetFilesystem(id, d.filesystem);  // of all, before the space of one is counted
  }
  for (size_t i = 0; i < r.disks.size(); ++i) {
    if (out.targets[i]) TakeDisk(*node, targets_.at(out.targets[i]), r.disks[i], now_ns);
  }
  for (auto& [id, t] : targets_) {
    const bool here = std::find(out.targets.begin(), out.targets.end(), id) != out.targets.end();
    if (t.info.node == info.id && !here && !t.absent_since_ns) t.absent_since_ns = now_ns;
  }
  return out;
}

Error ClusterState::CheckEpoch(NodeId node, Epoch epoch) const {
  auto it = nodes_.find(node);
  if (it == nodes_.end()) return Error(FsError::kNoEnt, "this node is not in the cluster; it must register");
  if (it->second.record.epoch != epoch) {
    return Error(FsError::kFenced, "another server has registered as " + it->second.record.info.name);
  }
  return Error();
}

Error ClusterState::Beat(NodeId node, Epoch epoch, const std::vector<DiskHello>& disks, int64_t now_ns,
                         int64_t wall_ns) {
  if (Error e = CheckEpoch(node, epoch); !e.ok()) return e;
  Node& n = nodes_.at(node);
  if (n.record.info.state == NodeState::kOut) {
    return Error(FsError::kNoEnt, n.record.info.name + " was taken out of the cluster; it must register again");
  }
  const bool gap = now_ns - n.last_beat_ns >= options_.suspect_ns;
  n.last_beat_ns = now_ns;
  n.unheard = false;
  if (n.down_since_ns) {
    if (!n.heard_since_ns || gap) n.heard_since_ns = now_ns;
    if (now_ns - *n.heard_since_ns >= options_.settle_ns) {
      n.down_since_ns.reset();
      n.heard_since_ns.reset();
      SetState(n, NodeState::kUp, wall_ns);
    } else {
      SetState(n, NodeState::kSuspect, wall_ns);
    }
  } else {
    SetState(n, NodeState::kUp, wall_ns);
  }
  std::set<TargetId> seen;
  n.strangers.clear();
  for (const DiskHello& d : disks) {
    if (!d.target && (d.uuid || d.absent)) {
      if (!TakeStranger(n, d)) return Error(FsError::kNoEnt, "disk " + d.label + " may be used here now; register again");
      continue;
    }
    auto t = targets_.find(d.target);
    if (t == targets_.end() || (d.uuid && t->second.info.disk_uuid != d.uuid) || t->second.info.node != node) continue;
    TakeDisk(n, t->second, d, now_ns);
    seen.insert(d.target);
  }
  for (auto& [id, t] : targets_) {
    if (t.info.node != node || seen.count(id) || t.absent_since_ns) continue;
    t.absent_since_ns = now_ns;
    ++version_;
  }
  return Error();
}

void ClusterState::Excuse(int64_t ns) {
  for (auto& [id, n] : nodes_) n.last_beat_ns += ns;
  for (auto& [id, t] : targets_) {
    if (t.absent_since_ns) *t.absent_since_ns += ns;
  }
}

void ClusterState::Tick(int64_t now_ns, int64_t wall_ns) {
  size_t gone = 0;
  for (auto& [id, n] : nodes_) {
    const NodeState state = n.record.info.state;
    if (state == NodeState::kOut) {
      ++gone;
      continue;
    }
    const int64_t silent = now_ns - n.last_beat_ns;
    if (silent >= options_.down_ns) {
      if (!n.down_since_ns) n.down_since_ns = n.last_beat_ns + options_.down_ns;
      n.heard_since_ns.reset();
      SetState(n, NodeState::kDown, wall_ns);
      ++gone;
    } else if (silent >= options_.suspect_ns && state == NodeState::kUp) {
      SetState(n, NodeState::kSuspect, wall_ns);
    }
  }
  for (auto& [id, n] : nodes_) {
    if (n.record.info.state != NodeState::kDown || now_ns - *n.down_since_ns < options_.out_ns) continue;
    if (gone * 2 < nodes_.size() || nodes_.size() == 1) SetState(n, NodeState::kOut, wall_ns);
  }
  for (auto& [id, t] : targets_) {
    if (!t.absent_since_ns || now_ns - *t.absent_since_ns < options_.out_ns) continue;
    const Node& n = nodes_.at(t.info.node);
    const bool node_here = n.record.info.state == NodeState::kUp;
    if (node_here && (t.info.state == TargetState::kUp || t.info.state == TargetState::kDraining)) {
      SetGivenUp(t, t.info.state == TargetState::kUp);  // a disk that was to be emptied is not wanted back
      ChangeTarget(t, TargetState::kFailed);
    }
  }
}

void ClusterState::SetNodeOut(NodeId node, int64_t wall_ns) {
  auto it = nodes_.find(node);
  if (it != nodes_.end()) SetState(it->second, NodeState::kOut, wall_ns);
}

void ClusterState::SetTargetState(TargetId target, TargetState state) {
  auto it = targets_.find(target);
  if (it == targets_.end()) return;
  Target& t = it->second;
  t.out_when_gone = state == TargetState::kOut && IsLastResort(target);
  if (t.out_when_gone) return;
  if (state == TargetState::kUp) {
    t.forgiven_io = t.info.read_errors + t.info.write_errors;
    t.forgiven_checksums = t.info.checksum_errors;
    t.too_many_errors = false;
    t.forgiven_smart = true;
  }
  SetGivenUp(t, false);
  ChangeTarget(t, state);
  if (state == TargetState::kRemoved) SetFilesystem(target, 0);
}

// The parts of the others change at once: with the old weights, new stripes would crowd on the first ones.
void ClusterState::SetFilesystem(TargetId disk, uint64_t filesystem) {
  for (const TargetId changed : shared_.Set(disk, filesystem)) CountSpace(targets_.at(changed));
}

void ClusterState::CountSpace(Target& t) {
  const uint64_t sharers = shared_.Sharers(t.info.id);
  if (t.filesystem_bytes) t.info.capacity_bytes = *t.filesystem_bytes / sharers;
  if (t.filesystem_free_bytes) t.info.free_bytes = *t.filesystem_free_bytes / sharers;
}

void ClusterState::AdmitTarget(TargetId target) {
  const auto it = targets_.find(target);
  if (it == targets_.end() || it->second.info.state != TargetState::kRemoved) return;
  it->second.info.label = FreeLabel(it->second.info.node, target, it->second.info.label);
  SetTargetState(target, TargetState::kUp);
}

void ClusterState::RemoveNode(NodeId node) {
  const auto leaves = nodes_.find(node);
  if (leaves == nodes_.end()) return;
  removed_.Add(leaves->second.record.info);
  nodes_.erase(leaves);
  removed_nodes_.push_back(node);
  dirty_nodes_.erase(node);
  for (auto it = targets_.begin(); it != targets_.end();) {
    if (it->second.info.node != node) {
      ++it;
      continue;
    }
    removed_targets_.push_back(it->first);
    SetFilesystem(it->first, 0);
    dirty_targets_.erase(it->first);
    it = targets_.erase(it);
  }
  ++version_;
}

void ClusterState::SetTimes(const ClusterOptions& now) {
  options_.suspect_ns = now.suspect_ns;
  options_.down_ns = now.down_ns;
  options_.out_ns = now.out_ns;
  options_.settle_ns = now.settle_ns;
  options_.drain_failing_disks = now.drain_failing_disks;
}

}  // namespace stria
