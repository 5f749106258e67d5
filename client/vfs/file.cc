// Open files: leases, writes into the dirty buffer, closing.
#include <algorithm>
#include <utility>

#include "client/vfs/inode.h"
#include "client/vfs/pieces.h"
#include "client/vfs/vfs.h"
#include "common/sabotage.h"

namespace stria {
namespace {
// Idle leased inodes kept for the next open; beyond this those used longest ago are given back.
constexpr size_t kMaxIdleInodes = 20'000;
constexpr int64_t kReleaseAgainNs = 1 * kSecond;  // if no server has answered
// Of the mapping that an open asks for: a small file's.
constexpr uint64_t kOpenMapBytes = 1 * kMiB;
}  // namespace

bool Vfs::HoldsFor(const VfsInode& n, bool for_write) const {
  if (n.generation != session_.generation() || session_.LeaseLeftNs() <= 0) return false;
  if (!for_write) return n.lease != LeaseMode::kNone;
  return n.for_write && (n.lease == LeaseMode::kExclusive || n.lease == LeaseMode::kShared);
}

void Vfs::TakeGrant(const std::shared_ptr<VfsInode>& inode, const OpenReply& reply, bool for_write,
                    uint64_t asked) {
  VfsInode& n = *inode;
  if (n.generation != session_.generation()) {
    // A former session's grant: what it buffered is lost, its handles give EIO.
    n.dirty = DirtyBuffer();
    AccountDirty(n);
    n.for_write = false;
    n.pages_version = 0;
    n.attr_known = false;
    n.attr.version = n.shown_version = 0;
    n.generation = session_.generation();
    n.batch_done.Pulse();
  }
  // What is mapped was told for one read, and nobody said when it changed.
  if (n.lease == LeaseMode::kNone || n.lease == LeaseMode::kShared) {
    ++n.extent_epoch;
    n.extents.Clear();
  }
  // What was buffered under a higher lease is flushed under it: the server believes in that until the recall that it
  // has sent is answered.
  const bool keeps = n.buffers_writes() && !n.dirty.clean() && reply.lease != LeaseMode::kExclusive;
  if (!keeps) n.lease = reply.lease;
  // Answered before this grant came: the server counts on it. (kShared is the least that is granted.)
  if (!keeps && n.recalled_at > asked && n.lease != LeaseMode::kShared) n.lease = n.recalled_to;
  // Where writes under way will end, and append, only the server knows: what is written beside them is not buffered.
  if (n.shared_writes > 0 && n.lease == LeaseMode::kExclusive) n.lease = LeaseMode::kShared;
  ++n.grants;
  n.owes_release = 0;
  n.for_write = n.for_write || for_write;
  n.layout = reply.layout;
  n.layout_known = true;
  // A change of our own may have been answered before.
  if ((!n.attr_known || n.dirty.clean()) && reply.node.attr.version >= n.attr.version) {
    n.attr = reply.node.attr;
    n.attr_known = n.told_at <= asked;
  }
  n.Committed(session_.term(), reply.node.seq);
}

Task<Result<void>> Vfs::KnowAttr(std::shared_ptr<VfsInode> inode, bool for_pages) {
  VfsInode& n = *inode;
  while (!n.attr_known && HoldsFor(n, false) && n.lease != LeaseMode::kShared) {
    const uint64_t asked = events_seen_;
    const uint64_t since = cache_epoch_;
    if (for_pages) {
      GetExtentsRequest r;  // of nothing
      r.ino = n.ino;
      CO_ASSIGN_OR_RETURN(const GetExtentsReply reply,
                          co_await session_.Call(&MetaService::GetExtents, std::move(r), Caller()));
      if (n.told_at <= asked) UpdateInode(reply.attr, true);
      continue;
    }
    InodeRequest r;
    r.ino = n.ino;
    CO_ASSIGN_OR_RETURN(const NodeReply reply, co_await session_.Call(&MetaService::GetAttr, std::move(r), Caller()));
    if (n.told_at <= asked && !reply.held_elsewhere) UpdateInode(reply.attr, true);
    (void)RememberNode(reply, since);
  }
  co_return Ok();
}

// Whoever holds it gives it up in bounded time, but a recall, which goes on until its bytes are written or the
// session is lost; and lost it is only once a server can be asked again.
Task<Result<SemaphoreHold>> Vfs::LockLease(std::shared_ptr<VfsInode> inode) {
  // Who held it last must not drop the inode when it is ours: there would be two of it.
  struct Waits {
    explicit Waits(VfsInode* inode) : n(inode) { ++n->lease_waits; }
    Waits(const Waits&) = delete;
    Waits& operator=(const Waits&) = delete;
    ~Waits() { --n->lease_waits; }
    VfsInode* const n;
  } waits(inode.get());
  while (true) {
    auto held = co_await WithTimeout(session_.options().timeout_ns, inode->lease_mu.Lock());
    if (held) co_return std::move(*held);
    if (session_.LeaseLeftNs() <= 0) {
      co_return Error(FsError::kTimedOut, "what was asked of this file before waits for servers that do not answer");
    }
  }
}

Task<Result<void>> Vfs::Acquire(Caller who, std::shared_ptr<VfsInode> inode, bool for_write, bool truncate,
                                bool again) {
  CO_ASSIGN_OR_RETURN(SemaphoreHold held, co_await LockLease(inode));
  if (!truncate && inode->layout_known && HoldsFor(*inode, for_write)) {
    if (again) co_return Ok();
    co_return co_await KnowAttr(inode);
  }
  std::optional<Resizing> resizing;
  std::optional<WriteBackPause> pause;
  if (truncate) {
    // What is cut off goes first, too (as in SetAttr): until the answer others read what was there before, and that is not
    // what was there before the last writes. Unless there is no space for it: then it stays with us until it is cut off.
    if (const auto flushed = co_await FlushInode(inode, false); flushed.code() == FsError::kNoSpace) {
      pause.emplace(inode);
      co_await pause->Begin();
    } else {
      CO_RETURN_IF_ERROR(flushed);
    }
    resizing.emplace(this, inode->ino);
    co_await resizing->Begin();
  }
  const uint64_t since = cache_epoch_;
  const uint64_t asked = events_seen_;
  OpenRequest r;
  r.ino = inode->ino;
  r.for_write = for_write;
  r.for_read = !for_write;
  r.truncate = truncate;
  r.check_access = !again;
  const int64_t asked_ns = Executor::Current().NowNs();
  const uint64_t epoch = inode->extent_epoch;
  if (!truncate && !inode->extents.Covers(0, 1, asked_ns)) r.map_bytes = kOpenMapBytes;
  // Opening twice is opening once; only truncation must not be repeated.
  std::optional<Result<OpenReply>> answer;
  {
    Opening opening(this, inode.get());
    answer.emplace(truncate ? co_await session_.Mutate(&MetaService::Open, std::move(r), who)
                            : co_await session_.Call(&MetaService::Open, std::move(r), who));
    opening.granted = answer->ok();
  }
  CO_RETURN_IF_ERROR(*answer);
  const OpenReply& reply = **answer;
  if (truncate) {
    ++inode->extent_epoch;
    inode->extents.Clear();
    inode->dirty.Truncate(0);  // pages of mappings that came meanwhile
    inode->pages_version = 0;
    inode->attr_known = false;
  }
  const bool undisturbed = inode->extent_epoch == epoch;
  TakeGrant(inode, reply, for_write, asked);
  if (undisturbed) TakeMapping(*inode, reply, asked_ns);
  AccountDirty(*inode);
  pause.reset();
  resizing.reset();
  RememberNode(reply.node, truncate ? SinceChange(since) : since);
  if (again) co_return Ok();  // who needs them asks, in his own way
  co_return co_await KnowAttr(inode);
}

void Vfs::TakeMapping(VfsInode& n, const OpenReply& reply, int64_t asked_ns) {
  // A recall that was answered meanwhile left less than was granted.
  const bool caches = n.lease == reply.lease && (n.lease == LeaseMode::kRead || n.lease == LeaseMode::kExclusive);
  if (reply.mapping && caches) n.extents.Add(0, *reply.mapping, asked_ns);
}

Vfs::Opened Vfs::MakeHandle(const std::shared_ptr<VfsInode>& inode, VfsHandle flags) {
  VfsInode& n = *inode;
  auto h = std::make_shared<VfsHandle>(std::move(flags));
  h->inode = inode;
  h->generation = session_.generation();
  if (h->write) {
    ++n.writers;
  } else {
    ++n.readers;
    // Beside a writer of this mount the kernel's pages would only be thrown away again; and a truncation that it has not
    // heard the answer of yet would let it read zeros behind the new end.
    h->page_cache = (n.lease == LeaseMode::kRead || n.lease == LeaseMode::kExclusive) && n.writers == 0;
    if (h->page_cache) {
      ++n.cached_opens;
      h->keep_cache = n.pages_version != 0 && n.pages_version == n.attr.data_version && n.dirty.clean();
      n.pages_version = n.attr.data_version;
    }
  }
  Opened out;
  out.entry = Overlay(n.attr);
  out.handle = std::move(h);
  return out;
}

void Vfs::CreateEnded(uint64_t call) {
  creates_.erase(call);
  create_ended_.Pulse();
  while (!met_creating_.empty() && (creates_.empty() || met_creating_.front()->told_at <= creates_.begin()->second)) {
    const std::shared_ptr<VfsInode> inode = std::move(met_creating_.front());
    met_creating_.pop_front();
    inode->met_creating = false;
    DropIfIdle(inode);
  }
}

Task<Result<Vfs::Opened>> Vfs::Create(Caller who, InodeId parent, std::string name, uint32_t mode, bool exclusive,
                                      bool truncate, VfsHandle flags) {
  if (name.size() > kMaxNameBytes) co_return Error(FsError::kNameTooLong);
  if (auto opened = MakeAhead(who, parent, name, mode, flags)) co_return std::move(*opened);
  const uint64_t since = cache_epoch_;
  const uint64_t asked = events_seen_;
  MakeNodeRequest r;
  r.parent = parent;
  r.name = name;
  r.type = FileType::kFile;
  r.mode = mode;
  r.umask = who.umask;
  r.open = true;
  r.exclusive = exclusive;
  r.truncate = truncate;
  AskAhead(parent, &r);
  const uint64_t call = session_.NumberCall();
  r.header.trace_id = call;
  creates_.emplace(call, asked);
  Changing changing(this, parent, name);
  auto reply = co_await session_.Mutate(&MetaService::MakeNode, std::move(r), who);
  changing.End();
  ++names_made_;
  if (!reply.ok()) {
    CreateEnded(call);
    if (reply.code() == FsError::kExist) ForgetEntry(parent, name);
    co_await kernel_.ForgetNames(parent);
    co_return reply.error();
  }
  // If nobody has looked it up meanwhile the kernel has nothing of it that it may keep, until we show it something.
  const bool unseen = reply->created && !attrs_.contains(reply->node.attr.ino) && !inodes_.contains(reply->node.attr.ino);
  auto inode = InodeOf(reply->node.attr.ino);
  if (!reply->created && truncate) {
    ++inode->extent_epoch;
    inode->extents.Clear();
    inode->dirty.Truncate(0);
    inode->pages_version = 0;
    inode->attr_known = false;
  }
  TakeGrant(inode, *reply, /*for_write=*/true, asked);
  if (reply->created && inode->lease == LeaseMode::kExclusive && inode->told_at <= asked) {
    inode->extents.Know(0, kMaxFileBytes, {});
  }
  TakeAhead(parent, *reply, asked);
  CreateEnded(call);
  if (reply->created) last_made_in_ = parent;
  AccountDirty(*inode);
  RememberEntry(parent, name, reply->node.attr.ino, since);
  RememberNode(reply->node, SinceChange(since));
  if (unseen) inode->attr_forgotten = inode->attr_shown;
  if (reply->created) inode->grew_ns = Executor::Current().NowNs();
  if (!inode->attr_known) {
    std::optional<Counted> opening(&inode->opening);
    const auto known = co_await KnowAttr(inode);
    opening.reset();
    if (!known.ok()) {
      LetGo(inode);
      co_return known.error();
    }
  }
  co_return MakeHandle(inode, std::move(flags));
}

Task<Result<Vfs::Opened>> Vfs::Open(Caller who, InodeId ino, bool truncate, VfsHandle flags) {
  auto inode = InodeOf(ino);
  const bool for_write = flags.write;
  auto r = co_await Acquire(std::move(who), inode, for_write || truncate, truncate);
  if (!r.ok()) {
    LetGo(inode);
    co_return r.error();
  }
  co_return MakeHandle(inode, std::move(flags));
}

Result<void> Vfs::CheckHandle(const VfsHandle& h) const {
  if (h.generation != session_.generation()) {
    return Error(FsError::kIo, "this file was open when the mount lost its session: open it again");
  }
  if (!h.inode->lost.ok()) return h.inode->lost;
  return Ok();
}

Task<bool> Vfs::DirtyFell() {
  co_await dirty_fell_.Wait();
  co_return true;
}

// `pages` are let through while the kernel forgets pages of the inode: it waits for them, and the commits
// that make room may wait, by way of another mount, for the kernel. Their number is bounded by the kernel.
// Not longer than the timeout without any byte leaving: it may be other files that cannot be written.
Task<Result<void>> Vfs::WaitForDirtyRoom(std::shared_ptr<VfsInode> inode, uint64_t bytes, bool pages) {
  const int64_t timeout_ns = session_.options().timeout_ns;
  int64_t until_ns = Executor::Current().NowNs() + timeout_ns;
  uint64_t committed = counters_.committed_bytes;
  while (!DirtyRoomFor(bytes)) {
    if (pages && inode->forgetting > 0) break;
    if (counters_.committed_bytes != committed) {
      committed = counters_.committed_bytes;
      until_ns = Executor::Current().NowNs() + timeout_ns;
    }
    const int64_t left_ns = until_ns - Executor::Current().NowNs();
    if (left_ns <= 0) co_return Error(FsError::kTimedOut, "the servers take no bytes, and there is no room for more");
    const uint64_t failures = inode->failures;
    for (auto& [ino, n] : inodes_) {
      n->dirty.Seal();
      StartWriteBack(n);
    }
    (void)co_await WithTimeout(left_ns, DirtyFell());
    if (inode->failures != failures && !inode->flush_error.ok()) co_return inode->flush_error;
  }
  co_return Ok();
}

// Batches are cut at full stripes, so that a long stream makes stripes without a remainder, and at a
// number of pieces that one transaction can take.
void Vfs::TakeDirty(VfsInode& n, uint64_t offset, Buffer bytes, bool grows) {
  const int64_t now = Executor::Current().WallNs();
  if (n.dirty.clean()) n.dirty_since_ns = Executor::Current().NowNs();
  n.attr.mtime_ns = n.attr.ctime_ns = now;
  n.dirty_mtime_ns = now;
  n.pages_version = 0;
  if (offset != n.last_write_end) ++n.jumps;
  n.last_write_end = offset + bytes.size();
  uint64_t done = 0;
  while (done < bytes.size()) {
    const uint64_t room = n.layout.stripe_bytes - std::min(n.layout.stripe_bytes, n.dirty.fresh().bytes());
    if (room == 0 || n.jumps >= kMaxBatchJumps || n.dirty.fresh().pieces_count() >= kMaxBatchPieces) {
      n.dirty.Seal();
      n.jumps = 0;
      continue;
    }
    const uint64_t part = std::min<uint64_t>(room, bytes.size() - done);
    n.dirty.Write(offset + done, bytes.Slice(done, part), grows);
    done += part;
  }
  if (n.dirty.fresh().bytes() >= n.layout.stripe_bytes) n.dirty.Seal();
  AccountDirty(n);
}

Task<Result<uint64_t>> Vfs::WritePages(VfsHandlePtr h, uint64_t offset, Buffer bytes) {
  std::shared_ptr<VfsInode> inode = h->inode;
  VfsInode& n = *inode;
  const uint64_t length = bytes.size();
  CO_RETURN_IF_ERROR(co_await WaitForDirtyRoom(inode, length, true));
  CO_RETURN_IF_ERROR(CheckHandle(*h));
  ++counters_.write_calls;
  counters_.write_bytes += length;
  // The file may have been cut meanwhile. Where others write too, only the server knows its size, and cuts.
  const uint64_t end = n.buffers_writes() ? std::max(n.attr.size, offset) : offset + length;
  if (end < offset + length) bytes = bytes.Slice(0, end - offset);
  if (!bytes.empty()) TakeDirty(n, offset, std::move(bytes), /*grows=*/false);
  StartWriteBack(inode);
  co_return length;
}

// See KernelCache.
Task<void> Vfs::ForgetPages(std::shared_ptr<VfsInode> inode, uint64_t offset, uint64_t length) {
  const Counted counted(&inode->forgetting);
  dirty_fell_.Pulse();  // pages that wait for room do so no more
  co_await kernel_.InvalidateInode(inode->ino, true, offset, length);
}

Task<Result<uint64_t>> Vfs::Write(Caller who, VfsHandlePtr h, uint64_t offset, Buffer bytes) {
  std::shared_ptr<VfsInode> inode = h->inode;
  VfsInode& n = *inode;
  const uint64_t length = bytes.size();
  if (length == 0) co_return 0;
  if (offset > kMaxFileBytes - length) co_return Error(FsError::kFBig);
  bool pages_went = false;
  std::optional<Resizing> resizing;
  while (true) {
    CO_RETURN_IF_ERROR(co_await WaitForDirtyRoom(inode, length, false));
    if (n.lease_mu.locked()) {
      // A recall or truncate is running: write after it. Who stands in line for it behind us comes after us; two writers
      // that looked again whether it is locked would hand it to each other for ever.
      CO_RETURN_IF_ERROR(co_await LockLease(inode));
      if (!DirtyRoomFor(length)) continue;
    }
    CO_RETURN_IF_ERROR(CheckHandle(*h));
    if (!HoldsFor(n, true)) {
      CO_RETURN_IF_ERROR(co_await Acquire(who, inode, true, false, /*again=*/true));
      continue;
    }
    if (n.buffers_writes() && !n.attr_known) {
      CO_RETURN_IF_ERROR(co_await KnowAttr(inode));
      continue;
    }
    if (!n.buffers_writes() && !n.dirty.clean() && !pages_went) {
      CO_RETURN_IF_ERROR(co_await FlushInode(inode, false));  // pages that came before this write go before it
      pages_went = true;
      continue;
    }
    const bool grows = h->append || offset + length > n.attr.size || !n.buffers_writes();
    if (grows && n.attr_forgotten != n.attr_shown) {
      if (!resizing) resizing.emplace(this, n.ino);
      co_await resizing->Begin();
      continue;
    }
    break;
  }
  ++counters_.write_calls;
  counters_.write_bytes += length;
  if (!n.buffers_writes()) {
    CO_ASSIGN_OR_RETURN(const uint64_t done, co_await WriteShared(who, h, offset, std::move(bytes)));
    if (h->sync) CO_RETURN_IF_ERROR(co_await FlushInode(inode, true));
    co_return done;
  }
  // No await from the checks above to here: nobody recalled the lease.
  resizing.reset();  // whoever asks from now on is told the new size
  if (h->append) offset = n.attr.size;
  if (offset + length > n.attr.size) n.grew_ns = Executor::Current().NowNs();
  TakeDirty(n, offset, std::move(bytes), /*grows=*/true);
  n.attr.size = std::max(n.attr.size, offset + length);
  const bool cached = n.cached_opens > 0 && !h->writes_through;
  StartWriteBack(inode);
  if (cached) co_await ForgetPages(inode, offset, length);
  if (h->sync) CO_RETURN_IF_ERROR(co_await FlushInode(inode, true));
  co_return length;
}

Task<Result<uint64_t>> Vfs::WriteShared(Caller who, VfsHandlePtr h, uint64_t offset, Buffer bytes) {
  std::shared_ptr<VfsInode> inode = h->inode;
  const Counted counted(&inode->shared_writes);
  Resizing resizing(this, inode->ino);
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
      CO_ASSIGN_OR_RETURN(written, co_await Store(inode, BufferChain(bytes)));
    }
    auto extents = inlined ? InlineExtents(piece) : StripeExtents(piece, written);
    const std::optional<uint64_t> grow_to = append ? std::nullopt : std::optional(offset + length);
    reply = co_await CommitPieces(inode, InfosOf(written), std::move(extents), grow_to, false);
    if (reply.ok()) break;
    GiveBack(written, reply.code());
    // Its stripes did not survive: a restart of the server, or a disk given up meanwhile.
    if (reply.code() == FsError::kConflict && !inlined && ++rewrites <= kMaxRewrites) continue;
    if (!inlined || !InlineRefused(reply.code())) break;
    inlined = false;
  }
  if (!reply.ok()) co_return reply.error();
  if (inode->cached_opens > 0 && !h->writes_through) {
    co_await ForgetPages(inode, h->append ? reply->append_offset : offset, length);
  }
  co_return length;
}

