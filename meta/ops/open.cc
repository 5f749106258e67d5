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
  uint32_t want = 0;
  if (r.for_read) want |= kMayRead;
  if (r.for_write || r.truncate) want |= kMayWrite;
  // An open file stays so whatever becomes of its permissions.
  const bool again = !r.check_access && ctx.HasOpen(r.ino, (want & kMayWrite) != 0);
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

}  // namespace stria
