// What is damaged, or would be without some disks.
#include <algorithm>
#include <functional>
#include <iterator>

#include "meta/ops/ops.h"
#include "meta/survey/survey.h"
#include "stripe/layout.h"
#include "stripe/repair_plan.h"

namespace stria {
namespace {

constexpr size_t kSurveyPage = 256;
constexpr int64_t kSurveyAge = 10;  // times what it took
constexpr int64_t kMaxSurveyAgeNs = 60 * kSecond;

// Those of the unreadable columns that cannot be decoded from the others either.
std::vector<bool> LostColumns(const StripeInfo& info, const std::vector<bool>& unreadable) {
  std::vector<ColumnState> states;
  for (bool u : unreadable) states.push_back(u ? ColumnState::kMissing : ColumnState::kOk);
  std::vector<bool> lost(unreadable.size(), false);
  for (uint16_t c = 0; c < unreadable.size(); ++c) {
    lost[c] = unreadable[c] && SpareShards(info, states, GroupOf(info.shape, ColumnIndex(c))) < 0;
  }
  return lost;
}

AffectedFile Affected(const LostFile& f, bool lost) { return {f.ino, f.path, f.offset, f.length, lost}; }

}  // namespace

// True if the shard's bytes cannot be had now.
bool Survey::IsUnreadable(StripeId stripe, uint16_t column, const Column& c) const {
  if (!c.shard) return false;
  if (env_.bad->IsBad(stripe, column, c.shard)) return true;
  const ColumnState state = env_.cluster->StateOf(c.target);
  if (state != ColumnState::kSuspect) return state == ColumnState::kMissing;
  // A node that is merely late is expected back in seconds.
  const TargetInfo* t = env_.cluster->FindTarget(c.target);
  return env_.cluster->FindNode(t->node)->state != NodeState::kSuspect;
}

Result<void> Survey::SurveyStripe(Txn& txn, StripeId id, const std::set<TargetId>& gone, Damage* out) const {
  ASSIGN_OR_RETURN(const std::optional<StripeRecord> record, GetStripeRecord(txn, id));
  if (!record || record->state != StripeState::kLive) return Ok();
  std::vector<bool> unreadable, hopeless;
  bool any = false, hit = false;
  for (size_t i = 0; i < record->info.columns.size(); ++i) {
    const Column& c = record->info.columns[i];
    const bool u = (c.shard && gone.count(c.target)) || IsUnreadable(id, static_cast<uint16_t>(i), c);
    unreadable.push_back(u);
    hit = hit || (c.shard && gone.count(c.target));
    const bool last = !gone.count(c.target) && env_.cluster->IsLastResort(c.target) &&
                      !env_.bad->IsBad(id, static_cast<uint16_t>(i), c.shard);
    hopeless.push_back(u && !last);
    any = any || u;
  }
  if (!any) return Ok();
  ++out->degraded;
  std::vector<bool> lost = LostColumns(record->info, hopeless);
  if (std::ranges::none_of(lost, std::identity())) {
    if (hit && ++out->hit <= max_hit_) out->some_hit.insert(id);
    return Ok();
  }
  out->lost.insert(id);
  out->gone[id] = std::move(lost);
  return Ok();
}

Task<Result<Damage>> Survey::DamageWithout(std::set<TargetId> gone) {
  Damage out;
  std::set<TargetId> targets = gone;
  for (TargetId t : env_.cluster->Targets()) {
    if (!env_.cluster->IsReachable(t)) targets.insert(t);
  }
  std::set<StripeId> seen;
  for (TargetId t : targets) {
    for (ShardId after;;) {
      size_t n = 0;
      {
        Txn txn(*env_.store);
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
  Txn txn(*env_.store);
  for (StripeId id : env_.bad->BadStripes()) {
    if (seen.insert(id).second) CO_RETURN_IF_ERROR(SurveyStripe(txn, id, gone, &out));
  }
  co_return std::move(out);
}

Task<Result<Damage>> Survey::DamageNow() {
  // The survey is good as long as map and store stay as they are; one that took long is shown for a
  // while even so, or watching a repair would cost more than the repair.
  const std::pair<uint64_t, CommitSeq> now_is = {env_.cluster->version(), env_.store->last_seq()};
  if (!damage_ || (damage_of_ != now_is && Now() >= damage_until_ns_)) {
    const int64_t start_ns = Now();
    CO_ASSIGN_OR_RETURN(Damage fresh, co_await DamageWithout({}));
    damage_ = std::move(fresh);
    damage_of_ = now_is;
    damage_until_ns_ = Now() + std::min(kSurveyAge * (Now() - start_ns), kMaxSurveyAgeNs);
  }
  co_return *damage_;
}

Task<Result<uint64_t>> Survey::LostWithout(std::vector<TargetId> targets) {
  CO_ASSIGN_OR_RETURN(const Damage before, co_await DamageWithout({}));
  CO_ASSIGN_OR_RETURN(const Damage after, co_await DamageWithout({targets.begin(), targets.end()}));
  co_return after.lost.size() > before.lost.size() ? after.lost.size() - before.lost.size() : 0;
}

Task<Result<CanRemoveReply>> Survey::CanRemove(std::vector<TargetId> targets) {
  CO_ASSIGN_OR_RETURN(const Damage before, co_await DamageWithout({}));
  CO_ASSIGN_OR_RETURN(const Damage after, co_await DamageWithout({targets.begin(), targets.end()}));
  std::set<StripeId> lost;
  std::ranges::set_difference(after.lost, before.lost, std::inserter(lost, lost.end()));
  CanRemoveReply reply;
  reply.lost_stripes = lost.size();
  reply.degraded_stripes = after.hit;
  for (const bool is_lost : {true, false}) {
    const size_t room = kMaxAffectedFiles + 1 - reply.files.size();
    CO_ASSIGN_OR_RETURN(const auto files, ListFilesOf(*env_.store, is_lost ? lost : after.some_hit, room, after.gone));
    for (const LostFile& f : files) reply.files.push_back(Affected(f, is_lost));
  }
  reply.more = reply.files.size() > kMaxAffectedFiles || after.hit > after.some_hit.size();
  reply.files.resize(std::min(reply.files.size(), kMaxAffectedFiles));
  co_return std::move(reply);
}

Task<Result<FilesReply>> Survey::Files(FilesRequest r, std::vector<ScrubProgress> scrubs) {
  FilesReply reply;
  std::set<StripeId> stripes;
  Damage damage;
  switch (r.kind) {
    case FilesKind::kLost: {
      CO_ASSIGN_OR_RETURN(damage, co_await DamageNow());
      stripes = damage.lost;
      break;
    }
    case FilesKind::kThin:
      if (exposure_) stripes = exposure_->some_thin;
      reply.cut = exposure_ && exposure_->thin > stripes.size();
      break;
    case FilesKind::kUnfit:
      for (const ScrubProgress& p : scrubs) {
        stripes.insert(p.unfit.begin(), p.unfit.end());
        reply.cut = reply.cut || p.unfit.size() >= kMaxUnfitStripes;
      }
      break;
    case FilesKind::kWouldBeLost:
    case FilesKind::kWouldDegrade: {
      CO_ASSIGN_OR_RETURN(const Damage before, co_await DamageWithout({}));
      CO_ASSIGN_OR_RETURN(damage, co_await DamageWithout({r.targets.begin(), r.targets.end()}));
      if (r.kind == FilesKind::kWouldBeLost) {
        std::ranges::set_difference(damage.lost, before.lost, std::inserter(stripes, stripes.end()));
      } else {
        stripes = damage.some_hit;
        reply.cut = damage.hit > damage.some_hit.size();
      }
      break;
    }
  }
  CO_ASSIGN_OR_RETURN(FilesPage page, PageOfFiles(*env_.store, stripes, kMaxAffectedFiles, damage.gone, r.after));
  reply.next = std::move(page.next);
  for (LostFile& f : page.files) {
    const bool lost = r.kind == FilesKind::kLost || r.kind == FilesKind::kWouldBeLost;
    reply.files.push_back({f.ino, std::move(f.path), f.offset, f.length, lost});
  }
  co_return std::move(reply);
}

}  // namespace stria
