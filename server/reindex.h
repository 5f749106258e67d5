// Makes the index of a disk again from its files, when RocksDB is lost or damaged. Segments list small shards, and the
// checksums of large ones; every byte is read and checked, and only whole shards get a record. Long deleted shards may come
// back: the metadata does not know them, so the quarantine takes them. A large shard whose checksums were lost with a segment
// is neither deleted nor trusted: its checksums are made from its bytes, and it gets a record only if the metadata knows it
// with their digest.
#pragma once

#include <cstdint>
#include <vector>

#include "common/exec/pool.h"
#include "common/io/disk.h"
#include "server/shard_index.h"

namespace stria {

// Bytes that nothing on this disk vouches for.
struct UnprovedShard {
  ShardId shard;
  ShardRecord record;
};

struct ReindexResult {
  uint64_t shards = 0;
  uint64_t bytes = 0;
  uint64_t damaged = 0;   // entries with missing or wrong bytes
  uint64_t segments = 0;  // read
  uint64_t bad_segments = 0;
  std::vector<UnprovedShard> unproved;
};

// `kv` is an empty index store. The disk is otherwise idle.
Task<Result<ReindexResult>> Reindex(Disk* disk, KvStore* kv, Pool* pool, Uuid disk_uuid);

// Gives them records, durably. `kv` as above; no store has it open. REQUIRES: the metadata knows them so.
Task<Result<void>> IndexProved(KvStore* kv, Pool* pool, std::vector<UnprovedShard> proved);

}  // namespace stria
