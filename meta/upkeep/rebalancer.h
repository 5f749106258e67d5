// The rebalancer moves shards of full disks to emptier ones, one ordinary task of the repairer each, only while nothing else
// waits for repair.
//
// Owns: the plan of the pass under way (meta/repair/rebalance.h) and where its walks over the disks that give have come.
// That an admin has ordered it is one of the repairer's settings, so that it is saved with them.
//
// Invariant: every move brings the disks nearer to their shares; a pass without a move is the last.
//
// Called by Upkeep. Sees the repairer; that another keeper is at work with a stripe it asks `is_in_use`.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "meta/repair/rebalance.h"
#include "meta/upkeep/keeper.h"
#include "meta/upkeep/repairer.h"

namespace stria {

class Rebalancer final : public Keeper {
 public:
  Rebalancer(const KeeperEnv& env, Repairer* repairer, std::function<bool(StripeId)> is_in_use)
      : Keeper(env), repairer_(repairer), is_in_use_(std::move(is_in_use)) {}

  // ---- Keeper ----
  Task<Result<void>> PlanSome() override;
  void Tell(UpkeepReply* reply) const override;

  // An admin starts or stops it (kRebalanceStart, kRebalanceStop). Gives what was, or would be, done, in one sentence.
  Task<Result<std::string>> Order(UpkeepRequest r);
  // The repairer has done a task.
  void NoteRebuilt(const RepairTaskRecord& task);

 private:
  Task<Result<void>> Begin();
  Result<bool> MoveOne(TargetId from, const TargetShard& shard);
  Result<void> End();
  Result<void> SetOn(bool on);

  Repairer* const repairer_;
  const std::function<bool(StripeId)> is_in_use_;
  std::optional<Rebalance> rebalance_;     // nullopt: to be weighed
  std::map<TargetId, ShardId> cursors_;    // of the disks that give, walked in turns
  uint64_t moves_ = 0;                     // begun in this pass
  uint64_t bytes_ = 0;                     // moved since it was started
};

}  // namespace stria
