// What is lost, and how it is made again (repairer.h). What ails a stripe is in repair_health.cc.
#include "meta/upkeep/repairer.h"

#include <algorithm>
#include <utility>

#include "common/log.h"
#include "common/sabotage.h"
#include "meta/core/cluster_keys.h"
#include "meta/core/for_each.h"
#include "stripe/checksum.h"
#include "stripe/layout.h"

namespace stria {
namespace {

constexpr size_t kScanPage = 256;
constexpr int kScanPagesPerRound = 64;
constexpr size_t kPlanBatch = 512;
constexpr int64_t kRescanNs = 30 * kSecond;     // of a target that is not empty yet
constexpr int64_t kHomelessNs = 60 * kSecond;   // before space is looked for again
constexpr size_t kRescanBelow = 1024;           // candidates
constexpr size_t kSweepPage = 256;              // bad shards
constexpr int64_t kSweepAgainNs = 30 * kSecond;  // when all have been looked at
constexpr size_t kMaxRefusedBy = 4096;           // stripes

// The checksums of what was made are those of the shard that it replaces, but for the number in each. So no node can give a
// column another digest than the one that its writer committed.
bool IsAsWritten(const Column& was, ShardId made, const RebuildResult& result) {
  if (result.length != was.length) return false;
  if (Sabotaged(Sabotage::kRebuildWrongColumn)) return true;
  if (result.table.size() != ChecksumBlocks(was.length) || TableDigest(result.table, was.length) != result.digest) return false;
  return TableDigest(ReseedTable(result.table, made, was.shard, was.length), was.length) == was.digest;
}

}  // namespace

Result<void> Repairer::Load(Txn& txn) {
  RETURN_IF_ERROR(ForEachEntry(txn, Family::kRepairs, RepairTaskPrefix(), [&](const auto&, const auto& v) -> Result<void> {
    ASSIGN_OR_RETURN(const RepairTaskRecord t, DecodeRepairTask(v));
    RepairTask plan;
    plan.stripe = t.stripe;
    plan.kind = t.kind;
    plan.column = ColumnIndex(t.column);
    plan.old_shard = t.old_shard;
    plan.old_target = t.old_target;
    plan.shard_bytes = t.shard_bytes;
    plan.new_target = t.new_target;
    if (const TargetInfo* target = env_.cluster->FindTarget(t.new_target)) plan.executor = target->node;
    queue_.Start(t, std::move(plan));
    return Ok();
  }));
  RETURN_IF_ERROR(ForEachEntry(txn, Family::kRepairs, BadShardPrefix(), [&](const auto&, const auto& v) -> Result<void> {
    ASSIGN_OR_RETURN(const ReportedShard b, DecodeBadShard(v));
    queue_.MarkBad(b);
    queue_.Add(b.stripe, 0);
    return Ok();
  }));
  RETURN_IF_ERROR(ForEachEntry(txn, Family::kRepairs, RepairDonePrefix(), [&](const auto& k, const auto& v) -> Result<void> {
    uint32_t target = 0;
    if (!ParseRepairDoneKey(k, &target)) return CorruptRecord(Family::kRepairs, k, "its key is malformed");
    ASSIGN_OR_RETURN(const RepairDone done, DecodeRepairDone(v));
    queue_.LoadDone(TargetId(target), done);
    return Ok();
  }));
  ASSIGN_OR_RETURN(const auto settings, txn.Get(Family::kRepairs, RepairSettingsKey()));
  if (settings) {
    ASSIGN_OR_RETURN(queue_.settings, DecodeRepairSettings(*settings));
  }
  return Ok();
}

Result<void> Repairer::FollowMap() {
  queue_.UnparkAll();
  std::set<TargetId> emptying;
  for (TargetId t : env_.cluster->Targets()) {
    if (env_.cluster->IsBeingEmptied(t)) emptying.insert(t);
  }
  Txn txn(*env_.store);
  for (TargetId t : queue_.Targets()) {
    if (emptying.count(t)) continue;
    queue_.EndTarget(t);
    scans_.erase(t);
    txn.Delete(Family::kRepairs, RepairDoneKey(t));
  }
  RETURN_IF_ERROR(txn.Commit());
  for (auto& [t, scan] : scans_) scan.again_ns = 0;  // what had to wait may not have to any more
  for (TargetId t : emptying) {
    queue_.BeginTarget(t, env_.cluster->EmptyingReason(t));
    scans_.try_emplace(t);
  }
  return Ok();
}

Task<Result<void>> Repairer::Scan() {
  queue_.Unpark(Now());
  CO_RETURN_IF_ERROR(CheckTasks());
  CO_RETURN_IF_ERROR(SweepBad());
  for (int i = 0; i < kScanPagesPerRound; ++i) {
    CO_ASSIGN_OR_RETURN(const bool more, ScanPage());
    if (!more) co_return Ok();
    co_await Yield();
  }
  env_.work->Set();
  co_return Ok();
}

// One page of one target. False if there is nothing to scan now.
Result<bool> Repairer::ScanPage() {
  auto it = scans_.begin();
  for (; it != scans_.end(); ++it) {
    TargetScan& s = it->second;
    if (s.done && s.left && Now() >= s.again_ns && queue_.waiting() < kRescanBelow) s = TargetScan();
    if (!s.done) break;
  }
  if (it == scans_.end()) return false;
  const TargetId target = it->first;
  TargetScan& scan = it->second;
  Txn txn(*env_.store);
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
    if (const std::optional<int> need = NeedOf(*health)) queue_.Add(s.record.stripe, *need);
  }
  if (page.size() < kScanPage) {
    scan.done = true;
    scan.again_ns = Now() + kRescanNs;
    queue_.SetRemaining(target, scan.stripes, scan.bytes);
    if (!scan.left) LogInfo("{} is empty", env_.cluster->TargetName(target));
    else LogInfo("{} still has {} stripes, {} bytes ({})", env_.cluster->TargetName(target), scan.stripes, scan.bytes,
                 env_.cluster->EmptyingReason(target));
  }
  return true;
}

