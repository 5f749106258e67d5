// The folder puts columns that lie in mirrored stripes of their own together under one parity, and drops the mirrors; only
// while nothing waits for repair, unless it is switched off. No data column moves. What is chosen: stripe/fold_plan.
//
// Owns: the candidates and the folds under way (meta/repair/fold_queue.h), the walk that finds candidates, what is planned and
// not begun, and the counters of what was folded.
//
// Invariants: columns of files that not the same clients may read come into no fold together (KeeperEnv::audience): whoever reads a
// column gets tokens for all, to decode it. A fold is in the store exactly while it has shards reserved. Members are used until 4, their copies are there
// until 5: nothing is lost whatever fails. A plan that fails leaves parity that becomes garbage.
//
// One fold:
//   1. Walk finds candidates; when they have been as they are for a while, Choose has PlanFolds choose
//   2. StartOne: parity is placed and reserved, and the task recorded, in one transaction
//   3. WorkFor: the nodes of the parity get it as a rebuild of a column that was never there, again and again until they
//      report. What is made already is not recorded: after a restart they are asked again, and report at once
//   4. SwapIn: if every member is what it was, files' extents refer to the fold; it is a stripe like any other from then
//      on. The copies stay reserved
//   5. Announce: sessions that may have cached the mapping are told to forget it; then the copies become garbage, which waits
//      as ever for reads under way
//
// A candidate that finds no company of like length for kPatience times as long as it waits anyway is folded with what there
// is, and in fewer columns than the layout has, if that takes clearly less than now (FoldRule::kSaving). It goes on to be a
// candidate.
//
// A fold of which columns are dead is a candidate as any mirrored stripe is (WantsFolding): its live columns are folded
// together with others, and the dead ones with the old parity are left over like copies. Its last live column, if it has
// waited as long and found no company, is mirrored again: that is a fold of this one column, and made as any other, so
// that its copies are sealed before the old parity is given up.
//
// A file may be open meanwhile, also for writing: sessions are told to forget where its bytes are, not the bytes.
//
// Called by Upkeep. Sees the repairer and the widener.
#pragma once

#include <deque>
#include <optional>
#include <set>
#include <vector>

#include "meta/repair/fold_queue.h"
#include "meta/upkeep/keeper.h"
#include "meta/upkeep/repairer.h"
#include "meta/upkeep/upkeep_options.h"
#include "meta/upkeep/widener.h"

namespace stria {

class Folder final : public Keeper {
 public:
  Folder(const KeeperEnv& env, Repairer* repairer, const Widener* widener, const FoldOptions& options)
      : Keeper(env), repairer_(repairer), widener_(widener), options_(options) {}
  void SetOptions(const FoldOptions& options) { options_ = options; }

  // ---- Keeper ----
  Result<void> Load(Txn& txn) override;
  Task<Result<void>> PlanSome() override { co_return Plan(); }
  Result<void> WorkFor(const std::set<TargetId>& here, uint32_t slots, NodeWork* work) override;
  void ForgetHandedOut(const std::set<TargetId>& here) override { queue_.ForgetHandedOut(here); }
  Result<bool> TakeRebuilt(NodeId from, const RebuildResult& result) override;
  void Tell(UpkeepReply* reply) const override;

  // ---- For others ----
  bool HasStripe(StripeId stripe) const { return queue_.HasStripe(stripe); }
  const FoldQueue& queue() const { return queue_; }
  uint64_t folded() const { return folded_; }      // stripes made, since the start
  uint64_t unfolded() const { return unfolded_; }  // last columns that are mirrored again

 private:
  struct Foldable {
    FoldKind kind;
    FoldUnit unit;
  };
  struct Planned {
    FoldKind kind;
    std::vector<FoldUnit> units;
  };
  Result<void> Plan();
  Result<void> Walk();
  void Choose();
  Result<std::optional<Foldable>> FoldableOf(Txn& txn, const StripeRecord& record, const ClusterView& view) const;
  Result<void> StartOne(FoldKind kind, const std::vector<FoldUnit>& units);
  bool PlaceParity(const ClusterView& view, const FoldKind& kind, StripeInfo* fold);
  bool IsAble(const FoldRecord& f) const;
  Result<bool> IsMixed(Txn& txn, const FoldPlan& plan) const;
  Result<void> CheckTasks();
  Result<void> TakeParity(NodeId from, const FoldQueue::Part& part, const RebuildResult& result);
  Result<void> SwapIn(uint64_t task);
  Result<void> End(uint64_t task);
  Task<void> Announce(uint64_t task);

  Repairer* const repairer_;
  const Widener* const widener_;
  FoldOptions options_;
  FoldQueue queue_;
  std::optional<StripeId> after_;  // the walk has come so far; nullopt: it rests
  int64_t again_ns_ = 0;           // of the walk
  int64_t choose_ns_ = 0;          // of Choose
  std::deque<Planned> planned_;    // to be started; checked again then
  uint64_t folded_ = 0;
  uint64_t unfolded_ = 0;
  uint64_t folded_bytes_ = 0;  // of data columns
};

}  // namespace stria
