#include "stripe/grain_memory.h"

#include <gtest/gtest.h>

#include "common/random.h"

namespace stria {
namespace {

std::vector<uint8_t> RandomBytes(Random& rng, uint64_t n) {
  std::vector<uint8_t> out(n);
  for (uint8_t& b : out) b = static_cast<uint8_t>(rng.Next());
  return out;
}

BufferChain Chain(const std::vector<uint8_t>& bytes, uint64_t at, uint64_t n) {
  return BufferChain(Buffer::Copy({bytes.data() + at, n}));
}

// One read of a part by a server that has `memory` and reads from `disk`. Returns the bytes that the reader at the other end is
// sent; nullopt if the check here failed.
struct Part {
  BufferChain bytes;
  LeftOut left_out;
  uint64_t read = 0;  // from the disk
};
std::optional<Part> ReadPart(GrainMemory& memory, const std::vector<uint8_t>& disk, std::span<const uint32_t> table, ShardId shard,
                             uint64_t offset, uint64_t length, uint64_t head, uint64_t tail) {
  const std::optional<LeftOut> known = memory.Find(shard, offset, length, head, tail);
  const LeftOut outside = known.value_or(LeftOut());
  Part out;
  out.read = length - outside.head_bytes - outside.tail_bytes;
  out.bytes = Chain(disk, offset + outside.head_bytes, out.read);
  const uint64_t first = offset / kChecksumBlockBytes;
  const auto part = table.subspan(first, ChecksumBlocks(length));
  if (!known) memory.Learn(shard, offset, out.bytes, head, tail, part);  // it looks at the checksums itself
  if (FirstBadBlock(shard, first, out.bytes.Flatten().span(), outside, part)) return std::nullopt;
  out.left_out = CutEnds(&out.bytes, head, tail, outside);
  return out;
}

struct Range {
  uint64_t offset, length, head, tail;
};
// In whole blocks, or up to the end of a shard of so many bytes; less than a block of each end is not wanted.
Range AnyRange(Random& rng, uint64_t shard_bytes) {
  const uint64_t blocks = ChecksumBlocks(shard_bytes);
  const uint64_t first = rng.Below(blocks);
  const uint64_t count = rng.OneIn(2) ? 1 : rng.Between(1, blocks - first);
  Range r;
  r.offset = first * kChecksumBlockBytes;
  r.length = std::min(count * kChecksumBlockBytes, shard_bytes - r.offset);
  const uint64_t last = r.length - AlignDown(r.length - 1, kChecksumBlockBytes);
  const auto cut = [&rng](uint64_t n) { return rng.OneIn(3) ? AlignDown(rng.Below(n), kGrainBytes) : rng.Below(n); };
  r.head = rng.OneIn(4) ? 0 : cut(std::min(r.length, kChecksumBlockBytes));
  r.tail = rng.OneIn(4) ? 0 : cut(last);
  if (r.head + r.tail >= r.length) r.tail = 0;
  return r;
}

// Whatever is known, the reader gets the same bytes and registers as if all had been read.
TEST(GrainMemory, KnownOrNotTheAnswerIsTheSame) {
  Random rng(5);
  for (int round = 0; round < 20; ++round) {
    GrainMemory memory(rng.OneIn(2) ? 64 : 4);
    const ShardId shard(rng.Between(1, 1000));
    const uint64_t size = rng.OneIn(3) ? rng.Between(1, 70'000) : rng.Between(1, 5 * kChecksumBlockBytes);
    const auto disk = RandomBytes(rng, size);
    const std::vector<uint32_t> table = ChecksumTable(shard, disk);
    for (int i = 0; i < 60; ++i) {
      const Range r = AnyRange(rng, size);
      const auto part = ReadPart(memory, disk, table, shard, r.offset, r.length, r.head, r.tail);
      ASSERT_TRUE(part) << r.offset << "+" << r.length << " but " << r.head << ", " << r.tail;
      BufferChain whole = Chain(disk, r.offset, r.length);
      EXPECT_EQ(part->left_out, CutEnds(&whole, r.head, r.tail));
      EXPECT_EQ(part->bytes.Flatten().view(), whole.Flatten().view());
    }
  }
}

TEST(GrainMemory, TheSecondReadOfAPageReadsThePage) {
  Random rng(6);
  GrainMemory memory(64);
  const ShardId shard(9);
  const auto disk = RandomBytes(rng, 3 * kChecksumBlockBytes - 10'000);
  const std::vector<uint32_t> table = ChecksumTable(shard, disk);
  for (const uint64_t block : {0, 1, 2}) {
    const uint64_t begin = block * kChecksumBlockBytes;
    const uint64_t length = std::min<uint64_t>(kChecksumBlockBytes, disk.size() - begin);
    const uint64_t head = 3 * kGrainBytes, tail = length - 4 * kGrainBytes;
    EXPECT_EQ(ReadPart(memory, disk, table, shard, begin, length, head, tail)->read, length);
    EXPECT_EQ(ReadPart(memory, disk, table, shard, begin, length, head, tail)->read, kGrainBytes);
    // Other grains of the block, too; a part that is no whole grain is read.
    EXPECT_EQ(ReadPart(memory, disk, table, shard, begin, length, 100, length - 200)->read, kGrainBytes);
    EXPECT_EQ(ReadPart(memory, disk, table, shard, begin, length, kGrainBytes - 1, length - kGrainBytes - 1)->read, 2 * kGrainBytes);
    EXPECT_EQ(ReadPart(memory, disk, table, shard, begin, length, length - 1, 0)->read, (length - 1) % kGrainBytes + 1) << "its end";
  }
  // Over the border of two that are known, and with a whole one between them.
  EXPECT_EQ(ReadPart(memory, disk, table, shard, 0, 2 * kChecksumBlockBytes, kChecksumBlockBytes - 10, kChecksumBlockBytes - 10)->read,
            2 * kGrainBytes);
  EXPECT_EQ(ReadPart(memory, disk, table, shard, 0, disk.size(), kChecksumBlockBytes - 10, disk.size() - 2 * kChecksumBlockBytes - 10)->read,
            2 * kGrainBytes + kChecksumBlockBytes);
}

TEST(GrainMemory, ABitThatFlippedInTheGrainIsSeen) {
  Random rng(7);
  GrainMemory memory(64);
  const ShardId shard(11);
  auto disk = RandomBytes(rng, 2 * kChecksumBlockBytes);
  const std::vector<uint32_t> table = ChecksumTable(shard, disk);
  const uint64_t head = 5 * kGrainBytes, tail = kChecksumBlockBytes - 6 * kGrainBytes;
  ASSERT_TRUE(ReadPart(memory, disk, table, shard, 0, kChecksumBlockBytes, head, tail));
  disk[head + 17] ^= 4;
  EXPECT_FALSE(ReadPart(memory, disk, table, shard, 0, kChecksumBlockBytes, head, tail));
  disk[head + 17] ^= 4;
  disk[17] ^= 4;  // not asked for
  EXPECT_TRUE(ReadPart(memory, disk, table, shard, 0, kChecksumBlockBytes, head, tail));
  EXPECT_FALSE(ReadPart(memory, disk, table, shard, 0, kChecksumBlockBytes, 0, tail));
}

TEST(GrainMemory, OtherShardsAndBlocksAreNotConfused) {
  Random rng(8);
  GrainMemory memory(64);
  const auto disk = RandomBytes(rng, 2 * kChecksumBlockBytes);
  memory.Learn(ShardId(1), 0, Chain(disk, 0, kChecksumBlockBytes), 8192, 0, ChecksumTable(ShardId(1), {disk.data(), kChecksumBlockBytes}));
  EXPECT_TRUE(memory.Find(ShardId(1), 0, kChecksumBlockBytes, 8192, 0));
  EXPECT_FALSE(memory.Find(ShardId(2), 0, kChecksumBlockBytes, 8192, 0));
  EXPECT_FALSE(memory.Find(ShardId(1), kChecksumBlockBytes, kChecksumBlockBytes, 8192, 0));
  EXPECT_FALSE(memory.Find(ShardId(1), 0, kChecksumBlockBytes - 1, 8192, 0)) << "of another length";
  EXPECT_FALSE(memory.Find(ShardId(1), 0, kChecksumBlockBytes, 4095, 0)) << "nothing to be saved";
}

TEST(GrainMemory, WhatWasUsedLongestAgoGivesWay) {
  Random rng(9);
  GrainMemory memory(8);  // the places of one block
  const auto disk = RandomBytes(rng, kChecksumBlockBytes);
  const auto learn = [&](uint64_t shard) { memory.Learn(ShardId(shard), 0, Chain(disk, 0, disk.size()), 8192, 0, ChecksumTable(ShardId(shard), disk)); };
  const auto knows = [&](uint64_t shard) { return memory.Find(ShardId(shard), 0, disk.size(), 8192, 0).has_value(); };
  for (const uint64_t shard : {1, 2, 3, 4, 5, 6, 7, 8}) learn(shard);
  EXPECT_TRUE(knows(1));
  learn(9);
  EXPECT_FALSE(knows(2));
  for (const uint64_t shard : {1, 3, 4, 5, 6, 7, 8, 9}) EXPECT_TRUE(knows(shard)) << shard;
  learn(9);  // again: takes no other's place
  for (const uint64_t shard : {1, 3, 4, 5, 6, 7, 8, 9}) EXPECT_TRUE(knows(shard)) << shard;
}

TEST(GrainMemory, WhatIsWrongIsNotRemembered) {
  Random rng(10);
  GrainMemory memory(64);
  const ShardId shard(3);
  auto disk = RandomBytes(rng, kChecksumBlockBytes);
  const std::vector<uint32_t> table = ChecksumTable(shard, disk);
  disk[60'000] ^= 1;
  memory.Learn(shard, 0, Chain(disk, 0, disk.size()), 8192, 4096, table);
  EXPECT_FALSE(memory.Find(shard, 0, disk.size(), 8192, 0));
  disk[60'000] ^= 1;
  memory.Learn(shard, 0, Chain(disk, 0, disk.size()), 8192, 4096, table);
  EXPECT_TRUE(memory.Find(shard, 0, disk.size(), 8192, 0));
  memory.Learn(shard, kChecksumBlockBytes, Chain(disk, 0, disk.size()), 8192, 4096, {});
  EXPECT_FALSE(memory.Find(shard, kChecksumBlockBytes, disk.size(), 8192, 0)) << "there is no checksum of it";
}

// Shards' numbers follow each other, and so do their blocks': they must not want the same places.
TEST(GrainMemory, HalfFullItKeepsNearlyAll) {
  const std::vector<uint8_t> block(kChecksumBlockBytes, 7);
  Random rng(11);
  struct Shape {
    uint64_t shards, blocks, stride;
  };
  for (const Shape& shape : {Shape{16, 8, 1}, Shape{2, 64, 7}, Shape{4, 32, 3}, Shape{128, 1, 4}}) {
    GrainMemory memory(256);
    const auto each = [&](const auto& what) {
      for (uint64_t s = 1; s <= shape.shards; ++s) {
        for (uint64_t b = 0; b < shape.blocks; ++b) what(ShardId(1000 + s * shape.stride), b * kChecksumBlockBytes);
      }
    };
    each([&](ShardId shard, uint64_t offset) {
      const uint32_t crc = BlockCrc(shard, offset / kChecksumBlockBytes, block);
      memory.Learn(shard, offset, Chain(block, 0, block.size()), 8192, 0, {&crc, 1});
    });
    int known = 0;
    each([&](ShardId shard, uint64_t offset) { known += memory.Find(shard, offset, block.size(), 8192, 0).has_value(); });
    EXPECT_GE(known, 115) << "of 128; " << shape.blocks << " blocks of each, every " << shape.stride;
  }
}

}  // namespace
}  // namespace stria
