// Group commit of seals (shard_store.h, steps 1 to 4).
#include <algorithm>
#include <utility>

#include "common/sabotage.h"
#include "server/shard_store.h"
#include "stripe/checksum.h"

namespace stria {

Task<void> ShardStore::CommitLoop() {
  while (true) {
    co_await seal_waits_.Wait();
    SemaphoreHold slot = co_await Hold(commit_slots_);
    std::vector<Pending> batch = TakeBatch();
    if (waiting_seals_.empty()) seal_waits_.Reset();
    if (!batch.empty()) scope_.Spawn(CommitBatch(std::move(batch), std::move(slot)));
  }
}

std::vector<ShardStore::Pending> ShardStore::TakeBatch() {
  std::vector<Pending> batch;
  uint64_t packed_bytes = 0;
  while (!waiting_seals_.empty() && batch.size() < kMaxCommitShards && packed_bytes < kMaxCommitPackedBytes) {
    Pending p;
    p.shard = std::move(waiting_seals_.front());
    waiting_seals_.pop_front();
    p.length = p.shard->sealing->length;
    p.table = p.shard->Table();
    p.digest = TableDigest(p.table, p.length);
    if (!p.shard->raw) packed_bytes += p.length;
    batch.push_back(std::move(p));
  }
  return batch;
}

Task<void> ShardStore::CommitBatch(std::vector<Pending> batch, SemaphoreHold slot) {
  co_await CommitSteps(&batch);
  slot.Release();
  // 4. replies
  for (Pending& p : batch) {
    const std::shared_ptr<SealAttempt> attempt = std::exchange(p.shard->sealing, nullptr);
    if (p.error.ok()) {
      buffered_bytes_ -= p.shard->buffered_bytes;
      open_.erase(p.shard->id);
      attempt->outcome = Sealed{p.length, p.digest};
    } else {
      attempt->outcome = p.error;  // stays open; sealing may be tried again
    }
    attempt->done.Set();
  }
}

Task<void> ShardStore::CommitSteps(std::vector<Pending>* batch) {
  auto fail_all = [batch](const Error& e) {
    for (Pending& p : *batch) {
      if (p.error.ok()) p.error = e;
    }
  };
  if (failed()) co_return fail_all(failure_);
  // 1. segment, 2. bytes and directory entries; side by side if the one does not need the other
  std::vector<std::string> files;
  bool packed = false;
  for (const Pending& p : *batch) {
    if (p.shard->raw) files.push_back(RawShardName(p.shard->id));
    packed = packed || !p.shard->raw;
  }
  SegmentWriter::Pin pin;
  if (packed && files.empty()) {
    co_await AppendToSegment(batch, !Sabotaged(Sabotage::kSealBeforeSync), nullptr, &pin);
  } else if (packed) {
    co_await AppendToSegment(batch, false, &files, &pin);
    co_await SyncCommitted(std::move(files));
  } else {
    std::vector<Task<void>> both;
    both.push_back(AppendToSegment(batch, false, nullptr, &pin));
    both.push_back(SyncCommitted(std::move(files)));
    co_await WhenAll(std::move(both));
  }
  if (failed()) co_return fail_all(failure_);
  // 3. index
  bool tells_itself = pin.segment() == synced_segment_;
  std::vector<IndexChange> changes;
  for (Pending& p : *batch) {
    if (!p.error.ok()) continue;
    IndexChange c;
    c.shard = p.shard->id;
    c.record.kind = p.shard->raw ? ShardKind::kRaw : ShardKind::kPacked;
    c.record.place = p.place;
    c.record.length = p.length;
    c.record.digest = p.digest;
    c.record.crcs = p.table;
    if (p.shard->raw) tells_itself = false;
    changes.push_back(std::move(c));
  }
  if (changes.empty()) co_return;
  // If the index loses packed shards, Open finds them in the segment. So that it looks through little, the first batch of each
  // segment is synced, and with it those of the segments before.
  const auto durable = tells_itself ? ShardIndex::Durable::kLater : ShardIndex::Durable::kNow;
  Result<std::vector<AppliedChange>> applied = co_await index_.Apply(std::move(changes), durable);
  if (!applied.ok()) {
    CountWrite(applied.error());
    Fence(applied.error());
    fail_all(failure_);
  } else if (packed && !tells_itself) {
    synced_segment_ = pin.segment();
  }
}

Task<void> ShardStore::SyncCommitted(std::vector<std::string> files) {
  if (files.empty() || Sabotaged(Sabotage::kSealBeforeSync)) co_return;
  Result<void> synced = co_await disk_->SyncFiles(std::move(files));
  if (!synced.ok()) SyncFailed(synced.error());
}

void ShardStore::SyncFailed(const Error& e) {
  sync_failed_ = true;
  CountWrite(e);
  Fence(e);
}

// Small shards with their bytes, raw ones with their tables only. The latter are needed by a reindex
// and nothing else: they are not worth a sync here, and a failure to write them is no failure. Adds the
// segment to `files`, if given.
Task<void> ShardStore::AppendToSegment(std::vector<Pending>* batch, bool sync, std::vector<std::string>* files,
                                       SegmentWriter::Pin* pin) {
  std::vector<SegmentWriter::Item> items;
  for (Pending& p : *batch) {
    SegmentWriter::Item item;
    item.entry.shard = p.shard->id;
    item.entry.kind = p.shard->raw ? ShardKind::kRaw : ShardKind::kPacked;
    item.entry.length = p.length;
    item.entry.digest = p.digest;
    item.entry.crcs = p.table;
    for (const auto& [_, bytes] : p.shard->small) item.payload.Append(bytes);
    CHECK(item.payload.size() == (p.shard->raw ? 0 : p.length), "a small shard is sealed without its bytes");
    items.push_back(std::move(item));
  }
  Result<SegmentWriter::Appended> appended = co_await segments_.Append(std::move(items), sync);
  if (!appended.ok()) {
    const Error e = CountWrite(appended.error());
    for (Pending& p : *batch) {
      if (!p.shard->raw) p.error = e;
    }
    co_return;
  }
  if (!appended->sync.ok()) SyncFailed(appended->sync);
  for (size_t i = 0; i < batch->size(); ++i) (*batch)[i].place = appended->places[i];
  if (files != nullptr) files->push_back(appended->file);
  *pin = std::move(appended->pin);
}

}  // namespace stria
