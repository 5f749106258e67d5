// Shards that nobody can see any more: when they are deleted, and when not.
#include <gtest/gtest.h>

#include "meta/service/five_nodes_testing.h"

namespace stria {
namespace {

using GarbageTest = FiveNodesTest;

TEST_F(GarbageTest, GarbageWaitsForEverySession) {
  FileOf(3);
  TestClient b(&h, 2);
  b.Open();
  h.ex.RunFor(2 * kSecond);
  b.reports_seen = false;  // a read that began before is still running
  ASSERT_TRUE(a.Lookup("f").ok());
  const InodeId ino = a.Lookup("f")->attr.ino;
  ASSERT_TRUE(a.Unlink("f").ok());
  a.Release(ino);
  h.ex.RunFor(30 * kSecond);
  EXPECT_EQ(Status().garbage_shards, 9u);
  EXPECT_EQ(Deleted(), 0u);
  b.reports_seen = true;
  h.ex.RunFor(5 * kSecond);
  EXPECT_EQ(Status().garbage_shards, 0u);
  EXPECT_EQ(Deleted(), 9u);
  EXPECT_TRUE(h.Fsck().empty());
  b.Stop();
}

// What a truncation leaves is freed bit by bit, and who looks meanwhile learns how it ends.
TEST_F(GarbageTest, WhoSeesAFileBeingTrimmedIsToldOfItsEnd) {
  const InodeId ino = FileOf(1000);
  a.Release(ino);
  TestClient b(&h, 2);
  b.Open();
  SetAttrRequest cut;
  cut.header = a.Mutation();
  cut.ino = ino;
  cut.size = 0;
  ASSERT_TRUE(a.Run(h.server->SetAttr(cut)).ok());
  const uint64_t seen = b.GetAttr(ino)->attr.allocated_bytes;
  EXPECT_GT(seen, 0u);
  b.events.clear();
  h.ex.RunFor(5 * kSecond);
  EXPECT_EQ(a.GetAttr(ino)->attr.allocated_bytes, 0u);
  EXPECT_GE(Count(b.events, SessionEvent::Kind::kInvalidateAttr, ino), 1u);
  b.Stop();
}

class SlowSyncTest : public FiveNodesTest {
 protected:
  static MetaServerOptions Slow() {
    MetaServerOptions o = Options();
    o.group_sync_ns = 30 * kSecond;
    return o;
  }
  SlowSyncTest() : FiveNodesTest(Slow()) {}
};

TEST_F(SlowSyncTest, GarbageThatAPowerCutWouldBringBackIsNotDeleted) {
  FileOf(2);
  ASSERT_TRUE(a.Run(h.server->Sync(a.Ino(InodeId()))).ok());
  const InodeId ino = a.Lookup("f")->attr.ino;
  h.ex.RunFor(RecentLookups::kKeepNs + kSecond);  // it does not stay for whoever has just looked it up
  ASSERT_TRUE(a.Unlink("f").ok());
  a.Release(ino);
  h.ex.RunFor(100 * kMillisecond);
  ASSERT_EQ(Status().garbage_shards, 6u);
  const CommitSeq freed = h.server->store()->last_seq();
  for (int i = 0; i < 1000 && Deleted() == 0; ++i) h.ex.RunFor(100 * kMillisecond);
  EXPECT_GT(Deleted(), 0u);
  EXPECT_GE(h.server->store()->durable_seq(), freed);
}

TEST_F(GarbageTest, FencedSessionsDoNotHoldGarbage) {
  FileOf(2);
  TestClient b(&h, 2);
  b.Open();
  b.Stop();
  const InodeId ino = a.Lookup("f")->attr.ino;
  ASSERT_TRUE(a.Unlink("f").ok());
  a.Release(ino);
  h.ex.RunFor(10 * kSecond);
  EXPECT_EQ(Deleted(), 0u);
  h.ex.RunFor(10 * kSecond);
  EXPECT_EQ(Deleted(), 6u);
}

TEST_F(GarbageTest, WhatADeadSessionAllocatedIsCollected) {
  TestClient b(&h, 2);
  b.Open();
  auto made = b.Make(kRootInode, "g");
  auto alloc = b.Allocate(made->node.attr.ino, 4);
  ASSERT_TRUE(alloc.ok()) << alloc.error();
  for (const StripeGrant& g : alloc->stripes) {
    for (const std::string& t : g.tokens) EXPECT_FALSE(t.empty());
    EXPECT_FALSE(g.info.narrow);
  }
  CheckShardsRequest check;
  check.header.cluster = h.cluster;
  const Column& c = alloc->stripes[0].info.columns[0];
  check.target = c.target;
  check.shards = {c.shard, ShardId(c.shard.v + 1'000'000)};
  EXPECT_EQ(a.Run(h.server->CheckShards(check))->unknown, std::vector<ShardId>{check.shards[1]});
  b.Stop();
  h.ex.RunFor(30 * kSecond);
  EXPECT_EQ(Deleted(), 12u);
  EXPECT_EQ(a.Run(h.server->CheckShards(check))->unknown, check.shards);
  EXPECT_TRUE(h.Fsck().empty());
}

}  // namespace
}  // namespace stria
