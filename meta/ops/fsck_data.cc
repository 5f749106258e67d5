// The data half of fsck.cc.
#include "meta/ops/extents.h"
#include "meta/ops/fsck_internal.h"
#include "meta/ops/stripes.h"

namespace stria::fsck {
namespace {

std::string Where(InodeId ino, uint64_t offset) { return Name(ino) + " at " + std::to_string(offset); }

std::string Shard(TargetId target, ShardId shard) {
  return "shard " + std::to_string(shard.v) + " on target " + std::to_string(target.v);
}

}  // namespace

Result<void> Checker::CheckExtents() {
  InodeId last_ino;
  uint64_t last_end = 0;
  return ForEach<ExtentRecord>([&](const std::string& key, const ExtentRecord& rec) -> Result<void> {
    const Extent& e = rec.extent;
    InodeId ino;
    uint64_t offset = 0;
    ParseKey64x2(key, &ino.v, &offset);
    ++out_.extents;
    if (ino == last_ino && offset < last_end) Problem("extents of " + Where(ino, offset) + " overlap");
    last_ino = ino;
    last_end = e.end();
    InodeFacts* f = FindInode(ino);
    if (!f || f->rec.attr.type != FileType::kFile) {
      Problem("an extent is of " + Name(ino) + ", which is no file");
      return Ok();
    }
    ++f->extents;
    f->allocated += e.length;
    for (const Extent& v : VisibleExtents({e}, f->rec.masks)) {
      if (v.end() > f->rec.attr.size)
        Problem("an extent of " + Where(ino, offset) + " reaches beyond the file's end");
    }
    if (e.is_inline()) {
      f->inline_bytes += e.length;
      Count(Counter::kInlineBytes, e.length);
      return Ok();
    }
    Count(Counter::kLiveBytes, e.length);
    StripeFacts& s = stripes_[e.stripe];
    s.bytes += e.length;
    ++s.refs;
    ASSIGN_OR_RETURN(auto stripe, Find<StripeRecord>(StripeKey(e.stripe)));
    if (!stripe || stripe->state != StripeState::kLive) {
      Problem(Where(ino, offset) + " uses " + Name(e.stripe) + ", which is not there");
    } else if (e.stripe_offset + e.length > stripe->info.shape.payload_bytes) {
      Problem(Where(ino, offset) + " reaches beyond the end of " + Name(e.stripe));
    }
    ASSIGN_OR_RETURN(auto ref, Find<StripeRefRecord>(StripeRefKey(e.stripe, ino, offset)));
    if (!ref) {
      Problem(Where(ino, offset) + " uses " + Name(e.stripe) + " without a record in family stripe_refs",
              "family stripe_refs says again that " + Where(ino, offset) + " uses " + Name(e.stripe),
              PutRecord(StripeRefKey(e.stripe, ino, offset), StripeRefRecord()));
    }
    return Ok();
  });
}

void Checker::CheckSizes() {
  for (const auto& [ino, f] : inodes_) {
    if (f.extents == f.rec.extent_count && f.allocated == f.rec.attr.allocated_bytes &&
        f.inline_bytes == f.rec.inline_bytes) {
      continue;
    }
    const std::string problem = Name(ino) + " has other extents than it counts";
    const bool lost = f.extents < f.rec.extent_count || f.allocated < f.rec.attr.allocated_bytes ||
                      f.inline_bytes < f.rec.inline_bytes;
    if (lost) {
      Problem(problem);  // the count itself is wrong
      continue;
    }
    Problem(problem, Name(ino) + " counts its extents again",
            ChangeInode(ino, [n = f.extents, bytes = f.allocated, in_line = f.inline_bytes](InodeRecord* rec) {
              rec->extent_count = n;
              rec->attr.allocated_bytes = bytes;
              rec->inline_bytes = in_line;
            }));
  }
}

Result<void> Checker::CheckRefs() {
  RETURN_IF_ERROR(
      ForEach<StripeRefRecord>([&](const std::string& key, const StripeRefRecord&) -> Result<void> {
        StripeRefKeyParts parts;
        if (!ParseStripeRefKey(key, &parts)) {
          Problem("a key of family stripe_refs does not decode: " + KeyToString(Family::kStripeRefs, key));
          return Ok();
        }
        ++stripes_[parts.stripe].listed;
        ASSIGN_OR_RETURN(const auto e, Find<ExtentRecord>(ExtentKey(parts.ino, parts.file_offset)));
        if (e && e->extent.stripe == parts.stripe) return Ok();
        const std::string where = Where(parts.ino, parts.file_offset);
        const std::string problem = Name(parts.stripe) + " is not used by " + where + ", as family stripe_refs says";
        const InodeFacts* f = FindInode(parts.ino);
        // The rest of an extent, of a file that counts more extents than it has.
        if (unreadable_ || (f && f->extents < f->rec.extent_count)) Problem(problem);
        else Problem(problem, "family stripe_refs forgets " + Name(parts.stripe) + " for " + where,
                     DeleteRecord<StripeRefRecord>(key));
        return Ok();
      }));
  return ForEach<RefBytesRecord>([&](const std::string& key, const RefBytesRecord& rec) -> Result<void> {
    StripeId stripe;
    ParseKey64(key, &stripe.v);
    const uint64_t used = stripes_[stripe].bytes;
    if (used == rec.bytes) return Ok();
    const std::string problem = Name(stripe) + " counts " + std::to_string(rec.bytes) + " bytes in use, which is wrong";
    ASSIGN_OR_RETURN(const auto there, Find<StripeRecord>(StripeKey(stripe)));
    if (rec.bytes > used && stripes_[stripe].listed > stripes_[stripe].refs) {
      Problem(problem);  // the other references must be clear first
    } else if (used > 0) {
      Problem(problem, Name(stripe) + " has " + std::to_string(used) + " bytes in use now",
              PutRecord(key, RefBytesRecord{used}));
    } else if (!there && !unreadable_) {
      Problem(problem, "the count of bytes in use is removed: there is no " + Name(stripe),
              DeleteRecord<RefBytesRecord>(key));
    } else {
      Problem(problem);  // its extents may have been lost
    }
    return Ok();
  });
}

Result<void> Checker::CheckStripes() {
  RETURN_IF_ERROR(ForEach<StripeRecord>(
      [&](const std::string& key, const StripeRecord& rec) -> Result<void> { return CheckStripe(rec); }));
  return ForEach<SessionStripeRecord>([&](const std::string& key,
                                          const SessionStripeRecord&) -> Result<void> {
    SessionId session;
    StripeId stripe;
    ParseKey64x2(key, &session.v, &stripe.v);
    ASSIGN_OR_RETURN(auto rec, Find<StripeRecord>(StripeKey(stripe)));
    if (!rec || rec->state != StripeState::kAllocated || rec->session != session) {
      Problem("session " + std::to_string(session.v) + " does not fill " + Name(stripe) + ", as it should");
    }
    return Ok();
  });
}

Result<void> Checker::CheckStripe(const StripeRecord& rec) {
  const StripeId id = rec.info.id;
  ++out_.stripes;
  CheckId(IdKind::kStripe, id.v, "stripe");
  if (rec.state == StripeState::kLive) {
    Count(Counter::kStripes);
    if (rec.info.narrow) Count(Counter::kNarrow);
    if (rec.info.crowded) Count(Counter::kCrowded);
    ASSIGN_OR_RETURN(auto bytes, Find<RefBytesRecord>(StripeKey(id)));
    const StripeFacts& s = stripes_[id];
    const std::string problem = Name(id) + " is live, but nothing uses it";
    if (!bytes && s.bytes > 0) {
      Problem(problem, Name(id) + " has " + std::to_string(s.bytes) + " bytes in use now",
              PutRecord(StripeKey(id), RefBytesRecord{s.bytes}));
    } else if (!bytes && s.listed == 0 && !unreadable_) {
      Problem(problem, Name(id) + " becomes garbage: nothing uses it",
              [id](Txn& txn, Touched* touched) { return DiscardStripe(txn, id, touched); });
    } else if (!bytes) {
      Problem(problem);
    }
  } else {
    Count(Counter::kAllocated);
    ASSIGN_OR_RETURN(auto owner, Find<SessionStripeRecord>(SessionStripeKey(rec.session, id)));
    if (!owner) Problem(Name(id) + " is being filled by a session that does not know it");
    if (stripes_[id].refs > 0) Problem(Name(id) + " is in use before it is sealed");
  }
  for (size_t i = 0; i < rec.info.columns.size(); ++i) {
    const Column& c = rec.info.columns[i];
    if (!c.shard) continue;
    CheckId(IdKind::kShard, c.shard.v, "shard");
    ASSIGN_OR_RETURN(auto on, Find<TargetStripeRecord>(TargetShardKey(c.target, c.shard)));
    const TargetStripeRecord right{id, static_cast<uint16_t>(i), false};
    if (on && *on == right) continue;
    const std::string name = Shard(c.target, c.shard) + ", of " + Name(id) + ",";
    const std::string problem = name + " has no right record in family target_stripes";
    if (on && on->stripe != id) Problem(problem);  // two stripes claim it
    else Problem(problem, name + " is recorded in family target_stripes again",
                 PutRecord(TargetShardKey(c.target, c.shard), right));
  }
  return Ok();
}

Result<void> Checker::CheckShards() {
  return ForEach<TargetStripeRecord>([&](const std::string& key,
                                         const TargetStripeRecord& rec) -> Result<void> {
    TargetShardKeyParts parts;
    if (!ParseTargetShardKey(key, &parts)) {
      Problem("a key of family target_stripes does not decode: " + KeyToString(Family::kTargetStripes, key));
      return Ok();
    }
    const std::string name = Shard(parts.target, parts.shard);
    CheckId(IdKind::kShard, parts.shard.v, "shard");
    ASSIGN_OR_RETURN(auto garbage, Find<GarbageRecord>(key));
    if (garbage) {
      Problem(name + " is both in use and garbage", name + " is no garbage any more: it is in use",
              [key](Txn& txn, Touched*) -> Result<void> {
                txn.Delete(Family::kGarbage, key);
                return Ok();
              });
    }
    if (rec.pending) return Ok();  // its stripe may have gone while it was being made
    ASSIGN_OR_RETURN(auto stripe, Find<StripeRecord>(StripeKey(rec.stripe)));
    const Column* c =
        stripe && rec.column < stripe->info.columns.size() ? &stripe->info.columns[rec.column] : nullptr;
    if (c && c->shard == parts.shard && c->target == parts.target) return Ok();
    const std::string problem =
        name + " is not column " + std::to_string(rec.column) + " of " + Name(rec.stripe) + ", as family target_stripes says";
    const StripeFacts& s = stripes_[rec.stripe];
    // The bytes of a stripe that files use are not given up although its record is gone.
    if (stripe || s.refs > 0 || s.listed > 0 || unreadable_) {
      Problem(problem);
      return Ok();
    }
    Problem(problem, name + " becomes garbage: its stripe is gone and nothing uses it",
            [key, parts, id = rec.stripe](Txn& txn, Touched*) -> Result<void> {
              txn.Delete(Family::kTargetStripes, key);
              PutGarbage(txn, parts.target, parts.shard, id);
              return Ok();
            });
    return Ok();
  });
}

Result<void> Checker::CheckGarbage() {
  return ForEach<GarbageRecord>([&](const std::string& key, const GarbageRecord& rec) -> Result<void> {
    Count(Counter::kGarbageShards);
    if (rec.seq > state_.seq) {
      Problem("garbage " + KeyToString(Family::kGarbage, key) + " is of a commit that has not happened");
    }
    return Ok();
  });
}

void Checker::CheckCounters() {
  for (size_t i = 0; i < kCounters; ++i) {
    if (state_.counters[i] == counters_[i]) continue;
    Problem("counter " + std::to_string(i) + " is " + std::to_string(state_.counters[i]) +
            ", but should be " + std::to_string(counters_[i]));
    const auto by = static_cast<int64_t>(counters_[i] - state_.counters[i]);
    counter_repairs_.push_back({"counter " + std::to_string(i) + " is " + std::to_string(counters_[i]) + " now",
                                [i, by](Txn& txn, Touched*) -> Result<void> {
                                  txn.AddCount(static_cast<Counter>(i), by);
                                  return Ok();
                                }});
  }
}

}  // namespace stria::fsck
