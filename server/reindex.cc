#include "server/reindex.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "server/segment.h"
#include "stripe/checksum.h"

namespace stria {
namespace {

constexpr uint64_t kReadBytes = 1 * kMiB;
constexpr size_t kPutsPerBatch = 256;

// The record that the file's bytes, as they are, would have.
Task<Result<ShardRecord>> RecordOfFile(Disk* disk, ShardId shard, const DiskFile& file) {
  ShardRecord out;
  out.kind = ShardKind::kRaw;
  out.length = file.size_bytes;
  ChecksumBuilder table(shard);
  for (uint64_t at = 0; at < out.length; at += kReadBytes) {
    const uint64_t n = std::min(kReadBytes, out.length - at);
    CO_ASSIGN_OR_RETURN(const Buffer bytes, co_await disk->Read(file.name, at, n));
    if (bytes.size() != n) co_return Error(FsError::kIo, file.name + " is shorter than it was");
    table.Append(bytes.span());
  }
  out.crcs = table.Table();
  out.digest = TableDigest(out.crcs, out.length);
  co_return out;
}

// Raw shards that no segment told of.
Task<Result<void>> FindUnproved(Disk* disk, ShardIndex* index, const std::set<ShardId>& damaged,
                                ReindexResult* out) {
  CO_ASSIGN_OR_RETURN(const std::vector<DiskFile> files, co_await disk->List("shards"));
  for (const DiskFile& f : files) {
    ShardId shard;
    if (!ParseRawShardName(f.name, &shard) || f.size_bytes == 0 || damaged.contains(shard)) continue;
    CO_ASSIGN_OR_RETURN(const ShardRecordPtr known, co_await index->Get(shard, false));
    if (known) continue;
    Result<ShardRecord> record = co_await RecordOfFile(disk, shard, f);
    if (record.ok()) out->unproved.push_back({shard, *std::move(record)});
    else ++out->damaged;
  }
  co_return Ok();
}

}  // namespace

Task<Result<void>> IndexProved(KvStore* kv, Pool* pool, std::vector<UnprovedShard> proved) {
  ShardIndex index(kv, pool);
  CO_RETURN_IF_ERROR(co_await index.Open());
  for (size_t i = 0; i < proved.size(); i += kPutsPerBatch) {
    std::vector<IndexChange> puts;
    for (size_t j = i; j < std::min(proved.size(), i + kPutsPerBatch); ++j) {
      IndexChange c;
      c.shard = proved[j].shard;
      c.record = std::move(proved[j].record);
      puts.push_back(std::move(c));
    }
    CO_RETURN_IF_ERROR(co_await index.Apply(std::move(puts)));
  }
  co_return Ok();
}

Task<Result<ReindexResult>> Reindex(Disk* disk, KvStore* kv, Pool* pool, Uuid disk_uuid) {
  ReindexResult out;
  std::set<ShardId> damaged;
  ShardIndex index(kv, pool);
  CO_RETURN_IF_ERROR(co_await index.Open());
  if (index.totals().shards > 0)
    co_return Error(FsError::kNotEmpty, "the index to be made has shards already");
  CO_ASSIGN_OR_RETURN(std::vector<DiskFile> files, co_await disk->List("segments"));
  std::reverse(files.begin(), files.end());  // newest first: where compaction put things last
  for (const DiskFile& f : files) {
    uint64_t segment = 0;
    if (!ParseSegmentName(f.name, &segment)) continue;
    index.NoteSegment(segment);
    Result<std::vector<SegmentEntry>> entries = co_await ScanSegment(disk, disk_uuid, segment, f.size_bytes);
    if (!entries.ok()) {
      ++out.bad_segments;
      continue;
    }
    ++out.segments;
    std::vector<IndexChange> puts;
    std::set<ShardId> in_batch;
    for (size_t i = 0; i < entries->size(); ++i) {
      const SegmentEntry& e = (*entries)[i];
      CO_ASSIGN_OR_RETURN(const ShardRecordPtr known, co_await index.Get(e.shard, false));
      if (!known && !in_batch.contains(e.shard)) {
        const Result<bool> whole = co_await IsWholeEntry(disk, segment, e);
        if (whole.ok() && *whole) {
          IndexChange c;
          c.shard = e.shard;
          c.record = ShardRecord{e.kind, {segment, e.offset}, e.length, e.digest, e.crcs};
          puts.push_back(std::move(c));
          in_batch.insert(e.shard);
          ++out.shards;
          out.bytes += e.length;
        } else {
          ++out.damaged;
          damaged.insert(e.shard);
        }
      }
      if (puts.size() >= kPutsPerBatch || (i + 1 == entries->size() && !puts.empty())) {
        CO_RETURN_IF_ERROR(co_await index.Apply(std::exchange(puts, {})));
        in_batch.clear();
      }
    }
  }
  CO_RETURN_IF_ERROR(co_await FindUnproved(disk, &index, damaged, &out));
  co_return std::move(out);
}

}  // namespace stria
