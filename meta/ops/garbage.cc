#include "meta/ops/ops.h"

namespace stria {

Result<GarbagePage> ListGarbage(Txn& txn, TargetId target, ShardId after, GarbageUpTo upto, size_t limit) {
  ASSIGN_OR_RETURN(auto rows, txn.Scan(Family::kGarbage, TargetShardKey(target, ShardId(after.v + 1)),
                                       PrefixEnd(TargetKey(target)), limit));
  GarbagePage page;
  page.last = after;
  page.end = rows.size() < limit;
  for (const KvEntry& row : rows) {
    TargetShardKeyParts parts;
    if (!ParseTargetShardKey(row.first, &parts)) {
      return CorruptRecord(Family::kGarbage, row.first, "its key does not decode");
    }
    ASSIGN_OR_RETURN(GarbageRecord rec, GarbageRecord::Decode(row.first, row.second));
    page.last = parts.shard;
    const bool unseen = rec.allocated > upto.started;
    if (rec.seq <= (unseen ? upto.durable : upto.acked)) page.shards.push_back({parts.shard, rec.stripe, rec.seq});
  }
  return page;
}

Result<void> OpGarbageDeleted(Txn& txn, TargetId target, ShardId shard) {
  const std::string key = TargetShardKey(target, shard);
  ASSIGN_OR_RETURN(const bool there, txn.Has<GarbageRecord>(key));
  if (!there) return Ok();
  txn.Delete(Family::kGarbage, key);
  txn.AddCount(Counter::kGarbageShards, -1);
  return Ok();
}

}  // namespace stria
