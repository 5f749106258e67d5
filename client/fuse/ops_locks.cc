// Operations on locks: fcntl(2) byte ranges (of processes, and of open files: OFD) and flock(2).
//
// The kernel names a lock's owner by a number: a process' table of files, or an open file. A process' locks end with the flush
// of any descriptor of the file that it closes; those of open files end with the file. The kernel does not say which kind an
// owner is, so the locks that are left at the release of the file that set them belonged to that file.
#include <fcntl.h>
#include <sys/file.h>

#include <utility>

#include "client/fuse/fuse_adapter.h"

namespace stria {
namespace {

using Identity = FuseAdapter::Identity;

LockType TypeOfLock(int type) {
  return type == F_RDLCK ? LockType::kRead : type == F_WRLCK ? LockType::kWrite : LockType::kNone;
}

LockIn FromFlock(const struct flock& lock, uint64_t owner) {
  LockIn in;
  in.owner = owner;
  in.range.type = TypeOfLock(lock.l_type);
  in.range.first = static_cast<uint64_t>(lock.l_start);
  in.range.last = lock.l_len == 0 ? kLockToEnd : in.range.first + static_cast<uint64_t>(lock.l_len) - 1;
  in.range.pid = static_cast<uint32_t>(lock.l_pid);
  return in;
}

struct flock ToFlock(const std::optional<FileLock>& lock) {
  struct flock out = {};
  out.l_type = F_UNLCK;
  if (!lock) return out;
  out.l_type = lock->type == LockType::kWrite ? F_WRLCK : F_RDLCK;
  out.l_whence = SEEK_SET;
  out.l_start = static_cast<off_t>(lock->first);
  out.l_len = lock->last >= kLockToEnd ? 0 : static_cast<off_t>(lock->last - lock->first + 1);
  out.l_pid = static_cast<pid_t>(lock->pid);
  return out;
}

Task<void> GetLock(FuseAdapter& a, FuseRequest* r, uint64_t fh, LockIn lock) {
  FuseFilePtr file = a.File(fh);
  if (!file) {
    r->Fail(FsError::kBadF);
    co_return;
  }
  FuseFileUse use(file);
  auto found = co_await a.vfs().TestLock(file->handle, lock);
  if (found.ok()) {
    r->Lock(ToFlock(*found));
  } else {
    r->Fail(found.error());
  }
}
void LlGetLock(fuse_req_t req, fuse_ino_t node, fuse_file_info* fi, struct flock* lock) {
  FuseAdapter::Of(req).Begin(req, OnInterrupt::kCancel, Identity::kNone,
                             [fh = fi->fh, in = FromFlock(*lock, fi->lock_owner)](FuseAdapter& ad, FuseRequest* r) {
                               return GetLock(ad, r, fh, in);
                             });
}

Task<void> SetLock(FuseAdapter& a, FuseRequest* r, uint64_t fh, LockIn lock, bool wait) {
  FuseFilePtr file = a.File(fh);
  if (!file) {
    r->Fail(FsError::kBadF);
    co_return;
  }
  FuseFileUse use(file);
  std::shared_ptr<LockWait> line;
  if (wait) {
    line = std::make_shared<LockWait>();
    r->WhenInterrupted([line] {
      line->interrupted = true;
      line->changed.Pulse();
    });
  }
  if (lock.range.type != LockType::kNone) file->lock_owners.emplace(lock.kind, lock.owner);
  auto done = co_await a.vfs().SetLock(file->handle, lock, std::move(line));
  if (r->Status(done) || !done.ok() || lock.range.type == LockType::kNone) co_return;
  // Its caller was told that it was interrupted, and holds nothing.
  lock.range.type = LockType::kNone;
  (void)co_await a.vfs().SetLock(file->handle, lock, nullptr);
}
void BeginSetLock(fuse_req_t req, fuse_file_info* fi, LockIn lock, bool wait) {
  FuseAdapter::Of(req).Begin(req, wait ? OnInterrupt::kEnd : OnInterrupt::kDetach, Identity::kNone,
                             [fh = fi->fh, lock, wait](FuseAdapter& ad, FuseRequest* r) {
                               return SetLock(ad, r, fh, lock, wait);
                             });
}
void LlSetLock(fuse_req_t req, fuse_ino_t node, fuse_file_info* fi, struct flock* lock, int sleep) {
  BeginSetLock(req, fi, FromFlock(*lock, fi->lock_owner), sleep != 0);
}
void LlFlock(fuse_req_t req, fuse_ino_t node, fuse_file_info* fi, int op) {
  LockIn lock;
  lock.kind = LockKind::kFlock;
  lock.owner = fi->lock_owner;
  if (op & LOCK_SH) lock.range.type = LockType::kRead;
  if (op & LOCK_EX) lock.range.type = LockType::kWrite;
  BeginSetLock(req, fi, lock, !(op & LOCK_NB));
}

}  // namespace

void AddLockOps(fuse_lowlevel_ops* ops) {
  ops->getlk = LlGetLock;
  ops->setlk = LlSetLock;
  ops->flock = LlFlock;
}

}  // namespace stria
