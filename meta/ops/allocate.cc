#include "meta/ops/nodes.h"

namespace stria {

Result<Layout> OpAllocateLayout(Txn& txn, const OpCtx& ctx, InodeId ino) {
  ASSIGN_OR_RETURN(InodeRecord rec, GetInode(txn, ino));
  if (rec.is_dir()) return Error(FsError::kIsDir);
  if (rec.attr.type != FileType::kFile) return Error(FsError::kInval, "only files have bytes");
  if (!ctx.HasOpen(ino, true) && !MayAccess(ctx, rec.attr, kMayWrite, AclIn(txn, rec))) return Error(FsError::kAccess);
  return rec.layout;
}

Result<bool> MayAllocate(Txn& txn, SessionId session, size_t more) {
  ASSIGN_OR_RETURN(const auto rows, txn.ScanPrefix(Family::kSessionStripes, SessionKey(session), kMaxAllocatedPerSession));
  return rows.size() + more <= kMaxAllocatedPerSession;
}

Result<std::vector<StripeInfo>> OpAllocate(Txn& txn, const OpCtx& ctx, InodeId ino, const Layout& layout,
                                           const std::vector<NewStripe>& stripes) {
  if (!ctx.session) return Error(FsError::kBadRequest, "stripes are allocated to a session");
  if (stripes.size() > kMaxAllocateStripes) return Error(FsError::kBadRequest, "at most 16 stripes at once");
  std::vector<StripeInfo> out;
  for (const NewStripe& s : stripes) {
    CHECK(s.targets.size() == s.shape.columns() && s.shape.payload_bytes == 0);
    StripeRecord rec;
    ASSIGN_OR_RETURN(rec.info.id, txn.NewStripe());
    rec.info.shape = s.shape;
    rec.info.narrow = s.narrow;
    rec.info.crowded = s.crowded;
    for (size_t i = 0; i < s.targets.size(); ++i) {
      Column column;
      ASSIGN_OR_RETURN(column.shard, txn.NewShard());
      column.target = s.targets[i];
      rec.info.columns.push_back(column);
      // Known from now on: an inventory that meets the shard must not take it for a stray one.
      txn.Write(TargetShardKey(column.target, column.shard),
                TargetStripeRecord{rec.info.id, static_cast<uint16_t>(i), false});
    }
    rec.state = StripeState::kAllocated;
    rec.session = ctx.session;
    rec.ino = ino;
    rec.layout = layout;
    rec.live_since = txn.seq();
    txn.Write(StripeKey(rec.info.id), rec);
    txn.Write(SessionStripeKey(ctx.session, rec.info.id), SessionStripeRecord());
    txn.AddCount(Counter::kAllocated, 1);
    out.push_back(std::move(rec.info));
  }
  return out;
}

}  // namespace stria
