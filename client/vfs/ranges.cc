// Ranges of a file that change without bytes being written: holes, growth, clones. The server does it, after
// all that was written before: commits are a prefix of the writes.
#include <algorithm>
#include <utility>

#include "client/vfs/inode.h"
#include "client/vfs/vfs.h"
#include "common/sabotage.h"

namespace stria {

// What [offset, offset+length) was here is not so any more. Kernel pages are the kernel's business, which
// asked for the change.
void Vfs::RangeChanged(VfsInode& n, uint64_t offset, uint64_t length, const Attr& attr, CommitSeq seq,
                       uint64_t since) {
  n.mapping.Forget(offset, length);
  n.Committed(session_.term(), seq);
  n.in_kernel.KeptPagesAreOld();
  n.attr = attr;
  write_back_.Account(n.writes);
  (void)Remember(attr, nodes_.SinceChange(since));
}

Task<Result<void>> Vfs::Reshape(Caller who, VfsHandlePtr h, CommitRequest r, uint64_t offset, uint64_t length) {
  const CallList::Call under_way(&calls_, "change of a range of", h->inode->ino);
  std::shared_ptr<VfsInode> inode = h->inode;
  CO_RETURN_IF_ERROR(CheckHandle(*h));
  if (!HoldsFor(*inode, true)) CO_RETURN_IF_ERROR(co_await Acquire(who, inode, inode->for_read, true, false, /*again=*/true));
  CO_ASSIGN_OR_RETURN(SemaphoreHold held, co_await TakeTurn(inode, &VfsInode::open_mu, "change of a range"));
  const NoWrites no_writes(inode);
  CO_RETURN_IF_ERROR(co_await FlushInode(inode, false));
  r.ino = inode->ino;
  r.header.opened = inode->proof;
  Resizing resizing(this, inode->ino);
  co_await resizing.Begin();
  const uint64_t since = nodes_.epoch();
  auto reply = co_await session_.Mutate(&MetaService::Commit, std::move(r), who);
  if (!reply.ok()) co_return reply.error();
  RangeChanged(*inode, offset, length, reply->attr, reply->seq, since);
  co_return Ok();
}

Task<Result<void>> Vfs::Punch(Caller who, VfsHandlePtr h, uint64_t offset, uint64_t length, bool keep_size) {
  if (length == 0 || offset > kMaxFileBytes - length) co_return Error(FsError::kInval);
  CommitRequest r;
  r.punch.emplace_back(offset, length);
  if (!keep_size) r.grow_to = offset + length;
  r.mtime_ns = Executor::Current().WallNs();
  co_return co_await Reshape(std::move(who), std::move(h), std::move(r), offset, length);
}

Task<Result<void>> Vfs::Grow(Caller who, VfsHandlePtr h, uint64_t size) {
  if (size > kMaxFileBytes) co_return Error(FsError::kFBig);
  CommitRequest r;
  r.grow_to = size;
  co_return co_await Reshape(std::move(who), std::move(h), std::move(r), size, kMaxFileBytes - size);
}

Task<Result<uint64_t>> Vfs::CopyRange(Caller who, VfsHandlePtr from, uint64_t from_offset, VfsHandlePtr to,
                                      uint64_t to_offset, uint64_t length) {
  const CallList::Call under_way(&calls_, "copy into", to->inode->ino);
  std::shared_ptr<VfsInode> source = from->inode;
  std::shared_ptr<VfsInode> target = to->inode;
  CO_RETURN_IF_ERROR(CheckHandle(*from));
  CO_RETURN_IF_ERROR(CheckHandle(*to));
  if (!from->read || !to->write) co_return Error(FsError::kBadF);
  if (length == 0) co_return 0;
  if (Sabotaged(Sabotage::kCloneInTwo) && length > 1000) {
    CO_ASSIGN_OR_RETURN(const uint64_t first, co_await CopyRange(who, from, from_offset, to, to_offset, 1000));
    if (first < 1000) co_return first;
    co_await Sleep(200 * kMillisecond);
    auto rest = co_await CopyRange(who, from, from_offset + first, to, to_offset + first, length - first);
    if (!rest.ok()) co_return rest;
    co_return first + *rest;
  }
  if (!HoldsFor(*target, true)) CO_RETURN_IF_ERROR(co_await Acquire(who, target, target->for_read, true, false, /*again=*/true));
  // The server makes the clone, of what it has.
  if (!source->writes.clean()) CO_RETURN_IF_ERROR(co_await FlushInode(source, false));
  CO_ASSIGN_OR_RETURN(SemaphoreHold held, co_await TakeTurn(target, &VfsInode::open_mu, "clone"));
  const NoWrites no_writes(target);
  CO_RETURN_IF_ERROR(co_await FlushInode(target, false));
  CloneRequest r;
  r.from = source->ino;
  r.from_offset = from_offset;
  r.to = target->ino;
  r.to_offset = to_offset;
  r.length = length;
  Resizing resizing(this, target->ino);
  co_await resizing.Begin();
  const uint64_t since = nodes_.epoch();
  auto reply = co_await session_.Mutate(&MetaService::Clone, std::move(r), who);
  if (reply.code() == FsError::kTooBig) co_return Error(FsError::kNotSupported, reply.error().message);
  if (!reply.ok()) co_return reply.error();
  RangeChanged(*target, to_offset, reply->cloned, reply->attr, reply->seq, since);
  target->KnownDurable({session_.term(), reply->seq});
  co_return reply->cloned;
}

}  // namespace stria
