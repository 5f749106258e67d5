// Checksums of shards. A shard is checked in blocks of kChecksumBlockBytes (the last may be shorter); a
// block's checksum is CRC32C (Castagnoli, reflected, as in iSCSI) of
//
//     ShardId, 8 bytes little-endian | block number, 8 bytes little-endian | the block's bytes
//
// so that bytes of another shard or another place fail too. The checksums of all blocks in order are
// the shard's table; its digest is XXH3-64 of the table (4 bytes little-endian each) with the shard's
// length as seed. Both are on disk and on the wire; golden values in the test.
//
// CRCs are linear: the same block under another ShardId differs by a value that depends only on the two
// ids and the block's length. Reseed uses it, so that a rebuild, which writes old bytes under a new
// ShardId, checks them against the recorded digest and makes the new table with one pass over them.
//
// So are parts of a block: with some bytes of it and the bare checksums of the bytes before and after them the block's checksum
// can be checked (LeftOut). So a reader of 4 KiB receives no more, and still checks it against the writer's checksum.
//
// Pure functions, safe from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/buffer.h"
#include "common/ids.h"
#include "stripe/types.h"

namespace stria {

// Blocks that a shard of this many bytes has.
constexpr uint64_t ChecksumBlocks(uint64_t shard_bytes) { return DivCeil(shard_bytes, kChecksumBlockBytes); }

// block.size() <= kChecksumBlockBytes.
uint32_t BlockCrc(ShardId shard, uint64_t block_index, std::span<const uint8_t> block);

// The table of a whole shard.
std::vector<uint32_t> ChecksumTable(ShardId shard, std::span<const uint8_t> bytes);

// Of any table; a table of another length has another digest.
uint64_t TableDigest(std::span<const uint32_t> table, uint64_t shard_bytes);

// Makes the table of a shard whose bytes come in order, in pieces of any size.
class ChecksumBuilder {
 public:
  explicit ChecksumBuilder(ShardId shard) : shard_(shard) {}
  void Append(std::span<const uint8_t> bytes);
  uint64_t length_bytes() const { return length_bytes_; }
  // The table of all bytes so far. More may follow.
  std::vector<uint32_t> Table() const;

 private:
  ShardId shard_;
  uint64_t length_bytes_ = 0;
  uint32_t register_ = 0;        // of the last block, if it is not full
  std::vector<uint32_t> table_;  // of full blocks
};

// Checks bytes of a shard that begin at block `first_block` against that part of its table,
// ChecksumBlocks(bytes.size()) entries: whole blocks, the last one possibly the shard's short end.
// Returns the number (in the shard) of the first block that is wrong; one without an entry is.
std::optional<uint64_t> FirstBadBlock(ShardId shard, uint64_t first_block, std::span<const uint8_t> bytes,
                                      std::span<const uint32_t> table_part);

// Bytes at the beginning of the first block of a range and at the end of its last that are not at hand: how many, each less
// than a block, and their checksums.
struct LeftOut {
  uint64_t head_bytes = 0;
  uint64_t tail_bytes = 0;
  uint32_t head = 0;  // CRC register after them alone, from 0, without inversion
  uint32_t tail = 0;
  bool any() const { return head_bytes != 0 || tail_bytes != 0; }
  bool operator==(const LeftOut&) const = default;
};

// Takes so much from both ends of `bytes`. REQUIRES: each is less than a block, together they are less than all.
LeftOut CutEnds(BufferChain* bytes, uint64_t head_bytes, uint64_t tail_bytes);
// The same for `bytes` without the ends in `outside`, which count in both.
LeftOut CutEnds(BufferChain* bytes, uint64_t head_bytes, uint64_t tail_bytes, const LeftOut& outside);

// Registers of bytes alone, as in LeftOut: of some, and of some that are followed by `second_bytes` others.
uint32_t BareRegister(std::span<const uint8_t> bytes);  // at most a block
uint32_t JoinRegisters(uint32_t first, uint32_t second, uint64_t second_bytes);
// BlockCrc of a block of so many bytes with that register.
uint32_t BlockCrcOf(ShardId shard, uint64_t block_index, uint32_t bare, uint64_t block_bytes);

// As above, for `bytes` and the bytes left out around them: `first_block` begins with the head. Some of the first and some of
// the last block must be at hand.
std::optional<uint64_t> FirstBadBlock(ShardId shard, uint64_t first_block, std::span<const uint8_t> bytes,
                                      const LeftOut& left_out, std::span<const uint32_t> table_part);

// The checksum under shard `to` of a block of `block_bytes` whose checksum under shard `from` is `crc`. The
// block's number and bytes do not matter.
uint32_t Reseed(uint32_t crc, ShardId from, ShardId to, uint64_t block_bytes);

// Reseed of a whole table, table.size() == ChecksumBlocks(shard_bytes).
std::vector<uint32_t> ReseedTable(std::span<const uint32_t> table, ShardId from, ShardId to,
                                  uint64_t shard_bytes);

}  // namespace stria
