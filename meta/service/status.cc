// What status shows, and the consistency check.
#include <algorithm>
#include <functional>

#include "meta/cluster/room_advice.h"
#include "meta/ops/fsck.h"
#include "meta/service/meta_server_impl.h"
#include "stripe/layout.h"

namespace stria {
namespace {

constexpr size_t kSurveyPage = 256;
constexpr int64_t kSurveyAge = 10;  // times what it took
constexpr int64_t kMaxSurveyAgeNs = 60 * kSecond;

}  // namespace

// True if the shard's bytes cannot be had now.
bool MetaServer::IsUnreadable(StripeId stripe, uint16_t column, const Column& c) const {
  if (!c.shard) return false;
  if (upkeep_->bad_shards().IsBad(stripe, column, c.shard)) return true;
  const ColumnState state = cluster_->StateOf(c.target);
  if (state != ColumnState::kSuspect) return state == ColumnState::kMissing;
  // A node that is merely late is expected back in seconds.
  const TargetInfo* t = cluster_->FindTarget(c.target);
  return cluster_->FindNode(t->node)->state != NodeState::kSuspect;
}

// Those of the unreadable columns that cannot be decoded from the others either.
std::vector<bool> MetaServer::LostColumns(const StripeInfo& info, const std::vector<bool>& unreadable) {
  std::vector<ColumnState> states;
  for (bool u : unreadable) states.push_back(u ? ColumnState::kMissing : ColumnState::kOk);
  std::vector<bool> lost(unreadable.size(), false);
  for (uint16_t c = 0; c < unreadable.size(); ++c) {
    lost[c] = unreadable[c] && SpareShards(info, states, GroupOf(info.shape, ColumnIndex(c))) < 0;
  }
  return lost;
}

Result<void> MetaServer::SurveyStripe(Txn& txn, StripeId id, const std::set<TargetId>& gone, Damage* out) {
  ASSIGN_OR_RETURN(const std::optional<StripeRecord> record, GetStripeRecord(txn, id));
  if (!record || record->state != StripeState::kLive) return Ok();
  std::vector<bool> unreadable, hopeless;
  bool any = false;
  for (size_t i = 0; i < record->info.columns.size(); ++i) {
    const Column& c = record->info.columns[i];
    const bool u = (c.shard && gone.count(c.target)) || IsUnreadable(id, static_cast<uint16_t>(i), c);
    unreadable.push_back(u);
    if (c.shard && gone.count(c.target) && out->hit.size() < Damage::kMaxHitStripes) out->hit.insert(id);
    const bool last = !gone.count(c.target) && cluster_->IsLastResort(c.target) &&
                      !upkeep_->bad_shards().IsBad(id, static_cast<uint16_t>(i), c.shard);
    hopeless.push_back(u && !last);
    any = any || u;
  }
  if (!any) return Ok();
  ++out->degraded;
  std::vector<bool> lost = LostColumns(record->info, hopeless);
  if (std::ranges::none_of(lost, std::identity())) return Ok();
  out->lost.insert(id);
  out->gone[id] = std::move(lost);
  return Ok();
}

// Looks at every stripe with a shard on a target that cannot be read, or on one of `gone`.
Task<Result<MetaServer::Damage>> MetaServer::SurveyDamage(std::set<TargetId> gone) {
  Damage out;
  std::set<TargetId> targets = gone;
  for (TargetId t : cluster_->AllTargets()) {
    if (!cluster_->IsReachable(t)) targets.insert(t);
  }
  std::set<StripeId> seen;
  for (TargetId t : targets) {
    for (ShardId after;;) {
      size_t n = 0;
      {
        Txn txn(*store_);
        CO_ASSIGN_OR_RETURN(const auto page, ListTargetShards(txn, t, after, kSurveyPage));
        for (const TargetShard& s : page) {
          after = s.shard;
          if (s.record.pending || !seen.insert(s.record.stripe).second) continue;
          CO_RETURN_IF_ERROR(SurveyStripe(txn, s.record.stripe, gone, &out));
        }
        n = page.size();
      }
      if (n < kSurveyPage) break;
      co_await Yield();
    }
  }
  Txn txn(*store_);
  for (StripeId id : upkeep_->bad_shards().BadStripes()) {
    if (seen.insert(id).second) CO_RETURN_IF_ERROR(SurveyStripe(txn, id, gone, &out));
  }
  co_return std::move(out);
}

Task<Result<MetaServer::Damage>> MetaServer::DamageNow() {
  // The survey is good as long as map and store stay as they are; one that took long is shown for a
  // while even so, or watching a repair would cost more than the repair.
  const std::pair<uint64_t, CommitSeq> now_is = {cluster_->version(), store_->last_seq()};
  if (!damage_ || (damage_of_ != now_is && Now() >= damage_until_ns_)) {
    const int64_t start_ns = Now();
    CO_ASSIGN_OR_RETURN(Damage fresh, co_await SurveyDamage({}));
    damage_ = std::move(fresh);
    damage_of_ = now_is;
    damage_until_ns_ = Now() + std::min(kSurveyAge * (Now() - start_ns), kMaxSurveyAgeNs);
  }
  co_return *damage_;
}

Task<Result<StatusReply>> MetaServer::Status(InodeRequest r) {
  CO_RETURN_IF_ERROR(CheckCaller(r.header));
  CO_ASSIGN_OR_RETURN(const Damage damage, co_await DamageNow());
  StatusReply s;
  s.map = cluster_->Map();
  s.files = store_->Count(Counter::kFiles);
  s.directories = store_->Count(Counter::kDirectories);
  s.stripes = store_->Count(Counter::kStripes);
  s.live_bytes = store_->Count(Counter::kLiveBytes);
  s.inline_bytes = store_->Count(Counter::kInlineBytes);
  s.narrow_stripes = store_->Count(Counter::kNarrow);
  s.crowded_stripes = store_->Count(Counter::kCrowded);
  s.garbage_shards = store_->Count(Counter::kGarbageShards);
  s.degraded_stripes = damage.degraded;
  s.lost_stripes = damage.lost.size();
  const bool named = IsAdmin(r.header);  // files are named to admins only
  if (named) {
    CO_ASSIGN_OR_RETURN(s.lost_files, ListFilesOf(damage.lost, kMaxLostFiles, damage.gone));
  }
  s.repairs = upkeep_->repairer().Progress();
  for (SessionId id : sessions_.All()) {
    const SessionRecord& record = *sessions_.Find(id);
    s.sessions.push_back({id, record.client, record.node_name, sessions_.LeaseLeftNs(id, Now())});
  }
  s.repair_limit_bytes_per_s = static_cast<int64_t>(upkeep_->repairer().settings().limit_bytes_per_s);
  s.node_loss = co_await WhatANodesLossCosts();
  CO_ASSIGN_OR_RETURN(s.layouts, LackingRooms());
  if (exposure_) {
    s.thin_stripes = exposure_->thin;
    if (named) {
      CO_ASSIGN_OR_RETURN(s.thin_files, ListFilesOf(exposure_->some_thin, kMaxLostFiles));
    }
  }
  s.advice = RoomAdvice(*cluster_, Wall());
  if (room_ != nullptr) {
    for (Advice& a : room_->Told()) s.advice.push_back(std::move(a));
  }
  s.removed = cluster_->removed().All();
  co_return std::move(s);
}

MetaServer::RepairSummary MetaServer::repair_summary() const {
  if (upkeep_ == nullptr) return {};
  const Repairer& r = upkeep_->repairer();
  return {r.waiting(), r.parked(), r.in_flight(), upkeep_->widener().in_flight(), upkeep_->folder().queue().in_flight()};
}

Task<Result<FsckReply>> MetaServer::Fsck(InodeRequest r) {
  CO_RETURN_IF_ERROR(CheckAdmin(r.header, "checks the metadata: everybody waits meanwhile"));
  // On this thread, so that nothing changes meanwhile: everybody waits until it is done.
  co_return CheckStore(store_->kv());
}

}  // namespace stria
