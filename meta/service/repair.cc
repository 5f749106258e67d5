// The repair coordinator: finds what is lost on targets that are out, failed or draining, lets
// PlanRepairs choose, hands the work out with heartbeats and swaps in what was made.
//
// One rebuild:
//   1. StartTask: a shard is reserved on its new target and the task recorded, in one transaction
//   2. Heartbeat: the new target's node gets it, again and again until it reports
//   3. TakeRebuilt: length checked (the node has checked the bytes against the old shard's digest), the
//      column swapped, the old shard garbage, the task gone, in one transaction
// A result that comes too late finds no task, or a column that is another by now: its shard is garbage.
#include <algorithm>

#include "common/log.h"
#include "meta/service/cluster_keys.h"
#include "meta/service/meta_server_impl.h"
#include "stripe/layout.h"

namespace stria {
namespace {

constexpr size_t kScanPage = 256;
constexpr int kScanPagesPerRound = 64;
constexpr size_t kPlanBatch = 512;
constexpr int64_t kRescanNs = 30 * kSecond;     // of a target that is not empty yet
constexpr int64_t kHomelessNs = 60 * kSecond;   // before space is looked for again
constexpr size_t kRescanBelow = 1024;           // candidates
constexpr int kMisplacedNeed = 1000;            // more than any number of spare shards

}  // namespace

Task<void> MetaServer::RepairLoop() {
  while (fatal_.ok()) {
    co_await repair_work_.Wait();
    repair_work_.Reset();
    Result<void> done = FollowMap();
    if (done.ok()) done = CheckTasks();
    if (done.ok()) done = co_await ScanTargets();
    if (done.ok()) done = co_await ScanMoved();
    if (done.ok()) done = co_await ScanMisfits();
    if (done.ok()) done = PlanSome();
    if (done.ok()) done = WidenSome();
    if (done.ok()) done = co_await RebalanceSome();
    if (done.ok()) done = FoldSome();
    if (!done.ok() && done.code() == FsError::kRetryLater) unsynced_.Set();
    else if (!done.ok()) SetFatal(done.error());
    co_await Yield();
  }
}

Result<void> MetaServer::FollowMap() {
  repairs_.Unpark(Now());
  if (followed_version_ == cluster_->version()) return Ok();
  followed_version_ = cluster_->version();
  repairs_.UnparkAll();
  std::set<TargetId> emptying;
  for (TargetId t : cluster_->AllTargets()) {
    if (cluster_->IsBeingEmptied(t)) emptying.insert(t);
  }
  Txn txn(*store_);
  for (TargetId t : repairs_.Targets()) {
    if (emptying.count(t)) continue;
    repairs_.EndTarget(t);
    scans_.erase(t);
    txn.Delete(Family::kRepairs, RepairDoneKey(t));
  }
  RETURN_IF_ERROR(txn.Commit());
  for (auto& [t, scan] : scans_) scan.again_ns = 0;  // what had to wait may not have to any more
  for (TargetId t : emptying) {
    repairs_.BeginTarget(t, cluster_->EmptyingReason(t));
    scans_.try_emplace(t);
  }
  FollowPlaces();
  return Ok();
}

std::optional<StripeHealth> MetaServer::HealthOf(const StripeRecord& record) const {
  if (record.state != StripeState::kLive) return std::nullopt;
  StripeHealth h;
  h.info = record.info;
  h.domain = record.layout.domain;
  if (record.layout.place == Place::kNode) h.place_node = record.layout.place_node;
  for (size_t i = 0; i < record.info.columns.size(); ++i) {
    const Column& c = record.info.columns[i];
    ColumnState state = ColumnState::kOk;
    if (c.shard) {
      const bool bad = repairs_.IsBad(record.info.id, static_cast<uint16_t>(i), c.shard);
      state = bad ? ColumnState::kMissing : cluster_->StateOf(c.target);
    }
    h.columns.push_back(state);
  }
  UseLastResorts(&h);
  if (record.info.crowded) MarkMisplaced(&h);
  return h;
}

// Where too little is left, what a failed disk still gives is better than nothing.
void MetaServer::UseLastResorts(StripeHealth* h) const {
  for (uint32_t g = 0; g < h->info.shape.groups; ++g) {
    if (SpareShards(h->info, h->columns, g) >= 0) continue;
    for (uint16_t i = 0; i < h->columns.size(); ++i) {
      const Column& c = h->info.columns[i];
      if (h->columns[i] != ColumnState::kMissing || GroupOf(h->info.shape, ColumnIndex(i)) != g) continue;
      if (cluster_->IsLastResort(c.target) && !repairs_.IsBad(h->info.id, i, c.shard)) {
        h->columns[i] = ColumnState::kDraining;
      }
    }
  }
}

// How near to loss a stripe is that needs repair; nullopt if it needs none. Moving what is only misplaced
// comes after everything else.
std::optional<int> MetaServer::NeedOf(const StripeHealth& health) const {
  const auto has = [&](ColumnState s) { return std::ranges::count(health.columns, s) > 0; };
  const bool lacks = has(ColumnState::kMissing) || has(ColumnState::kDraining);
  if (!lacks && !has(ColumnState::kMisplaced)) return std::nullopt;
  if (!lacks) return kMisplacedNeed;
  int spare = INT32_MAX;
  for (uint32_t g = 0; g < health.info.shape.groups; ++g) {
    spare = std::min(spare, SpareShards(health.info, health.columns, g));
  }
  return spare;
}

Task<Result<void>> MetaServer::ScanTargets() {
  for (int i = 0; i < kScanPagesPerRound; ++i) {
    CO_ASSIGN_OR_RETURN(const bool more, ScanPage());
    if (!more) co_return Ok();
    co_await Yield();
  }
  repair_work_.Set();
  co_return Ok();
}

// One page of one target. False if there is nothing to scan now.
Result<bool> MetaServer::ScanPage() {
  auto it = scans_.begin();
  for (; it != scans_.end(); ++it) {
    Scan& s = it->second;
    if (s.done && s.left && Now() >= s.again_ns && repairs_.waiting() < kRescanBelow) s = Scan();
    if (!s.done) break;
  }
  if (it == scans_.end()) return false;
  const TargetId target = it->first;
  Scan& scan = it->second;
  Txn txn(*store_);
  ASSIGN_OR_RETURN(const auto page, ListTargetShards(txn, target, scan.after, kScanPage));
  for (const TargetShard& s : page) {
    scan.left = true;
    scan.after = s.shard;
    if (s.record.pending) continue;
    ASSIGN_OR_RETURN(const std::optional<StripeRecord> record, GetStripeRecord(txn, s.record.stripe));
    if (!record) return CorruptRecord(Family::kStripes, StripeKey(s.record.stripe), "it is missing");
    const std::optional<StripeHealth> health = HealthOf(*record);
    if (!health) continue;  // being filled: committed or collected soon
    ++scan.stripes;
    scan.bytes += record->info.columns[s.record.column].length;
    if (const std::optional<int> spare = NeedOf(*health)) repairs_.Add(s.record.stripe, *spare);
  }
  if (page.size() < kScanPage) {
    scan.done = true;
    scan.again_ns = Now() + kRescanNs;
    repairs_.SetRemaining(target, scan.stripes, scan.bytes);
    if (!scan.left) LogInfo("{} is empty", cluster_->TargetName(target));
    else LogInfo("{} still has {} stripes, {} bytes ({})", cluster_->TargetName(target), scan.stripes, scan.bytes,
                 cluster_->EmptyingReason(target));
  }
  return true;
}

Result<void> MetaServer::PlanSome() {
  if (!repairs_.MayStart(Now()) || repairs_.in_flight() >= options_.repair.max_tasks) return Ok();
  std::vector<StripeHealth> batch;
  {
    Txn txn(*store_);
    for (StripeId id : repairs_.Best(kPlanBatch)) {
      ASSIGN_OR_RETURN(const std::optional<StripeRecord> record, GetStripeRecord(txn, id));
      std::optional<StripeHealth> health = record ? HealthOf(*record) : std::nullopt;
      if (health && NeedOf(*health)) batch.push_back(*std::move(health));
      else repairs_.Forget(id);
    }
  }
  if (batch.empty()) return Ok();
  const RepairPlan plan = PlanRepairs(cluster_->View(), batch, options_.repair, repairs_.InFlight());
  std::set<StripeId> planned;
  for (const RepairTask& task : plan.tasks) planned.insert(task.stripe);
  const auto park = [&](StripeId id, RepairQueue::Parked why, int64_t until_ns) {
    if (planned.count(id)) return;
    std::vector<TargetId> targets;
    for (const StripeHealth& h : batch) {
      if (h.info.id != id) continue;
      for (const Column& c : h.info.columns) {
        if (c.shard && cluster_->IsBeingEmptied(c.target)) targets.push_back(c.target);
      }
    }
    repairs_.Park(id, why, std::move(targets), until_ns);
  };
  for (const GroupLoss& l : plan.waiting) park(l.stripe, RepairQueue::Parked::kWaiting, INT64_MAX);
  for (StripeId id : plan.homeless) park(id, RepairQueue::Parked::kHomeless, Now() + kHomelessNs);
  for (StripeId id : plan.unmovable) repairs_.Forget(id);  // found again when there are new places
  for (const GroupLoss& l : plan.unrepairable) park(l.stripe, RepairQueue::Parked::kUnrepairable, INT64_MAX);
  for (const RepairTask& task : plan.tasks) {
    if (!repairs_.MayStart(Now())) break;
    ASSIGN_OR_RETURN(const bool started, StartTask(task));
    if (!started) repairs_.Forget(task.stripe);
  }
  return Ok();
}

// False if the stripe is gone.
Result<bool> MetaServer::StartTask(const RepairTask& task) {
  Txn txn(*store_);
  RepairTaskRecord t;
  ASSIGN_OR_RETURN(t.task, txn.NewId(IdKind::kTask));
  t.stripe = task.stripe;
  t.column = task.column.v;
  t.kind = task.kind;
  t.old_shard = task.old_shard;
  t.old_target = task.old_target;
  t.new_target = task.new_target;
  t.shard_bytes = task.shard_bytes;
  t.copy = task.copies_itself();
  t.crowded = task.crowded;
  const Result<ShardId> shard = OpReserveShard(txn, t.stripe, t.column, t.new_target);
  if (shard.code() == FsError::kNoEnt) return false;
  ASSIGN_OR_RETURN(t.new_shard, shard);
  txn.Put(Family::kRepairs, RepairTaskKey(t.task), EncodeRepairTask(t));
  RETURN_IF_ERROR(txn.Commit());
  unsynced_.Set();
  repairs_.Start(t, task);
  repairs_.Started(t.shard_bytes, Now());
  return true;
}

Result<void> MetaServer::EndTask(const RepairTaskRecord& t) {
  Txn txn(*store_);
  RETURN_IF_ERROR(OpDropReservedShard(txn, t.new_target, t.new_shard));
  txn.Delete(Family::kRepairs, RepairTaskKey(t.task));
  RETURN_IF_ERROR(txn.Commit());
  unsynced_.Set();
  repairs_.End(t.task);
  return Ok();
}

// Ends tasks that nobody can carry out any more, or that nobody needs.
Result<void> MetaServer::CheckTasks() {
  for (const RepairTaskRecord& t : repairs_.Where([](const auto&) { return true; })) {
    const TargetInfo* target = cluster_->FindTarget(t.new_target);
    const NodeInfo* node = target == nullptr ? nullptr : cluster_->FindNode(target->node);
    const bool able = node != nullptr && node->state != NodeState::kDown && node->state != NodeState::kOut &&
                      cluster_->StateOf(t.new_target) != ColumnState::kMissing;
    bool needed = false;
    {
      Txn txn(*store_);
      ASSIGN_OR_RETURN(const std::optional<StripeRecord> record, GetStripeRecord(txn, t.stripe));
      needed = record && t.column < record->info.columns.size() &&
               record->info.columns[t.column].shard == t.old_shard;
    }
    if (able && needed) continue;
    RETURN_IF_ERROR(EndTask(t));
    if (needed) repairs_.Add(t.stripe, 0);
  }
  return Ok();
}

Result<std::optional<RebuildWork>> MetaServer::WorkOf(const RepairTaskRecord& t) {
  Txn txn(*store_);
  ASSIGN_OR_RETURN(const std::optional<StripeRecord> record, GetStripeRecord(txn, t.stripe));
  const std::optional<StripeHealth> health = record ? HealthOf(*record) : std::nullopt;
  if (!health || record->info.columns[t.column].shard != t.old_shard) return std::optional<RebuildWork>();
  RebuildWork w;
  w.task = t.task;
  w.stripe.info = record->info;
  SignGrant(&w.stripe, kTokenRead);
  for (size_t i = 0; i < health->columns.size(); ++i) {
    const ColumnState s = health->columns[i];
    if (s == ColumnState::kMissing || s == ColumnState::kSuspect) w.lost.push_back(static_cast<uint16_t>(i));
  }
  w.column = t.column;
  const ColumnState own = health->columns[t.column];
  w.copy = t.copy && own != ColumnState::kMissing && own != ColumnState::kSuspect;
  w.new_shard = t.new_shard;
  w.new_target = t.new_target;
  w.write_token = Sign(t.new_shard, t.new_target, kTokenWrite);
  return std::optional<RebuildWork>(std::move(w));
}

Result<void> MetaServer::NoteBadColumns(StripeId stripe, const StripeInfo* as, FsError code,
                                        const std::vector<uint16_t>& columns) {
  if (!IsShardLoss(code)) return Ok();
  Txn txn(*store_);
  ASSIGN_OR_RETURN(const std::optional<StripeRecord> record, GetStripeRecord(txn, stripe));
  for (uint16_t column : columns) {
    if (!record || column >= record->info.columns.size() || !record->info.columns[column].shard) continue;
    const ShardId shard = record->info.columns[column].shard;
    if (as != nullptr && (column >= as->columns.size() || as->columns[column].shard != shard)) continue;
    const ReportedShard bad{stripe, column, shard, code};
    if (!repairs_.MarkBad(bad)) continue;
    txn.Put(Family::kRepairs, BadShardKey(stripe, column), EncodeBadShard(bad));
    if (as != nullptr) repairs_.Add(stripe, 0);
  }
  RETURN_IF_ERROR(txn.Commit());
  return Ok();
}

Result<void> MetaServer::TakeFailedRebuild(const RepairTaskRecord& t, const RebuildResult& result) {
  RETURN_IF_ERROR(NoteBadColumns(t.stripe, nullptr, result.result.code, result.bad_columns));
  RETURN_IF_ERROR(EndTask(t));
  repairs_.Park(t.stripe, RepairQueue::Parked::kRetry, {}, Now() + kRepairRetryNs);
  return Ok();
}

Result<void> MetaServer::TakeRebuilt(const RebuildResult& result) {
  const RepairTaskRecord t = *repairs_.Find(result.task);
  if (result.result.code != FsError::kOk || result.length != t.shard_bytes) {
    return TakeFailedRebuild(t, result);
  }
  Txn txn(*store_);
  ASSIGN_OR_RETURN(std::optional<StripeRecord> record, GetStripeRecord(txn, t.stripe));
  if (!record || record->state != StripeState::kLive) return EndTask(t);
  std::vector<TargetId> targets;
  for (const Column& c : record->info.columns) targets.push_back(c.shard ? c.target : TargetId());
  targets[t.column] = t.new_target;
  const bool crowded = IsCrowded(cluster_->View(), record->info.shape, targets, record->layout.domain);
  const Column made{t.new_shard, t.new_target, result.length, result.digest};
  const Result<void> swapped = OpSwapColumn(txn, t.stripe, t.column, t.old_shard, made, crowded);
  if (swapped.code() == FsError::kConflict || swapped.code() == FsError::kNoEnt) return EndTask(t);
  RETURN_IF_ERROR(swapped);
  txn.Delete(Family::kRepairs, RepairTaskKey(t.task));
  txn.Delete(Family::kRepairs, BadShardKey(t.stripe, t.column));
  if (repairs_.HasTarget(t.old_target)) {
    RepairDone sum = repairs_.DoneOf(t.old_target);
    ++sum.stripes;
    sum.bytes += t.shard_bytes;
    txn.Put(Family::kRepairs, RepairDoneKey(t.old_target), EncodeRepairDone(sum));
  }
  RETURN_IF_ERROR(txn.Commit());
  unsynced_.Set();
  repairs_.End(t.task);
  repairs_.ClearBad(t.stripe, t.column);
  repairs_.Done(t.old_target, t.shard_bytes, Now());
  if (t.kind == RepairKind::kMove && rebalance_) rebalance_bytes_ += t.shard_bytes;
  record->info.columns[t.column] = made;
  const std::optional<int> spare = NeedOf(*HealthOf(*record));
  if (spare) repairs_.Add(t.stripe, *spare);
  else repairs_.Forget(t.stripe);
  if (record->info.narrow) widens_.Add(t.stripe, record->is_thin());
  return Ok();
}

Result<void> MetaServer::SaveRepairSettings() {
  Txn txn(*store_);
  txn.Put(Family::kRepairs, RepairSettingsKey(), EncodeRepairSettings(repairs_.settings));
  RETURN_IF_ERROR(txn.Commit());
  return Ok();
}

}  // namespace stria
