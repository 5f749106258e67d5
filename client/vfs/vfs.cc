#include "client/vfs/vfs.h"

#include <utility>

#include "client/vfs/rooms.h"

namespace stria {

namespace {

// Makes a call that only reads again in the next session if its own is lost. Not for changes: one that may have been done must
// not be made again, and bytes that were written under a lost lease must not reach the next session.
template <class MakeCall>
auto InAnySession(MetaSession& session, MakeCall call) -> decltype(call()) {
  while (true) {
    const uint64_t generation = session.generation();
    auto answer = co_await call();
    if (answer.code() != FsError::kFenced || (generation == session.generation() && !session.fenced())) co_return answer;
    CO_RETURN_IF_ERROR(co_await session.WaitNext());
  }
}

template <class MakeCall>
auto AfterWaiting(MetaSession& session, MakeCall call) -> decltype(call()) {
  CO_RETURN_IF_ERROR(co_await session.WaitNext());
  co_return co_await call();
}

// Makes a change that begins when the session is lost already, and needs nothing of it, in the next one.
template <class MakeCall>
auto InNextSession(MetaSession& session, MakeCall call) -> decltype(call()) {
  return session.fenced() ? AfterWaiting(session, std::move(call)) : call();
}

}  // namespace

Vfs::Vfs(VfsOptions options, MetaSession& session, StripeIo io, StripePool& pool, StripeReader& reader, KernelCache& kernel)
    : rooms_(std::make_unique<VfsRooms>(options, session, io, pool, reader, kernel)) {}

Vfs::~Vfs() = default;

void Vfs::Start() { rooms_->scope.Spawn(rooms_->write_back.Periodic()); }

Task<Result<void>> Vfs::FlushAll() { return rooms_->commits.FlushAll(); }

void Vfs::SetFlags(VfsFlags flags) {
  rooms_->file_calls.SetSyncWrites(flags.sync_writes);
  rooms_->atimes.SetRelatime(flags.relatime);
}

SessionSide& Vfs::session_side() { return rooms_->session_events; }

KernelSide& Vfs::kernel_side() { return rooms_->kernel_side; }

const VfsReport& Vfs::report() const { return rooms_->report; }

Task<Result<EntryOut>> Vfs::Lookup(Caller who, InodeId parent, std::string name) {
  return InAnySession(rooms_->session(), [this, who = std::move(who), parent, name = std::move(name)] {
    return rooms_->names.Lookup(who, parent, name);
  });
}

Task<Result<EntryOut>> Vfs::GetAttr(Caller who, InodeId ino) {
  return InAnySession(rooms_->session(), [this, who = std::move(who), ino] { return rooms_->attr_calls.GetAttr(who, ino); });
}

Task<Result<EntryOut>> Vfs::SetAttr(Caller who, InodeId ino, SetAttrIn set) {
  return InNextSession(rooms_->session(), [this, who = std::move(who), ino, set = std::move(set)]() mutable {
    return rooms_->attr_calls.SetAttr(std::move(who), ino, std::move(set));
  });
}

Task<Result<EntryOut>> Vfs::MakeNode(Caller who, InodeId parent, std::string name, FileType type, uint32_t mode, uint64_t rdev,
                                     std::string target) {
  return InNextSession(rooms_->session(), [=, this, who = std::move(who), name = std::move(name), target = std::move(target)]() mutable {
    return rooms_->names.MakeNode(std::move(who), parent, std::move(name), type, mode, rdev, std::move(target));
  });
}

Task<Result<void>> Vfs::Unlink(Caller who, InodeId parent, std::string name) {
  return InNextSession(rooms_->session(), [this, who = std::move(who), parent, name = std::move(name)]() mutable {
    return rooms_->names.Unlink(std::move(who), parent, std::move(name));
  });
}

Task<Result<void>> Vfs::Rmdir(Caller who, InodeId parent, std::string name) {
  return InNextSession(rooms_->session(), [this, who = std::move(who), parent, name = std::move(name)]() mutable {
    return rooms_->names.Rmdir(std::move(who), parent, std::move(name));
  });
}

Task<Result<void>> Vfs::Rename(Caller who, InodeId parent, std::string name, InodeId new_parent, std::string new_name,
                               bool no_replace, bool exchange) {
  return InNextSession(rooms_->session(), [=, this, who = std::move(who), name = std::move(name), new_name = std::move(new_name)]() mutable {
    return rooms_->names.Rename(std::move(who), parent, std::move(name), new_parent, std::move(new_name), no_replace, exchange);
  });
}

Task<Result<EntryOut>> Vfs::Link(Caller who, InodeId ino, InodeId new_parent, std::string new_name) {
  return InNextSession(rooms_->session(), [this, who = std::move(who), ino, new_parent, new_name = std::move(new_name)]() mutable {
    return rooms_->names.Link(std::move(who), ino, new_parent, std::move(new_name));
  });
}

Task<Result<std::string>> Vfs::ReadLink(Caller who, InodeId ino) {
  return InAnySession(rooms_->session(), [this, who = std::move(who), ino] { return rooms_->names.ReadLink(who, ino); });
}

Task<Result<ReadDirReply>> Vfs::ReadDir(Caller who, InodeId ino, uint64_t cookie, uint32_t limit, bool attrs) {
  return InAnySession(rooms_->session(), [this, who = std::move(who), ino, cookie, limit, attrs] {
    return rooms_->names.ReadDir(who, ino, cookie, limit, attrs);
  });
}

Task<Result<void>> Vfs::SyncDir(Caller who, InodeId ino) {
  return InAnySession(rooms_->session(), [this, who = std::move(who), ino, mark = rooms_->session().lost_changes().Mark()] {
    return rooms_->names.SyncDir(who, ino, mark);
  });
}

Task<Result<std::string>> Vfs::GetXattr(Caller who, InodeId ino, std::string name) {
  return InAnySession(rooms_->session(), [this, who = std::move(who), ino, name = std::move(name)] {
    return rooms_->xattrs.GetXattr(who, ino, name);
  });
}

Task<Result<std::vector<std::string>>> Vfs::ListXattr(Caller who, InodeId ino) {
  return InAnySession(rooms_->session(), [this, who = std::move(who), ino] { return rooms_->xattrs.ListXattr(who, ino); });
}

Task<Result<void>> Vfs::SetXattr(Caller who, InodeId ino, std::string name, std::string value, bool create, bool replace) {
  return InNextSession(rooms_->session(), [=, this, who = std::move(who), name = std::move(name), value = std::move(value)]() mutable {
    return rooms_->xattrs.SetXattr(std::move(who), ino, std::move(name), std::move(value), create, replace);
  });
}

Task<Result<void>> Vfs::RemoveXattr(Caller who, InodeId ino, std::string name) {
  return InNextSession(rooms_->session(), [this, who = std::move(who), ino, name = std::move(name)]() mutable {
    return rooms_->xattrs.RemoveXattr(std::move(who), ino, std::move(name));
  });
}

Task<Result<StatFsReply>> Vfs::StatFs(Caller who) {
  return InAnySession(rooms_->session(), [this, who = std::move(who)] { return rooms_->last_known.StatFs(who); });
}

Task<Result<OpenedFile>> Vfs::Create(Caller who, InodeId parent, std::string name, uint32_t mode, bool exclusive, bool truncate,
                                 VfsHandle flags) {
  return InNextSession(rooms_->session(), [=, this, who = std::move(who), name = std::move(name), flags = std::move(flags)]() mutable {
    return rooms_->file_calls.Create(std::move(who), parent, std::move(name), mode, exclusive, truncate, std::move(flags));
  });
}

Task<Result<OpenedFile>> Vfs::Open(Caller who, InodeId ino, bool truncate, VfsHandle flags) {
  // A truncation that may have been done is not done again: others may have written since.
  if (truncate) {
    return InNextSession(rooms_->session(), [this, who = std::move(who), ino, flags = std::move(flags)]() mutable {
      return rooms_->file_calls.Open(std::move(who), ino, true, std::move(flags));
    });
  }
  return InAnySession(rooms_->session(), [this, who = std::move(who), ino, flags = std::move(flags)] {
    return rooms_->file_calls.Open(who, ino, false, flags);
  });
}

Task<Result<BufferChain>> Vfs::Read(Caller who, VfsHandlePtr h, uint64_t offset, uint64_t length, bool for_pages,
                                    std::shared_ptr<ReadTally> reader) {
  return rooms_->reads.Read(std::move(who), std::move(h), offset, length, for_pages, std::move(reader));
}

Task<std::optional<ShardRead>> Vfs::WholeShard(VfsHandlePtr h) {
  return rooms_->reads.WholeShard(std::move(h));
}

Task<Result<uint64_t>> Vfs::Write(Caller who, VfsHandlePtr h, uint64_t offset, Buffer bytes) {
  return rooms_->file_calls.Write(std::move(who), std::move(h), offset, std::move(bytes));
}

Task<Result<uint64_t>> Vfs::WritePages(VfsHandlePtr h, uint64_t offset, Buffer bytes) {
  return rooms_->file_calls.WritePages(std::move(h), offset, std::move(bytes));
}

Task<Result<void>> Vfs::Flush(Caller who, VfsHandlePtr h) {
  return rooms_->file_calls.Flush(std::move(who), std::move(h));
}

Task<Result<void>> Vfs::Fsync(Caller who, VfsHandlePtr h) {
  return rooms_->file_calls.Fsync(std::move(who), std::move(h));
}

Task<Result<void>> Vfs::Release(Caller who, VfsHandlePtr h) {
  return rooms_->file_calls.Release(std::move(who), std::move(h));
}

Task<Result<void>> Vfs::Punch(Caller who, VfsHandlePtr h, uint64_t offset, uint64_t length, bool keep_size) {
  return rooms_->ranges.Punch(std::move(who), std::move(h), offset, length, keep_size);
}

Task<Result<uint64_t>> Vfs::CopyRange(Caller who, VfsHandlePtr from, uint64_t from_offset, VfsHandlePtr to, uint64_t to_offset,
                                      uint64_t length) {
  return rooms_->ranges.CopyRange(std::move(who), std::move(from), from_offset, std::move(to), to_offset, length);
}

Task<Result<void>> Vfs::Grow(Caller who, VfsHandlePtr h, uint64_t size) {
  return rooms_->ranges.Grow(std::move(who), std::move(h), size);
}

Task<Result<uint64_t>> Vfs::Seek(Caller who, VfsHandlePtr h, uint64_t offset, bool hole) {
  return rooms_->reads.Seek(std::move(who), std::move(h), offset, hole);
}

Task<Result<void>> Vfs::SetLock(VfsHandlePtr h, LockIn lock, std::shared_ptr<LockWait> wait) {
  return rooms_->file_locks.Set(LocksOf(h->inode), lock, std::move(wait),
                                [rooms = rooms_.get(), h] { return rooms->come_back.CheckHandle(*h); });
}

Task<Result<std::optional<FileLock>>> Vfs::TestLock(VfsHandlePtr h, LockIn lock) {
  const CallList::Call under_way(&rooms_->calls, "test of a lock of", h->inode->ino);
  CO_RETURN_IF_ERROR(rooms_->come_back.CheckHandle(*h));
  co_return co_await rooms_->file_locks.Test(LocksOf(h->inode), lock);
}

Task<void> Vfs::DropLocks(std::shared_ptr<VfsInode> inode, LockKind kind, uint64_t owner) {
  return rooms_->file_locks.Drop(LocksOf(inode), kind, owner);
}

}  // namespace stria
