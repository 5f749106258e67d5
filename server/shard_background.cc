// Background work of a shard store: removes leftovers of a crash, drops abandoned open shards, syncs checksum tables now and
// then, compacts segments.
#include <algorithm>
#include <utility>

#include "server/shard_store.h"
#include "stripe/checksum.h"

namespace stria {
namespace {

constexpr int64_t kBackgroundPeriodNs = 30 * kSecond;
constexpr uint64_t kMoveChunkBytes = 4 * kMiB;
constexpr size_t kMoveChunkShards = 256;
constexpr size_t kLookChunk = 1000;

// 0 if all is well. Tables of raw shards count like payload: both are worth moving together.
uint64_t ChooseSegment(const SegmentWriter& writer, const ShardIndex& index, const std::set<uint64_t>& stuck) {
  const std::map<uint64_t, uint64_t>& live = index.segment_live_bytes();
  uint64_t best = 0;
  double best_share = 0.5;
  for (const auto& [segment, size] : writer.sizes()) {
    if (!writer.Removable(segment) || !index.Settled(segment) || stuck.contains(segment)) continue;
    auto it = live.find(segment);
    const double share = it == live.end() ? 0.0 : static_cast<double>(it->second) / static_cast<double>(size);
    if (share < best_share) {
      best = segment;
      best_share = share;
    }
  }
  return best;
}

}  // namespace

Task<void> ShardStore::Background() {
  while (!failed()) {
    if (!leftovers_removed_) {
      Result<void> removed = co_await RemoveLeftovers();
      if (!removed.ok()) CountRead(removed.error());
    }
    co_await Sleep(kBackgroundPeriodNs);
    if (failed()) co_return;
    co_await DropIdle();
    co_await SyncDirtySegments();
    while (!failed()) {
      Result<bool> more = co_await CompactOne();
      if (!more.ok() || !*more) break;
    }
  }
}

Task<Result<void>> ShardStore::RemoveLeftovers() {
  CO_ASSIGN_OR_RETURN(const std::vector<DiskFile> files, co_await disk_->List("shards"));
  for (const DiskFile& f : files) {
    ShardId shard;
    if (!ParseRawShardName(f.name, &shard)) continue;  // another program's file
    if (open_.contains(shard) || !blocked_.insert(shard).second) continue;
    Result<ShardRecordPtr> record = co_await index_.Get(shard, false);
    const bool garbage = record.ok() && (!*record || (*record)->kind == ShardKind::kPacked);
    if (garbage) {
      Result<void> removed = co_await disk_->Remove(f.name);
      if (!removed.ok() && removed.code() != FsError::kNoEnt) CountWrite(removed.error());
    }
    Unblock(shard);
  }
  leftovers_removed_ = true;
  co_return Ok();
}

Task<void> ShardStore::DropIdle() {
  const int64_t now = Executor::Current().NowNs();
  std::vector<OpenPtr> idle;
  for (const auto& [_, shard] : open_) {
    if (!shard->sealing && shard->calls_in_flight == 0 && now - shard->touched_ns > kOpenShardIdleNs) {
      idle.push_back(shard);
    }
  }
  for (const OpenPtr& shard : idle) {
    const bool still = !shard->dead && !shard->sealing && shard->calls_in_flight == 0 &&
                       now - shard->touched_ns > kOpenShardIdleNs;
    if (still) co_await Drop(shard);
  }
}

Task<void> ShardStore::SyncDirtySegments() {
  const std::set<uint64_t> dirty = segments_.dirty();
  if (dirty.empty()) co_return;
  std::vector<std::string> names;
  std::vector<SegmentWriter::Pin> pins;
  for (const uint64_t segment : dirty) {
    segments_.MarkClean(segment);
    pins.emplace_back(&segments_, segment);
    names.push_back(SegmentName(segment));
  }
  Result<void> synced = co_await disk_->SyncFiles(std::move(names));
  if (synced.ok() || synced.code() == FsError::kNoEnt) synced = co_await index_.Sync();
  if (!synced.ok()) SyncFailed(synced.error());
}

// ---- Compaction -----------------------------------------------------------------------------------

Task<Result<bool>> ShardStore::CompactOne() {
  SemaphoreHold lock = co_await compacting_.Lock();
  if (failed()) co_return failure_;
  const uint64_t segment = ChooseSegment(segments_, index_, stuck_segments_);
  if (segment == 0) co_return false;
  if (index_.segment_live_bytes().contains(segment)) {
    size_t busy = 0;
    Result<void> emptied = co_await EmptySegment(segment, &busy);
    if (!emptied.ok() || index_.segment_live_bytes().contains(segment)) {
      if (emptied.ok() && busy > 0) co_return false;  // later
      stuck_segments_.insert(segment);
      if (!emptied.ok()) co_return emptied.error();
      co_return true;
    }
  }
  co_await RemoveSegment(segment);
  co_return true;
}

// Not while a change of its live bytes is not durable; the maker of that change comes here afterwards. If removing fails the
// next start finds the segment, with nothing live in it.
Task<void> ShardStore::RemoveSegment(uint64_t segment) {
  if (!segments_.Removable(segment) || !segments_.sizes().contains(segment) || !index_.Settled(segment)) {
    co_return;
  }
  segments_.Forget(segment);
  Result<void> removed = co_await disk_->Remove(SegmentName(segment));
  if (!removed.ok() && removed.code() != FsError::kNoEnt) CountWrite(removed.error());
}

// Moves all live shards elsewhere: first those that the file lists, then, if its heads are damaged or were never synced, those
// that the index lists.
Task<Result<void>> ShardStore::EmptySegment(uint64_t segment, size_t* busy) {
  const uint64_t size = segments_.sizes().at(segment);
  Result<std::vector<SegmentEntry>> entries = co_await ScanSegment(disk_, options_.disk, segment, size);
  if (entries.code() == FsError::kDiskFailed) co_return CountRead(entries.error());
  std::vector<ShardId> shards;
  for (size_t i = 0; entries.ok() && i < entries->size(); ++i) shards.push_back((*entries)[i].shard);
  std::sort(shards.begin(), shards.end());
  shards.erase(std::unique(shards.begin(), shards.end()), shards.end());
  entries = Error(FsError::kNoData);  // frees it
  CO_RETURN_IF_ERROR(co_await MoveShards(segment, std::move(shards), busy));
  ShardId after;
  while (index_.segment_live_bytes().contains(segment)) {
    CO_ASSIGN_OR_RETURN(const std::vector<ShardIndex::Listed> chunk, co_await index_.List(after, kLookChunk));
    std::vector<ShardId> there;
    for (const ShardIndex::Listed& item : chunk) {
      after = item.shard;
      if (item.record.ok() && item.record->place.segment == segment) there.push_back(item.shard);
    }
    CO_RETURN_IF_ERROR(co_await MoveShards(segment, std::move(there), busy));
    if (chunk.size() < kLookChunk) break;
  }
  co_return Ok();
}

// Copies shards that are still in `segment` to the active one, chunk by chunk: append, sync, index. None may be deleted
// meanwhile: its copy would be there after the deletion, and Open would find it. Bytes are copied as they are: damaged ones
// stay damaged under their checksums. Returns bytes moved.
Task<Result<uint64_t>> ShardStore::MoveShards(uint64_t segment, std::vector<ShardId> shards, size_t* busy) {
  uint64_t total = 0;
  size_t next = 0;
  while (next < shards.size()) {
    std::vector<SegmentWriter::Item> items;
    std::vector<IndexChange> changes;
    Blocks blocks(this);
    uint64_t bytes = 0;
    for (; next < shards.size() && items.size() < kMoveChunkShards && bytes < kMoveChunkBytes; ++next) {
      if (!blocks.Add(shards[next])) {
        ++*busy;
        continue;
      }
      Result<ShardRecordPtr> found = co_await index_.Get(shards[next], false);
      if (!found.ok() || !*found || (*found)->place.segment != segment) continue;
      const ShardRecordPtr record = *found;
      SegmentWriter::Item item;
      item.entry = SegmentEntry{0, shards[next], record->kind, record->length, record->digest, record->crcs};
      if (record->kind == ShardKind::kPacked) {
        Result<Buffer> payload = co_await disk_->Read(
            SegmentName(segment), SegmentPayloadOffset(record->place, record->length), record->length);
        if (!payload.ok() || payload->size() != record->length) {
          if (!payload.ok()) CountRead(payload.error());
          MarkBad(shards[next]);
          continue;  // stays where it is, unreadable, until repair deletes it
        }
        item.payload.Append(*payload);
      }
      IndexChange c;
      c.kind = IndexChange::Kind::kMove;
      c.shard = shards[next];
      c.from = record->place;
      bytes += SegmentEntryBytes(record->kind, record->length);
      items.push_back(std::move(item));
      changes.push_back(std::move(c));
    }
    if (items.empty()) continue;
    CO_RETURN_IF_ERROR(co_await CheckSpace(bytes, true));
    Result<SegmentWriter::Appended> appended = co_await segments_.Append(std::move(items), /*sync=*/true);
    if (!appended.ok()) co_return CountWrite(appended.error());
    for (size_t i = 0; i < changes.size(); ++i) changes[i].to = appended->places[i];
    Error error = appended->sync;
    if (error.ok()) error = (co_await index_.Apply(std::move(changes))).error();
    appended->pin.Release();
    blocks.End();
    if (!error.ok()) {
      CountWrite(error);
      Fence(error);
      co_return failure_;
    }
    total += bytes;
    co_await Sleep(static_cast<int64_t>(static_cast<double>(bytes) * 1e9 /
                                        static_cast<double>(options_.compact_bytes_per_s)));
  }
  co_return total;
}

}  // namespace stria
