// The data half of fsck.cc.
#include "meta/ops/extents.h"
#include "meta/ops/fsck_internal.h"

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
    if (!ref)
      Problem(Where(ino, offset) + " uses " + Name(e.stripe) + " without a record in family stripe_refs");
    return Ok();
  });
}

void Checker::CheckSizes() {
  for (const auto& [ino, f] : inodes_) {
    if (f.extents != f.rec.extent_count || f.allocated != f.rec.attr.allocated_bytes ||
        f.inline_bytes != f.rec.inline_bytes) {
      Problem(Name(ino) + " has other extents than it counts");
    }
  }
}

Result<void> Checker::CheckRefs() {
  std::map<StripeId, uint64_t> refs;
  RETURN_IF_ERROR(
      ForEach<StripeRefRecord>([&](const std::string& key, const StripeRefRecord&) -> Result<void> {
        StripeRefKeyParts parts;
        if (!ParseStripeRefKey(key, &parts)) {
          Problem("a key of family stripe_refs does not decode: " + KeyToString(Family::kStripeRefs, key));
          return Ok();
        }
        ++refs[parts.stripe];
        return Ok();
      }));
  // Each extent was found to have its reference, so equal numbers mean there are no others.
  for (const auto& [stripe, n] : refs) {
    auto it = stripes_.find(stripe);
    const uint64_t used = it == stripes_.end() ? 0 : it->second.refs;
    if (used != n) {
      Problem(Name(stripe) + " has " + std::to_string(n) + " references, but " + std::to_string(used) +
              " extents");
    }
  }
  return ForEach<RefBytesRecord>([&](const std::string& key, const RefBytesRecord& rec) -> Result<void> {
    StripeId stripe;
    ParseKey64(key, &stripe.v);
    auto it = stripes_.find(stripe);
    if (it == stripes_.end() || it->second.bytes != rec.bytes) {
      Problem(Name(stripe) + " counts " + std::to_string(rec.bytes) + " bytes in use, which is wrong");
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
    if (!bytes) Problem(Name(id) + " is live, but nothing uses it");
  } else {
    Count(Counter::kAllocated);
    ASSIGN_OR_RETURN(auto owner, Find<SessionStripeRecord>(SessionStripeKey(rec.session, id)));
    if (!owner) Problem(Name(id) + " is being filled by a session that does not know it");
    if (stripes_.contains(id)) Problem(Name(id) + " is in use before it is sealed");
  }
  for (size_t i = 0; i < rec.info.columns.size(); ++i) {
    const Column& c = rec.info.columns[i];
    if (!c.shard) continue;
    CheckId(IdKind::kShard, c.shard.v, "shard");
    ASSIGN_OR_RETURN(auto on, Find<TargetStripeRecord>(TargetShardKey(c.target, c.shard)));
    if (!on || *on != TargetStripeRecord{id, static_cast<uint16_t>(i), false}) {
      Problem(Shard(c.target, c.shard) + ", of " + Name(id) +
              ", has no right record in family target_stripes");
    }
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
    if (garbage) Problem(name + " is both in use and garbage");
    if (rec.pending) return Ok();  // its stripe may have gone while it was being made
    ASSIGN_OR_RETURN(auto stripe, Find<StripeRecord>(StripeKey(rec.stripe)));
    const Column* c =
        stripe && rec.column < stripe->info.columns.size() ? &stripe->info.columns[rec.column] : nullptr;
    if (!c || c->shard != parts.shard || c->target != parts.target) {
      Problem(name + " is not column " + std::to_string(rec.column) + " of " + Name(rec.stripe) +
              ", as family target_stripes says");
    }
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
  }
}

}  // namespace stria::fsck