Task<Result<void>> Vfs::Flush(Caller who, VfsHandlePtr h) {
  if (!h->write || !options_.sync_on_close) co_return Ok();
  co_return co_await Fsync(std::move(who), std::move(h));
}

Task<Result<void>> Vfs::Fsync(Caller who, VfsHandlePtr h) {
  CO_RETURN_IF_ERROR(CheckHandle(*h));
  co_return co_await FlushInode(h->inode, true);
}

Task<Result<void>> Vfs::Release(Caller who, VfsHandlePtr h) {
  std::shared_ptr<VfsInode> inode = std::move(h->inode);
  VfsInode& n = *inode;
  if (h->write) {
    --n.writers;
  } else {
    --n.readers;
    if (h->page_cache) --n.cached_opens;
  }
  if (n.readers + n.writers > 0) co_return Ok();
  n.dirty.Seal();
  StartWriteBack(inode);
  // What is dirty is looked at again when it is written.
  const bool keep = n.worth_keeping() || !n.dirty.clean();
  if (!keep && !co_await TryRelease(inode)) scope_.Spawn(ReleaseInode(inode));
  DropIfIdle(inode);
  co_return Ok();
}

Vfs::Opening::Opening(Vfs* vfs, VfsInode* n) : vfs_(vfs), n_(n) { ++n_->opening; }

