// The repairer makes shards again that are lost, or on disks that are to be emptied. It finds them on targets that are out,
// failed or draining, lets PlanRepairs choose, hands the work out with heartbeats, and swaps in what was made.
//
// Owns: the queue of stripes that need repair and the tasks in flight (meta/repair/repair_queue.h), the shards that were
// reported bad, the scans of targets being emptied, and the throttle and settings that all keepers go by.
//
// Invariants: a task is in the store exactly while its new shard is reserved. A bad shard is in the store until a keeper has
// given its column another shard, or, when its stripe has been deleted, until the next sweep of the bad shards.
//
// One rebuild:
//   1. Start: a shard is reserved on its new target and the task recorded, in one transaction
//   2. WorkFor: the new target's node gets it, again and again until it reports
//   3. TakeRebuilt: length and checksums compared with what is recorded of the old shard, as the node has done; the
//      column swapped, the old shard garbage, the task gone, in one transaction. A result that differs is refused: its
//      shard is garbage, the old one stays, and another node is asked. A node that fails may name shards that it could not read:
//      those on its own disks are bad, of the others their own nodes are asked (doubts.h).
// A result that comes too late finds no task, or a column that is another by now: its shard is garbage.
//
// Called by Upkeep, by keepers that are asked after it, and by the handler of ReportShard (through Upkeep). Knows no other
// keeper.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "meta/core/bad_shards.h"
#include "meta/ops/ops.h"
#include "meta/repair/repair_queue.h"
#include "meta/upkeep/keeper.h"

namespace stria {

class Repairer final : public Keeper, public BadShards {
 public:
  // A column was made again: by which task, and the stripe as it is now.
  using Rebuilt = std::function<void(const RepairTaskRecord& task, const StripeRecord& now)>;

  // A node could not use a shard on another node's disk: the shard's own node is to be asked. The column has this shard, on `target`.
  using Doubted = std::function<void(const ReportedShard& said, TargetId target, NodeId by)>;

  // `on_rebuilt` is called after the transaction. Without `doubted` what nodes say of others' shards is nothing.
  Repairer(const KeeperEnv& env, const RepairBudget& budget, Rebuilt on_rebuilt, Doubted doubted = nullptr)
      : Keeper(env), budget_(budget), on_rebuilt_(std::move(on_rebuilt)), doubted_(std::move(doubted)) {}
  void SetBudget(const RepairBudget& budget) { budget_ = budget; }

  // ---- Keeper ----
  Result<void> Load(Txn& txn) override;
  Result<void> FollowMap() override;
  Task<Result<void>> Scan() override;
  Task<Result<void>> PlanSome() override { co_return Plan(); }
  Result<void> WorkFor(const std::set<TargetId>& here, uint32_t slots, NodeWork* work) override;
  void ForgetHandedOut(const std::set<TargetId>& here) override { queue_.ForgetHandedOut(here); }
  Result<bool> TakeRebuilt(NodeId from, const RebuildResult& result) override;

  // ---- What ails a stripe ----
  bool IsBad(StripeId stripe, uint16_t column, ShardId shard) const override { return queue_.IsBad(stripe, column, shard); }
  std::set<StripeId> BadStripes() const override { return queue_.BadStripes(); }
  // nullopt: it is not live.
  std::optional<StripeHealth> HealthOf(const StripeRecord& record) const;
  // How near to loss a stripe is that needs repair; nullopt if it needs none. Moving what is only misplaced
  // comes after everything else.
  static std::optional<int> NeedOf(const StripeHealth& health);

  // ---- From others: what is to be repaired ----
  // Queues the stripe if it needs repair. True if it does.
  bool Consider(const StripeRecord& record);
  // A reader or a scrub has found it so. REQUIRES: the column has this shard.
  Result<void> NoteBad(const ReportedShard& bad);
  // Of those that failed as sources, as node `from` says. What lies on its own disks is bad; of the others their own nodes are asked.
  // `as` (may be null): only where the stripe has still the shard that it had then.
  Result<void> NoteBadColumns(NodeId from, StripeId stripe, const StripeInfo* as, FsError code, const std::vector<uint16_t>& columns);
  // The stripe gets other shards with this transaction; ClearBad when it is committed.
  void DropBad(Txn& txn, StripeId stripe) const;
  void ClearBad(StripeId stripe);
  // It is gone, or in order.
  void Drop(StripeId stripe) { queue_.Forget(stripe); }
  // An admin does not want to wait for what was put off.
  void Hurry();

  // ---- For keepers that come after it ----
  bool HasTask(StripeId stripe) const { return queue_.HasTask(stripe); }
  // Within the limit of bytes a second, and not paused.
  bool MayStart() const { return queue_.MayStart(Now()); }
  void Started(uint64_t bytes) { queue_.Started(bytes, Now()); }
  bool IsFull() const { return queue_.in_flight() >= budget_.max_tasks; }
  RepairPlan PlanFor(const ClusterView& view, const StripeHealth& health) const;
  // False if the stripe is gone.
  Result<bool> Start(const RepairTask& task);

  // ---- Settings and progress ----
  const RepairSettings& settings() const { return queue_.settings; }
  Result<void> SetSettings(const RepairSettings& settings);  // and saves them
  std::vector<RepairProgress> Progress() const { return queue_.Progress(Now()); }
  size_t waiting() const { return queue_.waiting(); }
  size_t parked() const { return queue_.parked(); }
  size_t in_flight() const { return queue_.in_flight(); }

 private:
  // The scan of a target being emptied.
  struct TargetScan {
    ShardId after;
    uint64_t stripes = 0, bytes = 0;
    bool left = false;  // something is there
    bool done = false;
    int64_t again_ns = 0;
  };
  void UseLastResorts(StripeHealth* h) const;
  void MarkMisplaced(StripeHealth* h) const;
  Result<bool> ScanPage();
  bool MarkBad(const ReportedShard& bad);
  Result<void> SweepBad();
  Result<void> CheckTasks();
  Result<void> Plan();
  Result<void> End(const RepairTaskRecord& t);  // its shard is not going to be used
  Result<std::optional<RebuildWork>> WorkOf(const RepairTaskRecord& t, uint64_t holder) const;
  void AskOthers(const RepairTaskRecord& t);  // rather than its node, for its stripe
  Result<void> TakeFailed(NodeId from, const RepairTaskRecord& t, const RebuildResult& result);
  Result<void> TakeRefused(const RepairTaskRecord& t);
  Result<void> SwapIn(NodeId from, const RepairTaskRecord& t, const RebuildResult& result);

  RepairBudget budget_;
  const Rebuilt on_rebuilt_;
  const Doubted doubted_;
  RepairQueue queue_;
  std::map<TargetId, TargetScan> scans_;
  // Nodes whose results for the stripe were refused, or that blamed others: they are asked again when no other has room. Bounded;
  // forgotten at a restart.
  std::map<StripeId, std::vector<NodeId>> refused_by_;
  std::pair<StripeId, uint16_t> swept_;  // of the bad shards, by stripe and column: looked at up to this one
  int64_t sweep_ns_ = 0;                 // the next look
  bool told_full_ = false;               // that no more bad shards are remembered
};

}  // namespace stria
