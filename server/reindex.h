// Makes the index of a disk again from its files, when RocksDB is lost or damaged. Segments tell small
// shards, and the checksums of large ones; every byte is read and checked, and only what is whole gets
// a record. Shards deleted long ago may come back: the metadata does not know them, the quarantine
// takes them.
#pragma once

#include <cstdint>

#include "common/exec/pool.h"
#include "common/io/disk.h"
#include "server/shard_index.h"

namespace stria {

struct ReindexResult {
  uint64_t shards = 0;
  uint64_t bytes = 0;
  uint64_t damaged = 0;   // entries whose bytes are missing or wrong
  uint64_t segments = 0;  // read
  uint64_t bad_segments = 0;
};

// `kv` is an empty index store. The disk is otherwise idle.
Task<Result<ReindexResult>> Reindex(Disk* disk, KvStore* kv, Pool* pool, Uuid disk_uuid);

}  // namespace stria
