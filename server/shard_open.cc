// The start of a shard store: enters records again from the segments that a power cut took from the index.
#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "common/log.h"
#include "common/sabotage.h"
#include "server/shard_store.h"

namespace stria {
namespace {

constexpr size_t kPutsPerBatch = 256;

}  // namespace

Task<Result<void>> ShardStore::Open() {
  CO_RETURN_IF_ERROR(co_await index_.Open());
  CO_ASSIGN_OR_RETURN(const std::vector<DiskFile> files, co_await disk_->List("segments"));
  for (const DiskFile& f : files) {
    uint64_t segment = 0;
    if (ParseSegmentName(f.name, &segment)) segments_.AddExisting(segment, f.size_bytes);
  }
  CO_RETURN_IF_ERROR(co_await IndexTail());
  CO_RETURN_IF_ERROR(co_await RefreshSpace());
  scope_.Spawn(CommitLoop());
  scope_.Spawn(SpaceLoop());
  if (options_.background) scope_.Spawn(Background());
  co_return Ok();
}

// From here on the index can lack only appends of this process.
Task<Result<void>> ShardStore::IndexTail() {
  if (const std::optional<SegmentPlace> from = index_.unindexed_from(); from && !Sabotaged(Sabotage::kForgetTail)) {
    uint64_t entered = 0;
    const std::map<uint64_t, uint64_t>& sizes = segments_.sizes();
    for (auto it = sizes.lower_bound(from->segment); it != sizes.end(); ++it) {
      CO_ASSIGN_OR_RETURN(const uint64_t some, co_await IndexTailOf(it->first, it->second, *from));
      entered += some;
    }
    if (entered > 0) LogInfo("{}: small shards that the index had lost, found in segments: {}", options_.name, entered);
  }
  co_return co_await index_.StoreUnindexedFrom({index_.totals().next_segment, 0});
}

// A broken entry was never acknowledged, or is damaged: it is of no use. A whole entry that was not acknowledged is as good as
// if the answer had been lost.
Task<Result<uint64_t>> ShardStore::IndexTailOf(uint64_t segment, uint64_t size_bytes, SegmentPlace from) {
  const uint64_t begin = segment == from.segment ? std::max(from.offset, kSegmentHeaderBytes) : kSegmentHeaderBytes;
  Result<std::vector<SegmentEntry>> entries =
      co_await ScanSegment(disk_, options_.disk, segment, size_bytes, begin);
  if (!entries.ok()) {
    // One bad place does not take away the disk: its missing shards are rebuilt.
    LogWarning("{}: shards in a segment that the index may have lost are not found: {}", options_.name,
               CountRead(entries.error()));
    co_return 0;
  }
  std::vector<IndexChange> puts;
  std::set<ShardId> found;
  for (SegmentEntry& e : *entries) {
    if (e.kind != ShardKind::kPacked || found.contains(e.shard)) continue;
    const Result<ShardRecordPtr> known = co_await index_.Get(e.shard, false);
    if (known.code() != FsError::kCorrupt && !known.ok()) co_return CountRead(known.error());
    if (!known.ok() || *known) continue;
    const Result<bool> whole = co_await IsWholeEntry(disk_, segment, e);
    if (!whole.ok()) CountRead(whole.error());
    if (!whole.ok() || !*whole) continue;
    found.insert(e.shard);
    IndexChange c;
    c.shard = e.shard;
    c.record = ShardRecord{e.kind, {segment, e.offset}, e.length, e.digest, std::move(e.crcs)};
    puts.push_back(std::move(c));
  }
  if (puts.empty()) co_return 0;
  // A killed process may have left it in the page cache only.
  const Result<void> synced = co_await disk_->SyncFiles({SegmentName(segment)});
  if (!synced.ok()) co_return CountWrite(synced.error());
  for (size_t i = 0; i < puts.size(); i += kPutsPerBatch) {
    const auto first = puts.begin() + static_cast<ptrdiff_t>(i);
    const auto last = puts.begin() + static_cast<ptrdiff_t>(std::min(puts.size(), i + kPutsPerBatch));
    const auto applied = co_await index_.Apply({std::make_move_iterator(first), std::make_move_iterator(last)});
    if (!applied.ok()) co_return CountWrite(applied.error());
  }
  co_return found.size();
}

}  // namespace stria
