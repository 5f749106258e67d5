// Stripes that are whole, but not placed as their layout wants, or narrower than it asks for: found by walking all of them, which is done
// only while the counters say that there are some, and when disks have come that could take them.
#include <algorithm>

#include "meta/service/meta_server_impl.h"

namespace stria {
namespace {

constexpr size_t kMisfitPage = 256;
constexpr int kMisfitPagesPerRound = 16;
constexpr int64_t kMisfitsRestNs = 20 * kSecond;
constexpr int64_t kMisfitsAgainNs = 600 * kSecond;  // space may have come back without a new disk

}  // namespace

void MetaServer::MarkMisplaced(StripeHealth* h) const {
  std::vector<TargetId> targets;
  for (const Column& c : h->info.columns) targets.push_back(c.shard ? c.target : TargetId());
  for (const ColumnIndex c : CrowdedColumns(cluster_->View(), h->info.shape, targets, h->domain)) {
    if (h->columns[c.v] == ColumnState::kOk) h->columns[c.v] = ColumnState::kMisplaced;
  }
}

// After a change of the map: begins a scan if there are places that there were not before.
void MetaServer::FollowPlaces() {
  std::set<TargetId> now;
  for (TargetId t : cluster_->AllTargets()) {
    if (cluster_->StateOf(t) == ColumnState::kOk) now.insert(t);
  }
  if (!std::ranges::includes(places_, now)) misfits_after_ = StripeId();
  places_ = std::move(now);
}

Task<Result<void>> MetaServer::ScanMisfits() {
  if (store_->Count(Counter::kCrowded) == 0 && store_->Count(Counter::kNarrow) == 0) {
    misfits_after_.reset();
    co_return Ok();
  }
  if (!misfits_after_ && Now() >= misfits_again_ns_) misfits_after_ = StripeId();
  for (int i = 0; i < kMisfitPagesPerRound && misfits_after_; ++i) {
    bool full = false;
    Txn txn(*store_);
    CO_ASSIGN_OR_RETURN(const auto rows, txn.Scan(Family::kStripes, StripeKey(StripeId(misfits_after_->v + 1)),
                                                  StripeKey(StripeId(UINT64_MAX)), kMisfitPage));
    for (const KvEntry& row : rows) {
      CO_ASSIGN_OR_RETURN(const StripeRecord record, StripeRecord::Decode(row.first, row.second));
      misfits_after_ = record.info.id;
      if (IsWidenable(record) && !widens_.Add(record.info.id, record.is_thin())) full = true;
      if (!record.info.crowded) continue;
      const std::optional<StripeHealth> health = HealthOf(record);
      const std::optional<int> need = health ? NeedOf(*health) : std::nullopt;
      if (need) repairs_.Add(record.info.id, *need);
    }
    if (rows.size() < kMisfitPage) {
      misfits_after_.reset();
      misfits_again_ns_ = Now() + kMisfitsAgainNs;
    }
    if (full) {
      misfits_after_.reset();
      misfits_again_ns_ = Now() + kMisfitsRestNs;  // when some have been done
    }
    co_await Yield();
  }
  if (misfits_after_) repair_work_.Set();
  co_return Ok();
}

}  // namespace stria
