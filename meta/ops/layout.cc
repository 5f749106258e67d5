#include "meta/ops/nodes.h"
#include "stripe/layout_spec.h"

namespace stria {
namespace {

Result<InodeRecord> GetWithLayout(Txn& txn, InodeId ino) {
  ASSIGN_OR_RETURN(InodeRecord rec, GetInode(txn, ino));
  if (!rec.is_dir() && rec.attr.type != FileType::kFile) {
    return Error(FsError::kInval, "only files and directories have a layout");
  }
  return rec;
}

}  // namespace

Result<LayoutReply> OpGetLayout(Txn& txn, const OpCtx& ctx, const LayoutRequest& r) {
  ASSIGN_OR_RETURN(InodeRecord rec, GetWithLayout(txn, r.ino));
  return LayoutReply{rec.layout, rec.layout_inherited};
}

Result<LayoutReply> OpSetLayout(Txn& txn, const OpCtx& ctx, const LayoutRequest& r) {
  if (!r.layout) return Error(FsError::kBadRequest, "no layout is given");
  ASSIGN_OR_RETURN(InodeRecord rec, GetWithLayout(txn, r.ino));
  if (!IsOwner(ctx, rec.attr)) return Error(FsError::kPerm, "only its owner or root sets the layout of a file or directory");
  if (Error e = ValidateLayout(*r.layout); !e.ok()) return e;
  rec.layout = *r.layout;
  rec.layout_inherited = false;
  rec.attr.ctime_ns = ctx.now_ns;
  RETURN_IF_ERROR(PutInode(txn, ctx, &rec));
  return LayoutReply{rec.layout, false};
}

Result<StatFsReply> OpStatFs(Txn& txn, InodeId dir, uint64_t raw_total_bytes, uint64_t raw_free_bytes) {
  Result<InodeRecord> of = GetDir(txn, dir);
  if (!of.ok() && dir != kRootInode) of = GetDir(txn, kRootInode);
  if (!of.ok()) return of.error();
  const uint64_t k = of->layout.k;
  const uint64_t columns = k + of->layout.m;
  StatFsReply reply;
  // Divided first: raw bytes times 32 would overflow only beyond 2^59, but a byte more or less is no matter.
  reply.total_bytes = raw_total_bytes / columns * k;
  reply.free_bytes = raw_free_bytes / columns * k;
  reply.files = txn.Count(Counter::kFiles) + txn.Count(Counter::kDirectories);
  return reply;
}

}  // namespace stria
