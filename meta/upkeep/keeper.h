// A keeper is one background job of the metadata server: repairing, widening, folding and so on. It owns its queue, its
// scan and its counters; nobody else changes them. Upkeep (upkeep.h) asks the keepers in turn.
//
// What a keeper may use: the store, the cluster (to read), tokens, seeds of placements, those keepers that its constructor
// names, and of the rooms above it KeeperHost only. A test without a metadata server implements that in a few lines
// (keeper_testing.h).
//
// One executor thread. A keeper's error is the store's, and ends the server, but for kRetryLater: the next ids are not
// durable yet, and the same is asked again after a sync.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "api/admin_api.h"
#include "api/meta_api.h"
#include "common/exec/task.h"
#include "meta/cluster/cluster_state.h"
#include "meta/core/place_seeds.h"
#include "meta/core/token_mint.h"
#include "meta/ops/op_ctx.h"
#include "meta/store/txn.h"

namespace stria {

// Notices of the keepers to the rooms above them.
class KeeperHost {
 public:
  virtual ~KeeperHost() = default;
  // A transaction was committed that no file shows: the group sync is to make it durable.
  virtual void Committed() = 0;
  // One was committed that changed files or freed stripes.
  virtual void Committed(const Touched& touched) = 0;
  // False while clients may still claim what they had cached before a restart: no mapping is to change.
  virtual bool AreClaimsOver() const = 0;
  // Tells the sessions what changed. Resumes when each of them has acknowledged that, or has lapsed.
  virtual Task<void> Announce(Touched touched) = 0;
  // The store has failed: nothing can be written any more.
  virtual void Fail(Error error) = 0;
  virtual bool HasFailed() const = 0;
};

// All of it outlives the keepers.
struct KeeperEnv {
  Executor* executor = nullptr;
  MetaStore* store = nullptr;
  const ClusterState* cluster = nullptr;
  const TokenMint* tokens = nullptr;
  PlaceSeeds* seeds = nullptr;
  KeeperHost* host = nullptr;
  // A number for the clients that may read these files; others than those of other files, if it is another. Empty: one for all.
  std::function<Result<uint64_t>(Txn& txn, const std::vector<InodeId>& files)> audience;
  Event* work = nullptr;       // set: the keepers are asked again
  TaskScope* scope = nullptr;  // of tasks that a keeper begins

  int64_t Now() const { return executor->NowNs(); }
  int64_t Wall() const { return executor->WallNs(); }
};

// For the node of a heartbeat.
struct NodeWork {
  uint64_t holder = 0;  // the node's, for its tokens (HolderOf)
  std::vector<RebuildWork> rebuilds;
  std::vector<WidenWork> widens;
  std::vector<CheckWork> checks;  // that a reader doubts, or another node has written. Small: they take no slot, and are not counted
  size_t size() const { return rebuilds.size() + widens.size(); }
};

// What a keeper has nothing to do with it leaves as it is here.
class Keeper {
 public:
  explicit Keeper(const KeeperEnv& env) : env_(env) {}
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;
  virtual ~Keeper() = default;

  // At a start, before all else: reads what it had begun.
  virtual Result<void> Load(Txn& txn) { return Ok(); }
  // Nodes or disks are others, or in other states, than at the last call; also once after a start.
  virtual Result<void> FollowMap() { return Ok(); }
  // May look for work: a bounded part, from where it has stopped; sets `work` if there is more to see. A keeper that looks only
  // when it may begin something does so in PlanSome.
  virtual Task<Result<void>> Scan() { co_return Ok(); }
  // Ends tasks that nobody can carry out or needs any more; begins some, if the keepers before it leave room for them.
  virtual Task<Result<void>> PlanSome() { co_return Ok(); }
  // Adds what the node with these disks is to do: all that it was told before and has not reported, and at most `slots` more.
  virtual Result<void> WorkFor(const std::set<TargetId>& here, uint32_t slots, NodeWork* work) { return Ok(); }
  // The node with these disks has started anew, and does not know what it was told.
  virtual void ForgetHandedOut(const std::set<TargetId>& here) {}
  // Takes what node `from` reports. False: it is no task of this keeper.
  virtual Result<bool> TakeRebuilt(NodeId from, const RebuildResult& result) { return false; }
  virtual Result<bool> TakeWidened(NodeId from, const WidenResult& result) { return false; }
  virtual Result<bool> TakeChecked(NodeId from, const CheckResult& result) { return false; }
  // The disk has left the cluster.
  virtual void Forget(TargetId target) {}
  // Says how far it is.
  virtual void Tell(UpkeepReply* reply) const {}

 protected:
  // The disk is one of the node's.
  bool IsOn(TargetId target, NodeId node) const {
    const TargetInfo* info = env_.cluster->FindTarget(target);
    return info != nullptr && info->node == node;
  }
  // Its node can be given work: it has not been given up.
  bool TakesWork(TargetId target) const {
    const TargetInfo* info = env_.cluster->FindTarget(target);
    const NodeInfo* node = info == nullptr ? nullptr : env_.cluster->FindNode(info->node);
    return node != nullptr && node->state != NodeState::kDown && node->state != NodeState::kOut;
  }
  int64_t Now() const { return env_.Now(); }
  // The task has ended: its record (a key of Family::kRepairs) goes, and so do the shards that nobody uses now. A column without
  // a shard has nothing to go.
  Result<void> DropTask(const std::string& key, const std::vector<Column>& leftovers) const;

  const KeeperEnv env_;
};

}  // namespace stria