Result<void> Repairer::Plan() {
  if (!MayStart() || IsFull()) return Ok();
  std::vector<StripeHealth> batch;
  {
    Txn txn(*env_.store);
    for (StripeId id : queue_.Best(kPlanBatch)) {
      ASSIGN_OR_RETURN(const std::optional<StripeRecord> record, GetStripeRecord(txn, id));
      std::optional<StripeHealth> health = record ? HealthOf(*record) : std::nullopt;
      if (health && NeedOf(*health)) {
        batch.push_back(*std::move(health));
      } else {
        queue_.Forget(id);
        refused_by_.erase(id);
      }
    }
  }
  if (batch.empty()) return Ok();
  const RepairPlan plan = PlanRepairs(env_.cluster->View(), batch, budget_, queue_.InFlight());
  std::set<StripeId> planned;
  for (const RepairTask& task : plan.tasks) planned.insert(task.stripe);
  const auto park = [&](StripeId id, RepairQueue::Parked why, int64_t until_ns) {
    if (planned.count(id)) return;
    std::vector<TargetId> targets;
    for (const StripeHealth& h : batch) {
      if (h.info.id != id) continue;
      for (const Column& c : h.info.columns) {
        if (c.shard && env_.cluster->IsBeingEmptied(c.target)) targets.push_back(c.target);
      }
    }
    queue_.Park(id, why, std::move(targets), until_ns);
  };
  for (const GroupLoss& l : plan.waiting) park(l.stripe, RepairQueue::Parked::kWaiting, INT64_MAX);
  for (StripeId id : plan.homeless) {
    // Rather a node that has failed before than none.
    if (refused_by_.erase(id) == 0) park(id, RepairQueue::Parked::kHomeless, Now() + kHomelessNs);
  }
  for (StripeId id : plan.unmovable) queue_.Forget(id);  // found again when there are new places
  for (const GroupLoss& l : plan.unrepairable) park(l.stripe, RepairQueue::Parked::kUnrepairable, INT64_MAX);
  for (const RepairTask& task : plan.tasks) {
    if (!MayStart()) break;
    ASSIGN_OR_RETURN(const bool started, Start(task));
    if (!started) queue_.Forget(task.stripe);
  }
  return Ok();
}

// False if the stripe is gone.
Result<bool> Repairer::Start(const RepairTask& task) {
  Txn txn(*env_.store);
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
  env_.host->Committed();
  queue_.Start(t, task);
  Started(t.shard_bytes);
  return true;
}

