#include "meta/upkeep/rebalancer.h"

#include <algorithm>

#include "common/log.h"
#include "meta/upkeep/weight.h"
#include "stripe/layout.h"

namespace stria {
namespace {

constexpr size_t kPage = 128;

}  // namespace

void Rebalancer::NoteRebuilt(const RepairTaskRecord& task) {
  if (task.kind == RepairKind::kMove && rebalance_) bytes_ += task.shard_bytes;
}

void Rebalancer::Tell(UpkeepReply* reply) const {
  reply->rebalancing = repairer_->settings().rebalance;
  reply->rebalance_bytes_done = bytes_;
  reply->rebalance_bytes_left = rebalance_ ? rebalance_->BytesLeft() : 0;
}

Result<void> Rebalancer::SetOn(bool on) {
  RepairSettings settings = repairer_->settings();
  settings.rebalance = on;
  return repairer_->SetSettings(settings);
}

// Weighs the disks and begins a pass.
Task<Result<void>> Rebalancer::Begin() {
  std::vector<RebalanceDisk> disks;
  for (TargetId t : env_.cluster->Targets()) {
    if (env_.cluster->StateOf(t) != ColumnState::kOk) continue;
    CO_ASSIGN_OR_RETURN(const auto weight, co_await WeighDisks(env_.store, env_.cluster, std::vector<TargetId>(1, t)));
    const TargetInfo* info = env_.cluster->FindTarget(t);
    if (info != nullptr) disks.push_back({t, info->capacity_bytes, weight.bytes});
  }
  rebalance_.emplace(disks);
  cursors_.clear();
  moves_ = 0;
  for (TargetId t : rebalance_->Givers()) cursors_[t] = ShardId();
  co_return Ok();
}

Task<Result<void>> Rebalancer::PlanSome() {
  if (!repairer_->settings().rebalance) {
    rebalance_.reset();
    co_return Ok();
  }
  if (repairer_->waiting() > 0 || !repairer_->MayStart()) co_return Ok();
  if (env_.cluster->AwaitsFirstBeats()) co_return Ok();
  for (TargetId t : env_.cluster->Targets()) {
    if (env_.cluster->StateOf(t) != ColumnState::kSuspect) continue;
    rebalance_.reset();  // weighed anew when it is back or out
    co_return Ok();
  }
  if (!rebalance_) CO_RETURN_IF_ERROR(co_await Begin());
  while (!cursors_.empty()) {
    auto it = cursors_.begin();
    const TargetId from = it->first;
    std::vector<TargetShard> page;
    {
      Txn txn(*env_.store);
      CO_ASSIGN_OR_RETURN(page, ListTargetShards(txn, from, it->second, kPage));
    }
    for (const TargetShard& s : page) {
      if (!rebalance_->Gives(from)) break;
      if (repairer_->IsFull() || !repairer_->MayStart()) co_return Ok();
      CO_ASSIGN_OR_RETURN(const bool busy, MoveOne(from, s));
      if (busy) co_return Ok();
      cursors_[from] = s.shard;
    }
    if (page.size() < kPage || !rebalance_->Gives(from)) cursors_.erase(from);
    co_await Yield();
    if (!rebalance_) co_return Ok();  // an admin has stopped it
  }
  if (repairer_->in_flight() > 0) co_return Ok();
  if (moves_ == 0) co_return End();
  co_return co_await Begin();  // what failed, and what was written meanwhile
}

// True if it could be moved, but those who would do it are busy.
Result<bool> Rebalancer::MoveOne(TargetId from, const TargetShard& shard) {
  const StripeId stripe = shard.record.stripe;
  if (shard.record.pending || is_in_use_(stripe)) return false;
  std::optional<StripeRecord> record;
  {
    Txn txn(*env_.store);
    ASSIGN_OR_RETURN(record, GetStripeRecord(txn, shard.record.stripe));
  }
  std::optional<StripeHealth> health = record ? repairer_->HealthOf(*record) : std::nullopt;
  if (!health || Repairer::NeedOf(*health)) return false;  // whatever it needs comes first
  if (std::ranges::count(health->columns, ColumnState::kOk) != static_cast<ptrdiff_t>(health->columns.size())) {
    return false;
  }
  const Column& column = record->info.columns[shard.record.column];
  // What was put on a node on purpose moves between its disks only.
  const bool placed = record->layout.place != Place::kSpread && !IsParity(record->info.shape, ColumnIndex(shard.record.column));
  health->columns[shard.record.column] = ColumnState::kMisplaced;
  ClusterView view = env_.cluster->View();
  const TargetView* here = view.Find(from);
  const NodeId node = here == nullptr ? NodeId() : here->node;
  for (TargetView& t : view.targets) {
    t.usable_for_new = t.usable_for_new && (!placed || t.node == node) && rebalance_->MayTake(t.target, column.length);
  }
  const RepairPlan plan = repairer_->PlanFor(view, *health);
  if (plan.tasks.empty()) return plan.deferred > 0;
  ASSIGN_OR_RETURN(const bool started, repairer_->Start(plan.tasks[0]));
  if (started) {
    rebalance_->Moved(from, plan.tasks[0].new_target, column.length);
    ++moves_;
  }
  return false;
}

Result<void> Rebalancer::End() {
  LogInfo("rebalancing is done: {} bytes were moved", bytes_);
  rebalance_.reset();
  RETURN_IF_ERROR(SetOn(false));
  env_.host->Committed();
  return Ok();
}

Task<Result<std::string>> Rebalancer::Order(UpkeepRequest r) {
  const bool start = r.verb == UpkeepVerb::kRebalanceStart;
  if (!start) {
    if (r.dry_run) co_return std::string("rebalancing ends; shards on their way arrive");
    rebalance_.reset();
    CO_RETURN_IF_ERROR(SetOn(false));
    co_return std::string("rebalancing has ended; shards on their way arrive");
  }
  if (r.dry_run && !rebalance_) {
    CO_RETURN_IF_ERROR(co_await Begin());
    const uint64_t left = rebalance_->BytesLeft();
    if (!repairer_->settings().rebalance) rebalance_.reset();
    co_return "about " + std::to_string(left) + " bytes are moved from full disks to emptier ones";
  }
  if (!r.dry_run) {
    if (!repairer_->settings().rebalance) bytes_ = 0;
    CO_RETURN_IF_ERROR(co_await Begin());
    CO_RETURN_IF_ERROR(SetOn(true));
    env_.work->Set();
  }
  if (!rebalance_) co_return std::string("rebalancing is done");
  co_return "about " + std::to_string(rebalance_->BytesLeft()) +
      " bytes are moved from full disks to emptier ones, when no repair waits";
}

}  // namespace stria