Vfs::Opening::~Opening() {
  --n_->opening;
  if (!granted) vfs_->OweRelease(*n_);
}

// What was asked of the server may have been done in a try that it could not answer, whatever the last one said.
void Vfs::OweRelease(VfsInode& n) {
  if (n.lease == LeaseMode::kNone && n.generation == session_.generation()) n.owes_release = session_.NumberCall();
}

Task<void> Vfs::ReleaseInode(std::shared_ptr<VfsInode> inode) {
  while (!co_await TryRelease(inode)) co_await Sleep(kReleaseAgainNs);
  DropIfIdle(inode);
}

Task<bool> Vfs::TryRelease(std::shared_ptr<VfsInode> inode) {
  VfsInode& n = *inode;
  // What it made, before the call that gives it back has its number.
  if (n.ahead || ahead_.contains(n.ino)) (void)co_await FlushHeld(inode);
  if (n.ahead || ahead_.contains(n.ino)) co_return true;
  InodeRequest r;
  r.ino = n.ino;
  const uint64_t call = r.header.trace_id = session_.NumberCall();
  // A Create that began before may open it again before this arrives: then the server would take for given back
  // what the Create's answer grants. One that begins later has a higher number, and outlasts this. Recalls are
  // answered meanwhile (no lease_mu): the Create may wait for another client, whose own waits for them.
  const uint64_t grants = n.grants;
  while (!creates_.empty() && creates_.begin()->first < call) co_await create_ended_.Wait();
  const auto held = co_await n.lease_mu.Lock();
  // Who was granted it again gives it back.
  if (n.readers + n.writers > 0 || n.opening > 0 || !n.dirty.clean() || n.grants != grants) co_return true;
  if (ahead_.contains(n.ino)) co_return true;  // it is used: it goes when it has not been for longer
  if (n.generation != session_.generation() || (n.lease == LeaseMode::kNone && n.owes_release == 0)) co_return true;
  DropLease(n);
  n.owes_release = call;
  const uint64_t term = r.header.term = session_.term();
  const auto done = co_await session_.Call(&MetaService::Release, std::move(r), Caller());
  // In another term of the server it was of nothing; what the session claimed then may have been this still.
  if (done.ok() && session_.term() == term && n.owes_release == call) n.owes_release = 0;
  co_return n.owes_release != call;
}

