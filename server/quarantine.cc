#include "server/quarantine.h"

#include <set>
#include <utility>
#include <vector>

namespace stria {

QuarantineStep DecideQuarantine(const std::optional<QuarantineMark>& mark, bool unknown, uint64_t incarnation,
                                int64_t now_wall_ns, int64_t hold_ns) {
  if (!unknown) return mark ? QuarantineStep::kUnmark : QuarantineStep::kNothing;
  if (!mark || mark->incarnation != incarnation) return QuarantineStep::kMark;
  if (now_wall_ns < mark->since_wall_ns) return QuarantineStep::kMark;  // the clock was set back
  return now_wall_ns - mark->since_wall_ns >= hold_ns ? QuarantineStep::kDelete : QuarantineStep::kNothing;
}

Task<Result<SweepResult>> SweepUnknown(TargetId target, ShardStore* store, MetaLink* meta, OpHeader header,
                                       int64_t hold_ns) {
  SweepResult out;
  ShardId after;
  for (bool more = true; more;) {
    CO_ASSIGN_OR_RETURN(const ShardStore::Page page, co_await store->Inventory(after, kQuarantinePage));
    more = page.more;
    CheckShardsRequest request;
    request.header = header;
    request.target = target;
    for (const StoredShard& s : page.shards) {
      if (s.sealed) request.shards.push_back(s.shard);
    }
    if (page.shards.empty()) break;
    const ShardId last = page.shards.back().shard;
    if (!request.shards.empty()) {
      const std::vector<ShardId> shards = request.shards;
      CO_ASSIGN_OR_RETURN(const CheckShardsReply reply,
                          co_await meta->Call(&MetaService::CheckShards, std::move(request)));
      CO_ASSIGN_OR_RETURN(const auto marks, co_await store->index().Marks(after, last));
      const std::set<ShardId> unknown(reply.unknown.begin(), reply.unknown.end());
      const int64_t now = Executor::Current().WallNs();
      std::vector<std::pair<ShardId, std::optional<QuarantineMark>>> changes;
      std::vector<ShardId> dead;
      for (const ShardId shard : shards) {
        auto it = marks.find(shard);
        const auto mark = it == marks.end() ? std::nullopt : std::optional(it->second);
        switch (DecideQuarantine(mark, unknown.contains(shard), reply.incarnation, now, hold_ns)) {
          case QuarantineStep::kNothing:
            break;
          case QuarantineStep::kMark:
            changes.emplace_back(shard, QuarantineMark{now, reply.incarnation});
            break;
          case QuarantineStep::kUnmark:
            changes.emplace_back(shard, std::nullopt);
            break;
          case QuarantineStep::kDelete:
            dead.push_back(shard);
            break;
        }
      }
      out.checked += shards.size();
      out.unknown += unknown.size();
      out.deleted += dead.size();
      CO_RETURN_IF_ERROR(co_await store->index().SetMarks(std::move(changes)));
      if (!dead.empty()) CO_RETURN_IF_ERROR(co_await store->Delete(std::move(dead)));
    }
    after = last;
  }
  co_return out;
}

}  // namespace stria
