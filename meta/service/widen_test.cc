// Stripes that were written narrow are laid out over more columns.
#include <gtest/gtest.h>

#include "meta/service/meta_testing.h"
#include "stripe/layout.h"

namespace stria {
namespace {

class WidenTest : public testing::Test {
 protected:
  WidenTest() {
    for (uint64_t n = 1; n <= 5; ++n) {
      nodes.push_back(std::make_unique<TestNode>(&h, n, 2));
      nodes.back()->Start();
    }
    a.Open();
    h.ex.RunFor(5 * kSecond);
  }
  ~WidenTest() override { nodes.clear(), a.Stop(); }

  StatusReply Status() { return a.Run(h.server->Status(a.Ino(InodeId()))).value(); }
  // Writes `stripes` stripes while all but two nodes are away.
  InodeId WriteNarrow(uint64_t stripes, uint64_t bytes = kMiB) {
    for (size_t i = 0; i < 3; ++i) nodes[i]->Stop();
    h.ex.RunFor(5 * kSecond);
    auto made = a.Make(kRootInode, "f");
    EXPECT_TRUE(made.ok()) << made.error();
    for (uint64_t i = 0; i < stripes; ++i) {
      EXPECT_TRUE(a.WriteStripe(made->node.attr.ino, i * bytes, bytes).ok());
    }
    EXPECT_EQ(Status().narrow_stripes, stripes);
    return made->node.attr.ino;
  }
  void AllUp() {
    for (auto& n : nodes) n->Start();
  }
  GetExtentsReply Extents(TestClient& c, InodeId ino) {
    GetExtentsRequest r;
    r.header = c.Header();
    r.ino = ino;
    r.length = kGiB;
    return c.Run(h.server->GetExtents(r)).value();
  }
  size_t Deleted() {
    size_t n = 0;
    for (auto& node : nodes) n += node->deleted.size();
    return n;
  }
  size_t Widened() {
    size_t n = 0;
    for (auto& node : nodes) n += node->widened.size();
    return n;
  }
  Result<AdminReply> Admin(AdminVerb verb) {
    AdminRequest r;
    r.header.cluster = h.cluster;
    r.verb = verb;
    return a.Run(h.server->Admin(r));
  }
  // Runs until it holds; false if it does not within a while.
  bool Becomes(const std::function<bool()>& holds, int64_t limit_s = 60) {
    for (int64_t s = 0; s < 4 * limit_s && !holds(); ++s) h.ex.RunFor(kSecond / 4);
    return holds();
  }

