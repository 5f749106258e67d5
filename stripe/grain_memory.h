// Checksums of the grains, kGrainBytes each, of blocks of which parts were read lately. A block has one checksum, so the first
// check of a part reads the whole block. Then its grains' checksums are known, and a read of 4 KiB reads no more than its
// grains: with the registers of the bytes around them they yield the block's checksum, or are wrong.
//
// Bounded: a table of places, kWays for each block (as in a processor's cache); the least recently used gives way. Shards never
// change and their ids are not used again, so nothing has to be forgotten. A pure data structure; not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/buffer.h"
#include "common/ids.h"
#include "stripe/checksum.h"
#include "stripe/types.h"

namespace stria {

inline constexpr uint64_t kGrainBytes = 4 * kKiB;  // the pages that files are read in

class GrainMemory {
 public:
  // Takes 88 bytes for each block, when it first learns of one.
  explicit GrainMemory(size_t max_blocks);

  // For a range of a shard, in whole blocks or up to its end, with unwanted ends: the parts of these that need not be read, in
  // whole grains (the last of the shard's last block may be short). Nothing, if there are none or the grains are not known.
  std::optional<LeftOut> Find(ShardId shard, uint64_t offset, uint64_t length, uint64_t omit_head, uint64_t omit_tail);
  // The range's bytes, and that part of the shard's checksums: the input of a later Find. Blocks that do not have their
  // checksum are not remembered.
  void Learn(ShardId shard, uint64_t offset, const BufferChain& bytes, uint64_t omit_head, uint64_t omit_tail,
             std::span<const uint32_t> table_part);

 private:
  static constexpr size_t kWays = 8;
  static constexpr size_t kGrains = kChecksumBlockBytes / kGrainBytes;
  struct Block {
    ShardId shard;  // 0: none
    uint32_t number = 0;
    uint32_t bytes = 0;
    uint64_t used = 0;
    std::array<uint32_t, kGrains> registers{};
  };
  // The kWays places that a block may have.
  std::span<Block> PlacesOf(ShardId shard, uint64_t number);
  const Block* Get(ShardId shard, uint64_t number, uint64_t bytes);
  void Put(ShardId shard, uint64_t number, const BufferChain& bytes, uint32_t checksum);

  const size_t sets_;
  std::vector<Block> blocks_;
  uint64_t clock_ = 0;
};

}  // namespace stria