void Vfs::DropLease(VfsInode& n) {
  n.lease = LeaseMode::kNone;
  n.for_write = false;
  n.extents.Clear();
  ++n.extent_epoch;
  n.pages_version = 0;
}

// As ReleaseInode, but lease_mu is not held over the call, which may wait for others, and they for a recall or a flush
// here. Opens that begin meanwhile have higher numbers, and outlast it; none that began before may be under way.
template <class Req>
std::shared_ptr<VfsInode> Vfs::GiveBackWith(Req* r, InodeId ino) {
  auto it = inodes_.find(ino);
  if (it == inodes_.end() || !creates_.empty()) return nullptr;
  const std::shared_ptr<VfsInode> inode = it->second;
  VfsInode& n = *inode;
  const bool held = n.generation == session_.generation() && n.lease != LeaseMode::kNone;
  const bool used = n.ahead || !n.idle() || n.lease_waits > 0 || n.telling_read || !n.locks.empty() || n.lock_mu.locked();
  if (!held || used || !n.attr_known || n.attr_stale || n.attr.nlink != 1) return nullptr;
  r->release = ino;
  r->header.trace_id = session_.NumberCall();
  r->header.term = session_.term();
  DropLease(n);
  n.attr_known = false;
  n.owes_release = r->header.trace_id;
  return inode;
}

