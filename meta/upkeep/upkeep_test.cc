// All keepers together, in the order in which they are asked, without a metadata server.
#include "meta/upkeep/upkeep.h"

#include "meta/upkeep/keeper_testing.h"
#include "stripe/relaid_testing.h"

namespace stria {
namespace {

class UpkeepTest : public KeeperTest {
 protected:
  UpkeepTest() {
    UpkeepOptions options;
    options.fold.age_ns = 5 * kSecond;
    upkeep = std::make_unique<Upkeep>(Env(), options);
    {
      Txn txn(*store);
      EXPECT_TRUE(upkeep->Load(txn).ok());
    }
    upkeep->Start();
  }
  // Nodes beat and do what they are told.
  void Pass(int seconds, std::set<uint32_t> dead = {}) {
    for (int s = 0; s < seconds; ++s) {
      for (uint32_t n = 1; n <= 6; ++n) {
        if (dead.count(n)) continue;
        const NodeWork w = upkeep->WorkFor({TargetId(n)}, 1).value();
        new_tasks = std::max(new_tasks, w.size());
        std::vector<RebuildResult> rebuilt;
        std::vector<WidenResult> widened;
        for (const RebuildWork& r : w.rebuilds) rebuilt.push_back(Made(r));
        for (const WidenWork& r : w.widens) {
          WidenResult done;
          done.task = r.task;
          done.pieces = TestPieces(r.from.info, r.to.info.shape);
          done.digests = DigestsOfPieces(r.from.info, r.to.info, done.pieces);
          widened.push_back(done);
        }
        std::vector<CheckResult> checked;
        for (const CheckWork& c : w.checks) checked.push_back({c.shard, c.target, ItemResult{FsError::kOk, ""}});
        EXPECT_TRUE(upkeep->TakeResults(NodeId(n), rebuilt, widened).ok());
        EXPECT_TRUE(upkeep->TakeChecked(NodeId(n), checked).ok());
      }
      upkeep->Wake();
      ex.RunFor(kSecond);
    }
  }
  size_t new_tasks = 0;
  std::unique_ptr<Upkeep> upkeep;
};

// A node that could not read its sources is not believed about those on others' disks: their own nodes are asked.
TEST_F(UpkeepTest, WhatANodeSaysOfOthersShardsTheirOwnNodesAreAsked) {
  const StripeInfo hurt = WriteStripe(Raid(2, 1), 2, 1, {1, 2, 3}, kMiB);
  ASSERT_TRUE(upkeep->NoteBad({hurt.id, 0, hurt.columns[0].shard, FsError::kChecksum}).ok());
  ex.RunFor(kSecond);
  std::optional<RebuildWork> work;
  uint32_t node = 0;
  for (uint32_t n = 1; n <= 6; ++n) {
    NodeWork w = upkeep->WorkFor({TargetId(n)}, 1).value();
    if (w.rebuilds.empty()) continue;
    work = w.rebuilds[0];
    node = n;
  }
  ASSERT_TRUE(work);
  ASSERT_NE(node, 2u);
  RebuildResult failed;
  failed.task = work->task;
  failed.result.code = FsError::kChecksum;
  failed.bad_columns = {1};
  ASSERT_TRUE(upkeep->TakeResults(NodeId(node), {failed}, {}).ok());
  EXPECT_FALSE(upkeep->bad_shards().IsBad(hurt.id, 1, hurt.columns[1].shard));
  const NodeWork asked = upkeep->WorkFor({TargetId(2)}, 0).value();
  ASSERT_EQ(asked.checks.size(), 1u);
  EXPECT_EQ(asked.checks[0].shard, hurt.columns[1].shard);
  ASSERT_TRUE(upkeep->TakeChecked(NodeId(2), {{asked.checks[0].shard, asked.checks[0].target, ItemResult{FsError::kOk, ""}}}).ok());
  EXPECT_FALSE(upkeep->bad_shards().IsBad(hurt.id, 1, hurt.columns[1].shard)) << "it lied, or its network did";
  Pass(90);
  EXPECT_TRUE(upkeep->bad_shards().BadStripes().empty()) << "made again by somebody";
}

TEST_F(UpkeepTest, RepairsThenWidensThenFolds) {
  const StripeInfo hurt = WriteStripe(Raid(2, 1), 2, 1, {1, 2, 3}, kMiB);
  const StripeInfo narrow = WriteStripe(Raid(4, 1), 2, 1, {1, 2, 3}, 4 * kMiB, true);
  ASSERT_TRUE(upkeep->NoteCommitted({narrow}).ok());
  ASSERT_TRUE(upkeep->NoteBad({hurt.id, 0, hurt.columns[0].shard, FsError::kChecksum}).ok());
  EXPECT_TRUE(upkeep->bad_shards().IsBad(hurt.id, 0, hurt.columns[0].shard));
  Layout gathered = Raid(2, 1);
  gathered.arrangement = Arrangement::kGathered;
  gathered.place = Place::kLocal;
  gathered.stripe_bytes = 64 * kMiB;
  WriteStripe(gathered, 1, 1, {1, 2}, kMiB);
  WriteStripe(gathered, 1, 1, {3, 4}, kMiB);
  Pass(60);
  EXPECT_TRUE(upkeep->bad_shards().BadStripes().empty());
  EXPECT_NE(Record(hurt.id)->info.columns[0].shard, hurt.columns[0].shard);
  EXPECT_FALSE(Record(narrow.id)->info.narrow);
  EXPECT_EQ(upkeep->folder().folded(), 1u);
  EXPECT_EQ(new_tasks, 1u);  // never more than a node has room for, whoever gives them
  EXPECT_TRUE(host.failed.ok()) << host.failed;
}

TEST_F(UpkeepTest, ARebuiltStripeThatIsNarrowIsWidenedNext) {
  const StripeInfo narrow = WriteStripe(Raid(4, 1), 2, 1, {1, 2, 3}, 4 * kMiB, true);
  ASSERT_TRUE(upkeep->NoteBad({narrow.id, 2, narrow.columns[2].shard, FsError::kChecksum}).ok());
  Pass(10);
  EXPECT_FALSE(Record(narrow.id)->info.narrow);
  EXPECT_TRUE(upkeep->bad_shards().BadStripes().empty());
}

TEST_F(UpkeepTest, AnErrorOfTheStoreEndsItAndIsTold) {
  WriteStripe(Raid(2, 1), 2, 1, {1, 2, 3}, kMiB);
  host.failed = Error(FsError::kIo, "test");
  upkeep->Wake();
  cluster.SetNodeOut(NodeId(1), ex.WallNs());
  ex.RunFor(10 * kSecond);
  upkeep->Wake();
  ex.RunFor(10 * kSecond);
  EXPECT_EQ(upkeep->repairer().in_flight(), 0u);
}

}  // namespace
}  // namespace stria
