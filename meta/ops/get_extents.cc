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
  if (!ctx.HasOpen(r.ino, false) && !MayAccess(ctx, rec.attr, kMayRead)) return Error(FsError::kAccess);

  GetExtentsReply reply;
  reply.attr = rec.attr;
  const uint64_t end = RangeEnd(r.offset, r.length);
  reply.covered_to = end;
  if (r.offset >= end || rec.extent_count == 0) return reply;

  // One more extent than fits, for where the reply ends if there is more.
  std::vector<Extent> found;
  ASSIGN_OR_RETURN(auto before, txn.Last(Family::kExtents, ExtentKey(r.ino, 0), ExtentKey(r.ino, r.offset)));
  if (before) {
    ASSIGN_OR_RETURN(ExtentRecord e, ExtentRecord::Decode(before->first, before->second));
    if (e.extent.end() > r.offset) found.push_back(std::move(e.extent));
  }
  ASSIGN_OR_RETURN(auto rows, txn.Scan(Family::kExtents, ExtentKey(r.ino, r.offset + 1),
                                       ExtentKey(r.ino, end), kMaxExtentsPerReply));
  for (const KvEntry& row : rows) {
    ASSIGN_OR_RETURN(ExtentRecord e, ExtentRecord::Decode(row.first, row.second));
    found.push_back(std::move(e.extent));
  }
  if (rows.size() == kMaxExtentsPerReply) {
    reply.covered_to = std::min(end, found.back().file_offset);
    found.pop_back();
  }
  std::map<StripeId, StripeGrant> stripes;
  size_t inline_bytes = 0;
  size_t columns = 0;
  for (Extent& e : VisibleExtents(found, rec.masks)) {
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
