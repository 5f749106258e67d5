// Operations on open files.
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>

#include "client/fuse/fuse_adapter.h"

namespace stria {
namespace {

using Identity = FuseAdapter::Identity;

// The reply to a copy has 32 bits for the length.
constexpr uint64_t kMaxCopyBytes = 4 * kGiB - kMiB;

// A write or truncation by a caller who may not keep suid and sgid clears them. The kernel tells so where it can; otherwise
// this holds for every caller but root.
bool MustKillPrivileges(FuseAdapter& a, fuse_req_t req, bool kernel_says) {
  return a.features().kill_priv ? kernel_says : fuse_req_ctx(req)->uid != 0;
}

// A write may have to clear suid and sgid (MustKillPrivileges).
Task<Result<void>> KillPrivilegesOf(FuseAdapter& a, const FuseFile& file, Caller who) {
  const InodeId ino = KernelSide::InodeOf(*file.handle);
  std::optional<uint32_t> mode = KernelSide::ModeOf(*file.handle);
  if (!mode) {
    CO_ASSIGN_OR_RETURN(const EntryOut now, co_await a.vfs().GetAttr(file.opener, ino));
    mode = now.attr.mode;
  }
  co_return co_await KillPrivileges(a.vfs(), std::move(who), ino, *mode);
}
// With fallocate and copy_file_range the kernel leaves this to the mount and does not name the caller: clears them for all but
// root.
Task<Result<void>> KillPrivilegesOfUsers(FuseAdapter& a, const FuseFile& file, Caller who) {
  if (who.uid == 0) co_return Ok();
  co_return co_await KillPrivilegesOf(a, file, std::move(who));
}

// ---- open, create, release

// The file is the kernel's from here on, unless it does not want the answer any more. `as`: how it is open, if that is
// decided and counted already.
Task<void> GiveFile(FuseAdapter& a, FuseRequest* r, Vfs::Opened opened, bool created, int open_flags, std::optional<OpenedAs> as) {
  const InodeId ino = KernelSide::InodeOf(*opened.handle);
  if (!as && a.features().passthrough) as = co_await a.through().Enter(opened.handle, (open_flags & O_DIRECT) != 0);
  if (!as) as.emplace();
  if (as->mode == OpenMode::kBusy) {
    r->Fail(FsError::kTxtBusy);
    (void)co_await a.vfs().Release(r->who, std::move(opened.handle));
    co_return;
  }
  auto file = std::make_shared<FuseFile>();
  file->handle = opened.handle;
  file->opener = r->who;
  file->mode = as->mode;
  const uint32_t flags = OpenReplyFlags(*opened.handle, as->mode, a.features());
  opened.handle->writes_through = opened.handle->write && !(flags & FOPEN_DIRECT_IO);
  const uint64_t fh = a.AddFile(std::move(file));
  if (r->Opened(created ? &opened.entry : nullptr, fh, flags, as->backing)) co_return;
  a.RemoveFile(fh);
  a.through().Leave(ino, as->mode);
  (void)co_await a.vfs().Release(r->who, std::move(opened.handle));
}

Task<void> Open(FuseAdapter& a, FuseRequest* r, InodeId ino, int flags, bool kill_privileges) {
  // A writer is refused before anything is cut off, and from here on no passthrough read begins.
  std::optional<OpenedAs> as;
  if (a.features().passthrough && (HandleFor(flags).write || (flags & O_TRUNC) != 0)) {
    as = a.through().EnterToWrite(ino);
    if (as->mode == OpenMode::kBusy) {
      r->Fail(FsError::kTxtBusy);
      co_return;
    }
  }
  auto opened = co_await a.vfs().Open(r->who, ino, (flags & O_TRUNC) != 0, HandleFor(flags));
  if (!opened.ok()) {
    if (as) a.through().Leave(ino, as->mode);
    if (opened.code() == FsError::kStale) a.looked_up().Missed(r->thread(), Executor::Current().NowNs());
    r->Fail(opened.error());
    co_return;
  }
  if (kill_privileges && (flags & O_TRUNC)) {
    (void)co_await KillPrivileges(a.vfs(), r->who, ino, opened->entry.attr.mode);
  }
  co_await GiveFile(a, r, std::move(*opened), false, flags, as);
}
void LlOpen(fuse_req_t req, fuse_ino_t node, fuse_file_info* fi) {
  FuseAdapter& a = FuseAdapter::Of(req);
  const uint32_t asked = FuseAdapter::RawArguments<fuse_open_in>().open_flags;
  const bool kill = MustKillPrivileges(a, req, (asked & FUSE_OPEN_KILL_SUIDGID) != 0);
  a.Begin(req, OnInterrupt::kDetach, Identity::kCaller,
          [ino = a.roots().FromNode(node), flags = fi->flags, kill](FuseAdapter& ad, FuseRequest* r) {
            return Open(ad, r, ino, flags, kill);
          });
}

Task<void> Create(FuseAdapter& a, FuseRequest* r, InodeId parent, std::string name, uint32_t mode, int flags) {
  auto opened = co_await a.vfs().Create(r->who, parent, name, mode, (flags & O_EXCL) != 0,
                                        (flags & O_TRUNC) != 0, HandleFor(flags));
  if (!opened.ok()) {
    // The name exists by now and is no regular file (a symlink, a FIFO, a device). At ESTALE the kernel looks up once more, and
    // handles it by its type.
    r->Fail(opened.code() == FsError::kLoop ? Error(FsError::kStale) : opened.error());
    co_return;
  }
  a.Named(parent, name, opened->entry.attr);
  co_await GiveFile(a, r, std::move(*opened), true, flags, std::nullopt);
}
void LlCreate(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode, fuse_file_info* fi) {
  FuseAdapter& a = FuseAdapter::Of(req);
  a.Begin(req, OnInterrupt::kDetach, (mode & S_ISGID) ? Identity::kCallerNow : Identity::kCaller,
          [parent = a.roots().FromNode(parent), name = std::string(name), mode = mode & 07777, flags = fi->flags](
              FuseAdapter& ad, FuseRequest* r) { return Create(ad, r, parent, name, mode, flags); });
}

Task<void> Release(FuseAdapter& a, FuseRequest* r, uint64_t fh) {
  FuseFilePtr file = a.File(fh);
  a.RemoveFile(fh);
  // The kernel waits for nothing here; interrupted requests of the file may still run.
  r->Ok();
  if (!file) co_return;
  a.through().Leave(KernelSide::InodeOf(*file->handle), file->mode);  // the kernel has let go of it before it said so
  while (file->running > 0) co_await file->idle.Wait();
  for (const auto& [kind, owner] : file->lock_owners) {
    co_await a.vfs().DropLocks(file->handle->inode, kind, owner);
  }
  (void)co_await a.vfs().Release(file->opener, std::move(file->handle));
}
void LlRelease(fuse_req_t req, fuse_ino_t node, fuse_file_info* fi) {
  FuseAdapter::Of(req).Begin(req, OnInterrupt::kIgnore, Identity::kNone,
                             [fh = fi->fh](FuseAdapter& ad, FuseRequest* r) { return Release(ad, r, fh); });
}

// ---- read, write

Task<void> Read(FuseAdapter& a, FuseRequest* r, uint64_t fh, uint64_t offset, size_t size, bool for_pages) {
  FuseFilePtr file = a.File(fh);
  if (!file) {
    r->Fail(FsError::kBadF);
    co_return;
  }
  FuseFileUse use(file);
  auto bytes = co_await a.vfs().Read(file->opener, file->handle, offset, size, for_pages, r->reader());
  if (bytes.ok()) {
    r->Data(std::move(*bytes));
  } else {
    r->Fail(bytes.error());
  }
}
void LlRead(fuse_req_t req, fuse_ino_t node, size_t size, off_t offset, fuse_file_info* fi) {
  // The kernel names the process of a direct read (FUSE_READ_LOCKOWNER), but none for pages.
  const bool for_pages = fi->lock_owner == 0;
  FuseAdapter::Of(req).Begin(req, OnInterrupt::kCancel, Identity::kNone,
                             [fh = fi->fh, size, offset, for_pages](FuseAdapter& ad, FuseRequest* r) {
                               return Read(ad, r, fh, static_cast<uint64_t>(offset), size, for_pages);
                             });
}

Task<void> WritePages(FuseAdapter& a, FuseRequest* r, uint64_t fh, uint64_t offset, Buffer bytes) {
  FuseFilePtr file = a.File(fh);
  if (!file) {
    r->Fail(FsError::kBadF);
    co_return;
  }
  FuseFileUse use(file);
  auto done = co_await a.vfs().WritePages(file->handle, offset, std::move(bytes));
  if (done.ok()) {
    r->Written(*done);
  } else {
    r->Fail(done.error());
  }
}

Task<void> Write(FuseAdapter& a, FuseRequest* r, uint64_t fh, uint64_t offset, Buffer bytes, bool append,
                 bool kill_privileges) {
  FuseFilePtr file = a.File(fh);
  if (!file) {
    r->Fail(FsError::kBadF);
    co_return;
  }
  FuseFileUse use(file);
  if (kill_privileges) {
    auto killed = co_await KillPrivilegesOf(a, *file, r->who);
    if (!killed.ok()) {
      r->Fail(killed.error());
      co_return;
    }
  }
  VfsHandlePtr handle = file->handle;
  if (append != handle->append) {  // F_SETFL
    handle = std::make_shared<VfsHandle>(*handle);
    handle->append = append;
  }
  auto done = co_await a.vfs().Write(file->opener, std::move(handle), offset, std::move(bytes));
  if (done.ok()) {
    r->Written(*done);
  } else {
    r->Fail(done.error());
  }
}
void LlWrite(fuse_req_t req, fuse_ino_t node, const char* bytes, size_t size, off_t offset, fuse_file_info* fi) {
  FuseAdapter& a = FuseAdapter::Of(req);
  const uint32_t asked = FuseAdapter::RawArguments<fuse_write_in>().write_flags;
  if (asked & FUSE_WRITE_CACHE) {
    // Pages of a mapping know their place and have no particular writer: any handle may bring them.
    a.Begin(req, OnInterrupt::kDetach, Identity::kNone,
            [fh = fi->fh, offset, payload = FuseAdapter::TakePayload(bytes, size)](FuseAdapter& ad, FuseRequest* r) {
              return WritePages(ad, r, fh, static_cast<uint64_t>(offset), payload);
            });
    return;
  }
  const bool append = (fi->flags & O_APPEND) != 0;
  const bool kill = MustKillPrivileges(a, req, (asked & FUSE_WRITE_KILL_SUIDGID) != 0);
  a.Begin(req, OnInterrupt::kDetach, kill ? Identity::kCaller : Identity::kNone,
          [fh = fi->fh, offset, payload = FuseAdapter::TakePayload(bytes, size), append, kill](
              FuseAdapter& ad, FuseRequest* r) {
            return Write(ad, r, fh, static_cast<uint64_t>(offset), payload, append, kill);
          });
}

// ---- flush, fsync

// `closing`: a process (`lock_owner`) closes a descriptor, and loses all its byte-range locks of the file.
Task<void> Sync(FuseAdapter& a, FuseRequest* r, uint64_t fh, bool closing, uint64_t lock_owner) {
  FuseFilePtr file = a.File(fh);
  if (!file) {
    r->Fail(FsError::kBadF);
    co_return;
  }
  FuseFileUse use(file);
  if (closing) {
    const auto flushed = co_await a.vfs().Flush(file->opener, file->handle);
    co_await a.vfs().DropLocks(file->handle->inode, LockKind::kPosix, lock_owner);
    file->lock_owners.erase({LockKind::kPosix, lock_owner});
    r->Status(flushed);
  } else {
    r->Status(co_await a.vfs().Fsync(file->opener, file->handle));
  }
}
void BeginSync(fuse_req_t req, fuse_file_info* fi, bool closing) {
  FuseAdapter::Of(req).Begin(
      req, OnInterrupt::kDetach, Identity::kNone,
      [fh = fi->fh, closing, owner = fi->lock_owner](FuseAdapter& ad, FuseRequest* r) {
        return Sync(ad, r, fh, closing, owner);
      });
}
void LlFlush(fuse_req_t req, fuse_ino_t node, fuse_file_info* fi) { BeginSync(req, fi, true); }
void LlFsync(fuse_req_t req, fuse_ino_t node, int datasync, fuse_file_info* fi) { BeginSync(req, fi, false); }

// ---- fallocate, lseek

// Growth without bytes is a hole. Space is not set aside: stripes are placed when they are written.
Task<Result<void>> GrowTo(FuseAdapter& a, FuseFile& file, uint64_t end) {
  CO_ASSIGN_OR_RETURN(const EntryOut now, co_await a.vfs().GetAttr(file.opener, KernelSide::InodeOf(*file.handle)));
  if (now.attr.size >= end) co_return Ok();
  co_return co_await a.vfs().Grow(file.opener, file.handle, end);
}

Task<void> Allocate(FuseAdapter& a, FuseRequest* r, uint64_t fh, int mode, uint64_t offset, uint64_t length) {
  FuseFilePtr file = a.File(fh);
  if (!file) {
    r->Fail(FsError::kBadF);
    co_return;
  }
  FuseFileUse use(file);
  if (auto killed = co_await KillPrivilegesOfUsers(a, *file, r->who); !killed.ok()) {
    r->Fail(killed.error());
    co_return;
  }
  const bool keep_size = (mode & FALLOC_FL_KEEP_SIZE) != 0;
  if (length == 0 || offset > kMaxFileBytes || length > kMaxFileBytes - offset) {
    r->Fail(length == 0 ? FsError::kInval : FsError::kFBig);
    co_return;
  }
  switch (mode & ~FALLOC_FL_KEEP_SIZE) {
    case 0: r->Status(keep_size ? Ok() : co_await GrowTo(a, *file, offset + length)); break;
    case FALLOC_FL_PUNCH_HOLE:
    case FALLOC_FL_ZERO_RANGE:
      r->Status(co_await a.vfs().Punch(file->opener, file->handle, offset, length, keep_size));
      break;
    default: r->Fail(FsError::kNotSupported);
  }
}
void LlAllocate(fuse_req_t req, fuse_ino_t node, int mode, off_t offset, off_t length, fuse_file_info* fi) {
  FuseAdapter::Of(req).Begin(req, OnInterrupt::kDetach, Identity::kCaller,
                             [fh = fi->fh, mode, offset, length](FuseAdapter& ad, FuseRequest* r) {
                               return Allocate(ad, r, fh, mode, static_cast<uint64_t>(offset),
                                               static_cast<uint64_t>(length));
                             });
}

Task<void> CopyRange(FuseAdapter& a, FuseRequest* r, uint64_t fh_from, uint64_t from, uint64_t fh_to, uint64_t to,
                     uint64_t length) {
  FuseFilePtr source = a.File(fh_from);
  FuseFilePtr target = a.File(fh_to);
  if (!source || !target) {
    r->Fail(FsError::kBadF);
    co_return;
  }
  FuseFileUse use_source(source);
  FuseFileUse use_target(target);
  if (auto killed = co_await KillPrivilegesOfUsers(a, *target, r->who); !killed.ok()) {
    r->Fail(killed.error());
    co_return;
  }
  auto done = co_await a.vfs().CopyRange(target->opener, source->handle, from, target->handle, to, length);
  if (done.ok()) {
    r->Written(*done);
  } else {
    r->Fail(done.error());
  }
}
void LlCopyRange(fuse_req_t req, fuse_ino_t node_from, off_t from, fuse_file_info* fi_from, fuse_ino_t node_to,
                 off_t to, fuse_file_info* fi_to, size_t length, int flags) {
  if (flags != 0) {
    fuse_reply_err(req, EINVAL);
    return;
  }
  FuseAdapter::Of(req).Begin(
      req, OnInterrupt::kDetach, Identity::kCaller,
      [fh_from = fi_from->fh, from, fh_to = fi_to->fh, to,
       length = std::min<uint64_t>(length, kMaxCopyBytes)](FuseAdapter& ad, FuseRequest* r) {
        return CopyRange(ad, r, fh_from, static_cast<uint64_t>(from), fh_to, static_cast<uint64_t>(to), length);
      });
}

Task<void> Seek(FuseAdapter& a, FuseRequest* r, uint64_t fh, uint64_t offset, int whence) {
  FuseFilePtr file = a.File(fh);
  if (!file || (whence != SEEK_DATA && whence != SEEK_HOLE)) {
    r->Fail(file ? FsError::kInval : FsError::kBadF);
    co_return;
  }
  FuseFileUse use(file);
  auto found = co_await a.vfs().Seek(file->opener, file->handle, offset, whence == SEEK_HOLE);
  if (found.ok()) {
    r->Offset(*found);
  } else {
    r->Fail(found.error());
  }
}
void LlSeek(fuse_req_t req, fuse_ino_t node, off_t offset, int whence, fuse_file_info* fi) {
  FuseAdapter::Of(req).Begin(req, OnInterrupt::kCancel, Identity::kNone,
                             [fh = fi->fh, offset, whence](FuseAdapter& ad, FuseRequest* r) {
                               return Seek(ad, r, fh, static_cast<uint64_t>(offset), whence);
                             });
}

}  // namespace

void AddFileOps(fuse_lowlevel_ops* ops) {
  ops->open = LlOpen;
  ops->create = LlCreate;
  ops->release = LlRelease;
  ops->read = LlRead;
  ops->write = LlWrite;
  ops->flush = LlFlush;
  ops->fsync = LlFsync;
  ops->fallocate = LlAllocate;
  ops->copy_file_range = LlCopyRange;
  ops->lseek = LlSeek;
}

}  // namespace stria
