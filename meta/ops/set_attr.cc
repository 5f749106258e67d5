#include <utility>

#include "api/relatime.h"
#include "meta/ops/nodes.h"

namespace stria {
namespace {

Error CheckSize(Txn& txn, const OpCtx& ctx, const InodeRecord& rec, uint64_t size) {
  const Attr& attr = rec.attr;
  if (attr.type == FileType::kDirectory) return Error(FsError::kIsDir);
  if (attr.type != FileType::kFile) return Error(FsError::kInval, "only files can be truncated");
  if (size > kMaxFileBytes) return Error(FsError::kFBig);
  // A file opened for writing may be truncated, whatever its mode.
  const bool opened = ctx.open && ctx.HasOpen(attr.ino, true);
  if (!opened && !MayAccess(ctx, attr, kMayWrite, AclIn(txn, rec))) return Error(FsError::kAccess);
  return Error();
}

Error CheckOwners(const OpCtx& ctx, const Attr& attr, const SetAttrRequest& r) {
  if (ctx.IsRoot()) return Error();
  const bool owner = ctx.uid == attr.uid;
  if (r.uid && !(owner && *r.uid == attr.uid)) return Error(FsError::kPerm);
  if (r.gid && !(owner && (*r.gid == attr.gid || ctx.InGroup(*r.gid)))) return Error(FsError::kPerm);
  return Error();
}

Error CheckTimes(Txn& txn, const OpCtx& ctx, const InodeRecord& rec, const SetAttrRequest& r) {
  const Attr& attr = rec.attr;
  if (!r.atime_ns && !r.mtime_ns && !r.atime_now && !r.mtime_now) return Error();
  if (IsOwner(ctx, attr)) return Error();
  // utimes(NULL) is for every caller who may write, other times are for the owner.
  if (!r.atime_now || !r.mtime_now) return Error(FsError::kPerm);
  if (!MayAccess(ctx, attr, kMayWrite, AclIn(txn, rec))) return Error(FsError::kAccess);
  return Error();
}

// Nothing is set: then at most the ctime moves. The owner may do that, and callers who may write.
Error CheckAsked(Txn& txn, const OpCtx& ctx, const InodeRecord& rec, const SetAttrRequest& r) {
  const Attr& attr = rec.attr;
  const bool times = r.atime_ns || r.mtime_ns || r.atime_now || r.mtime_now;
  if (r.mode || r.uid || r.gid || r.size || times || r.kill_suid || IsOwner(ctx, attr)) return Error();
  if (MayAccess(ctx, attr, kMayWrite, AclIn(txn, rec))) return Error();
  return Error(FsError::kPerm);
}

Error CheckMode(Txn& txn, const OpCtx& ctx, const InodeRecord& rec, const SetAttrRequest& r) {
  const Attr& attr = rec.attr;
  if (r.kill_suid && !IsOwner(ctx, attr) && !MayAccess(ctx, attr, kMayWrite, AclIn(txn, rec)) &&
      !(ctx.open && ctx.HasOpen(attr.ino, true))) {
    return Error(FsError::kPerm, "only a user who may write a file may drop its privileges");
  }
  if (!r.mode) return Error();
  if (!IsOwner(ctx, attr)) return Error(FsError::kPerm);
  if (attr.type == FileType::kSymlink) return Error(FsError::kNotSupported, "symlinks have no mode");
  return Error();
}

void ChangeMode(const OpCtx& ctx, const SetAttrRequest& r, Attr* attr) {
  if (r.mode) {
    attr->mode = *r.mode & 07777;
    const uint32_t group = r.gid ? *r.gid : attr->gid;
    if (!ctx.IsRoot() && !ctx.InGroup(group)) attr->mode &= ~kModeSgid;
  }
  const bool owners = r.uid || r.gid;
  const bool write = r.size && !ctx.IsRoot();
  if (attr->type != FileType::kDirectory && (owners || write || r.kill_suid)) {
    attr->mode = DropPrivileges(ctx, *attr);
  }
}

Result<NodeReply> NoteRead(Txn& txn, const OpCtx& ctx, InodeRecord rec, const SetAttrRequest& r) {
  if (!ctx.HasOpen(r.ino, false) && !MayAccess(ctx, rec.attr, kMayRead, AclIn(txn, rec))) return Error(FsError::kAccess);
  if (rec.attr.version == r.read_version && ReadMovesAtime(rec.attr, *r.read_ns)) {
    rec.attr.atime_ns = *r.read_ns;
    RETURN_IF_ERROR(PutInode(txn, ctx, &rec));
  }
  return NodeReply{rec.attr, std::nullopt, std::nullopt, txn.seq()};
}

}  // namespace

Result<NodeReply> OpSetAttr(Txn& txn, const OpCtx& ctx, const SetAttrRequest& r) {
  ASSIGN_OR_RETURN(InodeRecord rec, GetInode(txn, r.ino));
  if (Error e = MayKnow(txn, ctx, rec); !e.ok()) return e;
  if (r.read_ns) return NoteRead(txn, ctx, std::move(rec), r);
  Attr& attr = rec.attr;
  if (r.size) {
    if (Error e = CheckSize(txn, ctx, rec, *r.size); !e.ok()) return e;
  }
  if (Error e = CheckAsked(txn, ctx, rec, r); !e.ok()) return e;
  if (Error e = CheckOwners(ctx, attr, r); !e.ok()) return e;
  if (Error e = CheckMode(txn, ctx, rec, r); !e.ok()) return e;
  if (Error e = CheckTimes(txn, ctx, rec, r); !e.ok()) return e;

  ChangeMode(ctx, r, &attr);
  if (r.mode && (attr.acls & kAccessAcl) != 0) {
    ASSIGN_OR_RETURN(std::optional<Acl> acl, GetAcl(txn, rec, kAccessAcl));
    if (acl) acl->SetMode(attr.mode);
    RETURN_IF_ERROR(PutAcl(txn, &rec, kAccessAcl, acl));
  }
  if (r.uid) attr.uid = *r.uid;
  if (r.gid) attr.gid = *r.gid;
  if (r.size) {
    RETURN_IF_ERROR(SetSize(txn, &rec, *r.size, ctx.touched));
    attr.mtime_ns = ctx.now_ns;
  }
  if (r.atime_now) attr.atime_ns = ctx.now_ns;
  if (r.atime_ns) attr.atime_ns = *r.atime_ns;
  if (r.mtime_now) attr.mtime_ns = ctx.now_ns;
  if (r.mtime_ns) attr.mtime_ns = *r.mtime_ns;
  attr.ctime_ns = ctx.now_ns;
  if (r.uid || r.gid || r.kill_suid) RETURN_IF_ERROR(DropCapability(txn, &rec));
  RETURN_IF_ERROR(PutInode(txn, ctx, &rec, r.size.has_value()));
  return NodeReply{attr, std::nullopt, std::nullopt, txn.seq()};
}

}  // namespace stria
