// The search for misfits on a store and a cluster, without a metadata server.
#include "meta/upkeep/misfits.h"

#include "meta/upkeep/keeper_testing.h"

namespace stria {
namespace {

class MisfitsTest : public KeeperTest {
 protected:
  Repairer repairer{Env(), RepairBudget(), [](const auto&, const auto&) {}};
  Widener widener{Env(), &repairer, [] {}};
  Misfits misfits{Env(), &repairer, &widener};
};

TEST_F(MisfitsTest, WhatWritersHadToNarrowIsFoundWhenADiskComes) {
  WriteStripe(Raid(4, 1), 2, 1, {1, 2, 3}, 4 * kMiB, true);
  ASSERT_TRUE(misfits.FollowMap().ok());
  Ask(misfits);
  Ask(widener);
  EXPECT_EQ(widener.in_flight(), 1u);
}

TEST_F(MisfitsTest, RestsUntilThereIsAPlaceThatWasNotThereBefore) {
  ASSERT_TRUE(misfits.FollowMap().ok());
  WriteStripe(Raid(4, 1), 2, 1, {1, 2, 3}, 4 * kMiB, true);
  cluster.SetTargetState(TargetId(6), TargetState::kDraining);
  ASSERT_TRUE(misfits.FollowMap().ok());
  Ask(misfits);  // the walk of the start
  ex.RunFor(kSecond);
  Widener other(Env(), &repairer, [] {});
  Misfits again(Env(), &repairer, &other);
  ASSERT_TRUE(again.FollowMap().ok());
  Ask(again);
  Ask(other);
  EXPECT_EQ(other.in_flight(), 1u);
  // Nothing is new: no walk. A disk that takes shards again: one.
  WriteStripe(Raid(4, 1), 2, 1, {1, 2, 3}, 4 * kMiB, true);
  ASSERT_TRUE(again.FollowMap().ok());
  Ask(again);
  Ask(other);
  EXPECT_EQ(other.in_flight(), 1u);
  cluster.SetTargetState(TargetId(6), TargetState::kUp);
  ASSERT_TRUE(again.FollowMap().ok());
  Ask(again);
  Ask(other);
  EXPECT_EQ(other.in_flight(), 2u);
}

TEST_F(MisfitsTest, WhatAWriterHasCommittedNarrowIsLookedAtWithoutAWalk) {
  ASSERT_TRUE(misfits.FollowMap().ok());
  Ask(misfits);
  const StripeInfo narrow = WriteStripe(Raid(4, 1), 2, 1, {1, 2, 3}, 4 * kMiB, true);
  ASSERT_TRUE(misfits.NoteCommitted({narrow}).ok());
  Ask(widener);
  EXPECT_TRUE(widener.HasStripe(narrow.id));
}

TEST_F(MisfitsTest, ADiskThatCameFromElsewhereIsRememberedUntilItsStripesWereLookedAt) {
  // Two columns on one node's disk: nobody has said so yet.
  const StripeInfo stripe = WriteStripe(Raid(2, 1), 2, 1, {1, 1, 2}, kMiB);
  {
    Txn txn(*store);
    misfits.NoteMoved(txn, {TargetId(1)});
    ASSERT_TRUE(txn.Commit().ok());
  }
  Repairer repairer2(Env(), RepairBudget(), [](const auto&, const auto&) {});
  Misfits next(Env(), &repairer2, &widener);
  {
    Txn txn(*store);
    ASSERT_TRUE(next.Load(txn).ok());
  }
  EXPECT_FALSE(Record(stripe.id)->info.crowded);
  Ask(next);
  EXPECT_TRUE(Record(stripe.id)->info.crowded);
  EXPECT_EQ(repairer2.waiting(), 1u);
  Misfits last(Env(), &repairer2, &widener);
  const int before = host.commits;
  {
    Txn txn(*store);
    ASSERT_TRUE(last.Load(txn).ok());
  }
  Ask(last);
  EXPECT_EQ(host.commits, before);
}

}  // namespace
}  // namespace stria
