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

TEST(ExtentCache, WhatIsKnownWithoutAsking) {
  ExtentCache c;
  c.Know(0, 1000, {});
  EXPECT_TRUE(c.Covers(0, 1000, INT64_MAX - 1));  // there are no tokens
  Extent e;
  e.file_offset = 100;
  e.length = 3;
  e.inline_bytes = "abc";
  c.Forget(100, 3);
  EXPECT_FALSE(c.Covers(0, 1000, 0));
  c.Know(100, 102, {e});  // cut at its end
  EXPECT_TRUE(c.Covers(0, 102, 0));
  EXPECT_FALSE(c.Covers(102, 1, 0));
  const auto found = c.Lookup(99, 3);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].kind, Segment::Kind::kHole);
  EXPECT_EQ(found[1].inline_bytes, "ab");
  EXPECT_EQ(c.inline_bytes(), 2u);
  c.Know(100, 90, {e});  // all of it is behind the end
  EXPECT_TRUE(c.Covers(0, 102, 0));
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
