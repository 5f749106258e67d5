#include "stripe/checksum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "common/random.h"

namespace stria {
namespace {

std::vector<uint8_t> RandomBytes(Random& rng, size_t size) {
  std::vector<uint8_t> bytes(size);
  for (uint8_t& b : bytes) b = static_cast<uint8_t>(rng.Next());
  return bytes;
}

// The oracle: CRC32C a bit at a time.
uint32_t SlowCrc32c(const std::vector<uint8_t>& bytes) {
  uint32_t crc = ~0u;
  for (const uint8_t byte : bytes) {
    crc ^= byte;
    for (int i = 0; i < 8; ++i) crc = crc & 1 ? (crc >> 1) ^ 0x82f63b78 : crc >> 1;
  }
  return ~crc;
}

uint32_t SlowBlockCrc(ShardId shard, uint64_t block, std::span<const uint8_t> bytes) {
  std::vector<uint8_t> all;
  for (int i = 0; i < 8; ++i) all.push_back(static_cast<uint8_t>(shard.v >> (8 * i)));
  for (int i = 0; i < 8; ++i) all.push_back(static_cast<uint8_t>(block >> (8 * i)));
  all.insert(all.end(), bytes.begin(), bytes.end());
  return SlowCrc32c(all);
}

TEST(Checksum, OracleIsCrc32c) {
  const std::string text = "123456789";  // the catalogue's check value
  EXPECT_EQ(SlowCrc32c({text.begin(), text.end()}), 0xe3069283u);
}

TEST(Checksum, BlockCrcAgreesWithTheDefinition) {
  Random rng(1);
  for (int i = 0; i < 200; ++i) {
    const auto bytes = RandomBytes(rng, rng.Below(600));
    const ShardId shard(rng.OneIn(2) ? rng.Next() : rng.Below(100));
    const uint64_t block = rng.OneIn(2) ? rng.Next() : rng.Below(10);
    ASSERT_EQ(BlockCrc(shard, block, bytes), SlowBlockCrc(shard, block, bytes));
  }
  const auto full = RandomBytes(rng, kChecksumBlockBytes);
  EXPECT_EQ(BlockCrc(ShardId(77), 3, full), SlowBlockCrc(ShardId(77), 3, full));
}

// These values are on disk and on the wire: they may never change.
TEST(Checksum, GoldenValues) {
  std::vector<uint8_t> bytes(2 * kChecksumBlockBytes + 1000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 7 + (i >> 8));
  const ShardId shard(0x123456789abcdef0);
  const std::vector<uint32_t> table = ChecksumTable(shard, bytes);
  EXPECT_EQ(table, (std::vector<uint32_t>{3529607027, 743935924, 4144950058}));
  EXPECT_EQ(TableDigest(table, bytes.size()), 9937079952702643974u);
  EXPECT_EQ(TableDigest({}, 0), 3244421341483603138u);
  EXPECT_EQ(BlockCrc(ShardId(1), 0, {}), 2960955156u);
}

TEST(Checksum, BuilderMakesTheTableFromAnyPieces) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Random rng(seed);
    const auto bytes =
        RandomBytes(rng, rng.OneIn(4) ? rng.Below(3) * kChecksumBlockBytes : rng.Below(200000));
    const ShardId shard(rng.Next());
    std::vector<uint32_t> expected;
    for (size_t at = 0; at < bytes.size(); at += kChecksumBlockBytes) {
      const size_t n = std::min<size_t>(kChecksumBlockBytes, bytes.size() - at);
      expected.push_back(BlockCrc(shard, at / kChecksumBlockBytes, {bytes.data() + at, n}));
    }
    ChecksumBuilder builder(shard);
    for (size_t at = 0; at < bytes.size();) {
      const size_t n = std::min<size_t>(rng.Between(1, 90000), bytes.size() - at);
      builder.Append({bytes.data() + at, n});
      at += n;
    }
    EXPECT_EQ(builder.length_bytes(), bytes.size());
    EXPECT_EQ(builder.Table(), expected);
    EXPECT_EQ(ChecksumTable(shard, bytes), expected);
    EXPECT_EQ(expected.size(), ChecksumBlocks(bytes.size()));
  }
}

TEST(Checksum, FirstBadBlockFindsDamageAndMisdirection) {
  Random rng(2);
  auto bytes = RandomBytes(rng, 3 * kChecksumBlockBytes + 17);
  const ShardId shard(900);
  const auto table = ChecksumTable(shard, bytes);
  const std::span<const uint32_t> all(table);
  const std::span<const uint8_t> data(bytes);
  EXPECT_EQ(FirstBadBlock(shard, 0, data, all), std::nullopt);
  EXPECT_EQ(FirstBadBlock(shard, 2, data.subspan(2 * kChecksumBlockBytes), all.subspan(2)), std::nullopt);
  EXPECT_EQ(FirstBadBlock(ShardId(901), 0, data, all), 0u);
  // The right bytes of the wrong place.
  EXPECT_EQ(FirstBadBlock(shard, 1, data.first(kChecksumBlockBytes), all.subspan(1, 1)), 1u);
  EXPECT_EQ(FirstBadBlock(shard, 0, data.first(kChecksumBlockBytes - 1), all.first(1)), 0u);
  EXPECT_EQ(FirstBadBlock(shard, 0, data, all.first(3)), 3u);  // a table cut short
  EXPECT_EQ(FirstBadBlock(shard, 0, data.first(10), {}), 0u);
  bytes[2 * kChecksumBlockBytes + 5] ^= 0x10;
  EXPECT_EQ(FirstBadBlock(shard, 0, data, all), 2u);
  bytes.back() ^= 1;
  EXPECT_EQ(FirstBadBlock(shard, 3, data.subspan(3 * kChecksumBlockBytes), all.subspan(3)), 3u);
}

