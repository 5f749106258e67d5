#include "meta/ops/nodes.h"

namespace stria {
namespace {

// As in Linux with fs.protected_hardlinks, which every distribution sets: a caller who could not open the file for reading and
// writing, and does not own it, may not link it.
bool MayName(Txn& txn, const OpCtx& ctx, const InodeRecord& rec) {
  const Attr& attr = rec.attr;
  if (IsOwner(ctx, attr)) return true;
  const bool runs_as_group = (attr.mode & (kModeSgid | kModeGroupExec)) == (kModeSgid | kModeGroupExec);
  if (attr.type != FileType::kFile || (attr.mode & kModeSuid) != 0 || runs_as_group) return false;
  return MayAccess(ctx, attr, kMayRead | kMayWrite, AclIn(txn, rec));
}

}  // namespace

Result<NodeReply> OpLink(Txn& txn, const OpCtx& ctx, const LinkRequest& r) {
  ASSIGN_OR_RETURN(InodeRecord rec, GetInode(txn, r.ino));
  ASSIGN_OR_RETURN(InodeRecord dir, GetSearchableDir(txn, ctx, r.new_parent));
  if (IsDots(r.new_name)) return Error(FsError::kExist);
  if (Error e = CheckName(r.new_name); !e.ok()) return e;
  ASSIGN_OR_RETURN(std::optional<DentryRecord> there, FindDentry(txn, r.new_parent, r.new_name));
  if (there) return Error(FsError::kExist);
  if (Error e = MayCreate(ctx, dir.attr, AclIn(txn, dir)); !e.ok()) return e;
  if (rec.is_dir()) return Error(FsError::kPerm, "directories have one name");
  if (!MayName(txn, ctx, rec)) return Error(FsError::kPerm, "only the owner of a file, or a user who may read and write it, may link it");
  if (rec.attr.nlink == 0) return Error(FsError::kNoEnt, "the file was unlinked");
  if (rec.attr.nlink >= kMaxLinks) return Error(FsError::kMLink);

  RETURN_IF_ERROR(AddDentry(txn, ctx, &dir, r.new_name, r.ino, rec.attr.type));
  ++rec.attr.nlink;
  rec.attr.ctime_ns = ctx.now_ns;
  RETURN_IF_ERROR(PutInode(txn, ctx, &rec));
  RETURN_IF_ERROR(PutChangedDir(txn, ctx, &dir));
  return NodeReply{rec.attr, dir.attr, std::nullopt, txn.seq()};
}

Result<ReadLinkReply> OpReadLink(Txn& txn, const OpCtx& ctx, const InodeRequest& r) {
  ASSIGN_OR_RETURN(InodeRecord rec, GetInode(txn, r.ino));
  if (rec.attr.type != FileType::kSymlink) return Error(FsError::kInval, "not a symlink");
  if (Error e = MayKnow(txn, ctx, rec); !e.ok()) return e;
  return ReadLinkReply{rec.symlink_target};
}

}  // namespace stria
