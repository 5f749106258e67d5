// Commit: swaps extents of a file, all or nothing. The steps:
//   1. the request is well-formed, the caller may write the file
//   2. sealed stripes that were allocated to the session become live
//   3. extents refer to those, or to parts of stripes that this file maps already
//   4. punched ranges become holes; then extents replace what is beneath them
//   5. stripes without references become garbage
//   6. size, times, version
#include <algorithm>
#include <set>

#include "meta/ops/extents.h"
#include "meta/ops/nodes.h"
#include "meta/ops/stripes.h"

namespace stria {
namespace {

constexpr size_t kMaxCommitItems = kMaxBatchRecords / 2;
constexpr size_t kMaxExistingPerRun = kMaxBatchRecords / 2;
constexpr uint64_t kMaxInlineTotalBytes = 4 * kGiB;

Error CheckRequest(const CommitRequest& r) {
  if (r.extents.size() + r.stripes.size() + r.punch.size() + r.give_back.size() > kMaxCommitItems) {
    return Error(FsError::kTooBig, "the commit has too many items; split it");
  }
  auto valid = ValidateExtents(r.extents, 0, kMaxFileBytes, FsError::kBadRequest);
  if (!valid.ok()) return valid.error();
  for (const auto& [offset, length] : r.punch) {
    if (length == 0 || offset >= kMaxFileBytes) return Error(FsError::kBadRequest, "a punch is empty");
  }
  if (r.grow_to && *r.grow_to > kMaxFileBytes) return Error(FsError::kFBig);
  if (!r.append) return Error();
  if (r.clip) return Error(FsError::kBadRequest, "an append is not clipped");
  if (r.extents.empty() || !r.punch.empty())
    return Error(FsError::kBadRequest, "an append is one run of extents");
  for (size_t i = 1; i < r.extents.size(); ++i) {
    if (r.extents[i].file_offset != r.extents[i - 1].end()) {
      return Error(FsError::kBadRequest, "an append is one run of extents");
    }
  }
  return Error();
}

// The ranges of a stripe that a file maps: [first, second), sorted, apart from each other.
using StripeRanges = std::vector<std::pair<uint64_t, uint64_t>>;

bool Covers(const StripeRanges& ranges, uint64_t begin, uint64_t end) {
  auto after = std::upper_bound(ranges.begin(), ranges.end(), begin, [](uint64_t at, const auto& r) { return at < r.first; });
  return after != ranges.begin() && end <= std::prev(after)->second;
}

// What the file maps of the stripe now, masked parts not. `left`: of the references that one commit looks at.
Result<StripeRanges> MappedOf(Txn& txn, const InodeRecord& rec, StripeId stripe, size_t* left) {
  std::string prefix = StripeRefKey(stripe, rec.attr.ino, 0);
  prefix.resize(16);
  ASSIGN_OR_RETURN(const auto uses, txn.ScanPrefix(Family::kStripeRefs, prefix, *left + 1));
  if (uses.size() > *left) return Error(FsError::kTooBig, "the file uses the stripe in too many places; write the bytes again");
  *left -= uses.size();
  std::vector<Extent> extents;
  for (const KvEntry& row : uses) {
    StripeRefKeyParts use;
    if (!ParseStripeRefKey(row.first, &use)) return CorruptRecord(Family::kStripeRefs, row.first, "its key does not decode");
    ASSIGN_OR_RETURN(std::optional<ExtentRecord> e, txn.Read<ExtentRecord>(ExtentKey(rec.attr.ino, use.file_offset)));
    if (!e) return CorruptRecord(Family::kStripeRefs, row.first, "there is no such extent");
    extents.push_back(std::move(e->extent));
  }
  StripeRanges ranges;
  for (const Extent& e : VisibleExtents(extents, rec.masks)) ranges.emplace_back(e.stripe_offset, e.stripe_offset + e.length);
  std::sort(ranges.begin(), ranges.end());
  StripeRanges out;
  for (const auto& r : ranges) {
    if (!out.empty() && r.first <= out.back().second) out.back().second = std::max(out.back().second, r.second);
    else out.push_back(r);
  }
  return out;
}

// Step 3. Run before anything is removed: "maps already" is as before this commit. A stripe may hold bytes of other files besides
// (clones, folds): what a file does not map of it is not its to show.
Result<void> CheckStripesOf(Txn& txn, const InodeRecord& rec, const CommitRequest& r) {
  std::map<StripeId, uint64_t> payload;
  for (const StripeInfo& s : r.stripes) payload[s.id] = s.shape.payload_bytes;
  std::map<StripeId, StripeRanges> mapped;
  size_t left = kMaxExistingPerRun;
  for (const Extent& e : r.extents) {
    if (e.is_inline()) continue;
    if (const auto it = payload.find(e.stripe); it != payload.end()) {
      if (e.stripe_offset <= it->second && e.length <= it->second - e.stripe_offset) continue;
      return Error(FsError::kBadRequest, "an extent reaches beyond the end of its stripe");
    }
    auto it = mapped.find(e.stripe);
    if (it == mapped.end()) {
      ASSIGN_OR_RETURN(StripeRanges ranges, MappedOf(txn, rec, e.stripe, &left));
      it = mapped.emplace(e.stripe, std::move(ranges)).first;
    }
    const std::string name = "stripe " + std::to_string(e.stripe.v);
    if (it->second.empty()) return Error(FsError::kConflict, "the file does not use " + name + " (any more)");
    // ValidateExtents has bounded both numbers.
    if (!Covers(it->second, e.stripe_offset, e.stripe_offset + e.length)) {
      return Error(FsError::kBadRequest, "an extent shows bytes of " + name + " that the file does not map; write the bytes again");
    }
  }
  return Ok();
}

Result<void> PunchRanges(Txn& txn, const OpCtx& ctx, const CommitRequest& r, InodeRecord* rec,
                         StripeDeltas* deltas) {
  for (const auto& [offset, length] : r.punch) {
    const uint64_t end = RangeEnd(offset, length);
    auto existing = ReadExtents(txn, r.ino, offset, end, kMaxExistingPerRun / 4);
    if (existing.ok()) {
      ApplyEdit(txn, rec, *existing, PlanOverwrite(*existing, {}, offset, end - offset), deltas);
      rec->masks = SubtractMask(rec->masks, {offset, end});
    } else if (existing.code() == FsError::kTooBig) {
      rec->masks = AddMask(rec->masks, {offset, end});
    } else {
      return existing.error();
    }
  }
  return Ok();
}

Result<void> PutExtents(Txn& txn, const std::vector<Extent>& extents, InodeRecord* rec,
                        StripeDeltas* deltas) {
  for (size_t i = 0; i < extents.size();) {
    size_t n = i + 1;
    while (n < extents.size() && extents[n].file_offset == extents[n - 1].end()) ++n;
    const std::vector<Extent> run(extents.begin() + static_cast<ptrdiff_t>(i),
                                  extents.begin() + static_cast<ptrdiff_t>(n));
    const uint64_t begin = run.front().file_offset;
    const uint64_t end = run.back().end();
    ASSIGN_OR_RETURN(auto existing, ReadExtents(txn, rec->attr.ino, begin, end, kMaxExistingPerRun));
    ApplyEdit(txn, rec, existing, PlanOverwrite(existing, run, begin, end - begin), deltas);
    rec->masks = SubtractMask(rec->masks, {begin, end});
    i = n;
  }
  return Ok();
}

Result<void> GiveBack(Txn& txn, const OpCtx& ctx, const CommitRequest& r) {
  for (StripeId stripe : r.give_back) {
    ASSIGN_OR_RETURN(const bool ours, txn.Has<SessionStripeRecord>(SessionStripeKey(ctx.session, stripe)));
    if (ours) RETURN_IF_ERROR(DiscardStripe(txn, stripe, ctx.touched));
  }
  return Ok();
}

// The extents as they are to be stored.
Result<std::vector<Extent>> PlaceExtents(const CommitRequest& r, uint64_t size) {
  std::vector<Extent> extents = r.extents;
  if (r.clip) {
    const uint64_t end = std::max(size, r.grow_to.value_or(0));
    while (!extents.empty() && extents.back().file_offset >= end) extents.pop_back();
    if (!extents.empty() && extents.back().end() > end) {
      const uint64_t from = extents.back().file_offset;
      extents.back() = SliceExtent(extents.back(), from, end - from);
    }
  }
  if (!r.append) return extents;
  const uint64_t from = extents.front().file_offset;
  const uint64_t length = extents.back().end() - from;
  if (length > kMaxFileBytes - size) return Error(FsError::kFBig);
  for (Extent& e : extents) e.file_offset = e.file_offset - from + size;
  return extents;
}

}  // namespace

Result<CommitReply> OpCommit(Txn& txn, const OpCtx& ctx, const CommitRequest& r) {
  // 1.
  if (Error e = CheckRequest(r); !e.ok()) return e;
  if (!r.ino) {
    // Nothing but stripes given back.
    if (!r.extents.empty() || !r.stripes.empty() || !r.punch.empty() || r.grow_to || r.mtime_ns) {
      return Error(FsError::kBadRequest, "a commit without an inode may only give back stripes");
    }
    RETURN_IF_ERROR(GiveBack(txn, ctx, r));
    CommitReply given;
    given.seq = txn.seq();
    return given;
  }
  RETURN_IF_ERROR(OpAllocateLayout(txn, ctx, r.ino));
  ASSIGN_OR_RETURN(InodeRecord rec, GetInode(txn, r.ino));
  if (r.only_known && rec.attr.data_version != r.known_version) {
    return Error(FsError::kStale, "inode " + std::to_string(r.ino.v) + " was changed by others since these bytes were written");
  }
  const uint64_t inline_before = rec.inline_bytes;
  const bool had_masks = !rec.masks.empty();
  // 2.
  StripeDeltas deltas;
  for (const StripeInfo& s : r.stripes) {
    if (!deltas.emplace(s.id, 0).second) return Error(FsError::kBadRequest, "a stripe is committed twice");
    ASSIGN_OR_RETURN(const CommitSeq allocated, MakeStripeLive(txn, ctx.session, s));
    ctx.touched->allocated = std::max(ctx.touched->allocated, allocated);
  }
  // 3.
  RETURN_IF_ERROR(CheckStripesOf(txn, rec, r));
  CommitReply reply;
  reply.append_offset = r.append ? rec.attr.size : 0;
  ASSIGN_OR_RETURN(std::vector<Extent> extents, PlaceExtents(r, rec.attr.size));
  // 4.
  RETURN_IF_ERROR(PunchRanges(txn, ctx, r, &rec, &deltas));
  RETURN_IF_ERROR(PutExtents(txn, extents, &rec, &deltas));
  if (rec.masks.size() > kMaxMasks) {
    ctx.touched->trim.insert(r.ino);
    return Error(FsError::kRetryLater, "the file is being trimmed; try again");
  }
  if (had_masks || !rec.masks.empty()) SetIntent(txn, rec, ctx.touched);
  if (rec.inline_bytes > inline_before && !ctx.repeated &&
      (rec.inline_bytes > kMaxInlinePerInode || txn.Count(Counter::kInlineBytes) > kMaxInlineTotalBytes)) {
    return Error(FsError::kTooBig, "too many inline bytes; write a stripe");
  }
  // 5.
  RETURN_IF_ERROR(SettleStripes(txn, deltas, ctx.touched));
  RETURN_IF_ERROR(GiveBack(txn, ctx, r));
  // 6.
  const bool data = !extents.empty() || !r.punch.empty() || (r.grow_to && *r.grow_to > rec.attr.size);
  if (!extents.empty()) rec.attr.size = std::max(rec.attr.size, extents.back().end());
  if (r.grow_to) rec.attr.size = std::max(rec.attr.size, *r.grow_to);
  if (data || r.mtime_ns) {
    rec.attr.mtime_ns = r.mtime_ns ? *r.mtime_ns : ctx.now_ns;
    rec.attr.ctime_ns = ctx.now_ns;
    RETURN_IF_ERROR(PutInode(txn, ctx, &rec, data));
  }
  reply.attr = rec.attr;
  reply.seq = txn.seq();
  return reply;
}

}  // namespace stria
