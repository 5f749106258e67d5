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

// Which clients may read a file: here by its number.
class AudienceTest : public FolderTest {
 protected:
  AudienceTest() : apart(EnvApart(), &repairer, &widener, Options()) {}
  KeeperEnv EnvApart() {
    KeeperEnv env = Env();
    env.audience = [this](Txn&, const std::vector<InodeId>& files) -> Result<uint64_t> {
      uint64_t all = 0;
      for (const InodeId f : files) all = std::max(all, audience_of[f]);
      return all;
    };
    return env;
  }
  StripeInfo MirroredFor(uint64_t audience, uint32_t node, uint32_t copy) {
    StripeInfo s = Mirrored(node, copy);
    audience_of[ino] = audience;
    return s;
  }
  void PassApart(int64_t seconds) {
    for (int64_t s = 0; s < seconds; ++s) {
      Ask(apart);
      ex.RunFor(kSecond);
    }
  }
  std::map<InodeId, uint64_t> audience_of;
  Folder apart;
};

TEST_F(AudienceTest, FilesThatOthersMayReadAreNotFoldedTogether) {
  const StripeInfo a = MirroredFor(1, 1, 2);
  const StripeInfo b = MirroredFor(2, 3, 4);
  PassApart(1000);  // longer than any patience
  EXPECT_EQ(apart.queue().waiting(), 2u);
  EXPECT_EQ(apart.queue().in_flight(), 0u);
  const StripeInfo c = MirroredFor(1, 5, 6);
  PassApart(90);
  ASSERT_EQ(apart.queue().in_flight(), 1u);
  EXPECT_TRUE(apart.HasStripe(a.id) && apart.HasStripe(c.id));
  EXPECT_FALSE(apart.HasStripe(b.id));
}

TEST_F(AudienceTest, AFileThatOthersMayReadMeanwhileEndsItsFold) {
  MirroredFor(1, 1, 2);
  MirroredFor(1, 3, 4);
  PassApart(90);
  ASSERT_EQ(apart.queue().in_flight(), 1u);
  std::optional<RebuildWork> work;
  uint32_t node = 1;
  for (; node <= 6; ++node) {
    NodeWork w = WorkFor(apart, node);
    if (w.rebuilds.empty()) continue;
    work = std::move(w.rebuilds[0]);
    break;
  }
  ASSERT_TRUE(work);
  audience_of[ino] = 2;
  EXPECT_TRUE(apart.TakeRebuilt(NodeId(node), Made(*work)).value());
  EXPECT_EQ(apart.folded(), 0u);
  EXPECT_EQ(apart.queue().in_flight(), 0u);
  EXPECT_TRUE(host.freed.empty());
  EXPECT_EQ(store->Count(Counter::kGarbageShards), 1u) << "the parity that was made";
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