Result<void> Repairer::End(const RepairTaskRecord& t) {
  Txn txn(*env_.store);
  RETURN_IF_ERROR(OpDropReservedShard(txn, t.new_target, t.new_shard));
  txn.Delete(Family::kRepairs, RepairTaskKey(t.task));
  RETURN_IF_ERROR(txn.Commit());
  env_.host->Committed();
  queue_.End(t.task);
  return Ok();
}

// Ends tasks that nobody can carry out any more, or that nobody needs.
Result<void> Repairer::CheckTasks() {
  for (const RepairTaskRecord& t : queue_.Where([](const auto&) { return true; })) {
    const bool able = TakesWork(t.new_target) && env_.cluster->StateOf(t.new_target) != ColumnState::kMissing;
    bool needed = false;
    {
      Txn txn(*env_.store);
      ASSIGN_OR_RETURN(const std::optional<StripeRecord> record, GetStripeRecord(txn, t.stripe));
      needed = record && t.column < record->info.columns.size() &&
               record->info.columns[t.column].shard == t.old_shard;
    }
    if (able && needed) continue;
    RETURN_IF_ERROR(End(t));
    if (needed) queue_.Add(t.stripe, 0);
  }
  return Ok();
}

Result<void> Repairer::WorkFor(const std::set<TargetId>& here, uint32_t slots, NodeWork* work) {
  for (const RepairTaskRecord& t : queue_.HandOut(here, slots)) {
    ASSIGN_OR_RETURN(std::optional<RebuildWork> rebuild, WorkOf(t, work->holder));
    if (rebuild) work->rebuilds.push_back(*std::move(rebuild));
  }
  return Ok();
}

Result<std::optional<RebuildWork>> Repairer::WorkOf(const RepairTaskRecord& t, uint64_t holder) const {
  Txn txn(*env_.store);
  ASSIGN_OR_RETURN(const std::optional<StripeRecord> record, GetStripeRecord(txn, t.stripe));
  const std::optional<StripeHealth> health = record ? HealthOf(*record) : std::nullopt;
  if (!health || record->info.columns[t.column].shard != t.old_shard) return std::optional<RebuildWork>();
  RebuildWork w;
  w.task = t.task;
  w.stripe.info = record->info;
  env_.tokens->SignGrant(&w.stripe, kTokenRead, holder);
  const StripeShape& shape = record->info.shape;
  for (uint16_t i = 0; i < w.stripe.tokens.size(); ++i) {  // other groups are no help, and none of its business
    if (GroupOf(shape, ColumnIndex(i)) != GroupOf(shape, ColumnIndex(t.column))) w.stripe.tokens[i].clear();
  }
  for (size_t i = 0; i < health->columns.size(); ++i) {
    const ColumnState s = health->columns[i];
    if (s == ColumnState::kMissing || s == ColumnState::kSuspect) w.lost.push_back(static_cast<uint16_t>(i));
  }
  w.column = t.column;
  const ColumnState own = health->columns[t.column];
  w.copy = t.copy && own != ColumnState::kMissing && own != ColumnState::kSuspect;
  w.new_shard = t.new_shard;
  w.new_target = t.new_target;
  w.write_token = env_.tokens->Sign(t.new_shard, t.new_target, kTokenWrite, holder, record->info.columns[t.column].length);
  return std::optional<RebuildWork>(std::move(w));
}

Result<void> Repairer::NoteBadColumns(NodeId from, StripeId stripe, const StripeInfo* as, FsError code,
                                      const std::vector<uint16_t>& columns) {
  if (!IsShardLoss(code)) return Ok();
  Txn txn(*env_.store);
  ASSIGN_OR_RETURN(const std::optional<StripeRecord> record, GetStripeRecord(txn, stripe));
  for (uint16_t column : columns) {
    if (!record || record->state != StripeState::kLive || column >= record->info.columns.size()) continue;
    const Column& c = record->info.columns[column];
    if (!c.shard || (as != nullptr && (column >= as->columns.size() || as->columns[column].shard != c.shard))) continue;
    const ReportedShard bad{stripe, column, c.shard, code};
    if (!IsOn(c.target, from)) {
      if (doubted_) doubted_(bad, c.target, from);
      continue;
    }
    if (!MarkBad(bad)) continue;
    txn.Put(Family::kRepairs, BadShardKey(stripe, column), EncodeBadShard(bad));
    if (as != nullptr) queue_.Add(stripe, 0);
  }
  RETURN_IF_ERROR(txn.Commit());
  return Ok();
}

