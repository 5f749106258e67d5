// The folder on a store and a cluster, without a metadata server.
#include "meta/upkeep/folder.h"

#include "meta/upkeep/keeper_testing.h"

namespace stria {
namespace {

class FolderTest : public KeeperTest {
 protected:
  static FoldOptions Options() {
    FoldOptions o;
    o.age_ns = 60 * kSecond;
    o.rest_ns = 10 * kSecond;
    return o;
  }
  static Layout Gathered() {
    Layout l = Raid(2, 1);
    l.arrangement = Arrangement::kGathered;
    l.place = Place::kLocal;
    l.stripe_bytes = 64 * kMiB;
    return l;
  }
  // A column on one node, with a copy on another.
  StripeInfo Mirrored(uint32_t node, uint32_t copy) { return WriteStripe(Gathered(), 1, 1, {node, copy}, kMiB); }
  void Pass(int64_t seconds) {
    for (int64_t s = 0; s < seconds; ++s) {
      Ask(folder);
      ex.RunFor(kSecond);
    }
  }
  std::pair<uint32_t, std::optional<RebuildWork>> Find() {
    for (uint32_t n = 1; n <= 6; ++n) {
      NodeWork w = WorkFor(folder, n);
      if (!w.rebuilds.empty()) return {n, std::move(w.rebuilds[0])};
    }
    return {0, std::nullopt};
  }
  Repairer repairer{Env(), RepairBudget(), [](const auto&, const auto&) {}};
  Widener widener{Env(), &repairer, [] {}};
  Folder folder{Env(), &repairer, &widener, Options()};
};

TEST_F(FolderTest, TwoMirroredColumnsGetOneParityAndTheirCopiesGo) {
  const StripeInfo a = Mirrored(1, 2);
  const InodeId file_a = ino;
  const StripeInfo b = Mirrored(3, 4);
  const InodeId file_b = ino;
  Pass(30);
  EXPECT_EQ(folder.queue().waiting(), 2u);
  EXPECT_EQ(folder.queue().in_flight(), 0u);  // not as old as it must be
  Pass(60);
  ASSERT_EQ(folder.queue().in_flight(), 1u);
  EXPECT_TRUE(folder.HasStripe(a.id) && folder.HasStripe(b.id));
  const auto [node, w] = Find();
  ASSERT_TRUE(w);
  EXPECT_NE(node, 1u);
  EXPECT_NE(node, 3u);
  EXPECT_EQ(w->column, 2);
  EXPECT_EQ(w->lost, std::vector<uint16_t>{2});

  ASSERT_TRUE(folder.TakeRebuilt(NodeId(node), Made(*w)).value());
  EXPECT_EQ(host.freed, (std::set<StripeId>{a.id, b.id}));
  EXPECT_EQ(folder.folded(), 1u);
  EXPECT_EQ(store->Count(Counter::kGarbageShards), 0u);
  Pass(2);
  EXPECT_EQ(host.told, (std::set<InodeId>{file_a, file_b}));
  EXPECT_EQ(store->Count(Counter::kGarbageShards), 2u);  // the copies
  EXPECT_EQ(folder.queue().in_flight(), 0u);
  UpkeepReply told;
  folder.Tell(&told);
  EXPECT_EQ(told.folding.folded, 1u);
  EXPECT_EQ(told.folding.folded_bytes, 2 * kMiB);
}

TEST_F(FolderTest, WhenOneMemberIsGoneTheParityIsGarbageAndNothingElseChanges) {
  Mirrored(1, 2);
  Mirrored(3, 4);
  Pass(90);
  ASSERT_EQ(folder.queue().in_flight(), 1u);
  cluster.SetNodeOut(NodeId(1), ex.WallNs());
  Pass(1);
  EXPECT_EQ(folder.queue().in_flight(), 0u);
  EXPECT_EQ(store->Count(Counter::kGarbageShards), 1u);
  EXPECT_TRUE(host.told.empty());
}

TEST_F(FolderTest, AFoldThatWasBegunGoesOnAfterARestart) {
  Mirrored(1, 2);
  Mirrored(3, 4);
  Pass(90);
  ASSERT_EQ(folder.queue().in_flight(), 1u);
  Folder next(Env(), &repairer, &widener, Options());
  {
    Txn txn(*store);
    ASSERT_TRUE(next.Load(txn).ok());
  }
  ASSERT_EQ(next.queue().in_flight(), 1u);
  const auto [node, w] = Find();
  ASSERT_TRUE(w);
  EXPECT_TRUE(next.TakeRebuilt(NodeId(node), Made(*w)).value());
  EXPECT_EQ(next.folded(), 1u);
}

TEST_F(FolderTest, FoldsNothingWhileRepairsWaitOrItIsSwitchedOff) {
  Mirrored(1, 2);
  Mirrored(3, 4);
  const StripeInfo hurt = WriteStripe(Raid(2, 1), 2, 1, {1, 2, 3}, kMiB);
  ASSERT_TRUE(repairer.NoteBad({hurt.id, 0, hurt.columns[0].shard, FsError::kChecksum}).ok());
  Pass(100);
  EXPECT_EQ(folder.queue().waiting() + folder.queue().in_flight(), 0u);
  repairer.Drop(hurt.id);
  FoldOptions off = Options();
  off.enabled = false;
  folder.SetOptions(off);
  Pass(100);
  EXPECT_EQ(folder.queue().waiting() + folder.queue().in_flight(), 0u);
  folder.SetOptions(Options());
  Pass(100);
  EXPECT_EQ(folder.queue().in_flight(), 1u);
}

}  // namespace
}  // namespace stria
