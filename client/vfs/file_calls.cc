#include "client/vfs/file_calls.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "client/vfs/counted.h"
#include "client/vfs/pieces.h"
#include "common/sabotage.h"

namespace stria {

FileCalls::FileCalls(FileCallsOptions options, FileCallsRooms rooms, TaskScope& scope)
    : inodes_(rooms.inodes), attrs_(rooms.attrs), nodes_(rooms.nodes), leases_(rooms.leases), turns_(rooms.turns),
      kernel_view_(rooms.kernel_view), write_back_(rooms.write_back), made_ahead_(rooms.made_ahead), ahead_(rooms.ahead),
      commits_(rooms.commits), keeper_(rooms.keeper), come_back_(rooms.come_back), session_(rooms.session),
      counters_(rooms.counters), calls_(rooms.calls), options_(options), scope_(scope) {}

OpenedFile FileCalls::MakeHandle(const VfsInodePtr& inode, VfsHandle flags) {
  VfsInode& n = *inode;
  auto h = std::make_shared<VfsHandle>(std::move(flags));
  h->inode = inode;
  h->generation = session_.generation();
  h->era = n.loss.era();
  if (h->read) ++n.reading;
  if (h->write) {
    ++n.writers;
  } else {
    ++n.readers;
    // Beside a writer of this mount the kernel's pages would only be thrown away again; and a truncation that it has not
    // heard the answer of yet would let it read zeros behind the new end.
    h->page_cache = n.lease.caches() && n.writers == 0;
    if (h->page_cache) {
      h->keep_cache = n.in_kernel.OpenPages(n.attr.data_version) && n.writes.clean();
    }
  }
  OpenedFile out;
  out.entry = attrs_.Overlay(n.attr);
  out.handle = std::move(h);
  return out;
}

Task<Result<OpenedFile>> FileCalls::Create(Caller who, InodeId parent, std::string name, uint32_t mode, bool exclusive,
                                      bool truncate, VfsHandle flags) {
  const CallList::Call under_way(&calls_, "creation in directory", parent);
  if (name.size() > kMaxNameBytes) co_return Error(FsError::kNameTooLong);
  if (const VfsInodePtr made = ahead_.MakeFile(who, parent, name, mode)) co_return MakeHandle(made, std::move(flags));
  const uint64_t since = nodes_.epoch();
  const uint64_t asked = leases_.events_seen();
  MakeNodeRequest r;
  r.parent = parent;
  r.name = name;
  r.type = FileType::kFile;
  r.mode = mode;
  r.umask = who.umask;
  r.open = true;
  r.exclusive = exclusive;
  r.truncate = truncate;
  r.for_read = flags.read;
  ahead_.AskAhead(who, parent, &r);
  const uint64_t call = session_.NumberCall();
  r.header.trace_id = call;
  leases_.CreateBegins(call);
  NodeCache::Changing changing(&nodes_, parent, name);
  auto reply = co_await session_.Mutate(&MetaService::MakeNode, std::move(r), who);
  changing.End();
  nodes_.NameMade();
  if (!reply.ok()) {
    leases_.CreateEnded(call);
    if (reply.code() == FsError::kExist) nodes_.ForgetEntry(parent, name);
    co_return reply.error();
  }
  // If nobody has looked it up meanwhile the kernel has nothing of it that it may keep, until we show it something.
  const bool unseen = reply->created && !nodes_.attrs().Knows(reply->node.attr.ino) && !inodes_.Look(reply->node.attr.ino);
  auto inode = inodes_.Of(reply->node.attr.ino);
  if (!reply->created && truncate) {
    inode->mapping.Forget();
    inode->writes.Truncate(0);
    inode->in_kernel.KeptPagesAreOld();
    inode->attr_known = false;
  }
  keeper_.TakeGrant(inode, *reply, reply->created || flags.read, /*for_write=*/true, asked);
  if (reply->created && inode->lease.mode() == LeaseMode::kExclusive && !inode->lease.ToldSince(asked)) {
    inode->mapping.Know(0, kMaxFileBytes, {});
  }
  ahead_.TakeAhead(parent, *reply, asked);
  leases_.CreateEnded(call);
  if (reply->created) made_ahead_.NoteMade(parent);
  write_back_.Account(inode->writes);
  nodes_.RememberEntry(parent, name, reply->node.attr.ino, since);
  attrs_.RememberNode(reply->node, nodes_.SinceChange(since));
  if (unseen) inode->in_kernel.NothingShown();
  if (reply->created) inode->in_kernel.Grew(Executor::Current().NowNs());
  if (!inode->attr_known) {
    std::optional<InodeLease::Awaiting> opening(&inode->lease);
    const auto known = co_await keeper_.KnowAttr(inode);
    opening.reset();
    if (!known.ok()) {
      inodes_.LetGo(inode);
      co_return known.error();
    }
  }
  OpenedFile opened = MakeHandle(inode, std::move(flags));
  co_await attrs_.GatePages(inode);
  co_return opened;
}

Task<Result<OpenedFile>> FileCalls::Open(Caller who, InodeId ino, bool truncate, VfsHandle flags) {
  const CallList::Call under_way(&calls_, "open of", ino);
  auto inode = inodes_.Of(ino);
  const bool for_write = flags.write;
  const bool for_read = flags.read || !for_write;
  auto r = co_await keeper_.Acquire(std::move(who), inode, for_read, for_write || truncate, truncate);
  if (!r.ok()) {
    inodes_.LetGo(inode);
    co_return r.error();
  }
  OpenedFile opened = MakeHandle(inode, std::move(flags));
  if (for_write) co_await attrs_.GatePages(inode);
  co_return opened;
}

Task<Result<uint64_t>> FileCalls::WritePages(VfsHandlePtr h, uint64_t offset, Buffer bytes) {
  const CallList::Call under_way(&calls_, "write of pages to", h->inode->ino);
  VfsInodePtr inode = h->inode;
  VfsInode& n = *inode;
  const uint64_t length = bytes.size();
  CO_RETURN_IF_ERROR(co_await commits_.WaitForDirtyRoom(inode, length, true));
  CO_RETURN_IF_ERROR(come_back_.CheckHandle(*h));
  ++counters_.write_calls;
  counters_.write_bytes += length;
  // The file may have been cut meanwhile. Where others write too, only the server knows its size, and cuts.
  const uint64_t end = n.buffers_writes() ? std::max(n.attr.size, offset) : offset + length;
  if (end < offset + length) bytes = bytes.Slice(0, end - offset);
  if (!bytes.empty()) commits_.TakeDirty(inode, offset, std::move(bytes), /*grows=*/false);
  write_back_.Start(WritesOf(inode));
  co_return length;
}

Task<Result<uint64_t>> FileCalls::Write(Caller who, VfsHandlePtr h, uint64_t offset, Buffer bytes) {
  const CallList::Call under_way(&calls_, "write to", h->inode->ino);
  VfsInodePtr inode = h->inode;
  VfsInode& n = *inode;
  const uint64_t length = bytes.size();
  if (length == 0) co_return 0;
  if (offset > kMaxFileBytes - length) co_return Error(FsError::kFBig);
  bool pages_went = false;
  std::optional<AttrView::Resizing> resizing;
  while (true) {
    CO_RETURN_IF_ERROR(co_await commits_.WaitForDirtyRoom(inode, length, false));
    CO_RETURN_IF_ERROR(co_await turns_.WritesMayStart(TurnsOf(inode)));
    if (n.turns.lease_mu.locked()) {
      // What is buffered is on its way for others: write after it. Who stands in line for it behind us comes after us; two
      // writers that looked again whether it is locked would hand it to each other for ever.
      CO_RETURN_IF_ERROR(co_await turns_.Take(TurnsOf(inode), &InodeTurns::lease_mu, "write"));
      if (!write_back_.RoomFor(length) || n.turns.being_cut()) continue;
    }
    CO_RETURN_IF_ERROR(come_back_.CheckHandle(*h));
    if (!leases_.Holds(n.lease, true)) {
      CO_RETURN_IF_ERROR(co_await keeper_.Acquire(who, inode, n.lease.for_read(), true, false, /*again=*/true));
      continue;
    }
    if (n.buffers_writes() && !n.attr_known) {
      CO_RETURN_IF_ERROR(co_await keeper_.KnowAttr(inode));
      continue;
    }
    if (!n.buffers_writes() && !n.writes.clean() && !pages_went) {
      CO_RETURN_IF_ERROR(co_await commits_.FlushInode(inode, false));  // pages that came before this write go before it
      pages_went = true;
      continue;
    }
    const bool grows = h->append || offset + length > n.attr.size || !n.buffers_writes();
    if (grows && !n.in_kernel.attr_forgotten()) {
      if (!resizing) resizing.emplace(&attrs_, n.ino);
      co_await resizing->Begin();
      continue;
    }
    break;
  }
  ++counters_.write_calls;
  counters_.write_bytes += length;
  if (!n.buffers_writes()) {
    CO_ASSIGN_OR_RETURN(const uint64_t done, co_await WriteShared(who, h, offset, std::move(bytes)));
    if (h->sync || options_.sync_writes) CO_RETURN_IF_ERROR(co_await commits_.FlushInode(inode, true));
    co_return done;
  }
  // No await from the checks above to here: nobody recalled the lease.
  resizing.reset();  // whoever asks from now on is told the new size
  if (h->append) offset = n.attr.size;
  if (offset + length > n.attr.size) n.in_kernel.Grew(Executor::Current().NowNs());
  commits_.TakeDirty(inode, offset, std::move(bytes), /*grows=*/true);
  n.attr.size = std::max(n.attr.size, offset + length);
  if (n.in_kernel.has_pages()) n.in_kernel.WrittenBesidePages();
  const bool cached = n.in_kernel.has_pages() && !h->writes_through;
  write_back_.Start(WritesOf(inode));
  if (cached) co_await kernel_view_.ForgetPages(InKernel(inode), offset, length);
  if (h->sync || options_.sync_writes) CO_RETURN_IF_ERROR(co_await commits_.FlushInode(inode, true));
  co_return length;
}

Task<Result<uint64_t>> FileCalls::WriteShared(Caller who, VfsHandlePtr h, uint64_t offset, Buffer bytes) {
  VfsInodePtr inode = h->inode;
  const Counted counted(&inode->shared_writes);
  AttrView::Resizing resizing(&attrs_, inode->ino);
  const uint64_t length = bytes.size();
  std::vector<DirtyPiece> piece;
  const bool append = h->append && !Sabotaged(Sabotage::kAppendAtKnownSize);
  if (h->append && !append) offset = inode->attr.size;
  piece.push_back({offset, bytes});
  bool inlined = length <= kMaxInlineBytes;
  Result<CommitReply> reply = FsError::kIo;
  int rewrites = 0;
  while (true) {
    std::vector<WrittenPiece> written;
    if (!inlined) {
      CO_ASSIGN_OR_RETURN(written, co_await commits_.Store(inode, BufferChain(bytes)));
    }
    auto extents = inlined ? InlineExtents(piece) : StripeExtents(piece, written);
    const std::optional<uint64_t> grow_to = append ? std::nullopt : std::optional(offset + length);
    reply = co_await commits_.CommitPieces(inode, InfosOf(written), std::move(extents), grow_to, false);
    if (reply.ok()) break;
    commits_.GiveBack(written, reply.code());
    // Its stripes did not survive: a restart of the server, or a disk given up meanwhile.
    if (reply.code() == FsError::kConflict && !inlined && ++rewrites <= WriteBack::kMaxRewrites) continue;
    if (!inlined || !WriteBack::InlineRefused(reply.code())) break;
    inlined = false;
  }
  if (!reply.ok()) co_return reply.error();
  if (inode->in_kernel.has_pages() && !h->writes_through) {
    co_await kernel_view_.ForgetPages(InKernel(inode), h->append ? reply->append_offset : offset, length);
  }
  co_return length;
}

Task<Result<void>> FileCalls::Flush(Caller who, VfsHandlePtr h) {
  if (!h->write || !options_.sync_on_close) co_return Ok();
  co_return co_await Fsync(std::move(who), std::move(h));
}

Task<Result<void>> FileCalls::Fsync(Caller who, VfsHandlePtr h) {
  const CallList::Call under_way(&calls_, "fsync of", h->inode->ino);
  LostChanges& lost_changes = session_.lost_changes();
  const uint64_t mark = lost_changes.Mark();
  const Result<void> good = come_back_.CheckHandle(*h);
  const Result<void> done = good.ok() ? co_await commits_.FlushInode(h->inode, true) : good;
  if (done.ok()) {
    if (Error lost = lost_changes.Tell(h->inode->ino, mark); !lost.ok()) co_return lost;
    co_return Ok();
  }
  // The program has the error by its handle. If it opens the file again and repairs it, that sync need not fail once more.
  if (h->generation + 1 == session_.generation()) lost_changes.Told(h->inode->ino);
  co_return done;
}

Task<Result<void>> FileCalls::Release(Caller who, VfsHandlePtr h) {
  const CallList::Call under_way(&calls_, "last close of", h->inode->ino);
  VfsInodePtr inode = std::move(h->inode);
  VfsInode& n = *inode;
  if (h->read) --n.reading;
  if (h->write) {
    --n.writers;
  } else {
    --n.readers;
    if (h->page_cache) n.in_kernel.ClosePages();
  }
  if (n.readers + n.writers > 0) co_return Ok();
  n.writes.Seal();
  write_back_.Start(WritesOf(inode));
  // What is dirty is looked at again when it is written.
  const bool keep = n.worth_keeping() || !n.writes.clean();
  if (!keep && !co_await keeper_.TryRelease(inode)) scope_.Spawn(keeper_.ReleaseInode(inode));
  inodes_.DropIfIdle(inode);
  co_return Ok();
}

}  // namespace stria
