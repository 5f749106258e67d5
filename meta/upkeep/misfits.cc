#include "meta/upkeep/misfits.h"

#include "common/log.h"
#include "meta/core/cluster_keys.h"
#include "meta/core/for_each.h"
#include "stripe/layout.h"

namespace stria {
namespace {

constexpr size_t kPage = 256;
constexpr int kPagesPerRound = 16;
constexpr int64_t kRestNs = 20 * kSecond;
constexpr int64_t kAgainNs = 600 * kSecond;  // space may have come back without a new disk

}  // namespace

Result<void> Misfits::Load(Txn& txn) {
  return ForEachEntry(txn, Family::kRepairs, MovedTargetPrefix(), [&](const auto& k, const auto&) -> Result<void> {
    uint32_t target = 0;
    if (!ParseTargetLetterKey(k, 'M', &target)) return CorruptRecord(Family::kRepairs, k, "its key is malformed");
    moved_[TargetId(target)] = ShardId();
    return Ok();
  });
}

void Misfits::NoteMoved(Txn& txn, const std::set<TargetId>& targets) {
  for (const TargetId t : targets) {
    moved_[t] = ShardId();
    txn.Put(Family::kRepairs, MovedTargetKey(t), SealRecord(1, ""));
  }
}

Result<void> Misfits::NoteCommitted(const std::vector<StripeInfo>& stripes) {
  if (env_.store->Count(Counter::kNarrow) == 0 && env_.store->Count(Counter::kCrowded) == 0) return Ok();
  Txn txn(*env_.store);
  for (const StripeInfo& s : stripes) {
    ASSIGN_OR_RETURN(const std::optional<StripeRecord> record, GetStripeRecord(txn, s.id));
    if (!record) continue;
    if (record->info.narrow) widener_->Add(s.id, record->is_thin());
    if (record->info.crowded && repairer_->Consider(*record)) env_.work->Set();
  }
  return Ok();
}

// Begins the walk if there are places that there were not before.
Result<void> Misfits::FollowMap() {
  std::set<TargetId> now;
  for (TargetId t : env_.cluster->Targets()) {
    if (env_.cluster->StateOf(t) == ColumnState::kOk) now.insert(t);
  }
  if (!std::ranges::includes(places_, now)) after_ = StripeId();
  places_ = std::move(now);
  return Ok();
}

Task<Result<void>> Misfits::Scan() {
  CO_RETURN_IF_ERROR(co_await ScanMoved());
  co_return co_await ScanAll();
}

Task<Result<void>> Misfits::ScanAll() {
  if (env_.store->Count(Counter::kCrowded) == 0 && env_.store->Count(Counter::kNarrow) == 0) {
    after_.reset();
    co_return Ok();
  }
  if (!after_ && Now() >= again_ns_) after_ = StripeId();
  for (int i = 0; i < kPagesPerRound && after_; ++i) {
    bool full = false;
    Txn txn(*env_.store);
    CO_ASSIGN_OR_RETURN(const auto rows, txn.Scan(Family::kStripes, StripeKey(StripeId(after_->v + 1)),
                                                  StripeKey(StripeId(UINT64_MAX)), kPage));
    for (const KvEntry& row : rows) {
      CO_ASSIGN_OR_RETURN(const StripeRecord record, StripeRecord::Decode(row.first, row.second));
      after_ = record.info.id;
      if (!widener_->Consider(record)) full = true;
      if (record.info.crowded) repairer_->Consider(record);
    }
    if (rows.size() < kPage) {
      after_.reset();
      again_ns_ = Now() + kAgainNs;
    }
    if (full) {
      after_.reset();
      again_ns_ = Now() + kRestNs;  // when some have been done
    }
    co_await Yield();
  }
  if (after_) env_.work->Set();
  co_return Ok();
}

Task<Result<void>> Misfits::ScanMoved() {
  for (int i = 0; i < kPagesPerRound && !moved_.empty(); ++i) {
    auto& [target, after] = *moved_.begin();
    const ClusterView view = env_.cluster->View();
    Txn txn(*env_.store);
    CO_ASSIGN_OR_RETURN(const auto page, ListTargetShards(txn, target, after, kPage));
    std::set<StripeId> crowded;
    for (const TargetShard& s : page) {
      after = s.shard;
      if (s.record.pending) continue;
      CO_ASSIGN_OR_RETURN(const std::optional<StripeRecord> record, GetStripeRecord(txn, s.record.stripe));
      if (!record || record->state != StripeState::kLive) continue;
      std::vector<TargetId> targets;
      for (const Column& c : record->info.columns) targets.push_back(c.shard ? c.target : TargetId());
      const bool now = IsCrowded(view, record->info.shape, targets, record->layout.domain);
      if (now) crowded.insert(record->info.id);
      if (now != record->info.crowded) CO_RETURN_IF_ERROR(OpSetCrowded(txn, record->info.id, now));
    }
    const bool end = page.size() < kPage;
    if (end) txn.Delete(Family::kRepairs, MovedTargetKey(target));
    CO_RETURN_IF_ERROR(txn.Commit());
    env_.host->Committed();
    for (StripeId id : crowded) {
      Txn reader(*env_.store);
      CO_ASSIGN_OR_RETURN(const std::optional<StripeRecord> record, GetStripeRecord(reader, id));
      if (record) repairer_->Consider(*record);
    }
    if (end) {
      LogInfo("disk {} came from elsewhere: its stripes were looked at", env_.cluster->TargetName(target));
      moved_.erase(moved_.begin());
    }
    co_await Yield();
  }
  if (!moved_.empty()) env_.work->Set();
  co_return Ok();
}

}  // namespace stria
