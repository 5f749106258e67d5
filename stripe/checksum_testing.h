// For tests that write no bytes: shards whose checksums are those of the same bytes, each under its own number. So what is made
// again of one under another number is as it was written.
#pragma once

#include <cstdint>
#include <vector>

#include "stripe/checksum.h"

namespace stria {

inline std::vector<uint32_t> TestTable(ShardId shard, uint64_t shard_bytes) {
  return ReseedTable(std::vector<uint32_t>(ChecksumBlocks(shard_bytes)), ShardId(), shard, shard_bytes);
}
inline uint64_t TestDigest(ShardId shard, uint64_t shard_bytes) { return TableDigest(TestTable(shard, shard_bytes), shard_bytes); }

}  // namespace stria