template std::shared_ptr<VfsInode> Vfs::GiveBackWith(NameRequest*, InodeId);
template std::shared_ptr<VfsInode> Vfs::GiveBackWith(RenameRequest*, InodeId);

void Vfs::WasGivenBack(const std::shared_ptr<VfsInode>& inode, uint64_t call, bool surely) {
  const bool owes = inode->owes_release == call;  // else it was granted again, or told
  if (owes && surely) inode->owes_release = 0;
  if (owes && !surely) scope_.Spawn(ReleaseInode(inode));
  else DropIfIdle(inode);
}

void Vfs::DropIfIdle(const std::shared_ptr<VfsInode>& inode) {
  auto it = inodes_.find(inode->ino);
  if (it == inodes_.end() || it->second != inode) return;
  if (inode->in_use()) {
    if (inode->idle()) KeepIdle(*inode);
    return;
  }
  if (inode->kept_at) kept_.erase(*std::exchange(inode->kept_at, std::nullopt));
  inodes_.erase(it);
}

void Vfs::KeepIdle(VfsInode& n) {
  if (n.kept_at) {
    kept_.splice(kept_.end(), kept_, *n.kept_at);
  } else {
    n.kept_at = kept_.insert(kept_.end(), n.ino);
  }
  if (kept_.size() <= kMaxIdleInodes) return;
  const std::shared_ptr<VfsInode> oldest = inodes_.at(kept_.front());
  kept_.pop_front();
  oldest->kept_at.reset();
  if (oldest->idle()) scope_.Spawn(ReleaseInode(oldest));  // else it comes back when it is
}

void Vfs::LetGo(const std::shared_ptr<VfsInode>& inode) {
  const bool held = inode->lease != LeaseMode::kNone || inode->owes_release > 0;
  if (inode->idle() && held && !inode->worth_keeping()) {
    scope_.Spawn(ReleaseInode(inode));
  } else {
    DropIfIdle(inode);
  }
}

}  // namespace stria
