#include "meta/ops/nodes.h"

namespace stria {
namespace {

Result<bool> IsEmptyDir(Txn& txn, InodeId ino) {
  ASSIGN_OR_RETURN(auto rows, txn.ScanPrefix(Family::kDentries, InodeKey(ino), 1));
  return rows.empty();
}

Result<NodeReply> RemoveName(Txn& txn, const OpCtx& ctx, const NameRequest& r, bool as_dir) {
  ASSIGN_OR_RETURN(InodeRecord dir, GetSearchableDir(txn, ctx, r.parent));
  if (r.name == ".") return Error(as_dir ? FsError::kInval : FsError::kIsDir);
  if (r.name == "..") return Error(as_dir ? FsError::kNotEmpty : FsError::kIsDir);
  if (Error e = CheckName(r.name); !e.ok()) return e;
  ASSIGN_OR_RETURN(std::optional<DentryRecord> entry, FindDentry(txn, r.parent, r.name));
  if (!entry) return Error(FsError::kNoEnt);
  ASSIGN_OR_RETURN(InodeRecord rec, GetInode(txn, entry->ino));
  if (Error e = MayDelete(ctx, dir.attr, rec.attr, as_dir, AclIn(txn, dir)); !e.ok()) return e;
  if (as_dir) {
    ASSIGN_OR_RETURN(const bool empty, IsEmptyDir(txn, rec.attr.ino));
    if (!empty) return Error(FsError::kNotEmpty);
    --dir.attr.nlink;
  }
  RemoveDentry(txn, ctx, &dir, r.name, rec.attr.ino);
  RETURN_IF_ERROR(PutChangedDir(txn, ctx, &dir));
  RETURN_IF_ERROR(DropLink(txn, ctx, &rec));
  return NodeReply{rec.attr, dir.attr, std::nullopt, txn.seq()};
}

}  // namespace

Result<NodeReply> OpUnlink(Txn& txn, const OpCtx& ctx, const NameRequest& r) {
  return RemoveName(txn, ctx, r, false);
}

Result<NodeReply> OpRmdir(Txn& txn, const OpCtx& ctx, const NameRequest& r) {
  return RemoveName(txn, ctx, r, true);
}

}  // namespace stria
