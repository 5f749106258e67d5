#include "client/vfs/node_cache.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

constexpr InodeId kDir{1}, kFile{2};

Attr Of(InodeId ino, uint64_t version) {
  Attr attr;
  attr.ino = ino;
  attr.version = version;
  return attr;
}

class NodeCacheTest : public ::testing::Test {
 protected:
  NodeCacheTest()
      : cache(1000, {.generation = [this] { return generation; }, .lease_left_ns = [this] { return lease_left_ns; }}) {}

  uint64_t generation = 1;
  int64_t lease_left_ns = kSecond;
  NodeCache cache;
};

TEST_F(NodeCacheTest, WhatAnInvalidationOvertookIsNotRemembered) {
  const uint64_t since = cache.epoch();
  EXPECT_TRUE(cache.Remember(Of(kFile, 1), since));
  cache.Invalidate();
  EXPECT_FALSE(cache.Remember(Of(kFile, 2), since));
  EXPECT_FALSE(cache.FindAttr(kFile)) << "what is older than an answer goes";
  cache.RememberEntry(kDir, "a", kFile, since);
  EXPECT_FALSE(cache.FindEntry(kDir, "a"));
}

TEST_F(NodeCacheTest, NothingIsShownWithoutALeaseOrOfAnotherSession) {
  cache.Remember(Of(kFile, 1), cache.epoch());
  cache.RememberEntry(kDir, "a", kFile, cache.epoch());
  lease_left_ns = 0;
  EXPECT_FALSE(cache.FindAttr(kFile));
  EXPECT_FALSE(cache.FindEntry(kDir, "a"));
  lease_left_ns = kSecond;
  EXPECT_TRUE(cache.FindAttr(kFile));
  generation = 2;
  EXPECT_FALSE(cache.FindAttr(kFile));
  EXPECT_FALSE(cache.FindEntry(kDir, "a"));
}

TEST_F(NodeCacheTest, ANameThatIsBeingChangedIsNotRemembered) {
  cache.RememberEntry(kDir, "a", kFile, cache.epoch());
  {
    NodeCache::Changing changing(&cache, kDir, "a");
    EXPECT_FALSE(cache.FindEntry(kDir, "a"));
    cache.RememberEntry(kDir, "a", kFile, cache.epoch());
    EXPECT_FALSE(cache.FindEntry(kDir, "a"));
    cache.RememberEntry(kDir, "b", kFile, cache.epoch());
    EXPECT_EQ(cache.FindEntry(kDir, "b"), kFile);
    EXPECT_FALSE(cache.MayKnowWhole(kDir, cache.epoch(), cache.names_made()));
    EXPECT_TRUE(cache.MayKnowWhole(kFile, cache.epoch(), cache.names_made()));
    changing.End();
    cache.RememberEntry(kDir, "a", kFile, cache.epoch());
    EXPECT_TRUE(cache.LeadsTo(kDir, "a", kFile));
  }
  EXPECT_TRUE(cache.MayKnowWhole(kDir, cache.epoch(), cache.names_made()));
}

TEST_F(NodeCacheTest, AttributesOfWhatIsResizedAreNotRemembered) {
  const uint64_t since = cache.epoch();
  cache.Remember(Of(kFile, 1), since);
  {
    const NodeCache::Resizing one(&cache, kFile);
    const NodeCache::Resizing two(&cache, kFile);
    EXPECT_FALSE(cache.FindAttr(kFile));
    EXPECT_FALSE(cache.Remember(Of(kFile, 2), since));
    EXPECT_TRUE(cache.IsResizing(kFile));
  }
  EXPECT_FALSE(cache.IsResizing(kFile));
  EXPECT_FALSE(cache.Remember(Of(kFile, 2), since)) << "asked before the change";
  EXPECT_TRUE(cache.Remember(Of(kFile, 2), cache.epoch()));
}

// The answer to a change of ours is remembered if nothing overtook it; what was asked before the change is not, either way.
TEST_F(NodeCacheTest, AChangeOfOursEndsWhatWasAskedBefore) {
  const uint64_t since = cache.epoch();
  EXPECT_EQ(cache.SinceChange(since), since);
  const uint64_t now = cache.AfterChange(since);
  EXPECT_TRUE(cache.Remember(Of(kFile, 1), now));
  EXPECT_FALSE(cache.Remember(Of(kFile, 1), since));
  const uint64_t overtaken = cache.AfterChange(since);
  EXPECT_FALSE(cache.Remember(Of(kFile, 2), overtaken));
}

TEST_F(NodeCacheTest, AMadeNameEndsWhatWasLookedUpBefore) {
  const uint64_t made = cache.names_made();
  cache.MadeHere(kDir, "a", kFile);
  EXPECT_NE(cache.names_made(), made);
  EXPECT_FALSE(cache.MayKnowWhole(kDir, cache.epoch(), made));
  EXPECT_EQ(cache.FindEntry(kDir, "a"), kFile);
}

TEST_F(NodeCacheTest, RemovedDirectoriesAreKnownForAWhile) {
  Attr dir = Of(kDir, 1);
  dir.nlink = 2;
  cache.NoteRemovedDir(dir);
  ASSERT_TRUE(cache.RemovedDir(kDir));
  EXPECT_EQ(cache.RemovedDir(kDir)->nlink, 0u);
  cache.Clear();
  EXPECT_TRUE(cache.RemovedDir(kDir));
  for (uint64_t i = 100; i < 2000; ++i) cache.NoteRemovedDir(Of(InodeId(i), 1));
  EXPECT_FALSE(cache.RemovedDir(kDir));
}

}  // namespace
}  // namespace stria
