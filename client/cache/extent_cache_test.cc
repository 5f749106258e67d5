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
  ASSERT_EQ(cache.Lookup(900, 200).value().size(), 2u);
  EXPECT_FALSE(cache.Lookup(1400, 101));
  EXPECT_EQ(cache.CoveredTo(0), 1500u);
  EXPECT_EQ(cache.CoveredTo(1500), 1500u);
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
  const auto found = c.Lookup(99, 3).value();
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

TEST(ExtentBudget, WhoWasFilledLongestAgoMakesRoom) {
  const auto budget = std::make_shared<ExtentBudget>(64 * kKiB);
  const auto fill = [](ExtentCache* c, uint64_t from, uint64_t stripes) {
    for (uint64_t i = from; i < from + stripes; ++i) c->Add(i * 1000, Mapping(i * 1000, 1000, StripeId(i + 1)), 0);
  };
  ExtentCache a(budget), b(budget);
  fill(&a, 0, 10);
  const uint64_t of_ten = budget->bytes();
  EXPECT_EQ(of_ten, a.bytes());
  EXPECT_GT(of_ten, 10 * (sizeof(StripeGrant) + sizeof(Extent)));
  const uint64_t half = 32 * kKiB / (of_ten / 10);
  fill(&b, 0, half - 1);
  a.Add(0, Mapping(0, 1000, StripeId(1)), 0);  // used again, not more
  EXPECT_EQ(a.bytes(), of_ten);
  {
    ExtentCache c(budget);
    c.MakeRoom();
    EXPECT_TRUE(b.Covers(0, 1000, 0));
    fill(&c, 0, half);
    EXPECT_GT(budget->bytes(), 64 * kKiB);
    c.MakeRoom();  // b has waited longest
    EXPECT_EQ(b.bytes(), 0u);
    EXPECT_FALSE(b.Covers(0, 1000, 0));
    EXPECT_FALSE(b.Lookup(0, 1000));
    EXPECT_TRUE(a.Covers(0, 10'000, 0));
    EXPECT_EQ(budget->bytes(), a.bytes() + c.bytes());
  }
  EXPECT_EQ(budget->bytes(), of_ten);
  fill(&a, 10, half);
  EXPECT_TRUE(a.Lookup(0, 1000 * (10 + half))) << "what is being added is never dropped";
  a.MakeRoom();
  EXPECT_EQ(budget->bytes(), 0u) << "one has half of it at most";
}

TEST(ExtentBudget, EachByteIsCountedOnce) {
  const auto budget = std::make_shared<ExtentBudget>(kMiB);
  ExtentCache c(budget);
  c.Know(0, kMaxFileBytes, {});
  for (uint64_t i = 0; i < 100; ++i) {
    c.Forget(i * 500, 300);
    c.Add(i * 400, Mapping(i * 400, 1000, StripeId(1 + i % 7)), 0);
    EXPECT_EQ(budget->bytes(), c.bytes());
  }
  EXPECT_GT(c.bytes(), 0u);
  c.Clear();
  EXPECT_EQ(c.bytes(), 0u);
  EXPECT_EQ(budget->bytes(), 0u);
}

}  // namespace
}  // namespace stria
