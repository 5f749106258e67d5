// Dirty bytes become stripes, stripes are committed. A batch is stored while others are; commits follow
// the order of batches (inode.h, "batches commit in order").
#include <algorithm>
#include <utility>

#include "client/vfs/inode.h"
#include "client/vfs/pieces.h"
#include "client/vfs/vfs.h"

namespace stria {
namespace {
Task<bool> BatchDone(std::shared_ptr<VfsInode> inode) {
  co_await inode->batch_done.Wait();
  co_return true;
}
}  // namespace

bool Vfs::InlineRefused(FsError e) {
  return e == FsError::kTooBig || e == FsError::kQuota || e == FsError::kNoSpace;
}

void Vfs::AccountDirty(VfsInode& n) {
  const uint64_t now = n.dirty.bytes();
  dirty_bytes_ += now;
  dirty_bytes_ -= n.accounted_dirty;
  const bool fell = now < n.accounted_dirty;
  n.accounted_dirty = now;
  if (n.dirty.clean()) n.dirty_mtime_ns.reset();
  if (fell) dirty_fell_.Pulse();
}

void Vfs::StartWriteBack(const std::shared_ptr<VfsInode>& inode) {
  VfsInode& n = *inode;
  if (n.write_back_pauses > 0) return;
  // The head always goes: the others wait for it to commit.
  while (n.dirty.has_untaken() && (n.dirty.taken() < options_.max_batches_per_inode || !n.dirty.head_taken())) {
    scope_.Spawn(RunBatch(inode, *n.dirty.Take()));
  }
}

void Vfs::DropUnreachable(const std::shared_ptr<VfsInode>& inode) {
  VfsInode& n = *inode;
  const bool gone = n.attr.ino && n.attr.nlink == 0 && n.readers + n.writers + n.opening == 0;
  const bool hopeless = (gone && n.failing() && FindsNoPlace(n.failure.code)) || !n.lost.ok();
  if (!hopeless || n.dirty.clean()) return;
  n.dirty.Truncate(0);
  AccountDirty(n);
  StartWriteBack(inode);  // of nothing
}

// Cutting a file down must be possible when there is no space for what was written to it: what is left of that is
// flushed later.
Task<Result<NodeReply>> Vfs::CutUnflushed(std::shared_ptr<VfsInode> inode, SetAttrRequest r, Caller who) {
  WriteBackPause pause(inode);
  co_await pause.Begin();
  const uint64_t size = *r.size;
  auto reply = co_await session_.Mutate(&MetaService::SetAttr, std::move(r), who);
  if (reply.ok()) inode->dirty.Truncate(size);
  co_return reply;
}

Task<Result<void>> Vfs::FlushInode(std::shared_ptr<VfsInode> inode, bool durable) {
  VfsInode& n = *inode;
  const uint64_t era = n.era;
  const int64_t began_ns = Executor::Current().NowNs();
  const int64_t timeout_ns = session_.options().timeout_ns;
  int64_t until_ns = began_ns + timeout_ns;  // without any progress
  uint64_t failures = n.failures, head = n.dirty.head();
  const OpSeq before = session_.NextOp();
  if (durable) ++n.durable_waiters;
  n.dirty.Seal();
  const uint64_t mine = n.dirty.seals();
  Error gave_up;
  while (n.dirty.head_seal() <= mine && n.era == era) {
    if (n.failures != failures) {
      // Servers that were silent until now may answer this call's own attempt.
      if (n.failure_began_ns >= began_ns || !ServerSilent(n.failure.code)) break;
      failures = n.failures;
    }
    if (std::exchange(head, n.dirty.head()) != head) until_ns = Executor::Current().NowNs() + timeout_ns;
    const int64_t left_ns = until_ns - Executor::Current().NowNs();
    if (left_ns <= 0) {
      gave_up = Error(FsError::kTimedOut, "what was written is kept, and the servers do not say that they have it");
      break;
    }
    StartWriteBack(inode);
    (void)co_await WithTimeout(left_ns, BatchDone(inode));
  }
  if (durable) --n.durable_waiters;
  if (n.era != era) co_return n.loss;
  if (!gave_up.ok()) co_return gave_up;
  if (n.dirty.head_seal() <= mine) co_return n.failure;  // another batch may have succeeded since
  if (n.ahead || !n.lost.ok()) CO_RETURN_IF_ERROR(co_await TellMade(inode, durable));
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
  if (inode->failing() && inode->failure.code == FsError::kTooFewDomains) options.place_timeout_ns = 0;
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
  const bool bare = n.telling || append || !stripes.empty() || !n.buffers_writes();
  if (n.ahead && bare) CO_RETURN_IF_ERROR(co_await TellMade(inode, false));
  if (!n.lost.ok()) co_return n.lost;
  if (n.ahead && n.generation != session_.generation()) co_return Error(FsError::kFenced);
  CommitRequest r;
  r.ino = n.ino;
  r.header.opened = n.proof;
  r.stripes = std::move(stripes);
  r.grow_to = grow_to;
  r.clip = !append;
  r.append = append;
  r.mtime_ns = n.dirty_mtime_ns ? *n.dirty_mtime_ns : Executor::Current().WallNs();
  r.durable = durable;
  r.give_back = pool_.TakeGiveBack();
  const std::vector<StripeId> given_back = r.give_back;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const Extent& e : extents) ranges.emplace_back(e.file_offset, e.length);
  // What is written inline by the only one who may is known without asking, if nothing comes between.
  std::vector<Extent> written;
  if (!append && r.stripes.empty() && n.buffers_writes()) written = extents;
  r.extents = std::move(extents);
  const uint64_t since = cache_epoch_;
  const uint64_t epoch = n.extent_epoch;
  const uint64_t era = n.era;
  // Under the exclusive lease it is the only one there is. Sent again after the session has lapsed, it must be.
  if (n.buffers_writes() && !n.ahead) r.known_version = n.attr.data_version;
  if (n.base_version) r.known_version = *n.base_version, r.only_known = true;
  r.make = n.ahead;
  const bool making = n.ahead.has_value();
  if (making) n.telling = n.tried_to_tell = true;
  auto reply = co_await session_.Mutate(&MetaService::Commit, std::move(r), making ? n.maker : Caller());
  if (making) MadeAnswered(inode, reply, since, false);
  const bool alone = n.extent_epoch == epoch && n.buffers_writes() && n.generation == session_.generation();
  ++n.extent_epoch;
  if (append) {
    n.extents.Clear();
  } else {
    for (const auto& [offset, length] : ranges) n.extents.Forget(offset, length);
  }
  if (reply.ok() && alone) {
    for (Extent& e : written) {
      const uint64_t at = e.file_offset;
      const uint64_t end = std::min(e.end(), reply->attr.size);  // what is behind the file's end was left out
      n.extents.Know(at, end, {std::move(e)});
    }
  }
  if (!reply.ok()) {
    for (StripeId id : given_back) pool_.GiveBack(id);
    if (n.base_version && n.era == era && reply.code() == FsError::kStale) {
      Lose(inode, reply.error().message);
      co_return n.loss;
    }
    co_return reply;
  }
  if (n.base_version) n.base_version = reply->attr.data_version;
  n.Committed(session_.term(), reply->seq);
  if (durable) n.KnownDurable({session_.term(), reply->seq});
  (void)Remember(reply->attr, SinceChange(since));
  co_return reply;
}

