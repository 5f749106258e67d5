#include "client/vfs/stripe_blocks.h"

#include <gtest/gtest.h>

#include "client/io/io_test_env.h"
#include "client/session/read_tracker.h"

namespace stria {
namespace {

constexpr uint64_t kBlock = StripeBlocks::kBlock;
constexpr uint64_t kCache = 16 * kBlock;

class StripeBlocksTest : public ::testing::Test {
 public:
  StripeBlocksTest()
      : env(7),
        blocks(kCache, env.reader, [this] { return reads.Begin(); }, counters, scope),
        tally(std::make_shared<ReadTally>()) {
    const Layout layout = MakeLayout(1, 4, 1, 256 * kKiB, 6);  // 6 blocks of payload
    payload = RandomPayload(env.rng, layout.stripe_bytes);
    const StripeWritten written = env.Write(layout, payload);
    EXPECT_TRUE(written.error.ok());
    grant = env.cluster.ReadGrant(written.info);
  }
  ~StripeBlocksTest() override { scope.CancelAll(); }

  void ReadAndCompare(uint64_t offset, uint64_t length, StripeBlocks::How how) {
    const auto read = RunSim(env.ex, blocks.Read(grant, offset, length, how, tally));
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(BytesOf(*read), BytesOf(payload.Slice(offset, length)));
  }

  IoEnv env;
  ReadTracker reads;
  IoCounters counters;
  TaskScope scope;
  StripeBlocks blocks;
  std::shared_ptr<ReadTally> tally;
  BufferChain payload;
  SharedGrant grant;
};

TEST_F(StripeBlocksTest, ARandomReadFetchesWhatItAsksFor) {
  ReadAndCompare(kBlock + 100, 5000, {});
  EXPECT_EQ(counters.fetched_bytes, 5000u);
  EXPECT_EQ(counters.cache_hit_bytes, 0u);
}

TEST_F(StripeBlocksTest, ASequentialReadLeavesBlocksForTheNext) {
  ReadAndCompare(0, 1000, {.via_cache = true, .passes = true});
  const uint64_t fetched = counters.fetched_bytes;
  EXPECT_EQ(fetched, kBlock);
  ReadAndCompare(1000, kBlock - 1000, {.via_cache = true, .passes = true});
  EXPECT_EQ(counters.fetched_bytes, fetched);
  EXPECT_EQ(counters.cache_hit_bytes, kBlock);
}

TEST_F(StripeBlocksTest, WhatIsFetchedAheadIsThereOnce) {
  blocks.FetchAhead(grant, 0, 3 * kBlock, tally);
  blocks.FetchAhead(grant, kBlock, 4 * kBlock, tally);
  RunSim(env.ex, scope.Join());
  EXPECT_EQ(counters.fetched_bytes, 4 * kBlock);
  ReadAndCompare(kBlock / 2, 3 * kBlock, {});
  EXPECT_EQ(counters.fetched_bytes, 4 * kBlock);
}

TEST_F(StripeBlocksTest, ARangeBeyondTheStripeIsRefused) {
  const auto read = RunSim(env.ex, blocks.Read(grant, 5 * kBlock, 2 * kBlock, {}, tally));
  EXPECT_EQ(read.code(), FsError::kIo);
}

TEST_F(StripeBlocksTest, NoMoreThanHalfOfTheCacheIsOnItsWay) {
  EXPECT_EQ(blocks.RoomAhead(false), kCache / 2);
  ASSERT_TRUE(blocks.BeginAhead(kCache / 2 - kBlock));
  EXPECT_EQ(blocks.RoomAhead(false), kBlock);
  blocks.FetchAhead(grant, 0, 2 * kBlock, tally);
  EXPECT_EQ(blocks.RoomAhead(false), 0u);
  EXPECT_EQ(blocks.RoomAhead(true), StripeBlocks::kLeastAheadBytes);
  blocks.EndAhead(kCache / 2 - kBlock);
  RunSim(env.ex, scope.Join());
  EXPECT_EQ(blocks.RoomAhead(false), kCache / 2);
}

TEST_F(StripeBlocksTest, ManyReadersTogetherWait) {
  int begun = 0;
  while (begun < 1000 && blocks.BeginAhead(1)) ++begun;
  EXPECT_LT(begun, 1000);
  blocks.EndAhead(1);
  EXPECT_TRUE(blocks.BeginAhead(1));
}

TEST_F(StripeBlocksTest, ShortPiecesOfAStripeAreNotWorthABlock) {
  const StripeShape& shape = grant->info.shape;
  EXPECT_TRUE(StripeBlocks::WorthABlock(shape, 0, kBlock / 2, kBlock / 2));
  EXPECT_FALSE(StripeBlocks::WorthABlock(shape, 0, kBlock / 8, kBlock / 8));
  EXPECT_TRUE(StripeBlocks::WorthABlock(shape, 0, kBlock / 8, kBlock / 64));
  EXPECT_FALSE(StripeBlocks::WorthABlock(shape, shape.payload_bytes, kBlock, kBlock));
}

}  // namespace
}  // namespace stria