void Repairer::AskOthers(const RepairTaskRecord& t) {
  const TargetInfo* const target = env_.cluster->FindTarget(t.new_target);
  if (target == nullptr) return;
  if (refused_by_.size() >= kMaxRefusedBy) refused_by_.clear();
  std::vector<NodeId>& nodes = refused_by_[t.stripe];
  if (std::ranges::find(nodes, target->node) == nodes.end()) nodes.push_back(target->node);
}

Result<void> Repairer::TakeFailed(NodeId from, const RepairTaskRecord& t, const RebuildResult& result) {
  RETURN_IF_ERROR(NoteBadColumns(from, t.stripe, nullptr, result.result.code, result.bad_columns));
  // If what it says of others is not so, the fault is its own, and it would say it again.
  if (!result.bad_columns.empty()) AskOthers(t);
  RETURN_IF_ERROR(End(t));
  queue_.Park(t.stripe, RepairQueue::Parked::kRetry, {}, Now() + kRepairRetryNs);
  return Ok();
}

// The old shard stays, and another node is asked.
Result<void> Repairer::TakeRefused(const RepairTaskRecord& t) {
  LogWarning("column {} of stripe {} was made again on {} with other checksums than were written: that is not used, and another node is asked",
             t.column, t.stripe.v, env_.cluster->TargetName(t.new_target));
  AskOthers(t);
  RETURN_IF_ERROR(End(t));
  queue_.Park(t.stripe, RepairQueue::Parked::kRetry, {}, Now() + kRepairRetryNs);
  return Ok();
}

Result<bool> Repairer::TakeRebuilt(NodeId from, const RebuildResult& result) {
  const RepairTaskRecord* task = queue_.Find(result.task);
  if (task == nullptr) return false;  // ended meanwhile: its shard is garbage or in use already
  if (!IsOn(task->new_target, from)) return true;
  const RepairTaskRecord t = *task;
  RETURN_IF_ERROR(SwapIn(from, t, result));
  return true;
}

Result<void> Repairer::SwapIn(NodeId from, const RepairTaskRecord& t, const RebuildResult& result) {
  if (result.result.code != FsError::kOk) return TakeFailed(from, t, result);
  Txn txn(*env_.store);
  ASSIGN_OR_RETURN(std::optional<StripeRecord> record, GetStripeRecord(txn, t.stripe));
  if (!record || record->state != StripeState::kLive || t.column >= record->info.columns.size()) return End(t);
  const Column& was = record->info.columns[t.column];
  if (was.shard != t.old_shard) return End(t);
  if (!IsAsWritten(was, t.new_shard, result)) return TakeRefused(t);
  std::vector<TargetId> targets;
  for (const Column& c : record->info.columns) targets.push_back(c.shard ? c.target : TargetId());
  targets[t.column] = t.new_target;
  const bool crowded = IsCrowded(env_.cluster->View(), record->info.shape, targets, record->layout.domain);
  const Column made{t.new_shard, t.new_target, result.length, result.digest};
  const Result<void> swapped = OpSwapColumn(txn, t.stripe, t.column, t.old_shard, made, crowded);
  if (swapped.code() == FsError::kConflict || swapped.code() == FsError::kNoEnt) return End(t);
  RETURN_IF_ERROR(swapped);
  txn.Delete(Family::kRepairs, RepairTaskKey(t.task));
  txn.Delete(Family::kRepairs, BadShardKey(t.stripe, t.column));
  if (queue_.HasTarget(t.old_target)) {
    RepairDone sum = queue_.DoneOf(t.old_target);
    ++sum.stripes;
    sum.bytes += t.shard_bytes;
    txn.Put(Family::kRepairs, RepairDoneKey(t.old_target), EncodeRepairDone(sum));
  }
  RETURN_IF_ERROR(txn.Commit());
  env_.host->Committed();
  queue_.End(t.task);
  queue_.ClearBad(t.stripe, t.column);
  queue_.Done(t.old_target, t.shard_bytes, Now());
  refused_by_.erase(t.stripe);
  record->info.columns[t.column] = made;
  record->info.crowded = crowded;
  if (!Consider(*record)) queue_.Forget(t.stripe);
  on_rebuilt_(t, *record);
  return Ok();
}

