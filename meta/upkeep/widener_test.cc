// The widener on a store and a cluster, without a metadata server.
#include "meta/upkeep/widener.h"

#include "meta/upkeep/keeper_testing.h"

namespace stria {
namespace {

class WidenerTest : public KeeperTest {
 protected:
  // 2+1 where 4+1 was asked for.
  StripeInfo Narrow() { return WriteStripe(Raid(4, 1), 2, 1, {1, 2, 3}, 4 * kMiB, true); }
  std::pair<uint32_t, std::optional<WidenWork>> Find(Keeper& keeper) {
    for (uint32_t n = 1; n <= 6; ++n) {
      NodeWork w = WorkFor(keeper, n);
      if (!w.widens.empty()) return {n, std::move(w.widens[0])};
    }
    return {0, std::nullopt};
  }
  static WidenResult Done(const WidenWork& w) {
    WidenResult r;
    r.task = w.task;
    for (const Column& c : w.to.info.columns) r.digests.push_back(c.shard ? TestDigest(c.shard, c.length) : 0);
    return r;
  }
  int given_up = 0;
  Repairer repairer{Env(), RepairBudget(), [](const auto&, const auto&) {}};
  Widener widener{Env(), &repairer, [this] { ++given_up; }};
};

TEST_F(WidenerTest, ANarrowStripeIsLaidOutOverAllColumnsAndItsReadersAreTold) {
  const StripeInfo narrow = Narrow();
  EXPECT_TRUE(widener.Consider(*Record(narrow.id)));
  Ask(widener);
  ASSERT_EQ(widener.in_flight(), 1u);
  EXPECT_TRUE(widener.HasStripe(narrow.id));
  const auto [node, w] = Find(widener);
  ASSERT_TRUE(w);
  EXPECT_EQ(w->from.info.columns.size(), 3u);
  EXPECT_EQ(w->to.info.columns.size(), 5u);
  ASSERT_TRUE(widener.TakeWidened(NodeId(node), Done(*w)).value());
  EXPECT_FALSE(Record(narrow.id)->info.narrow);
  EXPECT_EQ(Record(narrow.id)->info.columns.size(), 5u);
  EXPECT_EQ(store->Count(Counter::kGarbageShards), 0u);  // somebody may be reading them
  Ask(widener);
  ex.RunFor(kSecond);
  EXPECT_EQ(host.told, std::set<InodeId>{ino});
  EXPECT_EQ(store->Count(Counter::kGarbageShards), 3u);
  EXPECT_EQ(widener.in_flight(), 0u);
  EXPECT_EQ(given_up, 0);
}

TEST_F(WidenerTest, WhatWasBegunGoesOnAfterARestartAndWaitsForClaims) {
  const StripeInfo narrow = Narrow();
  widener.Consider(*Record(narrow.id));
  Ask(widener);
  Widener next(Env(), &repairer, [] {});
  {
    Txn txn(*store);
    ASSERT_TRUE(next.Load(txn).ok());
  }
  ASSERT_EQ(next.in_flight(), 1u);
  const auto [node, w] = Find(next);
  ASSERT_TRUE(w);
  ASSERT_TRUE(next.TakeWidened(NodeId(node), Done(*w)).value());
  host.claims_over = false;
  Ask(next);
  ex.RunFor(kSecond);
  EXPECT_TRUE(host.told.empty());
  host.claims_over = true;
  Ask(next);
  ex.RunFor(kSecond);
  EXPECT_EQ(host.told.size(), 1u);
  EXPECT_EQ(next.in_flight(), 0u);
}

TEST_F(WidenerTest, ATaskThatFailsGivesItsShardsBackAndSaysSo) {
  const StripeInfo narrow = Narrow();
  widener.Consider(*Record(narrow.id));
  Ask(widener);
  const auto [node, w] = Find(widener);
  ASSERT_TRUE(w);
  WidenResult failed;
  failed.task = w->task;
  failed.result.code = FsError::kChecksum;
  failed.bad_columns = {1};
  ASSERT_TRUE(widener.TakeWidened(NodeId(node), failed).value());
  EXPECT_EQ(given_up, 1);
  EXPECT_EQ(widener.in_flight(), 0u);
  EXPECT_EQ(store->Count(Counter::kGarbageShards), 5u);
  EXPECT_TRUE(repairer.IsBad(narrow.id, 1, narrow.columns[1].shard));
}

TEST_F(WidenerTest, WhatHasItsCopiesWaitsWhileOthersNeedRepair) {
  const StripeInfo hurt = WriteStripe(Raid(2, 1), 2, 1, {1, 2, 3}, kMiB);
  ASSERT_TRUE(repairer.NoteBad({hurt.id, 0, hurt.columns[0].shard, FsError::kChecksum}).ok());
  const StripeInfo narrow = Narrow();
  widener.Consider(*Record(narrow.id));
  Ask(widener);
  EXPECT_EQ(widener.in_flight(), 0u);
}

}  // namespace
}  // namespace stria
