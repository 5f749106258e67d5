// What ails a stripe, as the repairer sees it.
#include <algorithm>

#include "meta/upkeep/repairer.h"
#include "stripe/layout.h"

namespace stria {
namespace {

constexpr int kMisplacedNeed = 1000;  // more than any number of spare shards

}  // namespace

std::optional<StripeHealth> Repairer::HealthOf(const StripeRecord& record) const {
  if (record.state != StripeState::kLive) return std::nullopt;
  StripeHealth h;
  h.info = record.info;
  h.domain = record.layout.domain;
  if (record.layout.place == Place::kNode) h.place_node = record.layout.place_node;
  if (const auto refused = refused_by_.find(record.info.id); refused != refused_by_.end()) h.avoid = refused->second;
  for (size_t i = 0; i < record.info.columns.size(); ++i) {
    const Column& c = record.info.columns[i];
    ColumnState state = ColumnState::kOk;
    if (c.shard) {
      const bool bad = queue_.IsBad(record.info.id, static_cast<uint16_t>(i), c.shard);
      state = bad ? ColumnState::kMissing : env_.cluster->StateOf(c.target);
    }
    h.columns.push_back(state);
  }
  UseLastResorts(&h);
  if (record.info.crowded) MarkMisplaced(&h);
  return h;
}

// Where too little is left, what a failed disk still gives is better than nothing.
void Repairer::UseLastResorts(StripeHealth* h) const {
  for (uint32_t g = 0; g < h->info.shape.groups; ++g) {
    if (SpareShards(h->info, h->columns, g) >= 0) continue;
    for (uint16_t i = 0; i < h->columns.size(); ++i) {
      const Column& c = h->info.columns[i];
      if (h->columns[i] != ColumnState::kMissing || GroupOf(h->info.shape, ColumnIndex(i)) != g) continue;
      if (env_.cluster->IsLastResort(c.target) && !queue_.IsBad(h->info.id, i, c.shard)) {
        h->columns[i] = ColumnState::kDraining;
      }
    }
  }
}

std::optional<int> Repairer::NeedOf(const StripeHealth& health) {
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

void Repairer::MarkMisplaced(StripeHealth* h) const {
  std::vector<TargetId> targets;
  for (const Column& c : h->info.columns) targets.push_back(c.shard ? c.target : TargetId());
  for (const ColumnIndex c : CrowdedColumns(env_.cluster->View(), h->info.shape, targets, h->domain)) {
    if (h->columns[c.v] == ColumnState::kOk) h->columns[c.v] = ColumnState::kMisplaced;
  }
}

}  // namespace stria
