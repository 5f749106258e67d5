// Group commit of seals (shard_store.h, steps 1 to 4).
#include <algorithm>
#include <utility>

#include "common/sabotage.h"
#include "server/segment.h"
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
  SegmentWriter::Appended appended;
  std::optional<SegmentPlace> settled_end;
  const bool raw = !files.empty();
  if (packed) {
    appended = co_await AppendToSegment(batch);
    if (appended.error.ok()) files.push_back(appended.file);
    co_await SyncCommitted(std::move(files));
    settled_end = appended.end;
    co_await appended.turn.Await();
  } else {
    std::vector<Task<void>> both;
    both.push_back([](ShardStore* s, std::vector<Pending>* b, SegmentWriter::Appended* out) -> Task<void> {
      *out = co_await s->AppendToSegment(b);
    }(this, batch, &appended));
    both.push_back(SyncCommitted(std::move(files)));
    // Only packed shards are looked for behind the settled end.
    co_await WhenAll(std::move(both));
    appended.turn.Release();
  }
  if (failed()) co_return fail_all(failure_);
  // 3. index
  std::vector<IndexChange> changes;
  uint64_t packed_bytes = 0;
  for (Pending& p : *batch) {
    if (!p.error.ok()) continue;
    if (!p.shard->raw) packed_bytes += p.length;
    IndexChange c;
    c.shard = p.shard->id;
    c.record.kind = p.shard->raw ? ShardKind::kRaw : ShardKind::kPacked;
    c.record.place = p.place;
    c.record.length = p.length;
    c.record.digest = p.digest;
    c.record.crcs = p.table;
    changes.push_back(std::move(c));
  }
  // What could not be appended may be there all the same: it is settled before anybody is told that it failed.
  const bool durable = raw || !appended.error.ok() || unsynced_bytes_ + packed_bytes > kMaxUnsyncedBytes;
  unsynced_bytes_ = durable ? 0 : unsynced_bytes_ + packed_bytes;
  Result<std::vector<AppliedChange>> applied = co_await index_.Apply(std::move(changes), settled_end, durable);
  if (!applied.ok()) {
    CountWrite(applied.error());
    Fence(applied.error());
    fail_all(failure_);
  }
}

Task<void> ShardStore::SyncCommitted(std::vector<std::string> files) {
  if (files.empty() || Sabotaged(Sabotage::kSealBeforeSync)) co_return;
  Result<void> synced = co_await disk_->SyncFiles(std::move(files));
  if (synced.ok()) co_return;
  CountWrite(synced.error());
  Fence(synced.error());
}

// Small shards with their bytes, raw ones with their tables only. The latter are needed by a reindex
// and nothing else: they are not worth a sync here, and a failure to write them is no failure.
Task<SegmentWriter::Appended> ShardStore::AppendToSegment(std::vector<Pending>* batch) {
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
  SegmentWriter::Appended appended = co_await segments_.Append(std::move(items));
  if (!appended.error.ok()) {
    const Error e = CountWrite(appended.error);
    for (Pending& p : *batch) {
      if (!p.shard->raw) p.error = e;
    }
    co_return std::move(appended);
  }
  for (size_t i = 0; i < batch->size(); ++i) (*batch)[i].place = appended.places[i];
  co_return std::move(appended);
}

// After a start: what was sealed and is not in the index, as the index was not synced then.
Task<Result<void>> ShardStore::SettleSegments() {
  const std::optional<SegmentPlace> settled = index_.settled_end();
  std::vector<std::string> files;
  std::vector<IndexChange> puts;
  std::set<ShardId> found;
  for (const auto& [segment, size] : segments_.sizes()) {
    if (!settled || segment < settled->segment || Sabotaged(Sabotage::kForgetUnsettled)) continue;
    Result<std::vector<SegmentEntry>> entries = co_await ScanSegment(
        disk_, options_.disk, segment, size, segment == settled->segment ? settled->offset : 0);
    if (!entries.ok()) {  // never synced, or damaged since: then repair finds what is missing
      if (entries.code() != FsError::kCorrupt) CountRead(entries.error());
      continue;
    }
    const size_t before = puts.size();
    for (const SegmentEntry& e : *entries) {
      if (e.kind != ShardKind::kPacked || e.moved || found.contains(e.shard)) continue;
      const Result<ShardRecordPtr> known = co_await index_.Get(e.shard, false);
      if (!known.ok() || *known) continue;
      const Result<bool> whole = co_await IsWhole(disk_, segment, e);
      if (!whole.ok()) CountRead(whole.error());
      if (!whole.ok() || !*whole) continue;
      IndexChange c;
      c.shard = e.shard;
      c.record = ShardRecord{e.kind, {segment, e.offset}, e.length, e.digest, e.crcs};
      puts.push_back(std::move(c));
      found.insert(e.shard);
    }
    if (puts.size() > before) files.push_back(SegmentName(segment));
  }
  // What can be read may not be durable yet.
  if (!files.empty()) CO_RETURN_IF_ERROR(co_await disk_->SyncFiles(std::move(files)));
  CO_RETURN_IF_ERROR(co_await index_.Apply(std::move(puts), SegmentPlace{index_.totals().next_segment, 0}));
  co_return Ok();
}

// Bounds what a start has to look at after a power cut.
Task<void> ShardStore::SyncIndex() {
  if (std::exchange(unsynced_bytes_, 0) == 0) co_return;
  Result<void> synced = co_await index_.Sync();
  if (synced.ok()) co_return;
  CountWrite(synced.error());
  Fence(synced.error());
}

}  // namespace stria