// ---- From others ----

bool Repairer::Consider(const StripeRecord& record) {
  const std::optional<StripeHealth> health = HealthOf(record);
  const std::optional<int> need = health ? NeedOf(*health) : std::nullopt;
  if (need) queue_.Add(record.info.id, *need);
  return need.has_value();
}

Result<void> Repairer::NoteBad(const ReportedShard& bad) {
  if (!MarkBad(bad)) return Ok();
  Txn txn(*env_.store);
  txn.Put(Family::kRepairs, BadShardKey(bad.stripe, bad.column), EncodeBadShard(bad));
  RETURN_IF_ERROR(txn.Commit());
  env_.host->Committed();
  queue_.Add(bad.stripe, 0);
  env_.work->Set();
  return Ok();
}

// False if it is known, or there is no room for it: its next reader, or a scrub, finds it again.
bool Repairer::MarkBad(const ReportedShard& bad) {
  if (queue_.MarkBad(bad)) return true;
  if (!queue_.IsBad(bad.stripe, bad.column, bad.shard) && !std::exchange(told_full_, true)) {
    LogWarning("{} shards are known to be bad, more than are remembered: others are repaired when some of these are, and "
               "somebody reads them again",
               queue_.bad().size());
  }
  return false;
}

// Forgets a page of those that are not used any more: nobody tells us which stripes clients delete.
Result<void> Repairer::SweepBad() {
  if (queue_.bad().empty() || Now() < sweep_ns_) return Ok();
  std::vector<std::pair<StripeId, uint16_t>> over;
  Txn txn(*env_.store);
  auto it = queue_.bad().upper_bound(swept_);
  for (size_t i = 0; i < kSweepPage && it != queue_.bad().end(); ++i, ++it) {
    swept_ = it->first;
    const auto [stripe, column] = swept_;
    ASSIGN_OR_RETURN(const std::optional<StripeRecord> record, GetStripeRecord(txn, stripe));
    const bool live = record && record->state == StripeState::kLive;
    if (live && column < record->info.columns.size() && record->info.columns[column].shard == it->second.shard) continue;
    txn.Delete(Family::kRepairs, BadShardKey(stripe, column));
    over.push_back(it->first);
    if (!live) queue_.Forget(stripe);
  }
  if (it == queue_.bad().end()) {
    swept_ = {};
    sweep_ns_ = Now() + kSweepAgainNs;
  } else {
    env_.work->Set();
  }
  if (over.empty()) return Ok();
  RETURN_IF_ERROR(txn.Commit());
  env_.host->Committed();
  for (const auto& [stripe, column] : over) queue_.ClearBad(stripe, column);
  told_full_ = false;
  return Ok();
}

void Repairer::DropBad(Txn& txn, StripeId stripe) const {
  for (auto it = queue_.bad().lower_bound({stripe, 0}); it != queue_.bad().end() && it->first.first == stripe; ++it) {
    txn.Delete(Family::kRepairs, BadShardKey(stripe, it->first.second));
  }
}

void Repairer::ClearBad(StripeId stripe) {
  std::vector<uint16_t> columns;
  for (auto it = queue_.bad().lower_bound({stripe, 0}); it != queue_.bad().end() && it->first.first == stripe; ++it) {
    columns.push_back(it->first.second);
  }
  for (const uint16_t column : columns) queue_.ClearBad(stripe, column);
}

void Repairer::Hurry() {
  queue_.UnparkAll();
  for (auto& [t, scan] : scans_) scan.again_ns = 0;
}

RepairPlan Repairer::PlanFor(const ClusterView& view, const StripeHealth& health) const {
  return PlanRepairs(view, std::vector<StripeHealth>(1, health), budget_, queue_.InFlight());
}

Result<void> Repairer::SetSettings(const RepairSettings& settings) {
  queue_.settings = settings;
  Txn txn(*env_.store);
  txn.Put(Family::kRepairs, RepairSettingsKey(), EncodeRepairSettings(settings));
  RETURN_IF_ERROR(txn.Commit());
  return Ok();
}

}  // namespace stria
