#include "client/cache/extent_cache.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

constexpr int64_t kHour = 3600 * kSecond;

GetExtentsReply Mapping(uint64_t offset, uint64_t length, StripeId stripe) {
  GetExtentsReply reply;
  reply.extents.push_back({.file_offset = offset, .length = length, .stripe = stripe, .stripe_offset = 0});
  StripeGrant grant;
  grant.info.id = stripe;
  reply.stripes.push_back(grant);
  reply.covered_to = offset + length;
  reply.tokens_live_ns = kHour;
  return reply;
}

TEST(ExtentCache, KnowsWhatItWasTold) {
  ExtentCache cache;
  EXPECT_FALSE(cache.Covers(0, 1, 0));
  cache.Add(0, Mapping(0, 1000, StripeId(1)), 0);
  cache.Add(1000, Mapping(1000, 500, StripeId(2)), 0);
  EXPECT_TRUE(cache.Covers(0, 1500, 0));
  EXPECT_FALSE(cache.Covers(0, 1501, 0));
  ASSERT_EQ(cache.Lookup(900, 200).size(), 2u);
  EXPECT_NE(cache.FindStripe(StripeId(2)), nullptr);
  cache.Forget(10, 10);
  EXPECT_FALSE(cache.Covers(0, 15, 0));
  EXPECT_TRUE(cache.Covers(0, 10, 0));
  EXPECT_TRUE(cache.Covers(20, 1480, 0));
}

TEST(ExtentCache, TokensEndBeforeTheirTime) {
  ExtentCache cache;
  cache.Add(0, Mapping(0, 1000, StripeId(1)), 0);
  EXPECT_TRUE(cache.Covers(0, 1000, kHour / 2));
  EXPECT_FALSE(cache.Covers(0, 1000, kHour));
}

// A file that stays open longer than its tokens live is asked for once an hour, not at each read.
TEST(ExtentCache, NewTokensTakeTheirPlace) {
  ExtentCache cache;
  cache.Add(0, Mapping(0, 1000, StripeId(1)), 0);
  cache.Add(1000, Mapping(1000, 1000, StripeId(2)), kHour / 2);
  EXPECT_FALSE(cache.Covers(1000, 1000, kHour)) << "all are as old as the oldest";
  cache.Add(1000, Mapping(1000, 1000, StripeId(2)), kHour);
  EXPECT_TRUE(cache.Covers(1000, 1000, kHour + kHour / 2));
  EXPECT_FALSE(cache.Covers(0, 1000, kHour + kHour / 2)) << "its tokens are too old";
}

}  // namespace
}  // namespace stria
