#include "client/cache/attr_cache.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

Attr Of(uint64_t ino, uint64_t version) {
  Attr attr;
  attr.ino = InodeId(ino);
  attr.version = version;
  return attr;
}

TEST(AttrCacheTest, NewerAttributesWin) {
  AttrCache cache(10);
  EXPECT_EQ(cache.Remember(Of(1, 5), 1).version, 5u);
  EXPECT_EQ(cache.Remember(Of(1, 4), 1).version, 5u);
  EXPECT_EQ(cache.Remember(Of(1, 6), 1).version, 6u);
  EXPECT_EQ(cache.Find(InodeId(1), 1)->version, 6u);
}

TEST(AttrCacheTest, AnotherGenerationKnowsNothing) {
  AttrCache cache(10);
  cache.Remember(Of(1, 5), 1);
  EXPECT_FALSE(cache.Find(InodeId(1), 2));
  EXPECT_FALSE(cache.LastKnown(InodeId(1), 2));
  cache.Remember(Of(1, 5), 2);
  EXPECT_TRUE(cache.Find(InodeId(1), 2));
}

TEST(AttrCacheTest, WhatWasNotUsedForLongestGoes) {
  AttrCache cache(2);
  cache.Remember(Of(1, 1), 1);
  cache.Remember(Of(2, 1), 1);
  EXPECT_TRUE(cache.Find(InodeId(1), 1));
  EXPECT_TRUE(cache.LastKnown(InodeId(2), 1));  // no use of it
  cache.Remember(Of(3, 1), 1);
  EXPECT_EQ(cache.All(), (std::vector<InodeId>{InodeId(1), InodeId(3)}));
}

TEST(AttrCacheTest, OnlyWhatIsOlderIsForgotten) {
  AttrCache cache(10);
  cache.Remember(Of(1, 5), 1);
  cache.ForgetBefore(InodeId(1), 5);
  EXPECT_TRUE(cache.Knows(InodeId(1)));
  cache.ForgetBefore(InodeId(1), 6);
  EXPECT_FALSE(cache.Knows(InodeId(1)));
  cache.ForgetBefore(InodeId(1), 6);
  EXPECT_EQ(cache.Remember(Of(1, 2), 1).version, 2u);
}

}  // namespace
}  // namespace stria
