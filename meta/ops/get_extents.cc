#include <algorithm>
#include <map>

#include "meta/ops/extents.h"
#include "meta/ops/nodes.h"

namespace stria {
namespace {

Result<StripeGrant> GrantOf(Txn& txn, StripeId stripe) {
  ASSIGN_OR_RETURN(std::optional<StripeRecord> rec, GetStripeRecord(txn, stripe));
  if (!rec) return CorruptRecord(Family::kStripes, StripeKey(stripe), "it is missing, but a file uses it");
  StripeGrant grant;
  grant.tokens.resize(rec->info.columns.size());
  grant.info = std::move(rec->info);
  return grant;
}

}  // namespace

Result<GetExtentsReply> OpGetExtents(Txn& txn, const OpCtx& ctx, const GetExtentsRequest& r) {
  ASSIGN_OR_RETURN(InodeRecord rec, GetInode(txn, r.ino));
  if (rec.is_dir()) return Error(FsError::kIsDir);
  if (rec.attr.type != FileType::kFile) return Error(FsError::kInval, "only files have extents");
  // For no bytes the reply has only attributes.
  if (r.length > 0 && !ctx.HasOpen(r.ino, false) && !MayAccess(ctx, rec.attr, kMayRead, AclIn(txn, rec))) return Error(FsError::kAccess);

  GetExtentsReply reply;
  reply.attr = rec.attr;
  const uint64_t end = RangeEnd(r.offset, r.length);
  reply.covered_to = end;
  if (r.offset >= end || rec.extent_count == 0) return reply;

  ASSIGN_OR_RETURN(const ExtentPage page, ReadExtentPage(txn, r.ino, r.offset, end, kMaxExtentsPerReply));
  reply.covered_to = page.covered_to;
  std::map<StripeId, StripeGrant> stripes;
  size_t inline_bytes = 0;
  size_t columns = 0;
  for (Extent& e : VisibleExtents(page.extents, rec.masks)) {
    if (e.end() <= r.offset || e.file_offset >= end) continue;
    inline_bytes += e.inline_bytes.size();
    std::optional<StripeGrant> grant;
    if (!e.is_inline() && !stripes.contains(e.stripe)) {
      ASSIGN_OR_RETURN(grant, GrantOf(txn, e.stripe));
      columns += grant->tokens.size();
    }
    if (inline_bytes > kMaxInlinePerReply || columns > kMaxColumnsPerReply ||
        (grant && stripes.size() == kMaxStripesPerReply)) {
      reply.covered_to = e.file_offset;
      break;
    }
    if (grant) stripes.emplace(e.stripe, std::move(*grant));
    reply.extents.push_back(std::move(e));
  }
  for (auto& [id, grant] : stripes) reply.stripes.push_back(std::move(grant));
  return reply;
}

}  // namespace stria
