#include "api/dir_time.h"
#include "meta/ops/nodes.h"

namespace stria {
namespace {

bool IsDevice(FileType t) { return t == FileType::kCharDevice || t == FileType::kBlockDevice; }

Error CheckRequest(const MakeNodeRequest& r) {
  if (r.type < FileType::kFile || r.type > FileType::kBlockDevice) {
    return Error(FsError::kInval, "no such type of file");
  }
  if (r.type != FileType::kSymlink) return Error();
  if (r.target.empty()) return Error(FsError::kNoEnt, "the target of a symlink is empty");
  if (r.target.size() > kMaxSymlinkBytes) return Error(FsError::kNameTooLong);
  return Error();
}

// create() of an existing file: as Open would.
Result<OpenReply> OpenExisting(Txn& txn, const OpCtx& ctx, const MakeNodeRequest& r, InodeId ino) {
  ASSIGN_OR_RETURN(InodeRecord rec, GetInode(txn, ino));
  if (rec.is_dir()) return Error(FsError::kIsDir);
  if (rec.attr.type != FileType::kFile) return Error(FsError::kLoop, "the name is a symlink or a special file by now");
  OpenRequest open;
  open.ino = ino;
  open.for_write = true;
  open.for_read = r.for_read;
  open.truncate = r.truncate;
  return OpOpen(txn, ctx, open);
}

InodeRecord NewInodeRecord(const OpCtx& ctx, const MakeNodeRequest& r, const InodeRecord& dir, InodeId ino) {
  const Creation rights = NewInodeRights(ctx, dir.attr, r.type, r.mode);
  InodeRecord rec;
  rec.attr.ino = ino;
  rec.attr.type = r.type;
  rec.attr.mode = rights.mode;
  rec.attr.uid = ctx.uid;
  rec.attr.gid = rights.gid;
  rec.attr.nlink = r.type == FileType::kDirectory ? 2 : 1;
  rec.attr.rdev = IsDevice(r.type) ? r.rdev : 0;
  rec.attr.atime_ns = rec.attr.mtime_ns = rec.attr.ctime_ns = ctx.now_ns;
  if (r.type == FileType::kFile || r.type == FileType::kDirectory) rec.layout = dir.layout;
  if (r.type == FileType::kDirectory) rec.parent = dir.attr.ino;
  if (r.type == FileType::kSymlink) {
    rec.symlink_target = r.target;
    rec.attr.size = r.target.size();
  }
  return rec;
}

Result<InodeId> NumberFor(Txn& txn, const OpCtx& ctx, InodeId former, bool needed) {
  if (ctx.own_number) return former;
  if ((ctx.former_number || !ctx.open) && txn.IsFormer(former)) {
    ASSIGN_OR_RETURN(const bool taken, txn.Has<InodeRecord>(InodeKey(former)));
    if (!taken) return former;
  }
  if (needed) return Error(FsError::kConflict, "inode number " + std::to_string(former.v) + " is not this client's");
  return txn.NewInode();
}

// `made_ahead`: with the number r.former, and at the time ctx.now_ns, which may be past.
Result<OpenReply> MakeNode(Txn& txn, const OpCtx& ctx, const MakeNodeRequest& r, bool made_ahead) {
  if (Error e = CheckRequest(r); !e.ok()) return e;
  ASSIGN_OR_RETURN(InodeRecord dir, GetSearchableDir(txn, ctx, r.parent));
  if (IsDots(r.name)) return Error(FsError::kExist);
  if (Error e = CheckName(r.name); !e.ok()) return e;
  ASSIGN_OR_RETURN(std::optional<DentryRecord> there, FindDentry(txn, r.parent, r.name));
  if (there) {
    if (r.exclusive || !r.open || r.type != FileType::kFile) return Error(FsError::kExist);
    return OpenExisting(txn, ctx, r, there->ino);
  }
  if (Error e = MayCreate(ctx, dir.attr, AclIn(txn, dir)); !e.ok()) return e;
  if (IsDevice(r.type) && !ctx.IsRoot()) return Error(FsError::kPerm, "only root makes devices");
  const bool is_dir = r.type == FileType::kDirectory;
  if (is_dir && dir.attr.nlink >= kMaxDirLinks) return Error(FsError::kMLink);

  ASSIGN_OR_RETURN(const InodeId ino, NumberFor(txn, ctx, r.former, made_ahead));
  InodeRecord rec = NewInodeRecord(ctx, r, dir, ino);
  RETURN_IF_ERROR(Inherit(txn, dir, r.umask, &rec));
  RETURN_IF_ERROR(AddDentry(txn, ctx, &dir, r.name, ino, r.type));
  if (is_dir) ++dir.attr.nlink;
  RETURN_IF_ERROR(PutInode(txn, ctx, &rec, true));
  OpCtx then = ctx;
  if (made_ahead) then.now_ns = DirTime(dir.attr.mtime_ns, ctx.now_ns);
  RETURN_IF_ERROR(PutChangedDir(txn, then, &dir));
  txn.AddCount(is_dir ? Counter::kDirectories : Counter::kFiles, 1);

  OpenReply reply;
  reply.node = {rec.attr, dir.attr, std::nullopt, txn.seq()};
  reply.created = true;
  reply.layout = rec.layout;
  return reply;
}

}  // namespace

Result<OpenReply> OpMakeNode(Txn& txn, const OpCtx& ctx, const MakeNodeRequest& r) {
  return MakeNode(txn, ctx, r, false);
}

Result<OpenReply> OpMakeAhead(Txn& txn, const OpCtx& ctx, const MadeFile& file, InodeId ino) {
  MakeNodeRequest r;
  r.parent = file.parent;
  r.name = file.name;
  r.type = FileType::kFile;
  r.mode = file.mode;
  r.umask = file.umask;
  r.open = r.exclusive = true;
  r.former = ino;
  if (ctx.own_number) return MakeNode(txn, ctx, r, true);
  ASSIGN_OR_RETURN(const std::optional<DentryRecord> there, FindDentry(txn, r.parent, r.name));
  if (!there || there->ino != ino) return MakeNode(txn, ctx, r, true);
  ASSIGN_OR_RETURN(const InodeRecord rec, GetInode(txn, ino));
  // Its mode may let no caller open it for writing.
  const bool own = ctx.HasOpen(ino, true) || IsOwner(ctx, rec.attr) || MayAccess(ctx, rec.attr, kMayWrite, AclIn(txn, rec));
  if (!own) return MakeNode(txn, ctx, r, true);
  OpenReply reply;
  ASSIGN_OR_RETURN(const InodeRecord dir, GetDir(txn, r.parent));
  reply.node = {rec.attr, dir.attr, std::nullopt, txn.seq()};
  reply.layout = rec.layout;
  return reply;
}

}  // namespace stria