  MetaHarness h{7};
  TestClient a{&h, 1, "n3"};
  std::vector<std::unique_ptr<TestNode>> nodes;
};

TEST_F(WidenTest, WhenNodesAreBack) {
  const InodeId ino = WriteNarrow(8);
  const GetExtentsReply before = Extents(a, ino);
  h.ex.RunFor(60 * kSecond);
  EXPECT_EQ(Status().narrow_stripes, 8u) << "there is no place yet";
  EXPECT_EQ(Widened(), 0u);
  AllUp();
  EXPECT_TRUE(Becomes([&] { return Status().narrow_stripes == 0; }));
  const GetExtentsReply after = Extents(a, ino);
  EXPECT_EQ(after.extents, before.extents);
  EXPECT_EQ(after.attr, before.attr);
  size_t old_shards = 0;
  std::set<ShardId> live;
  ASSERT_EQ(after.stripes.size(), before.stripes.size());
  for (size_t i = 0; i < after.stripes.size(); ++i) {
    const StripeInfo& was = before.stripes[i].info;
    const StripeInfo& is = after.stripes[i].info;
    EXPECT_EQ(is.id, was.id);
    EXPECT_EQ(is.shape.payload_bytes, was.shape.payload_bytes);
    EXPECT_GT(is.shape.k, was.shape.k);
    EXPECT_EQ(is.shape.m, was.shape.m);
    EXPECT_FALSE(is.narrow);
    EXPECT_TRUE(ValidateStripe(is).ok()) << ValidateStripe(is);
    for (const Column& c : was.columns) old_shards += c.shard ? 1 : 0;
    for (const Column& c : is.columns) {
      EXPECT_EQ(c.digest, TableDigest(h.TableOf(c.shard, c.length), c.length)) << "as the node has told";
      live.insert(c.shard);
    }
  }
  EXPECT_TRUE(Becomes([&] { return Deleted() == old_shards && Status().garbage_shards == 0; }));
  for (auto& n : nodes) {
    for (ShardId s : n->deleted) EXPECT_EQ(live.count(s), 0u);
  }
  EXPECT_EQ(h.server->repair_summary().widens, 0u);
  EXPECT_TRUE(h.Fsck().empty());
}

TEST_F(WidenTest, WhatIsShortNeedsNoMoreColumns) {
  WriteNarrow(3, 1000);
  AllUp();
  EXPECT_TRUE(Becomes([&] { return Status().narrow_stripes == 0; }));
  EXPECT_EQ(Widened(), 0u);
  EXPECT_EQ(Deleted(), 0u);
  EXPECT_TRUE(h.Fsck().empty());
}

// Their columns are not laid out anew, and nobody is told of them for ever.
TEST_F(WidenTest, GatheredStripesStayAsTheyAre) {
  LayoutRequest set;
  set.header.cluster = h.cluster;
  set.ino = kRootInode;
  set.layout = Layout();
  set.layout->arrangement = Arrangement::kGathered;
  const auto done = RunSim(h.ex, h.server->SetLayout(set));
  ASSERT_TRUE(done.ok()) << done.error();
  WriteNarrow(2);
  AllUp();
  EXPECT_TRUE(Becomes([&] { return Status().narrow_stripes == 0; }));
  EXPECT_EQ(Widened(), 0u);
  EXPECT_EQ(Deleted(), 0u);
}

TEST_F(WidenTest, FormerShardsWaitUntilEverySessionHasBeenTold) {
  const InodeId ino = WriteNarrow(2);
  TestClient b(&h, 2);
  b.polls = false;  // hears nothing, but lives
  b.Open();
  ASSERT_TRUE(b.OpenFile(ino, false).ok());
  (void)Extents(b, ino);
  AllUp();
  EXPECT_TRUE(Becomes([&] { return Status().narrow_stripes == 0; }));
  h.ex.RunFor(30 * kSecond);
  EXPECT_EQ(Deleted(), 0u);
  EXPECT_EQ(Status().garbage_shards, 0u);
  EXPECT_EQ(h.server->repair_summary().widens, 2u);
  EXPECT_TRUE(h.Fsck().empty());
  // It is fenced in the end.
  EXPECT_TRUE(Becomes([&] { return Deleted() > 0 && Status().garbage_shards == 0; }, 180));
  EXPECT_EQ(h.server->repair_summary().widens, 0u);
  b.Stop();
}

TEST_F(WidenTest, GoesOnAfterARestart) {
  constexpr uint64_t kStripes = 12;
  const InodeId ino = WriteNarrow(kStripes);
  TestClient b(&h, 2);
  b.polls = false;
  b.Open();
  ASSERT_TRUE(b.OpenFile(ino, false).ok());
  (void)Extents(b, ino);
  for (auto& n : nodes) n->does_work = false;
  AllUp();
  EXPECT_TRUE(Becomes([&] { return h.server->repair_summary().widens == kStripes; }));
  // Some are swapped and not told, some are with nodes that do not report.
  for (size_t i = 0; i < nodes.size() && Status().narrow_stripes == kStripes; ++i) {
    nodes[i]->does_work = true;
    h.ex.RunFor(5 * kSecond);
  }
  EXPECT_EQ(h.server->repair_summary().widens, kStripes);
  EXPECT_LT(Status().narrow_stripes, kStripes);
  const uint64_t left = Status().narrow_stripes;
  EXPECT_GT(left, 0u);
  for (const bool lose : {false, true}) {
    EXPECT_TRUE(a.Run(h.server->Sync(a.Ino(InodeId()))).ok());
    for (auto& n : nodes) n->Stop();
    a.Stop();
    b.Stop();
    h.Crash(lose);
    AllUp();
    EXPECT_TRUE(a.Reclaim());
    EXPECT_LE(Status().narrow_stripes, left);
    EXPECT_TRUE(h.Fsck().empty());
  }
  for (auto& n : nodes) n->does_work = true;
  EXPECT_TRUE(Becomes([&] { return Status().narrow_stripes == 0; }));
  EXPECT_TRUE(Becomes([&] { return h.server->repair_summary().widens == 0 && Status().garbage_shards == 0; }, 180));
  EXPECT_GT(Deleted(), 0u);
  EXPECT_TRUE(h.Fsck().empty());
  EXPECT_EQ(Extents(a, ino).stripes.size(), kStripes);
}

TEST_F(WidenTest, ASourceThatIsDamagedIsRebuiltFirst) {
  WriteNarrow(2);
  for (auto& n : nodes) {
    n->widen_result = FsError::kChecksum;
    n->on_check = [](const CheckWork&) { return FsError::kChecksum; };  // the node of each agrees
  }
  AllUp();
  EXPECT_TRUE(Becomes([&] {
    size_t rebuilt = 0;
    for (auto& n : nodes) rebuilt += n->rebuilt.size();
    return rebuilt >= 2;
  }));
  EXPECT_EQ(Status().narrow_stripes, 2u);
  for (auto& n : nodes) {
    n->widen_result = FsError::kOk;
    n->on_check = [](const CheckWork&) { return FsError::kOk; };
  }
  EXPECT_TRUE(Becomes([&] { return Status().narrow_stripes == 0 && Status().garbage_shards == 0; }, 120));
  EXPECT_TRUE(h.Fsck().empty());
}

TEST_F(WidenTest, ANodeThatGoesMeanwhileIsDoneWithout) {
  WriteNarrow(6);
  for (auto& n : nodes) n->does_work = false;
  AllUp();
  EXPECT_TRUE(Becomes([&] { return h.server->repair_summary().widens == 6; }));
  nodes[1]->Stop();
  for (auto& n : nodes) n->does_work = true;
  EXPECT_TRUE(Becomes([&] { return Status().narrow_stripes == 0; }, 120));
  nodes[1]->Start();
  EXPECT_TRUE(Becomes([&] { return Status().garbage_shards == 0 && Status().degraded_stripes == 0; }, 120));
  EXPECT_EQ(h.server->repair_summary().widens, 0u);
  EXPECT_TRUE(h.Fsck().empty());
}

TEST_F(WidenTest, RestsWhileRepairIsPaused) {
  WriteNarrow(2);
  ASSERT_TRUE(Admin(AdminVerb::kRepairPause).ok());
  AllUp();
  h.ex.RunFor(60 * kSecond);
  EXPECT_EQ(Status().narrow_stripes, 2u);
  ASSERT_TRUE(Admin(AdminVerb::kRepairResume).ok());
  EXPECT_TRUE(Becomes([&] { return Status().narrow_stripes == 0; }, 700));
}

TEST_F(WidenTest, AFileThatIsDeletedMeanwhileLeavesNothing) {
  const InodeId ino = WriteNarrow(3);
  for (auto& n : nodes) n->does_work = false;
  AllUp();
  EXPECT_TRUE(Becomes([&] { return h.server->repair_summary().widens == 3; }));
  ASSERT_TRUE(a.Unlink("f").ok());
  a.Release(ino);
  for (auto& n : nodes) n->does_work = true;
  EXPECT_TRUE(Becomes([&] {
    return Status().stripes == 0 && Status().garbage_shards == 0 && h.server->repair_summary().widens == 0;
  }));
  EXPECT_EQ(Status().narrow_stripes, 0u);
  EXPECT_TRUE(h.Fsck().empty());
}

}  // namespace
}  // namespace stria
