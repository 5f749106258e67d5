#include "meta/ops/access.h"

#include "meta/ops/acl.h"

namespace stria {

bool MayAccess(const OpCtx& ctx, const Attr& attr, uint32_t want, std::string_view acl) {
  if (ctx.IsRoot()) {
    return (want & kMayExec) == 0 || attr.type == FileType::kDirectory || (attr.mode & 0111) != 0;
  }
  if (!acl.empty()) {
    const Result<std::optional<Acl>> list = Acl::Parse(acl);
    return list.ok() && *list && (*list)->Allows(ctx, attr, want);  // one that does not decode allows nothing
  }
  uint32_t rights = attr.mode & 7;
  if (ctx.uid == attr.uid) {
    rights = (attr.mode >> 6) & 7;
  } else if (ctx.InGroup(attr.gid)) {
    rights = (attr.mode >> 3) & 7;
  }
  return (rights & want) == want;
}

Error MayCreate(const OpCtx& ctx, const Attr& dir, std::string_view acl) {
  if (dir.nlink == 0) return Error(FsError::kNoEnt, "the directory was removed");
  if (!MayAccess(ctx, dir, kMayWrite | kMayExec, acl)) return Error(FsError::kAccess);
  return Error();
}

Error MayDelete(const OpCtx& ctx, const Attr& dir, const Attr& victim, bool as_dir, std::string_view acl) {
  if (!MayAccess(ctx, dir, kMayWrite | kMayExec, acl)) return Error(FsError::kAccess);
  if ((dir.mode & kModeSticky) != 0 && !ctx.IsRoot() && ctx.uid != victim.uid && ctx.uid != dir.uid) {
    return Error(FsError::kPerm, "the directory is sticky");
  }
  const bool is_dir = victim.type == FileType::kDirectory;
  if (as_dir && !is_dir) return Error(FsError::kNotDir);
  if (!as_dir && is_dir) return Error(FsError::kIsDir);
  return Error();
}

uint32_t DropPrivileges(const OpCtx& ctx, const Attr& attr) {
  // Without group execution setgid is no right to run as the group: members may keep it.
  const bool keep_sgid = (attr.mode & kModeGroupExec) == 0 && (ctx.IsRoot() || ctx.InGroup(attr.gid));
  return attr.mode & ~(keep_sgid ? kModeSuid : kModeSuid | kModeSgid);
}

Creation NewInodeRights(const OpCtx& ctx, const Attr& dir, FileType type, uint32_t mode) {
  Creation c{mode & 07777, ctx.gid};
  if (type == FileType::kDirectory) c.mode &= 01777;
  if (type == FileType::kSymlink) c.mode = 0777;
  if ((dir.mode & kModeSgid) == 0) return c;
  c.gid = dir.gid;
  if (type == FileType::kDirectory) {
    c.mode |= kModeSgid;
  } else if ((c.mode & (kModeSgid | kModeGroupExec)) == (kModeSgid | kModeGroupExec) && !ctx.IsRoot() &&
             !ctx.InGroup(dir.gid)) {
    c.mode &= ~kModeSgid;
  }
  return c;
}

Error CheckName(std::string_view name) {
  if (name.empty()) return Error(FsError::kNoEnt, "a name is empty");
  if (name.size() > kMaxNameBytes) return Error(FsError::kNameTooLong, "a name is longer than 255 bytes");
  if (name.find('/') != name.npos || name.find('\0') != name.npos) {
    return Error(FsError::kInval, "a name has '/' or NUL in it");
  }
  return Error();
}

}  // namespace stria