// With any part of a range at hand, its blocks can be checked, and no bit of it may be wrong.
TEST(Checksum, PartsOfBlocksAreCheckedAgainstTheWholeBlocksChecksum) {
  Random rng(14);
  const ShardId shard(77);
  for (int i = 0; i < 60; ++i) {
    const uint64_t first = rng.Below(3);
    const uint64_t size = rng.OneIn(2) ? rng.Between(1, 3000) : rng.Between(1, 3 * kChecksumBlockBytes);
    auto bytes = RandomBytes(rng, first * kChecksumBlockBytes + size);
    const std::vector<uint32_t> table = ChecksumTable(shard, bytes);
    const auto part = std::span<const uint32_t>(table).subspan(first);
    uint64_t head = rng.OneIn(3) ? 0 : rng.Below(std::min(size, kChecksumBlockBytes));
    uint64_t tail = rng.OneIn(3) ? 0 : rng.Below((size - 1) % kChecksumBlockBytes + 1);
    if (head + tail >= size) tail = 0;
    BufferChain kept;
    for (uint64_t at = first * kChecksumBlockBytes; at < bytes.size();) {
      const uint64_t n = std::min<uint64_t>(rng.Between(1, 100'000), bytes.size() - at);
      kept.Append(Buffer::Copy({bytes.data() + at, n}));
      at += n;
    }
    const LeftOut left_out = CutEnds(&kept, head, tail);
    ASSERT_EQ(kept.size(), size - head - tail);
    std::vector<uint8_t> at_hand(kept.size());
    kept.CopyTo(0, kept.size(), at_hand.data());
    ASSERT_TRUE(std::equal(at_hand.begin(), at_hand.end(), bytes.begin() + static_cast<long>(first * kChecksumBlockBytes + head)));
    ASSERT_EQ(FirstBadBlock(shard, first, at_hand, left_out, part), std::nullopt) << head << " " << size << " " << tail;
    EXPECT_EQ(FirstBadBlock(ShardId(78), first, at_hand, left_out, part), first);
    EXPECT_EQ(FirstBadBlock(shard, first + 1, at_hand, left_out, part), first + 1) << "the bytes of another place";
    const uint64_t bit = rng.Below(8 * at_hand.size());
    at_hand[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    EXPECT_EQ(FirstBadBlock(shard, first, at_hand, left_out, part), first + (head + bit / 8) / kChecksumBlockBytes);
    at_hand[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    LeftOut wrong = left_out;
    if (head != 0) {
      wrong.head ^= 1;
      EXPECT_EQ(FirstBadBlock(shard, first, at_hand, wrong, part), first);
    }
    wrong = left_out;
    if (tail != 0) {
      wrong.tail ^= 1;
      EXPECT_EQ(FirstBadBlock(shard, first, at_hand, wrong, part), first + ChecksumBlocks(size) - 1);
    }
  }
}

TEST(Checksum, AllZeroBlocksOfDifferentIdsDiffer) {
  const std::vector<uint8_t> zeros(4096, 0);
  EXPECT_NE(BlockCrc(ShardId(1), 0, zeros), BlockCrc(ShardId(2), 0, zeros));
  EXPECT_NE(BlockCrc(ShardId(1), 0, zeros), BlockCrc(ShardId(1), 1, zeros));
  EXPECT_NE(BlockCrc(ShardId(1), 0, zeros), BlockCrc(ShardId(1), 0, std::span(zeros).first(4095)));
}

TEST(Checksum, ReseedGivesTheChecksumUnderTheOtherId) {
  Random rng(3);
  for (int i = 0; i < 300; ++i) {
    const auto bytes =
        RandomBytes(rng, i == 0 ? kChecksumBlockBytes : rng.Below(i < 280 ? 300 : kChecksumBlockBytes));
    const ShardId from(rng.OneIn(2) ? rng.Next() : rng.Below(50)),
        to(rng.OneIn(2) ? rng.Next() : rng.Below(50));
    const uint64_t block = rng.Below(20000);
    ASSERT_EQ(Reseed(BlockCrc(from, block, bytes), from, to, bytes.size()), BlockCrc(to, block, bytes));
  }
}

TEST(Checksum, RebuildChecksOldDigestWhileMakingTheNewTable) {
  Random rng(4);
  for (const size_t size : {size_t{0}, size_t{10}, size_t{65536}, size_t{65536 * 2 + 1}, size_t{65536 * 3}}) {
    auto bytes = RandomBytes(rng, size);
    const ShardId old_id(41), new_id(1'000'000'007);
    const uint64_t recorded = TableDigest(ChecksumTable(old_id, bytes), size);
    const auto fresh = ChecksumTable(new_id, bytes);
    EXPECT_EQ(ReseedTable(fresh, new_id, old_id, size), ChecksumTable(old_id, bytes));
    EXPECT_EQ(TableDigest(ReseedTable(fresh, new_id, old_id, size), size), recorded);
    if (size == 0) continue;
    bytes[size / 2] ^= 4;
    const auto damaged = ChecksumTable(new_id, bytes);
    EXPECT_NE(TableDigest(ReseedTable(damaged, new_id, old_id, size), size), recorded);
  }
}

TEST(Checksum, DigestDependsOnTheLength) {
  const std::vector<uint32_t> table = {1};
  EXPECT_NE(TableDigest(table, 5), TableDigest(table, 6));
}

}  // namespace
}  // namespace stria
