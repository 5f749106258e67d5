#include "client/cache/block_cache.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "common/random.h"

namespace stria {
namespace {

constexpr uint64_t kBlock = BlockCache::kBlockBytes;
constexpr StripeId kStripe{1};

class BlockCacheTest : public ::testing::Test {
 protected:
  // Fetches `n` blocks from `first` on; they share one piece of memory.
  void Fetch(BlockCache& cache, uint64_t first, size_t n) {
    auto blocks = cache.Add({kStripe, first}, std::vector<uint64_t>(n, kBlock));
    const std::shared_ptr<uint8_t> memory(new uint8_t[1], std::default_delete<uint8_t[]>());
    alive_.push_back({memory, n * kBlock});
    for (size_t i = 0; i < n; ++i) {
      cache.Filled(blocks[i], BufferChain(Buffer(memory, memory.get(), 1)));  // one byte stands for all
    }
  }
  uint64_t MemoryHeld() const {
    uint64_t held = 0;
    for (const auto& [memory, bytes] : alive_) held += memory.expired() ? 0 : bytes;
    return held;
  }
  std::deque<std::pair<std::weak_ptr<uint8_t>, uint64_t>> alive_;
};

TEST_F(BlockCacheTest, SequentialReadersHoldNoMoreMemoryThanTheLimit) {
  constexpr uint64_t kLimit = 96 * kBlock;
  BlockCache cache(kLimit);
  for (uint64_t at = 0; at < 2000; at += 4) {
    Fetch(cache, at, 4);
    for (uint64_t b = at; b < at + 4; ++b) {
      ASSERT_TRUE(cache.Find({kStripe, b}));
      cache.Demote({kStripe, b});
    }
    ASSERT_LE(cache.bytes(), kLimit);
    ASSERT_LE(MemoryHeld(), kLimit) << "at " << at;
  }
  // Ahead of the reader by 16, with room for 24: nothing that it has still to read goes.
  BlockCache small(24 * kBlock);
  for (uint64_t b = 0; b < 16; b += 4) Fetch(small, b, 4);
  for (uint64_t b = 0; b < 1000; ++b) {
    if (b % 4 == 0) Fetch(small, b + 16, 4);
    ASSERT_TRUE(small.Find({kStripe, b})) << b;
    small.Demote({kStripe, b});
  }
}

TEST_F(BlockCacheTest, PassedFetchesGoFirstUnlessSomebodyComesByAgain) {
  BlockCache cache(8 * kBlock);
  Fetch(cache, 0, 2);
  Fetch(cache, 10, 2);
  Fetch(cache, 20, 2);
  cache.Demote({kStripe, 10});
  cache.Demote({kStripe, 10});  // only half of it
  Fetch(cache, 30, 4);          // one must go: the one used longest ago
  EXPECT_FALSE(cache.Find({kStripe, 0}));
  EXPECT_TRUE(cache.Find({kStripe, 11}));
  cache.Demote({kStripe, 11});
  Fetch(cache, 40, 2);
  EXPECT_FALSE(cache.Find({kStripe, 10}));
  EXPECT_TRUE(cache.Find({kStripe, 20}));
  for (uint64_t b : {30, 31, 32, 33}) cache.Demote({kStripe, b});
  EXPECT_TRUE(cache.Find({kStripe, 30}));  // a second reader: all of it is new to that one
  cache.Demote({kStripe, 30});
  Fetch(cache, 50, 2);
  EXPECT_TRUE(cache.Find({kStripe, 33}));
  EXPECT_FALSE(cache.Find({kStripe, 40}));
}

TEST_F(BlockCacheTest, WhatIsOnItsWayStaysAndWhatFailedIsGone) {
  BlockCache cache(2 * kBlock);
  auto coming = cache.Add({kStripe, 0}, {kBlock, kBlock});
  cache.Filled(coming[0], BufferChain());
  Fetch(cache, 10, 2);  // over the limit, and only this one could go
  EXPECT_TRUE(cache.Find({kStripe, 0}) && cache.Find({kStripe, 1}));
  cache.Failed({kStripe, 1}, coming[1], Error(FsError::kIo));
  EXPECT_FALSE(cache.Find({kStripe, 1}));
  EXPECT_TRUE(cache.Find({kStripe, 0}));
  cache.Demote({kStripe, 0});  // all that is left of it
  Fetch(cache, 20, 1);
  EXPECT_FALSE(cache.Find({kStripe, 0}));
  cache.Failed({kStripe, 1}, coming[1], Error(FsError::kIo));  // long gone
}

TEST_F(BlockCacheTest, CountsWhatIsThere) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Random rng(seed);
    BlockCache cache(16 * kBlock);
    for (int step = 0; step < 500; ++step) {
      const uint64_t b = rng.Below(60);
      if (cache.Find({kStripe, b})) {
        if (rng.OneIn(2)) cache.Demote({kStripe, b});
        continue;
      }
      size_t n = 0;
      while (n < 1 + rng.Below(4) && !cache.Find({kStripe, b + n})) ++n;
      if (n > 0) Fetch(cache, b, n);
      uint64_t there = 0;
      for (uint64_t i = 0; i < 70; ++i) there += cache.Find({kStripe, i}) ? kBlock : 0;
      ASSERT_EQ(cache.bytes(), there);
      ASSERT_LE(there, 16 * kBlock);
      ASSERT_EQ(MemoryHeld(), there);
    }
    cache.Clear();
    EXPECT_EQ(cache.bytes() + MemoryHeld(), 0u);
  }
}

}  // namespace
}  // namespace stria