Task<Result<void>> Vfs::StoreAndCommit(std::shared_ptr<VfsInode> inode, const DirtyBuffer::Batch& batch,
                                       uint64_t era) {
  VfsInode& n = *inode;
  bool inlined = batch.bytes <= kMaxInlineBytes;
  std::vector<WrittenPiece> written;
  int rewrites = 0;
  while (true) {
    if (!inlined && written.empty()) {
      BufferChain payload;
      for (const DirtyPiece& p : batch.pieces) payload.Append(p.bytes);
      CO_ASSIGN_OR_RETURN(written, co_await Store(inode, std::move(payload)));
    }
    const auto waits = [&] { return n.era == era && n.dirty.head() != batch.id; };
    while (waits() && n.write_back_pauses == 0) co_await n.batch_done.Wait();
    if (n.era != era) co_return n.loss;
    if (waits()) {
      GiveBack(written, FsError::kAgain);
      co_return Error(FsError::kAgain);
    }
    if (batch.pieces.empty()) {
      GiveBack(written, FsError::kOk);
      co_return Ok();
    }
    auto extents = inlined ? InlineExtents(batch.pieces) : StripeExtents(batch.pieces, written);
    auto reply = co_await CommitPieces(inode, InfosOf(written), std::move(extents), batch.grow_to,
                                       n.durable_waiters > 0);
    if (reply.ok()) co_return Ok();
    // Of no use any more; those that were committed although the answer is an error stay.
    GiveBack(written, reply.code());
    if (reply.code() == FsError::kConflict && !inlined && ++rewrites <= kMaxRewrites) {
      // The allocation did not survive a restart of the server: the bytes go into other stripes.
      written.clear();
      continue;
    }
    if (!inlined || !InlineRefused(reply.code())) co_return reply.error();
    inlined = false;
  }
}

Task<void> Vfs::RunBatch(std::shared_ptr<VfsInode> inode, DirtyBuffer::Batch batch) {
  VfsInode& n = *inode;
  const uint64_t era = n.era;
  const int64_t began_ns = Executor::Current().NowNs();
  auto result = co_await StoreAndCommit(inode, batch, era);
  if (n.era != era) {  // the buffer was dropped
    DropIfIdle(inode);
    co_return;
  }
  if (result.ok()) {
    n.dirty.Committed(batch.id);
    if (n.base_version && n.dirty.head_seal() > n.base_upto) EndTakeUp(n);
    if (n.dirty.clean()) n.dirty_since_ns = 0;
    AccountDirty(n);
    if (n.dirty.has_untaken() && !n.failing()) StartWriteBack(inode);
    n.failures_at_success = n.failures;
  } else if (result.code() == FsError::kTooBig && n.dirty.head() == batch.id && n.dirty.SplitHead(batch.id)) {
    StartWriteBack(inode);
  } else if (result.code() == FsError::kAgain) {  // paused: it may be cut before it is taken again
    n.dirty.PutBack(batch.id);
  } else {
    if (result.code() != FsError::kTooBig || n.dirty.head() != batch.id) n.dirty.PutBack(batch.id);
    n.failure = result.error();
    n.failure_began_ns = began_ns;
    ++n.failures;
    DropUnreachable(inode);
  }
  n.batch_done.Pulse();
  dirty_fell_.Pulse();
  LetGo(inode);
}

Task<void> Vfs::PeriodicWriteBack() {
  while (true) {
    co_await Sleep(kSecond);
    const int64_t now = Executor::Current().NowNs();
    for (auto& [ino, n] : inodes_) {
      if (n->dirty.clean() || now - n->dirty_since_ns < options_.write_back_delay_ns) continue;
      n->dirty.Seal();
      StartWriteBack(n);
    }
  }
}

}  // namespace stria
