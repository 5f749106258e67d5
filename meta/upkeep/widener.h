// The widener lays stripes out anew that were written narrow because too few domains were there: over as many columns as
// their layout asks for, or, if that cannot be had yet, so that they stand more (with all their copies, less crowded). Only
// those that lack copies do not wait until nothing else waits for repair.
//
// Owns: the queue of narrow stripes and the tasks under way (meta/repair/widen_queue.h).
//
// Invariants: a task is in the store exactly while it has shards reserved. The old shards are used until 4, and are there
// until 5: nothing is lost whatever fails.
//
// One stripe:
//   1. StartOne: its new columns are placed and reserved, and the task recorded, in one transaction
//   2. WorkFor: the node of one of them gets it, again and again until it reports
//   3. TakeWidened: what the node says of the payload is compared with the digests that were recorded, and the new ones with that.
//      It can say what it has not written: so each new column's own node is asked whether it has these bytes (TakeChecked), as
//      of a doubted shard (doubts.h). One that has others, or does not say in time, ends the task
//   4. SwapIn: when all have said so the stripe's columns are replaced in one transaction. The payload is the same, so extents,
//      and what clients have cached of it, stay true. The former shards stay reserved
//   5. Announce: sessions that may have cached the mapping are told to forget it; then the former shards become garbage,
//      which waits as ever for reads under way. Unlike a column that repair replaces, all of them go at once
//
// Called by Upkeep, and by Misfits, which finds the stripes. Sees the repairer.
#pragma once

#include <functional>
#include <optional>
#include <set>

#include "meta/repair/widen_queue.h"
#include "meta/upkeep/keeper.h"
#include "meta/upkeep/repairer.h"

namespace stria {

inline constexpr size_t kProofsPerBeat = 16;           // new columns that a node is asked for at once
inline constexpr int64_t kProveNs = 600 * kSecond;     // so long the nodes of the new columns have to answer

class Widener final : public Keeper {
 public:
  // `on_given_up`: a task has failed; the stripe is to be found again, after a while.
  Widener(const KeeperEnv& env, Repairer* repairer, std::function<void()> on_given_up)
      : Keeper(env), repairer_(repairer), on_given_up_(std::move(on_given_up)) {}

  // ---- Keeper ----
  Result<void> Load(Txn& txn) override;
  Task<Result<void>> PlanSome() override { co_return Plan(); }
  Result<void> WorkFor(const std::set<TargetId>& here, uint32_t slots, NodeWork* work) override;
  void ForgetHandedOut(const std::set<TargetId>& here) override { queue_.ForgetHandedOut(here); }
  Result<bool> TakeWidened(NodeId from, const WidenResult& result) override;
  Result<bool> TakeChecked(NodeId from, const CheckResult& result) override;

  // ---- From others ----
  // Queues the stripe, if it is narrow and whole and nothing is done with it. False: there is no room in the queue.
  bool Consider(const StripeRecord& record);
  void Add(StripeId stripe, bool urgent) { queue_.Add(stripe, urgent); }  // it is looked at when it is its turn
  bool HasStripe(StripeId stripe) const { return queue_.HasStripe(stripe); }
  size_t in_flight() const { return queue_.in_flight(); }

 private:
  bool IsWidenable(const StripeRecord& record) const;
  std::optional<StripeInfo> WideFormOf(const StripeRecord& record);
  Result<void> Plan();
  Result<void> StartOne(StripeId stripe);
  Result<void> End(uint64_t task);
  Result<void> GiveUp(uint64_t task);
  Result<void> CheckTasks();
  Result<bool> IsAsWritten(const WidenRecord& w, const WidenResult& result) const;
  Result<void> Prove(NodeId from, const WidenRecord& w, const WidenResult& result);
  Result<void> SwapIn(const WidenRecord& w, const StripeInfo& wide);
  Task<void> Announce(uint64_t task);

  Repairer* const repairer_;
  const std::function<void()> on_given_up_;
  WidenQueue queue_;
};

}  // namespace stria
