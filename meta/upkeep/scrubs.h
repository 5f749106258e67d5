// Scrubs has the disks read and checked as admins order it. The data servers do that; they report with ReportScrub how far
// they are, and are answered what is ordered.
//
// Owns: the order, the disks that still owe a pass of it, and what was last heard of each (meta/repair/scrub_orders.h).
// Invariant: order and debts are in the store before they are answered.
//
// Called by Upkeep. Sees no other keeper.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "meta/repair/scrub_orders.h"
#include "meta/upkeep/keeper.h"

namespace stria {

class Scrubs final : public Keeper {
 public:
  using Keeper::Keeper;

  // ---- Keeper ----
  Result<void> Load(Txn& txn) override;
  void Forget(TargetId target) override { orders_.Forget(target); }
  void Tell(UpkeepReply* reply) const override;

  // An admin's kScrubStart, kScrubPause or kScrubResume. Gives what was, or would be, done, in one sentence.
  Result<std::string> Order(const UpkeepRequest& r);
  // A data server's report of its disks, and the answer. REQUIRES: they are its own.
  Result<ScrubOrder> Take(const std::vector<ScrubProgress>& disks);
  // What was last heard, by disk.
  std::vector<ScrubProgress> Progress() const { return orders_.Progress(); }

 private:
  Result<void> Save();

  ScrubOrders orders_;
};

}  // namespace stria
