#include "client/vfs/commits.h"

#include <algorithm>
#include <utility>

namespace stria {

Commits::Commits(CommitsRooms rooms, StripeIo io, CommitsNeeds needs)
    : inodes_(rooms.inodes), attrs_(rooms.attrs), nodes_(rooms.nodes), write_back_(rooms.write_back),
      made_ahead_(rooms.made_ahead), session_(rooms.session), pool_(rooms.pool), counters_(rooms.counters), io_(io),
      needs_(std::move(needs)) {}

void Commits::TakeDirty(const VfsInodePtr& inode, uint64_t offset, Buffer bytes, bool grows) {
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
Task<Result<void>> Commits::WaitForDirtyRoom(VfsInodePtr inode, uint64_t bytes, bool pages) {
  if (!pages) return write_back_.WaitForRoom(WritesOf(inode), bytes, nullptr);
  return write_back_.WaitForRoom(WritesOf(inode), bytes, [n = inode.get()] { return n->in_kernel.forgetting(); });
}

void Commits::DropUnreachable(const VfsInodePtr& inode) {
  VfsInode& n = *inode;
  const bool gone = n.attr.ino && n.attr.nlink == 0 && n.readers + n.writers == 0 && !n.lease.opening();
  const bool hopeless = (gone && n.writes.failing() && FindsNoPlace(n.writes.failure().code)) || !n.made.lost().ok();
  if (!hopeless || n.writes.clean()) return;
  n.writes.Truncate(0);
  write_back_.Account(n.writes);
  write_back_.Start(WritesOf(inode));  // of nothing
}

Task<Result<NodeReply>> Commits::CutUnflushed(VfsInodePtr inode, SetAttrRequest r, Caller who) {
  WriteBackPause pause(WritesOf(inode));
  co_await pause.Begin();
  const uint64_t size = *r.size;
  auto reply = co_await session_.Mutate(&MetaService::SetAttr, std::move(r), who);
  if (reply.ok()) inode->writes.Truncate(size);
  co_return reply;
}

Task<Result<void>> Commits::FlushInode(VfsInodePtr inode, bool durable) {
  VfsInode& n = *inode;
  const OpSeq before = session_.NextOp();
  CO_RETURN_IF_ERROR(co_await write_back_.Flush(WritesOf(inode), durable));
  if (n.made.file() || !n.made.lost().ok()) CO_RETURN_IF_ERROR(co_await made_ahead_.Tell(MadeOf(inode), durable));
  // And what was changed of it by its name, or of its names.
  if (durable && (n.last_commit > n.durable_commit || !session_.ChangesDurable(before))) {
    const VfsInode::Commit upto = n.last_commit;
    CO_RETURN_IF_ERROR(co_await session_.MakeDurable(n.ino));
    n.KnownDurable(upto);
  }
  co_return Ok();
}

Task<Result<void>> Commits::FlushHeld(VfsInodePtr inode) {
  while (auto told = made_ahead_.TellBefore({inode->ino, InodeId()})) {
    CO_RETURN_IF_ERROR(co_await *std::move(told));
  }
  co_return co_await FlushInode(std::move(inode), false);
}

Task<Result<void>> Commits::FlushAll() {
  std::vector<VfsInodePtr> dirty;
  for (const auto& [ino, n] : inodes_.all()) {
    if (!n->writes.clean() || n->made.file()) dirty.push_back(n);
  }
  Error first;
  for (auto& n : dirty) {
    auto r = co_await FlushInode(n, true);
    if (!r.ok() && first.ok()) first = r.error();
  }
  if (!first.ok()) co_return first;
  co_return Ok();
}

Task<Result<std::vector<WrittenPiece>>> Commits::Store(VfsInodePtr inode, BufferChain payload) {
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

void Commits::GiveBack(const std::vector<WrittenPiece>& written, FsError why) {
  for (const WrittenPiece& w : written) pool_.GiveBack(w.info.id);
  if (why == FsError::kNoSpace) pool_.HurryGiveBack();
}

CommitRequest Commits::RequestFor(VfsInode& n, std::vector<StripeInfo> stripes, std::optional<uint64_t> grow_to,
                                  bool durable) {
  CommitRequest r;
  r.ino = n.ino;
  r.header.opened = n.lease.proof();
  r.stripes = std::move(stripes);
  r.grow_to = grow_to;
  r.clip = grow_to.has_value();
  r.append = !grow_to;
  r.mtime_ns = n.writes.mtime_ns().value_or(Executor::Current().WallNs());
  r.durable = durable;
  r.give_back = pool_.TakeGiveBack();
  return r;
}

Task<Result<CommitReply>> Commits::CommitPieces(VfsInodePtr inode, std::vector<StripeInfo> stripes,
                                            std::vector<Extent> extents, std::optional<uint64_t> grow_to,
                                            bool durable) {
  VfsInode& n = *inode;
  const bool append = !grow_to;
  const bool bare = n.made.telling() || append || !stripes.empty() || !n.buffers_writes();
  if (n.made.file() && bare) CO_RETURN_IF_ERROR(co_await made_ahead_.Tell(MadeOf(inode), false));
  if (!n.made.lost().ok()) co_return n.made.lost();
  if (n.made.file() && n.lease.generation() != session_.generation()) co_return Error(FsError::kFenced);
  CommitRequest r = RequestFor(n, std::move(stripes), grow_to, durable);
  const std::vector<StripeId> given_back = r.give_back;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const Extent& e : extents) ranges.emplace_back(e.file_offset, e.length);
  // What is written inline by the only one who may is known without asking, if nothing comes between.
  std::vector<Extent> written;
  if (!append && r.stripes.empty() && n.buffers_writes()) written = extents;
  r.extents = std::move(extents);
  const uint64_t since = nodes_.epoch();
  const uint64_t epoch = n.mapping.epoch();
  const uint64_t era = n.loss.era();
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
    if (n.take_up.any() && n.loss.era() == era && reply.code() == FsError::kStale) {
      needs_.lose(inode, reply.error().message);
      co_return n.loss.why();
    }
    co_return reply;
  }
  n.take_up.Committed(reply->attr.data_version);
  n.Committed(session_.term(), reply->seq);
  if (durable) n.KnownDurable({session_.term(), reply->seq});
  (void)attrs_.Remember(reply->attr, nodes_.SinceChange(since));
  co_return reply;
}

void Commits::MadeAnswered(const VfsInodePtr& inode, const Result<CommitReply>& reply, uint64_t since,
                       bool bare) {
  VfsInode& n = *inode;
  if (made_ahead_.Answered(MadeOf(inode), reply.error(), bare) != MadeAhead::Outcome::kKnown) return;
  n.take_up.Committed(reply->attr.data_version);
  if (reply->parent) (void)attrs_.Remember(*reply->parent, since);
}

void Commits::CouldNotBeMade(const VfsInodePtr& inode, const MadeFile& file) {
  VfsInode& n = *inode;
  nodes_.ForgetEntry(file.parent, file.name);
  session_.lost_changes().Lose({file.parent});
  n.DropLease();
  n.lease.Owe(session_.NumberCall());  // after a restart of the server it was claimed
  n.attr_known = false;
  n.attr.nlink = 0;
  DropUnreachable(inode);
  n.writes.Wake();
  inodes_.LetGo(inode);
}

// It is in use, as long as the server is being told.
Task<void> Commits::CommitMade(VfsInodePtr inode, bool durable) {
  VfsInode& n = *inode;
  CommitRequest r;
  r.ino = n.ino;
  r.make = made_ahead_.BeginTelling(n.made);
  r.header.opened = n.lease.proof();
  r.durable = durable;
  const uint64_t since = nodes_.epoch();
  const uint64_t generation = n.lease.generation();
  Result<CommitReply> reply = FsError::kFenced;
  if (generation == session_.generation()) {
    reply = co_await session_.Mutate(&MetaService::Commit, std::move(r), n.made.maker());
  }
  MadeAnswered(inode, reply, since, true);
  if (!reply.ok() || n.lease.generation() != generation) co_return;
  n.Committed(session_.term(), reply->seq);
  if (durable) n.KnownDurable({session_.term(), reply->seq});
  (void)attrs_.Remember(reply->attr, nodes_.SinceChange(since));
  inodes_.DropIfIdle(inode);
}

}  // namespace stria
