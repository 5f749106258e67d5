// Rebalancing: shards of full disks are moved to emptier ones, one ordinary repair task each, only while
// nothing else waits for repair. Plan and bookkeeping: meta/repair/rebalance.h.
#include <algorithm>

#include "common/log.h"
#include "meta/service/meta_server_impl.h"
#include "stripe/layout.h"

namespace stria {
namespace {

constexpr size_t kRebalancePage = 128;

}  // namespace

// Weighs the disks and begins a pass.
Task<Result<void>> MetaServer::BeginRebalance() {
  std::vector<RebalanceDisk> disks;
  for (TargetId t : cluster_->AllTargets()) {
    if (cluster_->StateOf(t) != ColumnState::kOk) continue;
    CO_ASSIGN_OR_RETURN(const auto weight, co_await Weigh(std::vector<TargetId>(1, t)));
    const TargetInfo* info = cluster_->FindTarget(t);
    if (info != nullptr) disks.push_back({t, info->capacity_bytes, weight.bytes});
  }
  rebalance_.emplace(disks);
  rebalance_cursors_.clear();
  rebalance_moves_ = 0;
  for (TargetId t : rebalance_->Givers()) rebalance_cursors_[t] = ShardId();
  co_return Ok();
}

Task<Result<void>> MetaServer::RebalanceSome() {
  if (!repairs_.settings.rebalance) {
    rebalance_.reset();
    co_return Ok();
  }
  if (repairs_.waiting() > 0 || !repairs_.MayStart(Now())) co_return Ok();
  if (cluster_->AwaitsFirstBeats()) co_return Ok();
  for (TargetId t : cluster_->AllTargets()) {
    if (cluster_->StateOf(t) != ColumnState::kSuspect) continue;
    rebalance_.reset();  // weighed anew when it is back or out
    co_return Ok();
  }
  if (!rebalance_) CO_RETURN_IF_ERROR(co_await BeginRebalance());
  while (!rebalance_cursors_.empty()) {
    auto it = rebalance_cursors_.begin();
    const TargetId from = it->first;
    std::vector<TargetShard> page;
    {
      Txn txn(*store_);
      CO_ASSIGN_OR_RETURN(page, ListTargetShards(txn, from, it->second, kRebalancePage));
    }
    for (const TargetShard& s : page) {
      if (!rebalance_->Gives(from)) break;
      if (repairs_.in_flight() >= options_.repair.max_tasks || !repairs_.MayStart(Now())) co_return Ok();
      CO_ASSIGN_OR_RETURN(const bool busy, MoveOne(from, s));
      if (busy) co_return Ok();
      rebalance_cursors_[from] = s.shard;
    }
    if (page.size() < kRebalancePage || !rebalance_->Gives(from)) rebalance_cursors_.erase(from);
    co_await Yield();
    if (!rebalance_) co_return Ok();  // an admin has stopped it
  }
  if (repairs_.in_flight() > 0) co_return Ok();
  if (rebalance_moves_ == 0) co_return EndRebalance();
  co_return co_await BeginRebalance();  // what failed, and what was written meanwhile
}

// True if it could be moved, but those who would do it are busy.
Result<bool> MetaServer::MoveOne(TargetId from, const TargetShard& shard) {
  const StripeId stripe = shard.record.stripe;
  if (shard.record.pending || repairs_.HasTask(stripe) || widens_.HasStripe(stripe) || folds_.HasStripe(stripe)) return false;
  std::optional<StripeRecord> record;
  {
    Txn txn(*store_);
    ASSIGN_OR_RETURN(record, GetStripeRecord(txn, shard.record.stripe));
  }
  std::optional<StripeHealth> health = record ? HealthOf(*record) : std::nullopt;
  if (!health || NeedOf(*health)) return false;  // whatever it needs comes first
  if (std::ranges::count(health->columns, ColumnState::kOk) != static_cast<ptrdiff_t>(health->columns.size())) {
    return false;
  }
  const Column& column = record->info.columns[shard.record.column];
  // What was put on a node on purpose moves between its disks only.
  const bool placed = record->layout.place != Place::kSpread && !IsParity(record->info.shape, ColumnIndex(shard.record.column));
  health->columns[shard.record.column] = ColumnState::kMisplaced;
  ClusterView view = cluster_->View();
  const TargetView* here = view.Find(from);
  const NodeId node = here == nullptr ? NodeId() : here->node;
  for (TargetView& t : view.targets) {
    t.usable_for_new = t.usable_for_new && (!placed || t.node == node) && rebalance_->MayTake(t.target, column.length);
  }
  const RepairPlan plan = PlanRepairs(view, std::vector<StripeHealth>(1, *std::move(health)), options_.repair, repairs_.InFlight());
  if (plan.tasks.empty()) return plan.deferred > 0;
  ASSIGN_OR_RETURN(const bool started, StartTask(plan.tasks[0]));
  if (started) {
    rebalance_->Moved(from, plan.tasks[0].new_target, column.length);
    ++rebalance_moves_;
  }
  return false;
}

Result<void> MetaServer::EndRebalance() {
  LogInfo("rebalancing is done: {} bytes were moved", rebalance_bytes_);
  repairs_.settings.rebalance = false;
  rebalance_.reset();
  RETURN_IF_ERROR(SaveRepairSettings());
  unsynced_.Set();
  return Ok();
}

Task<Result<std::string>> MetaServer::OrderRebalance(UpkeepRequest r) {
  const bool start = r.verb == UpkeepVerb::kRebalanceStart;
  if (!start) {
    if (r.dry_run) co_return std::string("rebalancing ends; shards on their way arrive");
    rebalance_.reset();
    repairs_.settings.rebalance = false;
    CO_RETURN_IF_ERROR(SaveRepairSettings());
    co_return std::string("rebalancing has ended; shards on their way arrive");
  }
  if (r.dry_run && !rebalance_) {
    CO_RETURN_IF_ERROR(co_await BeginRebalance());
    const uint64_t left = rebalance_->BytesLeft();
    if (!repairs_.settings.rebalance) rebalance_.reset();
    co_return "about " + std::to_string(left) + " bytes are moved from full disks to emptier ones";
  }
  if (!r.dry_run) {
    if (!repairs_.settings.rebalance) rebalance_bytes_ = 0;
    CO_RETURN_IF_ERROR(co_await BeginRebalance());
    repairs_.settings.rebalance = true;
    CO_RETURN_IF_ERROR(SaveRepairSettings());
    repair_work_.Set();
  }
  if (!rebalance_) co_return std::string("rebalancing is done");
  co_return "about " + std::to_string(rebalance_->BytesLeft()) +
      " bytes are moved from full disks to emptier ones, when no repair waits";
}

}  // namespace stria
