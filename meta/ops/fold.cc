// Folding: columns of several stripes become the data columns of one. The steps of OpFold:
//   1. the plan is well-formed, its parity is reserved
//   2. each member is what it was when the fold was planned
//   3. every extent that uses a member's stripe is one of the fold: the same bytes of the same shard
//   4. the members' stripes end: the moved shards belong to the fold, their other shards stay reserved
//   5. the fold is live
// Bytes of files do not change, so neither do their attributes and versions.
#include <algorithm>
#include <map>
#include <set>

#include "meta/ops/extents.h"
#include "meta/ops/stripes.h"
#include "stripe/layout.h"

namespace stria {
namespace {

Error Conflict(std::string what) { return Error(FsError::kConflict, std::move(what)); }

// A run of a member's payload, and where it begins in the fold's.
struct Moved {
  uint64_t begin = 0;  // in the payload of its stripe
  uint64_t end = 0;
  uint64_t to = 0;
};
using MovedParts = std::vector<Moved>;  // of one stripe, by begin

// The extents that use the stripe. kTooBig beyond `limit`.
Result<std::vector<std::pair<InodeId, Extent>>> ReadUses(Txn& txn, StripeId stripe, size_t limit) {
  ASSIGN_OR_RETURN(const auto uses, ListStripeUses(txn, stripe, limit + 1));
  if (uses.size() > limit) return Error(FsError::kTooBig, "the stripe is used in too many pieces");
  std::vector<std::pair<InodeId, Extent>> out;
  for (const StripeUse& use : uses) {
    const std::string key = ExtentKey(use.ino, use.file_offset);
    ASSIGN_OR_RETURN(std::optional<ExtentRecord> rec, txn.Read<ExtentRecord>(key));
    if (!rec || rec->extent.stripe != stripe) return CorruptRecord(Family::kExtents, key, "a stripe's reference is not there");
    out.emplace_back(use.ino, std::move(rec->extent));
  }
  return out;
}

// Step 1.
Result<void> CheckPlan(Txn& txn, const FoldPlan& plan) {
  const StripeShape& shape = plan.fold.shape;
  if (Error e = ValidateStripe(plan.fold); !e.ok()) return Conflict(e.message);
  if (!shape.gathered() || shape.groups != 1 || plan.members.size() != shape.data_columns()) {
    return Conflict("a fold is a gathered stripe of one group, with a member for each data column");
  }
  ASSIGN_OR_RETURN(const bool used, txn.Has<StripeRecord>(StripeKey(plan.fold.id)));
  if (used) return Conflict("the fold is there already");
  for (uint16_t c = static_cast<uint16_t>(shape.data_columns()); c < shape.columns(); ++c) {
    const Column& parity = plan.fold.columns[c];
    ASSIGN_OR_RETURN(const auto pending, txn.Read<TargetStripeRecord>(TargetShardKey(parity.target, parity.shard)));
    if (!pending || *pending != TargetStripeRecord{plan.fold.id, c, true}) {
      return Conflict("a parity shard is not reserved for this fold");
    }
  }
  return Ok();
}

// Step 2. The stripes of the members.
Result<std::map<StripeId, StripeRecord>> ReadMembers(Txn& txn, const FoldPlan& plan) {
  std::map<StripeId, StripeRecord> out;
  std::set<std::pair<StripeId, uint16_t>> seen;
  for (size_t i = 0; i < plan.members.size(); ++i) {
    const FoldMember& m = plan.members[i];
    if (!seen.insert({m.stripe, m.column}).second) return Conflict("a column is to be folded with itself");
    auto it = out.find(m.stripe);
    if (it == out.end()) {
      ASSIGN_OR_RETURN(std::optional<StripeRecord> rec, GetStripeRecord(txn, m.stripe));
      if (!rec || rec->state != StripeState::kLive) return Conflict("a stripe that was to be folded is gone");
      it = out.emplace(m.stripe, *std::move(rec)).first;
    }
    const StripeInfo& info = it->second.info;
    if (!info.shape.gathered() || m.column >= info.shape.data_columns() || info.columns[m.column] != plan.fold.columns[i]) {
      return Conflict("a column that was to be folded is another by now");
    }
  }
  return out;
}

std::map<StripeId, MovedParts> PartsOf(const FoldPlan& plan, const std::map<StripeId, StripeRecord>& stripes) {
  std::map<StripeId, MovedParts> out;
  uint64_t to = 0;
  for (const FoldMember& m : plan.members) {
    const StripeShape& shape = stripes.at(m.stripe).info.shape;
    const uint64_t begin = PayloadOffset(shape, ColumnIndex(m.column), 0);
    const uint64_t length = ColumnBytes(shape, ColumnIndex(m.column));
    out[m.stripe].push_back({begin, begin + length, to});
    to += length;
  }
  for (auto& [_, parts] : out) std::ranges::sort(parts, {}, &Moved::begin);
  return out;
}

// The extent as it is in the fold: in pieces, where it went over several columns.
Result<std::vector<Extent>> Translate(const Extent& e, const MovedParts& parts, StripeId fold) {
  std::vector<Extent> out;
  uint64_t at = e.stripe_offset;
  const uint64_t end = e.stripe_offset + e.length;
  for (const Moved& p : parts) {
    if (p.end <= at) continue;
    if (at >= end || p.begin > at) break;
    const uint64_t upto = std::min(end, p.end);
    Extent piece{.file_offset = e.file_offset + (at - e.stripe_offset), .length = upto - at, .stripe = fold};
    piece.stripe_offset = p.to + (at - p.begin);
    out.push_back(std::move(piece));
    at = upto;
  }
  if (at < end) return Conflict("a file uses a column that is not to be folded");
  return out;
}

// Step 3. Changes of live bytes, of the fold too.
Result<StripeDeltas> MoveExtents(Txn& txn, const FoldPlan& plan, const std::map<StripeId, StripeRecord>& stripes,
                                 size_t max_refs, Touched* touched) {
  std::map<InodeId, InodeRecord> inodes;
  StripeDeltas deltas;
  size_t left = max_refs;
  for (const auto& [stripe, parts] : PartsOf(plan, stripes)) {
    ASSIGN_OR_RETURN(const auto uses, ReadUses(txn, stripe, left));
    left -= uses.size();
    for (const auto& [ino, extent] : uses) {
      auto it = inodes.find(ino);
      if (it == inodes.end()) {
        ASSIGN_OR_RETURN(std::optional<InodeRecord> rec, txn.Read<InodeRecord>(InodeKey(ino)));
        if (!rec) return CorruptRecord(Family::kInodes, InodeKey(ino), "it is missing");
        it = inodes.emplace(ino, *std::move(rec)).first;
      }
      ASSIGN_OR_RETURN(const std::vector<Extent> pieces, Translate(extent, parts, plan.fold.id));
      const std::vector<Extent> existing = {extent};
      ApplyEdit(txn, &it->second, existing, PlanOverwrite(existing, pieces, extent.file_offset, extent.length), &deltas);
    }
  }
  for (const auto& [ino, rec] : inodes) {
    txn.Write(InodeKey(ino), rec);  // an extent may have become several
    touched->data.insert(ino);
  }
  return deltas;
}

// Step 4, of one stripe.
Result<void> EndMember(Txn& txn, const StripeRecord& rec, int64_t delta, const std::set<ShardId>& moved,
                       std::vector<Column>* left) {
  const StripeId id = rec.info.id;
  ASSIGN_OR_RETURN(const auto used, txn.Read<RefBytesRecord>(StripeKey(id)));
  if (!used || static_cast<int64_t>(used->bytes) + delta != 0) {
    return CorruptRecord(Family::kRefBytes, StripeKey(id), "it counts other bytes than the extents that use it");
  }
  txn.AddCount(Counter::kLiveBytes, delta);
  txn.Delete(Family::kRefBytes, StripeKey(id));
  txn.Delete(Family::kStripes, StripeKey(id));
  CountLive(txn, rec.info, -1);
  for (uint16_t c = 0; c < rec.info.columns.size(); ++c) {
    const Column& column = rec.info.columns[c];
    if (!column.shard || moved.count(column.shard)) continue;
    txn.Write(TargetShardKey(column.target, column.shard), TargetStripeRecord{id, c, true});
    left->push_back(column);
  }
  return Ok();
}

}  // namespace

Result<StripeUsage> ReadStripeUsage(Txn& txn, const StripeInfo& info, size_t limit) {
  ASSIGN_OR_RETURN(const auto uses, ReadUses(txn, info.id, limit));
  StripeUsage out;
  out.column_bytes.assign(info.shape.data_columns(), 0);
  out.refs = static_cast<uint32_t>(uses.size());
  std::set<InodeId> files;
  for (const auto& [ino, e] : uses) {
    for (const ShardRange& r : MapRange(info.shape, e.stripe_offset, e.length)) out.column_bytes[r.column.v] += r.length;
    if (!files.insert(ino).second) continue;
    ASSIGN_OR_RETURN(const std::optional<InodeRecord> rec, txn.Read<InodeRecord>(InodeKey(ino)));
    if (rec) out.stamp += rec->attr.data_version;
  }
  out.files.assign(files.begin(), files.end());
  return out;
}

Result<std::vector<Column>> OpFold(Txn& txn, const FoldPlan& plan, size_t max_refs, Touched* touched) {
  // 1.
  RETURN_IF_ERROR(CheckPlan(txn, plan));
  // 2.
  ASSIGN_OR_RETURN(const auto stripes, ReadMembers(txn, plan));
  // 3.
  ASSIGN_OR_RETURN(StripeDeltas deltas, MoveExtents(txn, plan, stripes, max_refs, touched));
  // 4.
  std::set<ShardId> moved;
  for (size_t i = 0; i < plan.members.size(); ++i) moved.insert(plan.fold.columns[i].shard);
  std::vector<Column> left;
  for (const auto& [id, rec] : stripes) {
    RETURN_IF_ERROR(EndMember(txn, rec, deltas[id], moved, &left));
    deltas.erase(id);
    touched->freed.insert(id);
  }
  // 5.
  StripeRecord rec;
  rec.info = plan.fold;
  rec.state = StripeState::kLive;
  rec.layout = plan.layout;
  rec.live_since = txn.seq();
  txn.Write(StripeKey(plan.fold.id), rec);
  for (uint16_t c = 0; c < plan.fold.columns.size(); ++c) {
    const Column& column = plan.fold.columns[c];
    if (column.shard) txn.Write(TargetShardKey(column.target, column.shard), TargetStripeRecord{plan.fold.id, c, false});
  }
  CountLive(txn, rec.info, 1);
  RETURN_IF_ERROR(SettleStripes(txn, deltas, touched));
  return left;
}

}  // namespace stria
