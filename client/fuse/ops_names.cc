// Operations on names and attributes.
#include <linux/fs.h>
#include <sys/stat.h>

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/fuse/fuse_adapter.h"
#include "client/fuse/mount_table.h"
#include "locality/job_io.h"

// After linux/fs.h, which may define them too.
#include <sys/xattr.h>

namespace stria {
namespace {

using Identity = FuseAdapter::Identity;

// ---- lookup, getattr, setattr

constexpr int kHoldTries = 20;

// Holds the inode open for LookedUp::kKeepNs, if it can. A task of its own, because the request may be cancelled.
Task<void> HoldOpen(FuseAdapter& a, Caller who, InodeId ino, OneShot<FsError> told) {
  VfsHandle flags;
  flags.read = flags.noatime = true;
  auto opened = co_await a.vfs().Open(who, ino, /*truncate=*/false, flags);
  told.Set(opened.code());
  if (!opened.ok()) co_return;
  co_await Sleep(LookedUp::kKeepNs);
  (void)co_await a.vfs().Release(who, std::move(opened->handle));
}

// Holds open a file that `r` may read, so that the kernel can open it whatever happens to the name.
Task<Result<EntryOut>> LookupHeld(FuseAdapter& a, FuseRequest* r, InodeId parent, const std::string& name) {
  for (int i = 0;; ++i) {
    Result<EntryOut> found = co_await a.vfs().Lookup(r->who, parent, name);
    if (!found.ok() || found->attr.type != FileType::kFile || i == kHoldTries) co_return found;
    OneShot<FsError> told;
    a.holds().Spawn(HoldOpen(a, r->who, found->attr.ino, told));
    const FsError code = co_await told.Take();
    found->attr_valid_ns = 0;  // they may have changed meanwhile
    if (code != FsError::kStale) co_return found;
  }
}

Task<void> Lookup(FuseAdapter& a, FuseRequest* r, InodeId parent, std::string name) {
  const bool kept = a.names() && a.names()->MayHave(parent, name);
  if (kept) r->KeepName();
  auto answer = co_await a.moves().Ask<Result<EntryOut>>(parent, name, r->thread(), [&a, r, parent, &name] {
    const bool missed = a.looked_up().HasMissed(r->thread(), Executor::Current().NowNs());
    return missed ? LookupHeld(a, r, parent, name) : a.vfs().Lookup(r->who, parent, name);
  });
  if (answer.unsure) {
    r->Fail(FsError::kNoMem);
    co_return;
  }
  if (answer.moving || answer.had) {
    const Result<EntryOut> now = co_await a.vfs().GetAttr(Caller(), answer.moving ? answer.moving : answer.had);
    const bool there = now.ok() && answer.moving && a.moves().IsMoving(parent, name);  // the kernel has it by that name
    if (there) {
      a.Named(parent, name, now->attr);
    } else {
      a.moves().Doubt();
      if (a.names()) a.names()->Doubt();
    }
    r->Entry(now, false, there ? a.Believe(parent, name, a.vfs().kernel_side().LeaseLeftNs()) : 0);
    co_return;
  }
  Result<EntryOut> found = *std::move(answer.found);
  // The kernel itself has checked that the caller may look up there, and only asks what became of the name. (The server may not
  // know all groups of a caller in another pid namespace.)
  if (kept && found.code() == FsError::kAccess) found = co_await a.vfs().Lookup(Caller(), parent, name);
  // (A walk of ours takes nothing from the kernel that nobody has asked for.)
  if (kept && !a.MayReplace(r->thread(), parent, name, found.ok() ? found->attr.ino : InodeId())) {
    r->Fail(FsError::kNoMem);
    co_return;
  }
  int64_t name_valid_ns = 0;
  if (found.ok()) {
    a.looked_up().Add(*found, Executor::Current().NowNs());
    a.Named(parent, name, found->attr);
    if (found->attr.type == FileType::kDirectory) {
      name_valid_ns = a.Believe(parent, name, a.vfs().kernel_side().NameValidNs(parent, name, found->attr.ino));
    }
  }
  r->Entry(found, false, name_valid_ns);
}

// "." of any inode and ".." of a directory, found by number. The kernel asks so only to decode a file handle
// (open_by_handle_at, an NFS server) of an inode that it has dropped. A file without a name is gone then, because a process
// here that had it open would keep it in the kernel. Numbers are never used twice, so a handle is good for every mount at any
// time.
Task<void> LookupByNumber(FuseAdapter& a, FuseRequest* r, fuse_ino_t node, bool parent) {
  const InodeId ino = a.roots().FromNode(node);
  Result<EntryOut> found = co_await (parent ? a.vfs().Lookup(Caller(), ino, "..") : a.vfs().GetAttr(Caller(), ino));
  if (!found.ok()) {
    r->Fail(found.error());
    co_return;
  }
  // Above the directory that is mounted as the root there is nothing.
  const fuse_ino_t to = a.roots().ToNode(found->attr.ino);
  const bool outside = a.roots().FromNode(to) != found->attr.ino || (!parent && to != node);
  if (outside || found->attr.nlink == 0) {
    r->Fail(FsError::kStale);
  } else {
    if (a.names()) a.names()->Doubt();
    r->Entry(found, false);
  }
}

void LlLookup(fuse_req_t req, fuse_ino_t parent, const char* name) {
  FuseAdapter& a = FuseAdapter::Of(req);
  if (const std::string_view dots = name; dots == "." || dots == "..") {
    a.Begin(req, OnInterrupt::kCancel, Identity::kNone, [parent, up = dots == ".."](FuseAdapter& ad, FuseRequest* r) {
      return LookupByNumber(ad, r, parent, up);
    });
    return;
  }
  a.Begin(req, OnInterrupt::kCancel, Identity::kCaller,
          [parent = a.roots().FromNode(parent), name = std::string(name)](FuseAdapter& ad, FuseRequest* r) {
            return Lookup(ad, r, parent, name);
          });
}

Task<void> GetAttr(FuseAdapter& a, FuseRequest* r, InodeId ino) {
  Result<EntryOut> now = co_await a.vfs().GetAttr(r->who, ino);
  if (now.code() == FsError::kStale) {
    if (auto gone = a.looked_up().WithoutName(ino, Executor::Current().NowNs())) now = *std::move(gone);
  }
  r->Attributes(now, false);
}
void LlGetAttr(fuse_req_t req, fuse_ino_t node, fuse_file_info* fi) {
  FuseAdapter& a = FuseAdapter::Of(req);
  a.Begin(req, OnInterrupt::kCancel, Identity::kNone,
          [ino = a.roots().FromNode(node)](FuseAdapter& ad, FuseRequest* r) { return GetAttr(ad, r, ino); });
}

// From 1677 to 2262: the range of 64 bits of nanoseconds.
int64_t TimeNs(const timespec& t) {
  constexpr int64_t kMaxSeconds = std::numeric_limits<int64_t>::max() / kSecond - 1;
  if (t.tv_sec > kMaxSeconds) return kMaxSeconds * kSecond;
  if (t.tv_sec < -kMaxSeconds) return -kMaxSeconds * kSecond;
  return int64_t{t.tv_sec} * kSecond + t.tv_nsec;
}

SetAttrIn ToSetAttr(const struct stat& attr, int to_set) {
  SetAttrIn in;
  if (to_set & FUSE_SET_ATTR_MODE) in.mode = attr.st_mode & 07777;
  if (to_set & FUSE_SET_ATTR_UID) in.uid = attr.st_uid;
  if (to_set & FUSE_SET_ATTR_GID) in.gid = attr.st_gid;
  if (to_set & FUSE_SET_ATTR_SIZE) in.size = static_cast<uint64_t>(attr.st_size);
  if (to_set & FUSE_SET_ATTR_ATIME_NOW) {
    in.atime_now = true;
  } else if (to_set & FUSE_SET_ATTR_ATIME) {
    in.atime_ns = TimeNs(attr.st_atim);
  }
  if (to_set & FUSE_SET_ATTR_MTIME_NOW) {
    in.mtime_now = true;
  } else if (to_set & FUSE_SET_ATTR_MTIME) {
    in.mtime_ns = TimeNs(attr.st_mtim);
  }
  return in;
}

Task<void> SetAttr(FuseAdapter& a, FuseRequest* r, InodeId ino, SetAttrIn in, bool kill_privileges,
                   bool by_handle) {
  if (in.size && a.through().IsReadThrough(ino)) {  // as for an open to write
    r->Fail(FsError::kTxtBusy);
    co_return;
  }
  Caller who = r->who;
  // ftruncate needs no permission but that of the open file, which may be older than the file's mode.
  if (by_handle && in.size) who = Caller();
  if (kill_privileges && !in.mode) {
    auto now = co_await a.vfs().GetAttr(who, ino);
    if (now.ok()) {
      auto killed = co_await KillPrivileges(a.vfs(), r->who, ino, now->attr.mode);
      if (!killed.ok()) {
        r->Fail(killed.error());
        co_return;
      }
    }
  }
  r->Attributes(co_await a.vfs().SetAttr(std::move(who), ino, in), true);
}
void LlSetAttr(fuse_req_t req, fuse_ino_t node, struct stat* attr, int to_set, fuse_file_info* fi) {
  FuseAdapter& a = FuseAdapter::Of(req);
  // Truncation by a caller who may not keep suid and sgid; the server handles changes of owner.
  const bool kill = (to_set & FUSE_SET_ATTR_SIZE) && (to_set & FUSE_SET_ATTR_KILL_SUID);
  if (((to_set & FUSE_SET_ATTR_UID) && a.owner().uid) || ((to_set & FUSE_SET_ATTR_GID) && a.owner().gid)) {
    fuse_reply_err(req, EPERM);
    return;
  }
  // Setgid stays with a file of a group that the caller is in.
  a.Begin(req, OnInterrupt::kDetach, Identity::kCallerNow,
          [ino = a.roots().FromNode(node), in = ToSetAttr(*attr, to_set), kill, by_handle = fi != nullptr](
              FuseAdapter& ad, FuseRequest* r) { return SetAttr(ad, r, ino, in, kill, by_handle); });
}

void LlForget(fuse_req_t req, fuse_ino_t node, uint64_t times) {
  FuseAdapter::Of(req).Forgotten({{node, times}});
  fuse_reply_none(req);
}
void LlForgetMulti(fuse_req_t req, size_t count, fuse_forget_data* forgets) {
  FuseAdapter::Of(req).Forgotten(std::vector<fuse_forget_data>(forgets, forgets + count));
  fuse_reply_none(req);
}

// ---- making and removing names

Task<void> MakeNode(FuseAdapter& a, FuseRequest* r, InodeId parent, std::string name, FileType type, uint32_t mode,
                    uint64_t rdev, std::string target) {
  Result<EntryOut> made = co_await a.vfs().MakeNode(r->who, parent, name, type, mode, rdev, std::move(target));
  if (made.ok()) a.Named(parent, name, made->attr);
  r->Entry(made, true);
}
void BeginMakeNode(fuse_req_t req, fuse_ino_t parent, const char* name, FileType type, uint32_t mode, uint64_t rdev,
                   const char* target) {
  FuseAdapter& a = FuseAdapter::Of(req);
  a.Begin(req, OnInterrupt::kDetach, (mode & S_ISGID) ? Identity::kCallerNow : Identity::kCaller,
          [parent = a.roots().FromNode(parent), name = std::string(name), type, mode = mode & 07777, rdev,
           target = std::string(target)](FuseAdapter& ad, FuseRequest* r) {
            return MakeNode(ad, r, parent, name, type, mode, rdev, target);
          });
}
void LlMkNod(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode, dev_t rdev) {
  BeginMakeNode(req, parent, name, TypeOf(mode), mode, rdev, "");
}
void LlMkDir(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode) {
  BeginMakeNode(req, parent, name, FileType::kDirectory, mode, 0, "");
}
void LlSymlink(fuse_req_t req, const char* target, fuse_ino_t parent, const char* name) {
  BeginMakeNode(req, parent, name, FileType::kSymlink, 0777, 0, target);
}

Task<void> Remove(FuseAdapter& a, FuseRequest* r, InodeId parent, std::string name, bool directory) {
  if (directory) {
    r->Status(co_await a.vfs().Rmdir(r->who, parent, std::move(name)));
  } else {
    r->Status(co_await a.vfs().Unlink(r->who, parent, std::move(name)));
  }
}
void BeginRemove(fuse_req_t req, fuse_ino_t parent, const char* name, bool directory) {
  FuseAdapter& a = FuseAdapter::Of(req);
  a.Begin(req, OnInterrupt::kDetach, Identity::kCaller,
          [parent = a.roots().FromNode(parent), name = std::string(name), directory](
              FuseAdapter& ad, FuseRequest* r) { return Remove(ad, r, parent, name, directory); });
}
void LlUnlink(fuse_req_t req, fuse_ino_t parent, const char* name) { BeginRemove(req, parent, name, false); }
void LlRmDir(fuse_req_t req, fuse_ino_t parent, const char* name) { BeginRemove(req, parent, name, true); }

Task<void> Rename(FuseAdapter& a, FuseRequest* r, InodeId parent, std::string name, InodeId new_parent,
                  std::string new_name, unsigned flags) {
  if (flags & ~static_cast<unsigned>(RENAME_NOREPLACE | RENAME_EXCHANGE)) {
    r->Fail(FsError::kInval);
    co_return;
  }
  const bool exchange = (flags & RENAME_EXCHANGE) != 0;
  FuseAdapter::Moving moving(&a, parent, name);
  std::optional<FuseAdapter::Moving> back;
  if (exchange) back.emplace(&a, new_parent, new_name);
  const auto done =
      co_await a.vfs().Rename(r->who, parent, name, new_parent, new_name, (flags & RENAME_NOREPLACE) != 0, exchange);
  if (done.ok()) {
    co_await moving.Done(r->thread());
    if (back) co_await back->Done(r->thread());
    a.Renamed(parent, name, new_parent, new_name);
  }
  r->Status(done);
}
void LlRename(fuse_req_t req, fuse_ino_t parent, const char* name, fuse_ino_t new_parent, const char* new_name,
              unsigned flags) {
  FuseAdapter& a = FuseAdapter::Of(req);
  a.Begin(req, OnInterrupt::kDetach, Identity::kCaller,
          [parent = a.roots().FromNode(parent), name = std::string(name),
           new_parent = a.roots().FromNode(new_parent), new_name = std::string(new_name),
           flags](FuseAdapter& ad, FuseRequest* r) {
            return Rename(ad, r, parent, name, new_parent, new_name, flags);
          });
}

Task<void> Link(FuseAdapter& a, FuseRequest* r, InodeId ino, InodeId new_parent, std::string new_name) {
  Result<EntryOut> made = co_await a.vfs().Link(r->who, ino, new_parent, new_name);
  if (made.ok()) a.Named(new_parent, new_name, made->attr);
  r->Entry(made, true);
}
void LlLink(fuse_req_t req, fuse_ino_t node, fuse_ino_t new_parent, const char* new_name) {
  FuseAdapter& a = FuseAdapter::Of(req);
  a.Begin(req, OnInterrupt::kDetach, Identity::kCaller,
          [ino = a.roots().FromNode(node), new_parent = a.roots().FromNode(new_parent),
           new_name = std::string(new_name)](FuseAdapter& ad, FuseRequest* r) {
            return Link(ad, r, ino, new_parent, new_name);
          });
}

Task<void> ReadLink(FuseAdapter& a, FuseRequest* r, InodeId ino) {
  auto target = co_await a.vfs().ReadLink(r->who, ino);
  if (target.ok()) {
    r->Link(*target);
  } else {
    r->Fail(target.error());
  }
}
void LlReadLink(fuse_req_t req, fuse_ino_t node) {
  FuseAdapter& a = FuseAdapter::Of(req);
  a.Begin(req, OnInterrupt::kCancel, Identity::kNone,
          [ino = a.roots().FromNode(node)](FuseAdapter& ad, FuseRequest* r) { return ReadLink(ad, r, ino); });
}

// ---- statfs and extended attributes

Task<void> StatFs(FuseAdapter& a, FuseRequest* r) {
  auto reply = co_await a.vfs().StatFs(r->who);
  if (reply.ok()) {
    r->StatFs(*reply);
  } else {
    r->Fail(reply.error());
  }
}
void LlStatFs(fuse_req_t req, fuse_ino_t node) {
  FuseAdapter::Of(req).Begin(req, OnInterrupt::kCancel, Identity::kNone,
                             [](FuseAdapter& ad, FuseRequest* r) { return StatFs(ad, r); });
}

// POSIX ACLs are the only system attributes that are kept.
bool IsUnsupportedXattr(std::string_view name) {
  return name.starts_with("system.") && !name.starts_with("system.posix_acl_");
}

Task<void> GetXattr(FuseAdapter& a, FuseRequest* r, InodeId ino, std::string name, size_t room) {
  if (name == kJobsXattr) {
    if (const auto jobs = r->JobsSoFar()) {
      r->Xattr(*jobs, room);
      co_return;
    }
  }
  const bool flags = name == kFlagsXattr && a.options().flags;
  auto value = flags ? co_await a.options().flags() : co_await a.vfs().GetXattr(r->who, ino, std::move(name));
  if (value.ok()) {
    r->Xattr(*value, room);
  } else {
    r->Fail(value.error());
  }
}
void LlGetXattr(fuse_req_t req, fuse_ino_t node, const char* name, size_t size) {
  if (IsUnsupportedXattr(name)) {
    fuse_reply_err(req, EOPNOTSUPP);
    return;
  }
  FuseAdapter& a = FuseAdapter::Of(req);
  a.Begin(req, OnInterrupt::kCancel, Identity::kCaller,
          [ino = a.roots().FromNode(node), name = std::string(name), size](FuseAdapter& ad, FuseRequest* r) {
            return GetXattr(ad, r, ino, name, size);
          });
}

Task<void> ListXattr(FuseAdapter& a, FuseRequest* r, InodeId ino, size_t room) {
  auto names = co_await a.vfs().ListXattr(r->who, ino);
  if (!names.ok()) {
    r->Fail(names.error());
    co_return;
  }
  std::string list;
  for (const std::string& name : *names) list.append(name).push_back('\0');
  r->Xattr(list, room);
}
void LlListXattr(fuse_req_t req, fuse_ino_t node, size_t size) {
  FuseAdapter& a = FuseAdapter::Of(req);
  a.Begin(req, OnInterrupt::kCancel, Identity::kCaller,
          [ino = a.roots().FromNode(node), size](FuseAdapter& ad, FuseRequest* r) {
            return ListXattr(ad, r, ino, size);
          });
}

Task<void> SetXattr(FuseAdapter& a, FuseRequest* r, InodeId ino, std::string name, std::string value, int flags) {
  r->Status(co_await a.vfs().SetXattr(r->who, ino, std::move(name), std::move(value), (flags & XATTR_CREATE) != 0,
                                      (flags & XATTR_REPLACE) != 0));
}
void LlSetXattr(fuse_req_t req, fuse_ino_t node, const char* name, const char* value, size_t size, int flags) {
  if (IsUnsupportedXattr(name)) {
    fuse_reply_err(req, EOPNOTSUPP);
    return;
  }
  FuseAdapter& a = FuseAdapter::Of(req);
  a.Begin(req, OnInterrupt::kDetach, Identity::kCallerNow,  // as for SetAttr, of a list that stands for the mode
          [ino = a.roots().FromNode(node), name = std::string(name), value = std::string(value, size), flags](
              FuseAdapter& ad, FuseRequest* r) { return SetXattr(ad, r, ino, name, value, flags); });
}

Task<void> RemoveXattr(FuseAdapter& a, FuseRequest* r, InodeId ino, std::string name) {
  r->Status(co_await a.vfs().RemoveXattr(r->who, ino, std::move(name)));
}
void LlRemoveXattr(fuse_req_t req, fuse_ino_t node, const char* name) {
  if (IsUnsupportedXattr(name)) {
    fuse_reply_err(req, EOPNOTSUPP);
    return;
  }
  FuseAdapter& a = FuseAdapter::Of(req);
  a.Begin(req, OnInterrupt::kDetach, Identity::kCaller,
          [ino = a.roots().FromNode(node), name = std::string(name)](FuseAdapter& ad, FuseRequest* r) {
            return RemoveXattr(ad, r, ino, name);
          });
}

}  // namespace

void AddNameOps(fuse_lowlevel_ops* ops) {
  ops->lookup = LlLookup;
  ops->forget = LlForget;
  ops->forget_multi = LlForgetMulti;
  ops->getattr = LlGetAttr;
  ops->setattr = LlSetAttr;
  ops->readlink = LlReadLink;
  ops->mknod = LlMkNod;
  ops->mkdir = LlMkDir;
  ops->symlink = LlSymlink;
  ops->unlink = LlUnlink;
  ops->rmdir = LlRmDir;
  ops->rename = LlRename;
  ops->link = LlLink;
  ops->statfs = LlStatFs;
  ops->getxattr = LlGetXattr;
  ops->listxattr = LlListXattr;
  ops->setxattr = LlSetXattr;
  ops->removexattr = LlRemoveXattr;
}

}  // namespace stria
