// Disks that come back somewhere else.
#include <gtest/gtest.h>

#include "meta/service/meta_testing.h"

namespace stria {
namespace {

class DisksTest : public testing::Test {
 protected:
  DisksTest() {
    for (uint64_t n = 1; n <= 5; ++n) {
      nodes.push_back(std::make_unique<TestNode>(&h, n, 2));
      nodes.back()->Start();
    }
    a.Open();
    h.ex.RunFor(5 * kSecond);
    auto made = a.Make(kRootInode, "f");
    EXPECT_TRUE(made.ok()) << made.error();
    for (uint64_t i = 0; i < 12; ++i) {
      EXPECT_TRUE(a.WriteStripe(made->node.attr.ino, i * kMiB, kMiB).ok());
    }
  }
  ~DisksTest() override { nodes.clear(), a.Stop(); }

  StatusReply Status() { return a.Run(h.server->Status(a.Ino(InodeId()))).value(); }
  MetaHarness h{7};
  TestClient a{&h, 1, "n3"};
  std::vector<std::unique_ptr<TestNode>> nodes;
};

TEST_F(DisksTest, StripesCrowdedByACarriedDiskAreSpread) {
  EXPECT_EQ(Status().crowded_stripes, 0u);
  // Both disks of n1 now in n2.
  nodes[0]->Stop();
  h.ex.RunFor(11 * kSecond);  // while it is heard, it has them
  for (const DiskHello& d : nodes[0]->disks()) {
    nodes[1]->disks().push_back(d);
    nodes[1]->disks().back().label = "from-n1-" + d.label;
  }
  for (auto& n : nodes) n->slots = 0;
  nodes[1]->Start();
  h.ex.RunFor(5 * kSecond);
  const StatusReply crowded = Status();
  EXPECT_GT(crowded.crowded_stripes, 0u);
  EXPECT_EQ(crowded.degraded_stripes, 0u) << "every shard can be read where it is";
  EXPECT_TRUE(h.Fsck().empty());
  for (auto& n : nodes) n->slots = 4;
  h.ex.RunFor(60 * kSecond);
  EXPECT_EQ(Status().crowded_stripes, 0u);
  EXPECT_EQ(Status().degraded_stripes, 0u);
  EXPECT_TRUE(h.Fsck().empty());
}

// A new disk in the place of one that has failed is used when an admin says so, and what still reads is read.
TEST_F(DisksTest, AFailedDiskIsOutWhenItIsNotThereAnyMore) {
  const TargetId t = nodes[1]->targets[0];
  AdminRequest out;
  out.header = a.Header();
  out.verb = AdminVerb::kOut;
  out.target = t;
  nodes[1]->disks()[0].failed = true;
  h.ex.RunFor(60 * kSecond);
  ASSERT_TRUE(a.Run(h.server->Admin(out)).ok());
  EXPECT_EQ(Status().map.FindTarget(t)->state, TargetState::kFailed) << "it still gives bytes";
  nodes[1]->disks()[0].absent = true;
  h.ex.RunFor(5 * kSecond);
  EXPECT_EQ(Status().map.FindTarget(t)->state, TargetState::kOut) << "the word still holds";
  EXPECT_EQ(Status().degraded_stripes, 0u);
}

// Each disk has failed the client: there is no place without them, and waiting for another is of no use.
TEST_F(DisksTest, WhatIsToBeAvoidedIsTakenIfThereIsNothingElse) {
  AllocateRequest r;
  r.header = a.Mutation();
  r.ino = a.Lookup("f")->attr.ino;
  for (auto& n : nodes) {
    for (const auto& t : n->targets) r.avoid.push_back(t);
  }
  ASSERT_EQ(r.avoid.size(), 10u);
  r.avoid.pop_back();
  EXPECT_TRUE(a.Run(h.server->Allocate(r)).ok());
}

TEST_F(DisksTest, StripesGetShorterBeforeTheyGetNarrower) {
  const InodeId ino = a.Lookup("f")->attr.ino;
  auto set_free = [&](uint64_t bytes) {
    for (auto& n : nodes) {
      for (DiskHello& d : n->disks()) d.free_bytes = bytes;
    }
    h.ex.RunFor(3 * kSecond);
  };
  const auto full = a.Allocate(ino, 4);
  ASSERT_EQ(full->stripes.size(), 4u);
  EXPECT_EQ(full->stripes[0].max_column_bytes, 0u);
  const StripeShape shape = full->stripes[0].info.shape;
  set_free(shape.unit_bytes * 5 / 2);
  AllocateRequest r;
  r.header = a.Mutation();
  r.ino = ino;
  r.count = 4;
  for (int i = 0; i < 2; ++i) {  // the second time it is the stored reply
    const auto few = a.Run(h.server->Allocate(r));
    ASSERT_TRUE(few.ok()) << few.error();
    ASSERT_EQ(few->stripes.size(), 1u);
    EXPECT_EQ(few->stripes[0].max_column_bytes, 2 * shape.unit_bytes);
    EXPECT_EQ(few->stripes[0].info.shape, shape);
    EXPECT_FALSE(few->stripes[0].info.narrow);
  }
  set_free(shape.unit_bytes - 1);
  EXPECT_EQ(a.Allocate(ino).code(), FsError::kNoSpace);
  set_free(900 * kGiB);
  EXPECT_EQ(a.Allocate(ino, 4)->stripes.size(), 4u);
}

TEST_F(DisksTest, ARestartForgetsNoCarriedDisk) {
  nodes[0]->Stop();
  h.ex.RunFor(11 * kSecond);  // while it is heard, it has them
  for (auto& n : nodes) n->slots = 0;
  for (const DiskHello& d : nodes[0]->disks()) nodes[1]->disks().push_back(d);
  nodes[1]->disks()[2].label = "d3";
  nodes[1]->disks()[3].label = "d4";
  nodes[1]->Start();
  for (int i = 0; i < 1000 && nodes[1]->targets.size() < 4; ++i) h.ex.RunFor(kMillisecond);
  ASSERT_EQ(nodes[1]->targets.size(), 4u);
  for (auto& n : nodes) n->Stop();
  a.Stop();
  h.Crash(true);
  h.ex.RunFor(5 * kSecond);
  EXPECT_GT(h.server->store()->Count(Counter::kCrowded), 0u);
}

}  // namespace
}  // namespace stria
