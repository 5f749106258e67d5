// The keeper of the cluster: which nodes and disks there are, what the nodes say of themselves, and which shards they are told
// to delete.
//
// Owns: the map (cluster_state.h), which version of it was told, the states as last logged, how far each disk's garbage has been
// handed out, and which deletes are under way.
//
// Invariants: what is told of the map is in the store. A shard is handed out for deletion only when its stripe's end is durable,
// no session needs it any more, and the backup does not (the caller's GarbageUpTo); its record goes when its own node has
// reported that it is gone.
//
// Called by the handlers of nodes and admins, by MetaServer (its clock; Renew, with the nodes that a client cannot reach) and by
// Files, which asks it where stripes may be placed. Sees the core; what it tells others is ClusterHost.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/meta_api.h"
#include "common/exec/task.h"
#include "meta/cluster/cluster_state.h"
#include "meta/core/meta_core.h"
#include "meta/ops/ops.h"

namespace stria {

// Notices to the rooms above.
class ClusterHost {
 public:
  virtual ~ClusterHost() = default;
  // Nodes or disks are others, or in other states.
  virtual void MapChanged() = 0;
  // Disks have come to another node or channel; in the transaction of their registration.
  virtual void Moved(Txn& txn, const std::set<TargetId>& targets) = 0;
  // The data server with these disks has started anew.
  virtual void Restarted(const std::set<TargetId>& here) = 0;
};

class ClusterKeeper {
 public:
  // Both outlive it.
  ClusterKeeper(MetaCore* core, ClusterHost* host, const ClusterOptions& options)
      : core_(core), host_(host), options_(options) {}
  Result<void> Load(Txn& txn);
  // The map as it is was told to whoever asked.
  void Begin() { told_version_ = state_->version(); }
  void Tick();
  // This server did not run for `ns`.
  void Excuse(int64_t ns) { state_->Excuse(ns); }
  void SetTimes(const ClusterOptions& now);

  // To look at.
  const ClusterState& state() const { return *state_; }

  // ---- Nodes ----
  Task<Result<RegisterNodeReply>> Register(RegisterNodeRequest r);
  // Fills in what the reply says of the map and the term. Gives the disks that can be given work; none if the node has to
  // register again.
  Result<std::vector<TargetId>> TakeBeat(const HeartbeatRequest& r, HeartbeatReply* reply);
  // All that `who` cannot reach now; numbers of no node are left out.
  void NoteUnreachable(ReachReports::Who who, std::vector<NodeId> nodes) {
    std::erase_if(nodes, [this](NodeId n) { return state_->FindNode(n) == nullptr; });
    state_->reach().Report(std::move(who), std::move(nodes), core_->Wall());
  }
  void ForgetUnreachable(SessionId s) { state_->reach().Drop(s); }
  // Garbage on these disks, each in turn from where the last call ended. `holder`: their node's (HolderOf).
  Result<std::vector<DeleteWork>> DeletesFor(const std::vector<TargetId>& targets, const GarbageUpTo& upto, uint64_t holder);
  Result<void> TakeDeleted(NodeId node, const std::vector<ShardId>& shards);

  // ---- Admins: Publish tells of these ----
  void SetNodeOut(NodeId node) { state_->SetNodeOut(node, core_->Wall()); }
  void SetTargetState(TargetId target, TargetState to) { state_->SetTargetState(target, to); }
  void RemoveNode(NodeId node) { state_->RemoveNode(node); }
  void AdmitNode(NodeId node) { state_->AdmitNode(node); }
  void AdmitTarget(TargetId target) { state_->AdmitTarget(target); }
  // What the map says of certificates; Publish tells of it, too.
  void SetTrust(std::string bundle, std::vector<std::string> revoked) { state_->SetTrust(std::move(bundle), std::move(revoked)); }
  // What is garbage on a disk that has left needs nobody to delete it.
  Task<Result<void>> DropGarbage(TargetId target);
  // Saves what is new of the map, and tells of it.
  Result<void> Publish();

 private:
  Result<void> Save(Txn& txn);  // and commits it
  Result<void> Save();
  void Tell();
  void LogChanges();

  MetaCore* const core_;
  ClusterHost* const host_;
  ClusterOptions options_;
  std::unique_ptr<ClusterState> state_;  // from Load on
  uint64_t told_version_ = 0;
  std::map<NodeId, NodeState> logged_nodes_;
  std::map<TargetId, TargetState> logged_targets_;
  std::map<TargetId, ShardId> delete_cursors_;
  std::map<ShardId, TargetId> deletes_out_;  // handed out; bounded by garbage of the nodes' beats
};

}  // namespace stria
