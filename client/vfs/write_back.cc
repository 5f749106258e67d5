#include "client/vfs/write_back.h"

#include <algorithm>

#include "client/vfs/counted.h"
#include "client/vfs/pieces.h"
#include "client/vfs/server_silent.h"

namespace stria {
namespace {

constexpr uint32_t kMaxBatchJumps = 512;     // of one batch: its commit fits into one transaction
constexpr size_t kMaxBatchPieces = 16'384;  // of one batch, in memory

}  // namespace

WriteBackPause::WriteBackPause(InodeWritesPtr writes) : writes_(std::move(writes)) {
  ++writes_->state().pauses;
  writes_->Wake();
}

WriteBackPause::~WriteBackPause() {
  --writes_->state().pauses;
  writes_->Wake();  // flushes begin their batches again
}

Task<void> WriteBackPause::Begin() {
  while (writes_->dirty().taken() > 0) co_await writes_->state().batch_done.Wait();
}

bool WriteBack::InlineRefused(FsError e) {
  return e == FsError::kTooBig || e == FsError::kQuota || e == FsError::kNoSpace;
}

Task<bool> WriteBack::BatchDone(InodeWritesPtr writes) {
  co_await writes->state().batch_done.Wait();
  co_return true;
}

void WriteBack::Account(InodeWrites& writes) {
  InodeWritesState& s = writes.state();
  const uint64_t now = s.dirty.bytes();
  dirty_bytes_ += now;
  dirty_bytes_ -= s.accounted;
  const bool fell = now < s.accounted;
  s.accounted = now;
  if (s.dirty.clean()) s.mtime_ns.reset();
  if (fell) fell_.Pulse();
}

void WriteBack::LoseAll(InodeWrites& writes, Error loss) {
  InodeWritesState& s = writes.state();
  ++s.era;
  s.loss = std::move(loss);
  s.dirty = DirtyBuffer();
  s.failures_at_success = s.failures;
  Account(writes);
  writes.Wake();
}

// Batches are cut at full stripes, so that a long stream makes stripes without a remainder, and at a
// number of pieces that one transaction can take.
void WriteBack::Take(const InodeWritesPtr& writes, uint64_t offset, Buffer bytes, bool grows, uint64_t stripe_bytes) {
  InodeWritesState& s = writes->state();
  if (s.dirty.clean()) s.since_ns = Executor::Current().NowNs();
  if (offset != s.last_write_end) ++s.jumps;
  s.last_write_end = offset + bytes.size();
  uint64_t done = 0;
  while (done < bytes.size()) {
    const uint64_t room = stripe_bytes - std::min(stripe_bytes, s.dirty.fresh().bytes());
    if (room == 0 || s.jumps >= kMaxBatchJumps || s.dirty.fresh().pieces_count() >= kMaxBatchPieces) {
      s.dirty.Seal();
      s.jumps = 0;
      continue;
    }
    const uint64_t part = std::min<uint64_t>(room, bytes.size() - done);
    s.dirty.Write(offset + done, bytes.Slice(done, part), grows);
    done += part;
  }
  if (s.dirty.fresh().bytes() >= stripe_bytes) s.dirty.Seal();
  Account(*writes);
}

void WriteBack::Start(const InodeWritesPtr& writes) {
  InodeWritesState& s = writes->state();
  if (s.pauses > 0) return;
  // The head always goes: the others wait for it to commit.
  while (s.dirty.has_untaken() && (s.dirty.taken() < options_.max_batches_per_inode || !s.dirty.head_taken())) {
    scope_.Spawn(RunBatch(writes, *s.dirty.Take(), s.era));
  }
}

Task<Result<void>> WriteBack::Flush(InodeWritesPtr writes, bool durable) {
  InodeWritesState& s = writes->state();
  const uint64_t era = s.era;
  const int64_t began_ns = Executor::Current().NowNs();
  int64_t until_ns = began_ns + options_.timeout_ns;  // without any progress
  uint64_t failures = s.failures, head = s.dirty.head();
  if (durable) ++s.durable_waiters;
  s.dirty.Seal();
  const uint64_t mine = s.dirty.seals();
  Error gave_up;
  while (s.dirty.head_seal() <= mine && s.era == era) {
    if (s.failures != failures) {
      // Servers that were silent until now may answer this call's own attempt.
      if (s.failure_began_ns >= began_ns || !ServerSilent(s.failure.code)) break;
      failures = s.failures;
    }
    if (std::exchange(head, s.dirty.head()) != head) until_ns = Executor::Current().NowNs() + options_.timeout_ns;
    const int64_t left_ns = until_ns - Executor::Current().NowNs();
    if (left_ns <= 0) {
      gave_up = Error(FsError::kTimedOut, "what was written is kept, and the servers do not say that they have it");
      break;
    }
    Start(writes);
    (void)co_await WithTimeout(left_ns, BatchDone(writes));
  }
  if (durable) --s.durable_waiters;
  if (s.era != era) co_return s.loss;
  if (!gave_up.ok()) co_return gave_up;
  if (s.dirty.head_seal() <= mine) co_return s.failure;  // another batch may have succeeded since
  co_return Ok();
}

Task<Result<void>> WriteBack::StoreAndCommit(InodeWritesPtr writes, const DirtyBuffer::Batch& batch, uint64_t era) {
  InodeWritesState& s = writes->state();
  bool inlined = batch.bytes <= kMaxInlineBytes;
  std::vector<WrittenPiece> written;
  int rewrites = 0;
  while (true) {
    if (!inlined && written.empty()) {
      BufferChain payload;
      for (const DirtyPiece& p : batch.pieces) payload.Append(p.bytes);
      CO_ASSIGN_OR_RETURN(written, co_await needs_.store(writes, std::move(payload)));
    }
    const auto waits = [&] { return s.era == era && s.dirty.head() != batch.id; };
    while (waits() && s.pauses == 0) co_await s.batch_done.Wait();
    if (s.era != era) co_return s.loss;
    if (waits()) {
      needs_.give_back(written, FsError::kAgain);
      co_return Error(FsError::kAgain);
    }
    if (batch.pieces.empty()) {
      needs_.give_back(written, FsError::kOk);
      co_return Ok();
    }
    auto extents = inlined ? InlineExtents(batch.pieces) : StripeExtents(batch.pieces, written);
    auto done = co_await needs_.commit(writes, InfosOf(written), std::move(extents), batch.grow_to,
                                       s.durable_waiters > 0);
    if (done.ok()) co_return Ok();
    // Of no use any more; those that were committed although the answer is an error stay.
    needs_.give_back(written, done.code());
    if (done.code() == FsError::kConflict && !inlined && ++rewrites <= kMaxRewrites) {
      // The allocation did not survive a restart of the server: the bytes go into other stripes.
      written.clear();
      continue;
    }
    if (!inlined || !InlineRefused(done.code())) co_return done.error();
    inlined = false;
  }
}

Task<void> WriteBack::RunBatch(InodeWritesPtr writes, DirtyBuffer::Batch batch, uint64_t era) {
  InodeWritesState& s = writes->state();
  const int64_t began_ns = Executor::Current().NowNs();
  auto result = co_await StoreAndCommit(writes, batch, era);
  if (s.era != era) {  // the buffer was dropped
    needs_.ended_lost(writes);
    co_return;
  }
  if (result.ok()) {
    s.dirty.Committed(batch.id);
    needs_.committed(writes);
    if (s.dirty.clean()) s.since_ns = 0;
    Account(*writes);
    if (s.dirty.has_untaken() && !writes->failing()) Start(writes);
    s.failures_at_success = s.failures;
  } else if (result.code() == FsError::kTooBig && s.dirty.head() == batch.id && s.dirty.SplitHead(batch.id)) {
    Start(writes);
  } else if (result.code() == FsError::kAgain) {  // paused: it may be cut before it is taken again
    s.dirty.PutBack(batch.id);
  } else {
    if (result.code() != FsError::kTooBig || s.dirty.head() != batch.id) s.dirty.PutBack(batch.id);
    s.failure = result.error();
    s.failure_began_ns = began_ns;
    ++s.failures;
    needs_.failed(writes);
  }
  writes->Wake();
  fell_.Pulse();
  needs_.ended(writes);
}

Task<void> WriteBack::Periodic() {
  while (true) {
    co_await Sleep(kSecond);
    const int64_t now = Executor::Current().NowNs();
    needs_.each([&](const InodeWritesPtr& writes) {
      if (writes->clean() || now - writes->state().since_ns < options_.delay_ns) return;
      writes->Seal();
      Start(writes);
    });
  }
}

Task<bool> WriteBack::Fell() {
  co_await fell_.Wait();
  co_return true;
}

Task<Result<void>> WriteBack::WaitForRoom(InodeWritesPtr writes, uint64_t bytes, std::function<bool()> passes) {
  InodeWritesState& s = writes->state();
  int64_t until_ns = Executor::Current().NowNs() + options_.timeout_ns;
  uint64_t committed = counters_.committed_bytes;
  while (!RoomFor(bytes)) {
    if (passes && passes()) break;
    if (counters_.committed_bytes != committed) {
      committed = counters_.committed_bytes;
      until_ns = Executor::Current().NowNs() + options_.timeout_ns;
    }
    const int64_t left_ns = until_ns - Executor::Current().NowNs();
    if (left_ns <= 0) co_return Error(FsError::kTimedOut, "the servers take no bytes, and there is no room for more");
    const uint64_t failures = s.failures;
    needs_.each([this](const InodeWritesPtr& all) {
      all->Seal();
      Start(all);
    });
    const Counted waits(&s.room_waits);
    (void)co_await WithTimeout(left_ns, Fell());
    if (s.failures != failures && writes->failing() && !ServerSilent(s.failure.code)) co_return s.failure;
  }
  co_return Ok();
}

}  // namespace stria
