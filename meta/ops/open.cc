#include "meta/ops/nodes.h"

namespace stria {

Result<NodeReply> OpGetAttr(Txn& txn, const OpCtx& ctx, const InodeRequest& r) {
  ASSIGN_OR_RETURN(InodeRecord rec, GetInode(txn, r.ino));
  NodeReply reply;
  reply.attr = rec.attr;
  return reply;
}

Result<OpenReply> OpOpen(Txn& txn, const OpCtx& ctx, const OpenRequest& r) {
  ASSIGN_OR_RETURN(InodeRecord rec, GetInode(txn, r.ino));
  if (rec.is_dir() && (r.for_write || r.truncate)) return Error(FsError::kIsDir);
  if (rec.attr.type == FileType::kSymlink) return Error(FsError::kLoop);
  const bool writes = r.for_write || r.truncate;
  if (!r.for_read && !writes) return Error(FsError::kInval, "a file is opened for reading or for writing");
  const uint32_t want = (r.for_read ? kMayRead : 0) | (writes ? kMayWrite : 0);
  // An open file stays open when its permissions change.
  const bool again = !r.check_access && (!r.for_read || ctx.HasOpen(r.ino, false)) && (!writes || ctx.HasOpen(r.ino, true));
  if (!again && !MayAccess(ctx, rec.attr, want, AclIn(txn, rec))) return Error(FsError::kAccess);

  OpenReply reply;
  if (r.truncate && rec.attr.type == FileType::kFile) {
    RETURN_IF_ERROR(SetSize(txn, &rec, 0, ctx.touched));
    if (!ctx.IsRoot()) rec.attr.mode = DropPrivileges(ctx, rec.attr);
    rec.attr.mtime_ns = ctx.now_ns;
    rec.attr.ctime_ns = ctx.now_ns;
    RETURN_IF_ERROR(PutInode(txn, ctx, &rec, true));
    reply.node.seq = txn.seq();
  }
  reply.node.attr = rec.attr;
  reply.layout = rec.layout;
  return reply;
}

Result<void> OpMayUse(Txn& txn, const OpCtx& ctx, InodeId ino) {
  if (ctx.IsRoot() || ctx.HasOpen(ino, false) || ctx.HasOpen(ino, true)) return Ok();
  ASSIGN_OR_RETURN(const InodeRecord rec, GetInode(txn, ino));
  const std::string acl = AclIn(txn, rec);
  if (MayAccess(ctx, rec.attr, kMayRead, acl) || MayAccess(ctx, rec.attr, kMayWrite, acl)) return Ok();
  return Error(FsError::kAccess);
}

}  // namespace stria
