#include "client/vfs/read_pattern.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "common/random.h"

namespace stria {
namespace {

// Whether the last of the reads, `step` apart, is.
bool Steps(ReadPattern* p, uint64_t from, uint64_t to, uint64_t length, uint64_t step) {
  bool last = false;
  for (uint64_t at = from; at < to; at += step) last = p->IsSequential(at, length);
  return last;
}

TEST(ReadPattern, FromFrontToBack) {
  for (const uint64_t length : {uint64_t{1}, 4 * kKiB, 128 * kKiB, kMiB, 4 * kMiB}) {
    ReadPattern p;
    for (uint64_t i = 0; i < 100; ++i) EXPECT_TRUE(p.IsSequential(i * length, length)) << length << " " << i;
  }
}

TEST(ReadPattern, LengthsMayChange) {
  ReadPattern p;
  uint64_t at = 0;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t length = uint64_t{1} << (i * 7 % 23);
    EXPECT_TRUE(p.IsSequential(at, length)) << i;
    at += length;
  }
}

TEST(ReadPattern, ElsewhereFromTheSecondInARowOn) {
  ReadPattern p;
  EXPECT_FALSE(p.IsSequential(100 * kMiB, 64 * kKiB));
  EXPECT_TRUE(p.IsSequential(100 * kMiB + 64 * kKiB, 64 * kKiB));
  EXPECT_TRUE(p.IsSequential(100 * kMiB + 128 * kKiB, kMiB));
  EXPECT_FALSE(p.IsSequential(50 * kMiB, 64 * kKiB));
  EXPECT_FALSE(p.IsSequential(50 * kMiB + 64 * kKiB, 4 * kMiB)) << "a header, and what it is the header of";
}

TEST(ReadPattern, RequestsOutOfOrderAreOneStream) {
  Random rng(7);
  for (const auto& [length, together] : std::vector<std::pair<uint64_t, uint64_t>>{{4 * kKiB, 32}, {128 * kKiB, 8}, {kMiB, 2}}) {
    ReadPattern p;
    EXPECT_TRUE(p.IsSequential(0, length));
    for (uint64_t first = 1; first < 400; first += together) {
      std::vector<uint64_t> order;
      for (uint64_t i = 0; i < together; ++i) order.push_back(first + i);
      for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.Below(i)]);
      for (const uint64_t i : order) EXPECT_TRUE(p.IsSequential(i * length, length)) << length << " at " << i;
    }
  }
}

TEST(ReadPattern, OneColumnOfManyIsSparse) {
  ReadPattern p;
  EXPECT_FALSE(Steps(&p, 0, 3 * kMiB, 32 * kKiB, 512 * kKiB));
  for (uint64_t at = 3 * kMiB; at < 300 * kMiB; at += 512 * kKiB) EXPECT_FALSE(p.IsSequential(at, 32 * kKiB)) << at;
  // Not all baskets are as large, nor as far from each other.
  Random rng(5);
  for (uint64_t at = 300 * kMiB; at < 600 * kMiB; at += 280 * kKiB + rng.Below(500 * kKiB)) {
    EXPECT_FALSE(p.IsSequential(at, 1 + rng.Below(64 * kKiB))) << at;
  }
}

TEST(ReadPattern, LittleLeftOutIsPassed) {
  ReadPattern p;
  for (uint64_t at = 0; at < 100 * kMiB; at += 200 * kKiB) EXPECT_TRUE(p.IsSequential(at, 32 * kKiB)) << at;
}

TEST(ReadPattern, ItIsJudgedByWhatWasReadLately) {
  ReadPattern p;
  EXPECT_TRUE(Steps(&p, 0, 1000 * kMiB, kMiB, kMiB));
  EXPECT_FALSE(Steps(&p, 1000 * kMiB, 1020 * kMiB, 32 * kKiB, kMiB));
  EXPECT_TRUE(Steps(&p, 1020 * kMiB, 1040 * kMiB, 32 * kKiB, 32 * kKiB));
}

// Neither many small reads nor the same one again and again make up for what is left out afterwards.
TEST(ReadPattern, WhatWasLongAgoIsForgotten) {
  for (const uint64_t step : {uint64_t{0}, 4 * kKiB}) {
    ReadPattern p;
    for (uint64_t i = 0; i < 10'000; ++i) EXPECT_TRUE(p.IsSequential(i * step, 4 * kKiB)) << i;
    const uint64_t from = 10'000 * step;
    EXPECT_FALSE(Steps(&p, from, from + 30 * kMiB, 4 * kKiB, kMiB)) << step;
  }
}

TEST(ReadPattern, AtRandomIsElsewhere) {
  Random rng(1);
  ReadPattern p;
  int sequential = 0;
  for (int i = 0; i < 1000; ++i) sequential += p.IsSequential(rng.Below(uint64_t{1} << 40), 64 * kKiB) ? 1 : 0;
  EXPECT_EQ(sequential, 0);
}

}  // namespace
}  // namespace stria
