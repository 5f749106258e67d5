// Reads every sealed shard of a disk at a gentle pace and checks it. What is found damaged is listed by
// the store (TakeBadShards) and reported by the agent; repair replaces it from parity.
#pragma once

#include <cstdint>

#include "common/exec/task.h"
#include "server/shard_store.h"

namespace stria {

struct ScrubOptions {
  uint64_t bytes_per_s = 20 * kMiB;            // per disk
  int64_t pause_ns = 7 * 24 * 3600 * kSecond;  // between two passes
  int64_t first_after_ns = 3600 * kSecond;     // of the start
};
struct ScrubResult {
  uint64_t shards = 0;
  uint64_t bytes = 0;
  uint64_t damaged = 0;
};

// One pass.
Task<Result<ScrubResult>> ScrubOnce(ShardStore* store, uint64_t bytes_per_s);
// Passes for ever.
Task<void> ScrubForever(ShardStore* store, ScrubOptions options);

}  // namespace stria
