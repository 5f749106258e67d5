// Misfits are stripes that are whole, but not placed as their layout wants (crowded), or narrower than it asks for. This
// keeper only finds them; the repairer spreads those that are crowded, the widener those that are narrow.
//
// Owns: the walk over all stripes, which goes on only while the counters say that there are misfits, and begins anew when
// disks have come that could take them; and the disks that came to another node or channel. Their shards stay where
// they are, but two columns of a stripe may be in one failure domain now, so every stripe with a shard on them is looked at
// again.
//
// Invariant: a disk that came from elsewhere is in the store, from the transaction of its registration on, until all its
// stripes were looked at: no restart forgets one.
//
// Called by Upkeep. Sees the repairer and the widener.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "meta/upkeep/keeper.h"
#include "meta/upkeep/repairer.h"
#include "meta/upkeep/widener.h"

namespace stria {

class Misfits final : public Keeper {
 public:
  Misfits(const KeeperEnv& env, Repairer* repairer, Widener* widener)
      : Keeper(env), repairer_(repairer), widener_(widener) {}

  // ---- Keeper ----
  Result<void> Load(Txn& txn) override;
  Result<void> FollowMap() override;
  Task<Result<void>> Scan() override;

  // ---- From others ----
  // Disks that came from elsewhere, in the transaction of their registration. Its caller commits.
  void NoteMoved(Txn& txn, const std::set<TargetId>& targets);
  // A writer has committed these. Those that are narrow may be widened at once, and those that are crowded spread, if it was
  // only this writer that found too few domains.
  Result<void> NoteCommitted(const std::vector<StripeInfo>& stripes);
  // The walk begins anew by then.
  void LookAgainBy(int64_t ns) { again_ns_ = std::min(again_ns_, ns); }

 private:
  Task<Result<void>> ScanMoved();
  Task<Result<void>> ScanAll();

  Repairer* const repairer_;
  Widener* const widener_;
  std::set<TargetId> places_;          // disks that took new shards when the walk began
  std::map<TargetId, ShardId> moved_;  // disks that came from elsewhere: looked at up to this shard
  std::optional<StripeId> after_;      // the walk has come so far; nullopt: it rests
  int64_t again_ns_ = 0;
};

}  // namespace stria
