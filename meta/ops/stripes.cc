#include "meta/ops/stripes.h"

#include "stripe/layout.h"

namespace stria {
namespace {

Error NoStripe(StripeId stripe) {
  return Error(FsError::kNoEnt, "stripe " + std::to_string(stripe.v) + " does not exist (any more)");
}

// Of a stripe that it fills, a client decides the length only.
bool FillsAllocation(const StripeInfo& allocated, const StripeInfo& sealed) {
  const StripeShape& a = allocated.shape;
  const StripeShape& s = sealed.shape;
  if (a.groups != s.groups || a.k != s.k || a.m != s.m || a.codec != s.codec ||
      a.unit_bytes != s.unit_bytes || sealed.columns.size() != allocated.columns.size()) {
    return false;
  }
  for (size_t i = 0; i < sealed.columns.size(); ++i) {
    const Column& c = sealed.columns[i];
    if (c.length == 0) continue;
    if (c.shard != allocated.columns[i].shard || c.target != allocated.columns[i].target) return false;
  }
  return true;
}

}  // namespace

void CountLive(Txn& txn, const StripeInfo& info, int64_t by) {
  txn.AddCount(Counter::kStripes, by);
  if (info.narrow) txn.AddCount(Counter::kNarrow, by);
  if (info.crowded) txn.AddCount(Counter::kCrowded, by);
}

Result<std::optional<StripeRecord>> GetStripeRecord(Txn& txn, StripeId stripe) {
  return txn.Read<StripeRecord>(StripeKey(stripe));
}

void PutGarbage(Txn& txn, TargetId target, ShardId shard, StripeId stripe, CommitSeq allocated) {
  txn.Write(TargetShardKey(target, shard), GarbageRecord{stripe, txn.seq(), allocated});
  txn.AddCount(Counter::kGarbageShards, 1);
}

Result<void> DiscardStripe(Txn& txn, StripeId stripe, Touched* touched) {
  ASSIGN_OR_RETURN(std::optional<StripeRecord> rec, GetStripeRecord(txn, stripe));
  if (!rec) return CorruptRecord(Family::kStripes, StripeKey(stripe), "it is missing");
  txn.Delete(Family::kStripes, StripeKey(stripe));
  const CommitSeq allocated = rec->state == StripeState::kAllocated ? rec->live_since : CommitSeq();
  for (const Column& c : rec->info.columns) {
    if (!c.shard) continue;
    txn.Delete(Family::kTargetStripes, TargetShardKey(c.target, c.shard));
    PutGarbage(txn, c.target, c.shard, stripe, allocated);
  }
  if (rec->state == StripeState::kLive) {
    txn.Delete(Family::kRefBytes, StripeKey(stripe));
    CountLive(txn, rec->info, -1);
  } else {
    txn.Delete(Family::kSessionStripes, SessionStripeKey(rec->session, stripe));
    txn.AddCount(Counter::kAllocated, -1);
  }
  touched->freed.insert(stripe);
  return Ok();
}

Result<void> OpFreeStripe(Txn& txn, StripeId stripe, Touched* touched) {
  ASSIGN_OR_RETURN(std::optional<StripeRecord> rec, GetStripeRecord(txn, stripe));
  if (!rec) return NoStripe(stripe);
  if (rec->state != StripeState::kAllocated) return Error(FsError::kConflict, "the stripe is in use");
  return DiscardStripe(txn, stripe, touched);
}

Result<void> OpForgetStripe(Txn& txn, StripeId stripe) {
  ASSIGN_OR_RETURN(std::optional<StripeRecord> rec, GetStripeRecord(txn, stripe));
  if (!rec) return NoStripe(stripe);
  if (rec->state != StripeState::kAllocated) return Error(FsError::kConflict, "the stripe is in use");
  txn.Delete(Family::kStripes, StripeKey(stripe));
  for (const Column& c : rec->info.columns) {
    if (c.shard) txn.Delete(Family::kTargetStripes, TargetShardKey(c.target, c.shard));
  }
  txn.Delete(Family::kSessionStripes, SessionStripeKey(rec->session, stripe));
  txn.AddCount(Counter::kAllocated, -1);
  return Ok();
}

Result<CommitSeq> MakeStripeLive(Txn& txn, SessionId session, const StripeInfo& sealed) {
  ASSIGN_OR_RETURN(std::optional<StripeRecord> rec, GetStripeRecord(txn, sealed.id));
  const std::string name = "stripe " + std::to_string(sealed.id.v);
  if (!rec || rec->state != StripeState::kAllocated || rec->session != session) {
    return Error(FsError::kConflict, name + " is not allocated to this session (any more)");
  }
  if (Error e = ValidateStripe(sealed); !e.ok()) return Error(FsError::kBadRequest, e.message);
  if (!FillsAllocation(rec->info, sealed)) {
    return Error(FsError::kConflict, name + " was not written as it was allocated");
  }
  for (size_t i = 0; i < sealed.columns.size(); ++i) {
    const Column& unused = rec->info.columns[i];
    if (sealed.columns[i].length != 0) continue;
    txn.Delete(Family::kTargetStripes, TargetShardKey(unused.target, unused.shard));
  }
  const CommitSeq allocated = rec->live_since;
  const bool narrow = rec->info.narrow;
  const bool crowded = rec->info.crowded;
  rec->info = sealed;
  rec->info.narrow = narrow;
  rec->info.crowded = crowded;
  rec->state = StripeState::kLive;
  rec->session = SessionId();
  rec->live_since = txn.seq();
  txn.Write(StripeKey(sealed.id), *rec);
  txn.Delete(Family::kSessionStripes, SessionStripeKey(session, sealed.id));
  txn.AddCount(Counter::kAllocated, -1);
  CountLive(txn, rec->info, 1);
  return allocated;
}

Result<bool> OpCollectSession(Txn& txn, SessionId session, Touched* touched) {
  constexpr size_t kStep = kMaxAllocateStripes;
  ASSIGN_OR_RETURN(auto rows, txn.ScanPrefix(Family::kSessionStripes, SessionKey(session), kStep));
  for (const KvEntry& row : rows) {
    uint64_t owner = 0;
    StripeId stripe;
    if (!ParseKey64x2(row.first, &owner, &stripe.v)) {
      return CorruptRecord(Family::kSessionStripes, row.first, "its key does not decode");
    }
    RETURN_IF_ERROR(DiscardStripe(txn, stripe, touched));
  }
  return rows.size() == kStep;
}

Result<ShardId> OpReserveShard(Txn& txn, StripeId stripe, uint16_t column, TargetId target) {
  ASSIGN_OR_RETURN(std::optional<StripeRecord> rec, GetStripeRecord(txn, stripe));
  if (!rec) return NoStripe(stripe);
  if (column >= rec->info.columns.size() || !rec->info.columns[column].shard) {
    return Error(FsError::kInval, "the stripe has no shard in that column");
  }
  ASSIGN_OR_RETURN(const ShardId shard, txn.NewShard());
  txn.Write(TargetShardKey(target, shard), TargetStripeRecord{stripe, column, true});
  return shard;
}

Result<void> OpDropReservedShard(Txn& txn, TargetId target, ShardId shard) {
  const std::string key = TargetShardKey(target, shard);
  ASSIGN_OR_RETURN(std::optional<TargetStripeRecord> rec, txn.Read<TargetStripeRecord>(key));
  if (!rec || !rec->pending) return Ok();
  txn.Delete(Family::kTargetStripes, key);
  PutGarbage(txn, target, shard, rec->stripe);  // of a widened stripe, it was live
  return Ok();
}

Result<void> OpSwapColumn(Txn& txn, StripeId stripe, uint16_t column, ShardId old_shard,
                          const Column& new_column, bool crowded) {
  ASSIGN_OR_RETURN(std::optional<StripeRecord> rec, GetStripeRecord(txn, stripe));
  if (!rec) return NoStripe(stripe);
  if (rec->state != StripeState::kLive || column >= rec->info.columns.size()) {
    return Error(FsError::kConflict, "the stripe has no such column");
  }
  Column& now = rec->info.columns[column];
  if (!old_shard || now.shard != old_shard) {
    return Error(FsError::kConflict, "the column has another shard by now");
  }
  if (new_column.length != now.length) {
    return Error(FsError::kConflict, "the new shard is not what the old one was");
  }
  const std::string key = TargetShardKey(new_column.target, new_column.shard);
  ASSIGN_OR_RETURN(std::optional<TargetStripeRecord> pending, txn.Read<TargetStripeRecord>(key));
  if (!pending || *pending != TargetStripeRecord{stripe, column, true}) {
    return Error(FsError::kConflict, "the new shard is not reserved for this column");
  }
  txn.Write(key, TargetStripeRecord{stripe, column, false});
  txn.Delete(Family::kTargetStripes, TargetShardKey(now.target, now.shard));
  PutGarbage(txn, now.target, now.shard, stripe);
  now = new_column;
  if (crowded != rec->info.crowded) txn.AddCount(Counter::kCrowded, crowded ? 1 : -1);
  rec->info.crowded = crowded;
  txn.Write(StripeKey(stripe), *rec);
  return Ok();
}

Result<void> OpReserveStripe(Txn& txn, StripeInfo* wide) {
  for (size_t i = 0; i < wide->columns.size(); ++i) {
    Column& c = wide->columns[i];
    if (c.length == 0 || c.shard) continue;
    ASSIGN_OR_RETURN(c.shard, txn.NewShard());
    txn.Write(TargetShardKey(c.target, c.shard), TargetStripeRecord{wide->id, static_cast<uint16_t>(i), true});
  }
  return Ok();
}

Result<StripeInfo> OpWidenStripe(Txn& txn, const StripeInfo& wide) {
  ASSIGN_OR_RETURN(std::optional<StripeRecord> rec, GetStripeRecord(txn, wide.id));
  if (!rec) return NoStripe(wide.id);
  if (Error e = ValidateStripe(wide); !e.ok()) return Error(FsError::kConflict, e.message);
  if (rec->state != StripeState::kLive || !rec->info.narrow ||
      rec->info.shape.payload_bytes != wide.shape.payload_bytes) {
    return Error(FsError::kConflict, "the stripe has changed since widening began");
  }
  for (size_t i = 0; i < wide.columns.size(); ++i) {
    const Column& c = wide.columns[i];
    if (!c.shard) continue;
    const TargetStripeRecord mine{wide.id, static_cast<uint16_t>(i), true};
    ASSIGN_OR_RETURN(const auto pending, txn.Read<TargetStripeRecord>(TargetShardKey(c.target, c.shard)));
    if (!pending || *pending != mine) return Error(FsError::kConflict, "a new shard is not reserved for this stripe");
  }
  const StripeInfo was = rec->info;
  for (size_t i = 0; i < was.columns.size(); ++i) {
    const Column& c = was.columns[i];
    if (!c.shard) continue;
    txn.Write(TargetShardKey(c.target, c.shard), TargetStripeRecord{was.id, static_cast<uint16_t>(i), true});
  }
  for (size_t i = 0; i < wide.columns.size(); ++i) {
    const Column& c = wide.columns[i];
    if (!c.shard) continue;
    txn.Write(TargetShardKey(c.target, c.shard), TargetStripeRecord{wide.id, static_cast<uint16_t>(i), false});
  }
  CountLive(txn, was, -1);
  rec->info = wide;
  CountLive(txn, rec->info, 1);
  txn.Write(StripeKey(wide.id), *rec);
  return was;
}

Result<void> OpSetWide(Txn& txn, StripeId stripe) {
  ASSIGN_OR_RETURN(std::optional<StripeRecord> rec, GetStripeRecord(txn, stripe));
  if (!rec || rec->state != StripeState::kLive || !rec->info.narrow) return Ok();
  txn.AddCount(Counter::kNarrow, -1);
  rec->info.narrow = false;
  txn.Write(StripeKey(stripe), *rec);
  return Ok();
}

Result<void> OpSetCrowded(Txn& txn, StripeId stripe, bool crowded) {
  ASSIGN_OR_RETURN(std::optional<StripeRecord> rec, GetStripeRecord(txn, stripe));
  if (!rec || rec->state != StripeState::kLive || rec->info.crowded == crowded) return Ok();
  txn.AddCount(Counter::kCrowded, crowded ? 1 : -1);
  rec->info.crowded = crowded;
  txn.Write(StripeKey(stripe), *rec);
  return Ok();
}

Result<std::vector<StripeUse>> ListStripeUses(Txn& txn, StripeId stripe, size_t limit, const StripeUse* after) {
  const std::string begin = after == nullptr ? StripeKey(stripe) : StripeRefKey(stripe, after->ino, after->file_offset) + '\0';
  ASSIGN_OR_RETURN(auto rows, txn.Scan(Family::kStripeRefs, begin, PrefixEnd(StripeKey(stripe)), limit));
  std::vector<StripeUse> out;
  for (const KvEntry& row : rows) {
    StripeRefKeyParts parts;
    if (!ParseStripeRefKey(row.first, &parts)) {
      return CorruptRecord(Family::kStripeRefs, row.first, "its key does not decode");
    }
    out.push_back({parts.ino, parts.file_offset});
  }
  return out;
}

Result<std::vector<TargetShard>> ListTargetShards(Txn& txn, TargetId target, ShardId after, size_t limit) {
  ASSIGN_OR_RETURN(auto rows, txn.Scan(Family::kTargetStripes, TargetShardKey(target, ShardId(after.v + 1)),
                                       PrefixEnd(TargetKey(target)), limit));
  std::vector<TargetShard> out;
  for (const KvEntry& row : rows) {
    TargetShardKeyParts parts;
    if (!ParseTargetShardKey(row.first, &parts)) {
      return CorruptRecord(Family::kTargetStripes, row.first, "its key does not decode");
    }
    ASSIGN_OR_RETURN(TargetStripeRecord rec, TargetStripeRecord::Decode(row.first, row.second));
    out.push_back({parts.shard, rec});
  }
  return out;
}

Result<bool> IsShardKnown(Txn& txn, TargetId target, ShardId shard) {
  const std::string key = TargetShardKey(target, shard);
  ASSIGN_OR_RETURN(const bool used, txn.Has<TargetStripeRecord>(key));
  if (used) return true;
  return txn.Has<GarbageRecord>(key);
}

}  // namespace stria
