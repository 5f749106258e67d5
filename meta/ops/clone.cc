// Clone: a range of a file appears elsewhere and shares the stripes. The steps:
//   1. the request is well-formed, the caller may read one file and write the other
//   2. the source's extents, as many as one transaction takes
//   3. the target's range becomes a hole, as far as one transaction gets
//   4. the extents go there; inline bytes are copied
//   5. size, times, version
// Each call does a front part of the range; the caller asks again for the rest.
#include <algorithm>

#include "meta/ops/access.h"
#include "meta/ops/extents.h"
#include "meta/ops/nodes.h"

namespace stria {
namespace {

constexpr size_t kMaxExtentsPerClone = 512;
constexpr uint64_t kMaxInlinePerClone = 256 * kKiB;

// The source, if the caller may read it.
Result<InodeRecord> GetSource(Txn& txn, const OpCtx& ctx, InodeId ino) {
  ASSIGN_OR_RETURN(InodeRecord rec, GetInode(txn, ino));
  if (rec.is_dir()) return Error(FsError::kIsDir);
  if (rec.attr.type != FileType::kFile) return Error(FsError::kInval, "only files have bytes");
  if (!ctx.HasOpen(ino, false) && !MayAccess(ctx, rec.attr, kMayRead, AclIn(txn, rec))) return Error(FsError::kAccess);
  return rec;
}

// Cuts the page where inline bytes would be too many for the transaction or for the target.
void LimitInline(ExtentPage* page, uint64_t begin, uint64_t room) {
  uint64_t sum = 0;
  for (size_t i = 0; i < page->extents.size(); ++i) {
    sum += page->extents[i].inline_bytes.size();
    if (sum <= room) continue;
    page->covered_to = std::max(begin, page->extents[i].file_offset);
    page->extents.resize(i);
    return;
  }
}

}  // namespace

Result<CloneReply> OpClone(Txn& txn, const OpCtx& ctx, const CloneRequest& r) {
  // 1.
  if (r.length == 0) return Error(FsError::kBadRequest, "a clone of nothing");
  ASSIGN_OR_RETURN(const Layout layout, OpAllocateLayout(txn, ctx, r.to));
  ASSIGN_OR_RETURN(const InodeRecord from, GetSource(txn, ctx, r.from));
  ASSIGN_OR_RETURN(InodeRecord to, GetInode(txn, r.to));
  // Stripes keep the protection that they were written with.
  if (layout != from.layout) {
    return Error(FsError::kNotSupported, "the files have different layouts: copy the bytes");
  }
  CloneReply reply;
  reply.attr = to.attr;
  const uint64_t end = std::min(RangeEnd(r.from_offset, r.length), from.attr.size);
  if (r.from_offset >= end) return reply;
  if (r.to_offset > kMaxFileBytes - (end - r.from_offset)) return Error(FsError::kFBig);
  const uint64_t distance =
      r.from_offset > r.to_offset ? r.from_offset - r.to_offset : r.to_offset - r.from_offset;
  if (r.from == r.to && distance < end - r.from_offset) {
    return Error(FsError::kInval, "the ranges of a clone overlap");
  }
  // 2.
  ASSIGN_OR_RETURN(ExtentPage page, ReadExtentPage(txn, r.from, r.from_offset, end, kMaxExtentsPerClone));
  page.extents = VisibleExtents(page.extents, from.masks);
  LimitInline(&page, r.from_offset,
              std::min(kMaxInlinePerClone, kMaxInlinePerInode - std::min<uint64_t>(to.inline_bytes, kMaxInlinePerInode)));
  if (page.covered_to == r.from_offset) {
    return Error(FsError::kTooBig, "too many inline bytes; write a stripe");
  }
  // 3.
  const bool had_masks = !to.masks.empty();
  ASSIGN_OR_RETURN(const uint64_t free_to,
                   DropRange(txn, &to, r.to_offset, r.to_offset + (page.covered_to - r.from_offset), ctx.touched));
  const uint64_t length = free_to - r.to_offset;
  // 4.
  const std::vector<Extent> extents = CloneExtents(page.extents, r.from_offset, length, r.to_offset);
  ASSIGN_OR_RETURN(const auto neighbours, ReadExtents(txn, r.to, r.to_offset, free_to, 2));
  StripeDeltas deltas;
  ApplyEdit(txn, &to, neighbours, PlanOverwrite(neighbours, extents, r.to_offset, length), &deltas);
  RETURN_IF_ERROR(SettleStripes(txn, deltas, ctx.touched));
  to.masks = SubtractMask(to.masks, {r.to_offset, free_to});
  if (to.masks.size() > kMaxMasks) {
    ctx.touched->trim.insert(r.to);
    return Error(FsError::kRetryLater, "the file is being trimmed; try again");
  }
  if (had_masks) SetIntent(txn, to, ctx.touched);
  // 5.
  to.attr.size = std::max(to.attr.size, free_to);
  to.attr.mtime_ns = to.attr.ctime_ns = ctx.now_ns;
  RETURN_IF_ERROR(PutInode(txn, ctx, &to, true));
  reply.attr = to.attr;
  reply.cloned = length;
  reply.seq = txn.seq();
  return reply;
}

}  // namespace stria
