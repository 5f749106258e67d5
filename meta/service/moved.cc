// Disks that came to another node or channel: their shards stay where they are, but two columns of a stripe may
// be in one failure domain now. Every stripe with a shard on such a disk is looked at again; what is crowded is
// spread by the repair like any other. The disks to look at are recorded with their registration, so that no
// restart forgets one.
#include "common/log.h"
#include "meta/service/cluster_keys.h"
#include "meta/service/meta_server_impl.h"

namespace stria {
namespace {

constexpr size_t kMovedPage = 256;
constexpr int kMovedPagesPerRound = 16;

}  // namespace

// In the transaction of the registration. Its caller commits.
void MetaServer::NoteMoved(Txn& txn) {
  for (TargetId t : cluster_->TakeMoved()) {
    moved_[t] = ShardId();
    txn.Put(Family::kRepairs, MovedTargetKey(t), SealRecord(1, ""));
  }
}

Result<void> MetaServer::LoadMoved(std::string_view key) {
  uint32_t target = 0;
  if (!ParseTargetLetterKey(key, 'M', &target)) return CorruptRecord(Family::kRepairs, key, "its key is malformed");
  moved_[TargetId(target)] = ShardId();
  return Ok();
}

Task<Result<void>> MetaServer::ScanMoved() {
  for (int i = 0; i < kMovedPagesPerRound && !moved_.empty(); ++i) {
    auto& [target, after] = *moved_.begin();
    const ClusterView view = cluster_->View();
    Txn txn(*store_);
    CO_ASSIGN_OR_RETURN(const auto page, ListTargetShards(txn, target, after, kMovedPage));
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
    const bool end = page.size() < kMovedPage;
    if (end) txn.Delete(Family::kRepairs, MovedTargetKey(target));
    CO_RETURN_IF_ERROR(txn.Commit());
    unsynced_.Set();
    for (StripeId id : crowded) {
      Txn reader(*store_);
      CO_ASSIGN_OR_RETURN(const std::optional<StripeRecord> record, GetStripeRecord(reader, id));
      const std::optional<StripeHealth> health = record ? HealthOf(*record) : std::nullopt;
      const std::optional<int> need = health ? NeedOf(*health) : std::nullopt;
      if (need) repairs_.Add(id, *need);
    }
    if (end) {
      LogInfo("disk {} came from elsewhere: its stripes were looked at", cluster_->TargetName(target));
      moved_.erase(moved_.begin());
    }
    co_await Yield();
  }
  if (!moved_.empty()) repair_work_.Set();
  co_return Ok();
}

}  // namespace stria
