// Dirty bytes become stripes, stripes are committed. A batch is stored while others are; commits follow
// the order of batches (inode.h, "batches commit in order").
#include <algorithm>
#include <utility>

#include "client/vfs/inode.h"
#include "client/vfs/pieces.h"
#include "client/vfs/vfs.h"

namespace stria {
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

void Vfs::StartWriteBack(const std::shared_ptr<VfsInode>& inode, uint64_t keep_below) {
  if (inode->writing_back) return;
  inode->writing_back = true;
  scope_.Spawn(BackgroundWriteBack(inode, keep_below));
}

Task<void> Vfs::BackgroundWriteBack(std::shared_ptr<VfsInode> inode, uint64_t keep_below) {
  co_await WriteBack(inode, keep_below);
  inode->writing_back = false;
  DropIfIdle(inode);
}

Task<void> Vfs::WriteBack(std::shared_ptr<VfsInode> inode, uint64_t keep_below) {
  VfsInode& n = *inode;
  const uint64_t failures = n.failed_batches;
  const uint64_t generation = n.generation;
  while (n.dirty.fresh_bytes() > keep_below && n.failed_batches == failures && n.generation == generation) {
    if (n.dirty.batches_in_flight() >= options_.max_batches_per_inode) {
      co_await n.batch_resolved.Wait();
      continue;
    }
    const uint64_t limit = std::max<uint64_t>(1, std::min(n.layout.stripe_bytes, n.max_batch_bytes));
    scope_.Spawn(RunBatch(inode, n.dirty.TakeBatch(limit, n.max_batch_runs)));
  }
}

Task<Result<void>> Vfs::FlushInode(std::shared_ptr<VfsInode> inode, bool durable) {
  VfsInode& n = *inode;
  const uint64_t generation = n.generation;
  if (durable) ++n.durable_waiters;
  Error error;
  // A batch that was too big for one transaction is cut smaller and tried again, a few times at most.
  for (int attempt = 0; attempt < kMaxFlushAttempts; ++attempt) {
    const uint64_t failures = n.failed_batches;
    error = Error();
    co_await WriteBack(inode, 0);
    const uint64_t last = n.dirty.last_batch();
    while (n.resolved_batch < last && n.generation == generation) co_await n.batch_resolved.Wait();
    if (n.generation != generation) error = Error(FsError::kIo, "the mount lost its session before the flush");
    if (n.failed_batches != failures) error = n.flush_error;
    if (error.code != FsError::kTooBig) break;
  }
  if (durable) --n.durable_waiters;
  if (!error.ok()) co_return error;
  if (durable && n.last_commit > n.durable_commit) {
    const CommitSeq upto = n.last_commit;
    InodeRequest r;
    r.ino = n.ino;
    auto synced = co_await session_.Call(&MetaService::Sync, std::move(r), Caller());
    if (!synced.ok()) co_return synced.error();
    n.durable_commit = std::max(n.durable_commit, upto);
  }
  co_return Ok();
}

Task<Result<std::vector<WrittenPiece>>> Vfs::Store(std::shared_ptr<VfsInode> inode, BufferChain payload) {
  const uint64_t bytes = payload.size();
  auto source = pool_.SourceFor(inode->ino, inode->layout);
  WriteAllOptions options;
  options.timeout_ns = session_.options().timeout_ns;
  auto written = co_await WriteAll(io_, *source, inode->layout, std::move(payload), options);
  if (written.ok()) counters_.committed_bytes += bytes;
  co_return written;
}

Task<Result<CommitReply>> Vfs::CommitPieces(std::shared_ptr<VfsInode> inode, std::vector<StripeInfo> stripes,
                                            std::vector<Extent> extents, bool append, bool durable) {
  VfsInode& n = *inode;
  CommitRequest r;
  r.ino = n.ino;
  r.stripes = std::move(stripes);
  if (!append) {
    uint64_t end = 0;
    for (const Extent& e : extents) end = std::max(end, e.end());
    r.grow_to = end;
  }
  r.append = append;
  r.mtime_ns = n.dirty_mtime_ns ? *n.dirty_mtime_ns : Executor::Current().WallNs();
  r.durable = durable;
  r.give_back = pool_.TakeGiveBack();
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const Extent& e : extents) ranges.emplace_back(e.file_offset, e.length);
  r.extents = std::move(extents);
  const uint64_t since = cache_epoch_;
  auto reply = co_await session_.Mutate(&MetaService::Commit, std::move(r), Caller());
  ++n.extent_epoch;
  if (append) {
    n.extents.Clear();
  } else {
    for (const auto& [offset, length] : ranges) n.extents.Forget(offset, length);
  }
  if (!reply.ok()) co_return reply;
  n.last_commit = std::max(n.last_commit, reply->seq);
  if (durable) n.durable_commit = std::max(n.durable_commit, reply->seq);
  (void)Remember(reply->attr, since);
  co_return reply;
}

