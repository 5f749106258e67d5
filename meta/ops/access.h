// Permissions: pure functions of the caller and attributes, as in Linux's VFS.
#pragma once

#include <string_view>

#include "api/types.h"
#include "common/error.h"
#include "meta/ops/op_ctx.h"

namespace stria {

inline constexpr uint32_t kMayExec = 1;
inline constexpr uint32_t kMayWrite = 2;
inline constexpr uint32_t kMayRead = 4;
inline constexpr uint32_t kModeSuid = 04000;
inline constexpr uint32_t kModeSgid = 02000;
inline constexpr uint32_t kModeSticky = 01000;
inline constexpr uint32_t kModeGroupExec = 00010;

// `acl`: the access control list (AclIn), "" if there is none. `want`: kMay.. bits. Root may do all, but execute only files
// with an x bit.
bool MayAccess(const OpCtx& ctx, const Attr& attr, uint32_t want, std::string_view acl = {});
inline bool IsOwner(const OpCtx& ctx, const Attr& attr) { return ctx.IsRoot() || ctx.uid == attr.uid; }

// A new name in the directory: kNoEnt (it was removed), kAccess.
Error MayCreate(const OpCtx& ctx, const Attr& dir, std::string_view acl);
// A name in the directory goes away (unlink, rmdir, either side of a rename); as_dir: the operation is
// for directories. kAccess, kPerm (sticky), kNotDir, kIsDir.
Error MayDelete(const OpCtx& ctx, const Attr& dir, const Attr& victim, bool as_dir, std::string_view acl = {});

// The mode after chown of a non-directory, and after a write to a file by a caller other than root: no suid; no sgid, unless
// the group may not execute it and the caller is a member or root.
uint32_t DropPrivileges(const OpCtx& ctx, const Attr& attr);

// The group and mode of a new inode in `dir` (setgid directories pass on their group, and themselves).
struct Creation {
  uint32_t mode = 0;
  uint32_t gid = 0;
};
Creation NewInodeRights(const OpCtx& ctx, const Attr& dir, FileType type, uint32_t mode);

// kNoEnt (empty), kNameTooLong, kInval ('/' or NUL).
Error CheckName(std::string_view name);
inline bool IsDots(std::string_view name) { return name == "." || name == ".."; }

}  // namespace stria
