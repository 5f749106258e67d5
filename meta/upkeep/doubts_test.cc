// Doubts on a store and a cluster, without a metadata server.
#include "meta/upkeep/doubts.h"

#include "meta/upkeep/keeper_testing.h"

namespace stria {
namespace {

class DoubtsTest : public KeeperTest {
 protected:
  DoubtsTest() : repairer(Env(), RepairBudget(), [](const RepairTaskRecord&, const StripeRecord&) {}), doubts(Env(), &repairer) {}
  void Say(const StripeInfo& stripe, uint16_t column, uint64_t by = 1) {
    const Column& c = stripe.columns[column];
    doubts.Note({stripe.id, column, c.shard, FsError::kChecksum}, c.target, by);
  }
  void Found(uint32_t node, const Column& c, FsError code) {
    EXPECT_TRUE(doubts.TakeChecked(NodeId(node), {c.shard, c.target, ItemResult{code, ""}}).ok());
  }
  bool IsBad(const StripeInfo& stripe, uint16_t column) { return repairer.IsBad(stripe.id, column, stripe.columns[column].shard); }

  Repairer repairer;
  Doubts doubts;
};

TEST_F(DoubtsTest, TheShardsOwnNodeDecides) {
  const StripeInfo stripe = WriteStripe(Raid(2, 1), 2, 1, {1, 2, 3}, kMiB);
  const Column& c = stripe.columns[1];
  Say(stripe, 1);
  EXPECT_FALSE(IsBad(stripe, 1));
  EXPECT_TRUE(WorkFor(doubts, 1).checks.empty()) << "it is not there";
  for (int i = 0; i < 2; ++i) {
    const NodeWork work = WorkFor(doubts, 2, 0);
    ASSERT_EQ(work.checks.size(), 1u) << "again until it is reported, and without a slot";
    EXPECT_EQ(work.checks[0].shard, c.shard);
    EXPECT_EQ(work.checks[0].target, c.target);
    EXPECT_EQ(work.checks[0].digest, c.digest);
  }
  Found(1, c, FsError::kChecksum);
  EXPECT_FALSE(IsBad(stripe, 1)) << "another node's word";
  EXPECT_EQ(doubts.size(), 1u);
  Found(2, c, FsError::kNoSuchShard);
  EXPECT_TRUE(IsBad(stripe, 1));
  EXPECT_EQ(doubts.size(), 0u);
  Say(stripe, 1);
  EXPECT_EQ(doubts.size(), 0u) << "that is known";
}

TEST_F(DoubtsTest, WhatIsInOrderIsNotLookedAtAgainAtOnce) {
  const StripeInfo stripe = WriteStripe(Raid(2, 1), 2, 1, {1, 2, 3}, kMiB);
  Say(stripe, 0);
  Found(1, stripe.columns[0], FsError::kOk);
  EXPECT_FALSE(IsBad(stripe, 0));
  Say(stripe, 0, 2);
  EXPECT_EQ(doubts.size(), 0u);
  ex.RunFor(kInOrderNs);
  Say(stripe, 0, 2);
  EXPECT_EQ(doubts.size(), 1u);
  Found(1, stripe.columns[0], FsError::kUnavailable);
  EXPECT_FALSE(IsBad(stripe, 0)) << "its disk did not answer: that says nothing of the shard";
  EXPECT_EQ(doubts.size(), 0u);
  Found(1, stripe.columns[0], FsError::kChecksum);
  EXPECT_FALSE(IsBad(stripe, 0)) << "nobody has asked";
}

TEST_F(DoubtsTest, AColumnThatHasAnotherShardByNowIsNotLookedAt) {
  const StripeInfo stripe = WriteStripe(Raid(2, 1), 2, 1, {1, 2, 3}, kMiB);
  Say(stripe, 0);
  Say(stripe, 2);
  NameRequest name;
  name.parent = kRootInode;
  name.name = "f1";
  ASSERT_TRUE(Do([&](Txn& t) { return OpUnlink(t, ctx, name); }).ok());
  ASSERT_FALSE(Record(stripe.id) && Record(stripe.id)->state == StripeState::kLive) << "nothing uses it any more";
  EXPECT_TRUE(WorkFor(doubts, 1).checks.empty());
  EXPECT_EQ(doubts.size(), 1u);
  Found(3, stripe.columns[2], FsError::kChecksum);
  EXPECT_FALSE(IsBad(stripe, 2)) << "it was deleted while its node looked";
  EXPECT_EQ(doubts.size(), 0u);
}

TEST_F(DoubtsTest, NobodyMakesThemGrowWithoutEnd) {
  const auto say = [&](uint64_t n, uint64_t by) { doubts.Note({StripeId(n), 0, ShardId(n), FsError::kChecksum}, TargetId(1), by); };
  for (uint64_t n = 1; n <= 2 * kMaxDoubtsOfOne; ++n) say(n, 1);
  EXPECT_EQ(doubts.size(), kMaxDoubtsOfOne);
  for (uint64_t n = 1; n <= 3 * kMaxDoubts; ++n) say(10'000 + n, 2 + n / kMaxDoubtsOfOne);
  EXPECT_EQ(doubts.size(), kMaxDoubts);
  // A node that is away for long is not waited for; then there is room again, also for who had used up his own.
  ex.RunFor(kDoubtNs);
  Ask(doubts);
  EXPECT_EQ(doubts.size(), 0u);
  say(1, 1);
  EXPECT_EQ(doubts.size(), 1u);
  EXPECT_TRUE(WorkFor(doubts, 1).checks.empty());
  EXPECT_EQ(doubts.size(), 0u) << "there is no such stripe";
  const StripeInfo stripe = WriteStripe(Raid(2, 1), 2, 1, {1, 2, 3}, kMiB);
  for (uint16_t c : {0, 1, 2}) Say(stripe, c);
  doubts.Forget(TargetId(2));
  EXPECT_EQ(doubts.size(), 2u);
}

TEST_F(DoubtsTest, ANodeIsAskedForAFewAtATime) {
  const size_t many = kDoubtsPerBeat + 5;
  for (size_t i = 0; i < many; ++i) Say(WriteStripe(Raid(2, 1), 2, 1, {1, 2, 3}, kMiB), 0);
  const NodeWork first = WorkFor(doubts, 1);
  ASSERT_EQ(first.checks.size(), kDoubtsPerBeat);
  for (const CheckWork& w : first.checks) {
    EXPECT_TRUE(doubts.TakeChecked(NodeId(1), {w.shard, w.target, ItemResult{FsError::kOk, ""}}).ok());
  }
  EXPECT_EQ(WorkFor(doubts, 1).checks.size(), 5u);
}

}  // namespace
}  // namespace stria
