#include "client/vfs/xattrs.h"

#include <utility>

#include "client/vfs/virtual_xattr.h"
#include "locality/told.h"

namespace stria {

Xattrs::Xattrs(XattrsRooms rooms)
    : inodes_(rooms.inodes), attrs_(rooms.attrs), nodes_(rooms.nodes), made_ahead_(rooms.made_ahead), ahead_(rooms.ahead),
      residence_(rooms.residence), teller_(rooms.teller), ranges_(rooms.ranges), session_(rooms.session), calls_(rooms.calls) {}

Task<Result<std::string>> Xattrs::GetXattr(Caller who, InodeId ino, std::string name) {
  const CallList::Call under_way(&calls_, "getxattr of", ino);
  if (name.starts_with(kToldXattrs)) co_return co_await teller_.Get(std::move(who), ino, std::move(name));
  if (IsVirtualXattr(name)) co_return co_await residence_.Get(std::move(who), ino, std::move(name));
  // The kernel asks for the capabilities of whatever is given to somebody; what has just been made has no attributes at all.
  if (ahead_.Untold(ino) != nullptr) co_return Error(FsError::kNoData);
  // It asks for the lists of whatever it checks; most inodes have none, as their attributes say.
  const uint8_t acl = name == "system.posix_acl_access" ? kAccessAcl : name == "system.posix_acl_default" ? kDefaultAcl : 0;
  if (acl) {
    if (const auto attr = nodes_.FindAttr(ino); attr && (attr->acls & acl) == 0) co_return Error(FsError::kNoData);
  }
  XattrRequest r;
  r.ino = ino;
  r.name = std::move(name);
  CO_ASSIGN_OR_RETURN(XattrReply reply, co_await session_.Call(&MetaService::GetXattr, std::move(r), who));
  co_return std::move(reply.value);
}

Task<Result<std::vector<std::string>>> Xattrs::ListXattr(Caller who, InodeId ino) {
  const CallList::Call under_way(&calls_, "listxattr of", ino);
  if (ahead_.Untold(ino) != nullptr) co_return std::vector<std::string>();
  XattrRequest r;
  r.ino = ino;
  CO_ASSIGN_OR_RETURN(XattrReply reply, co_await session_.Call(&MetaService::ListXattr, std::move(r), who));
  co_return std::move(reply.names);
}

Task<Result<void>> Xattrs::SetXattr(Caller who, InodeId ino, std::string name, std::string value, bool create,
                                 bool replace) {
  const CallList::Call under_way(&calls_, "setxattr of", ino);
  const MadeAhead::Pause pause(&made_ahead_, ino);
  if (name == kGatherXattr) co_return co_await ranges_.Gather(std::move(who), ino, std::move(value));
  if (name == kLayoutXattr) co_return co_await residence_.SetLayout(std::move(who), ino, std::move(value));
  XattrRequest r;
  r.ino = ino;
  r.name = std::move(name);
  r.value = std::move(value);
  r.create = create;
  r.replace = replace;
  auto reply = co_await session_.Mutate(&MetaService::SetXattr, std::move(r), who);
  attrs_.ChangedUntold(ino);
  if (!reply.ok()) co_return reply.error();
  co_return Ok();
}

Task<Result<void>> Xattrs::RemoveXattr(Caller who, InodeId ino, std::string name) {
  const CallList::Call under_way(&calls_, "removexattr of", ino);
  const MadeAhead::Pause pause(&made_ahead_, ino);
  XattrRequest r;
  r.ino = ino;
  r.name = std::move(name);
  if (const VfsInode* const n = inodes_.Look(ino)) r.header.opened = n->lease.proof();
  auto reply = co_await session_.Mutate(&MetaService::RemoveXattr, std::move(r), who);
  attrs_.ChangedUntold(ino);
  if (!reply.ok()) co_return reply.error();
  co_return Ok();
}

}  // namespace stria
