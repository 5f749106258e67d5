// What write-back (write_back.h) is given to store, commit and make known, and what else a flush waits for.
#include <algorithm>
#include <utility>

#include "client/vfs/inode.h"
#include "client/vfs/vfs.h"

namespace stria {

void Vfs::TakeDirty(const std::shared_ptr<VfsInode>& inode, uint64_t offset, Buffer bytes, bool grows) {
  VfsInode& n = *inode;
  const int64_t now = Executor::Current().WallNs();
  if (n.writes.clean()) n.NoteBelowDirty();
  n.attr.mtime_ns = n.attr.ctime_ns = now;
  n.writes.SetMtime(now);
  n.in_kernel.KeptPagesAreOld();
  write_back_.Take(WritesOf(inode), offset, std::move(bytes), grows, n.layout.stripe_bytes);
}

// `pages` are let through while the kernel forgets pages of the inode: it waits for them, and the commits
// that make room may wait, by way of another mount, for the kernel. Their number is bounded by the kernel.
Task<Result<void>> Vfs::WaitForDirtyRoom(std::shared_ptr<VfsInode> inode, uint64_t bytes, bool pages) {
  if (!pages) return write_back_.WaitForRoom(WritesOf(inode), bytes, nullptr);
  return write_back_.WaitForRoom(WritesOf(inode), bytes, [n = inode.get()] { return n->in_kernel.forgetting(); });
}

void Vfs::DropUnreachable(const std::shared_ptr<VfsInode>& inode) {
  VfsInode& n = *inode;
  const bool gone = n.attr.ino && n.attr.nlink == 0 && n.readers + n.writers == 0 && !n.lease.opening();
  const bool hopeless = (gone && n.writes.failing() && FindsNoPlace(n.writes.failure().code)) || !n.made.lost().ok();
  if (!hopeless || n.writes.clean()) return;
  n.writes.Truncate(0);
  write_back_.Account(n.writes);
  StartWriteBack(inode);  // of nothing
}

// Cutting a file down must be possible when there is no space for what was written to it: what is left of that is
// flushed later.
Task<Result<NodeReply>> Vfs::CutUnflushed(std::shared_ptr<VfsInode> inode, SetAttrRequest r, Caller who) {
  WriteBackPause pause(WritesOf(inode));
  co_await pause.Begin();
  const uint64_t size = *r.size;
  auto reply = co_await session_.Mutate(&MetaService::SetAttr, std::move(r), who);
  if (reply.ok()) inode->writes.Truncate(size);
  co_return reply;
}

Task<Result<void>> Vfs::FlushInode(std::shared_ptr<VfsInode> inode, bool durable) {
  VfsInode& n = *inode;
  const OpSeq before = session_.NextOp();
  CO_RETURN_IF_ERROR(co_await write_back_.Flush(WritesOf(inode), durable));
  if (n.made.file() || !n.made.lost().ok()) CO_RETURN_IF_ERROR(co_await made_ahead_.Tell(MadeOf(inode), durable));
  // And what was changed of it by its name, or of its names.
  if (durable && (n.last_commit > n.durable_commit || !session_.ChangesDurable(before))) {
    const VfsInode::Commit upto = n.last_commit;
    InodeRequest r;
    r.ino = n.ino;
    CO_RETURN_IF_ERROR(co_await session_.Call(&MetaService::Sync, std::move(r), Caller()));
    n.KnownDurable(upto);
  }
  co_return Ok();
}

Task<Result<std::vector<WrittenPiece>>> Vfs::Store(std::shared_ptr<VfsInode> inode, BufferChain payload) {
  const uint64_t bytes = payload.size();
  auto source = pool_.SourceFor(inode->ino, inode->layout);
  WriteAllOptions options;
  options.timeout_ns = session_.options().timeout_ns;
  // Places have been waited for, and somebody has been told so: who comes after that is not to wait as long again.
  if (inode->writes.failing() && inode->writes.failure().code == FsError::kTooFewDomains) options.place_timeout_ns = 0;
  auto written = co_await WriteAll(io_, *source, inode->layout, std::move(payload), options);
  if (written.ok()) counters_.committed_bytes += bytes;
  co_return written;
}

void Vfs::GiveBack(const std::vector<WrittenPiece>& written, FsError why) {
  for (const WrittenPiece& w : written) pool_.GiveBack(w.info.id);
  if (why == FsError::kNoSpace) pool_.HurryGiveBack();
}

Task<Result<CommitReply>> Vfs::CommitPieces(std::shared_ptr<VfsInode> inode, std::vector<StripeInfo> stripes,
                                            std::vector<Extent> extents, std::optional<uint64_t> grow_to,
                                            bool durable) {
  VfsInode& n = *inode;
  const bool append = !grow_to;
  const bool bare = n.made.telling() || append || !stripes.empty() || !n.buffers_writes();
  if (n.made.file() && bare) CO_RETURN_IF_ERROR(co_await made_ahead_.Tell(MadeOf(inode), false));
  if (!n.made.lost().ok()) co_return n.made.lost();
  if (n.made.file() && n.lease.generation() != session_.generation()) co_return Error(FsError::kFenced);
  CommitRequest r;
  r.ino = n.ino;
  r.header.opened = n.lease.proof();
  r.stripes = std::move(stripes);
  r.grow_to = grow_to;
  r.clip = !append;
  r.append = append;
  r.mtime_ns = n.writes.mtime_ns().value_or(Executor::Current().WallNs());
  r.durable = durable;
  r.give_back = pool_.TakeGiveBack();
  const std::vector<StripeId> given_back = r.give_back;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const Extent& e : extents) ranges.emplace_back(e.file_offset, e.length);
  // What is written inline by the only one who may is known without asking, if nothing comes between.
  std::vector<Extent> written;
  if (!append && r.stripes.empty() && n.buffers_writes()) written = extents;
  r.extents = std::move(extents);
  const uint64_t since = nodes_.epoch();
  const uint64_t epoch = n.mapping.epoch();
  const uint64_t era = n.era;
  // Under the exclusive lease it is the only one there is. Sent again after the session has lapsed, it must be.
  if (n.buffers_writes() && !n.made.file()) r.known_version = n.attr.data_version;
  if (n.take_up.any()) r.known_version = *n.take_up.base(), r.only_known = true;
  const bool making = n.made.file().has_value();
  if (making) r.make = made_ahead_.BeginTelling(n.made);
  auto reply = co_await session_.Mutate(&MetaService::Commit, std::move(r), making ? n.made.maker() : Caller());
  if (making) MadeAnswered(inode, reply, since, false);
  const bool alone = n.mapping.epoch() == epoch && n.buffers_writes() && n.lease.generation() == session_.generation();
  n.mapping.Changed();
  if (append) {
    n.mapping.Forget();
  } else {
    for (const auto& [offset, length] : ranges) n.mapping.Forget(offset, length);
  }
  if (reply.ok() && alone) {
    for (Extent& e : written) {
      const uint64_t at = e.file_offset;
      const uint64_t end = std::min(e.end(), reply->attr.size);  // what is behind the file's end was left out
      n.mapping.Know(at, end, {std::move(e)});
    }
  }
  if (!reply.ok()) {
    for (StripeId id : given_back) pool_.GiveBack(id);
    if (n.take_up.any() && n.era == era && reply.code() == FsError::kStale) {
      Lose(inode, reply.error().message);
      co_return n.loss;
    }
    co_return reply;
  }
  n.take_up.Committed(reply->attr.data_version);
  n.Committed(session_.term(), reply->seq);
  if (durable) n.KnownDurable({session_.term(), reply->seq});
  (void)Remember(reply->attr, nodes_.SinceChange(since));
  co_return reply;
}

}  // namespace stria
