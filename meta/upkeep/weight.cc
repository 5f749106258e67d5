#include "meta/upkeep/weight.h"

#include <algorithm>

#include "meta/ops/ops.h"
#include "stripe/stripe_form.h"

namespace stria {
namespace {

constexpr size_t kWeighPage = 256;

}  // namespace

Task<Result<DiskWeight>> WeighDisks(MetaStore* store, const ClusterState* cluster, std::vector<TargetId> targets) {
  DiskWeight out;
  const ClusterView view = cluster->View();
  const auto leaves = [&](TargetId t) { return std::ranges::count(targets, t) > 0; };
  out.others = static_cast<size_t>(
      std::ranges::count_if(view.targets, [&](const TargetView& t) { return TakesNew(t) && !leaves(t.target); }));
  for (TargetId t : targets) {
    for (ShardId after;;) {
      size_t n = 0;
      {
        Txn txn(*store);
        CO_ASSIGN_OR_RETURN(const auto page, ListTargetShards(txn, t, after, kWeighPage));
        for (const TargetShard& s : page) {
          after = s.shard;
          if (s.record.pending) continue;
          CO_ASSIGN_OR_RETURN(const auto record, GetStripeRecord(txn, s.record.stripe));
          if (!record || record->state != StripeState::kLive) continue;
          const std::vector<Column>& columns = record->info.columns;
          ++out.stripes;
          out.bytes += columns[s.record.column].length;
          const auto used = std::ranges::count_if(columns, [](const Column& c) { return static_cast<bool>(c.shard); });
          // Counted with the first of its columns that is in question.
          const auto first = std::ranges::find_if(columns, [&](const Column& c) { return c.shard && leaves(c.target); });
          const bool counts = first - columns.begin() == s.record.column;
          if (counts && static_cast<size_t>(used) > out.others) ++out.homeless;
        }
        n = page.size();
      }
      if (n < kWeighPage) break;
      co_await Yield();
    }
  }
  co_return out;
}

}  // namespace stria