Task<Result<void>> Vfs::StoreAndCommit(std::shared_ptr<VfsInode> inode, const DirtyBuffer::Batch& batch,
                                       uint64_t generation) {
  VfsInode& n = *inode;
  bool inlined = batch.bytes <= kMaxInlineBytes;
  std::vector<WrittenPiece> written;
  for (int attempt = 0;; ++attempt) {
    if (!inlined && written.empty()) {
      BufferChain payload;
      for (const DirtyPiece& p : batch.pieces) payload.Append(p.bytes);
      CO_ASSIGN_OR_RETURN(written, co_await Store(inode, std::move(payload)));
    }
    while (n.generation == generation && n.resolved_batch + 1 != batch.number) co_await n.batch_resolved.Wait();
    if (n.generation != generation) co_return Error(FsError::kIo, "the mount lost its session");
    if (batch.number <= n.broken_until) {
      // An earlier batch failed; ours may not overtake it.
      for (const WrittenPiece& w : written) pool_.GiveBack(w.info.id);
      co_return n.flush_error.ok() ? Error(FsError::kIo, "an earlier write failed") : n.flush_error;
    }
    auto extents = inlined ? InlineExtents(batch.pieces) : StripeExtents(batch.pieces, written);
    auto reply = co_await CommitPieces(inode, InfosOf(written), std::move(extents), false, n.durable_waiters > 0);
    if (reply.ok()) co_return Ok();
    if (attempt == 0 && inlined && InlineRefused(reply.code())) {
      inlined = false;
      continue;
    }
    co_return reply.error();
  }
}

Task<void> Vfs::RunBatch(std::shared_ptr<VfsInode> inode, DirtyBuffer::Batch batch) {
  VfsInode& n = *inode;
  const uint64_t generation = n.generation;
  auto result = co_await StoreAndCommit(inode, batch, generation);
  // A batch that fails while storing still waits for its turn, so that numbers resolve in order.
  while (n.generation == generation && n.resolved_batch + 1 != batch.number) co_await n.batch_resolved.Wait();
  if (n.generation != generation) co_return;  // TakeGrant dropped the buffer with the session
  n.resolved_batch = batch.number;
  if (result.ok()) {
    n.dirty.Committed(batch.number);
    n.flush_error = Error();
    if (n.dirty.clean()) n.dirty_since_ns = 0;
  } else {
    if (result.code() == FsError::kTooBig) {
      n.max_batch_runs = std::max<size_t>(1, n.max_batch_runs / 2);
      n.max_batch_bytes = std::max<uint64_t>(kMinBatchBytes, batch.bytes / 2);
    }
    if (batch.number > n.broken_until) {
      n.flush_error = result.error();
      n.broken_until = n.dirty.last_batch();
    }
    ++n.failed_batches;
    n.dirty.Failed(batch.number);
  }
  AccountDirty(n);
  n.batch_resolved.Pulse();
  dirty_fell_.Pulse();
}

Task<void> Vfs::PeriodicWriteBack() {
  while (true) {
    co_await Sleep(kSecond);
    const int64_t now = Executor::Current().NowNs();
    for (auto& [ino, n] : inodes_) {
      if (n->dirty.fresh_empty() || n->lease_mu.locked()) continue;
      if (now - n->dirty_since_ns >= options_.write_back_delay_ns) StartWriteBack(n, 0);
    }
  }
}

}  // namespace stria
