// The repairer on a store and a cluster, without a metadata server.
#include "meta/upkeep/repairer.h"

#include <functional>
#include <set>
#include <utility>

#include "meta/core/cluster_keys.h"
#include "meta/upkeep/keeper_testing.h"

namespace stria {
namespace {

class RepairerTest : public KeeperTest {
 protected:
  Repairer Make() {
    return Repairer(
        Env(), RepairBudget(), [this](const RepairTaskRecord& t, const StripeRecord&) { rebuilt.push_back(t.stripe); },
        [this](const ReportedShard& said, TargetId, NodeId by) { doubted.emplace_back(said, by); });
  }
  std::vector<StripeId> rebuilt;
  std::vector<std::pair<ReportedShard, NodeId>> doubted;
};

TEST_F(RepairerTest, WhatWasOnANodeThatIsOutIsMadeAgain) {
  Repairer repairer = Make();
  const StripeInfo stripe = WriteStripe(Raid(2, 1), 2, 1, {1, 2, 3}, kMiB);
  ASSERT_TRUE(repairer.FollowMap().ok());
  Ask(repairer);
  EXPECT_EQ(repairer.in_flight(), 0u);

  cluster.SetNodeOut(NodeId(1), ex.WallNs());
  ASSERT_TRUE(repairer.FollowMap().ok());
  Ask(repairer);
  ASSERT_EQ(repairer.in_flight(), 1u);
  EXPECT_TRUE(repairer.HasTask(stripe.id));
  ASSERT_EQ(repairer.Progress().size(), 1u);

  std::optional<RebuildWork> got;
  uint32_t node = 0;
  for (uint32_t n = 1; n <= 6; ++n) {
    const NodeWork w = WorkFor(repairer, n);
    if (w.rebuilds.empty()) continue;
    got = w.rebuilds[0];
    node = n;
  }
  ASSERT_TRUE(got);
  EXPECT_GE(node, 4u);  // a failure domain of its own
  EXPECT_EQ(got->column, 0);
  EXPECT_EQ(got->lost, std::vector<uint16_t>{0});
  EXPECT_EQ(got->stripe.tokens.size(), 3u);

  // Another node's word is nothing; an unknown task is nobody's.
  EXPECT_TRUE(repairer.TakeRebuilt(NodeId(node == 6 ? 5 : 6), Made(*got)).value());
  EXPECT_EQ(Record(stripe.id)->info.columns[0].target, TargetId(1));
  RebuildResult unknown = Made(*got);
  unknown.task += 1000;
  EXPECT_FALSE(repairer.TakeRebuilt(NodeId(node), unknown).value());

  EXPECT_TRUE(repairer.TakeRebuilt(NodeId(node), Made(*got)).value());
  EXPECT_EQ(Record(stripe.id)->info.columns[0].target, TargetId(node));
  EXPECT_EQ(Record(stripe.id)->info.columns[0].shard, got->new_shard);
  EXPECT_EQ(rebuilt, std::vector<StripeId>{stripe.id});
  EXPECT_EQ(repairer.in_flight() + repairer.waiting(), 0u);
  EXPECT_TRUE(host.failed.ok());
}

// Who makes a column again gets to read what it is made from, and no more of the file.
TEST_F(RepairerTest, TokensAreForTheGroupThatIsHurt) {
  Repairer repairer = Make();
  Layout mirrors = Raid(1, 1);
  mirrors.groups = 2;
  mirrors.stripe_bytes = 2 * kMiB;
  const StripeInfo stripe = WriteStripe(mirrors, 1, 1, {1, 2, 3, 4}, kMiB);
  ASSERT_TRUE(repairer.NoteBad({stripe.id, 1, stripe.columns[1].shard, FsError::kChecksum}).ok());
  Ask(repairer);
  std::optional<RebuildWork> got;
  for (uint32_t n = 1; n <= 6; ++n) {
    NodeWork w = WorkFor(repairer, n);
    if (!w.rebuilds.empty()) got = std::move(w.rebuilds[0]);
  }
  ASSERT_TRUE(got);
  ASSERT_EQ(got->column, 1);
  ASSERT_EQ(got->stripe.tokens.size(), 4u);
  for (uint16_t c = 0; c < 4; ++c) {
    EXPECT_EQ(got->stripe.tokens[c].empty(), GroupOf(stripe.shape, ColumnIndex(c)) != 1u) << "column " << c;
  }
}

TEST_F(RepairerTest, WhatIsNotAsWrittenIsRefusedAndAnotherNodeIsAsked) {
  Repairer repairer = Make();
  const StripeInfo stripe = WriteStripe(Raid(2, 1), 2, 1, {1, 2, 3}, kMiB);
  cluster.SetNodeOut(NodeId(1), ex.WallNs());
  ASSERT_TRUE(repairer.FollowMap().ok());
  const auto next = [&]() -> std::pair<uint32_t, RebuildWork> {
    Ask(repairer);
    for (uint32_t n = 1; n <= 6; ++n) {
      const NodeWork w = WorkFor(repairer, n);
      if (!w.rebuilds.empty()) return {n, w.rebuilds[0]};
    }
    ADD_FAILURE() << "nobody is asked";
    return {};
  };
  const std::function<void(RebuildResult*)> lies[] = {
      [](RebuildResult* r) {  // other bytes
        r->table[0] ^= 1;
        r->digest = TableDigest(r->table, r->length);
      },
      [](RebuildResult* r) { ++r->digest; },   // the right ones, and another digest to remember
      [](RebuildResult* r) {  // a part of it
        r->length -= kChecksumBlockBytes;
        r->table.pop_back();
        r->digest = TableDigest(r->table, r->length);
      },
  };
  std::set<uint32_t> asked;
  uint64_t garbage = 0;
  for (const auto& lie : lies) {
    const auto [node, work] = next();
    EXPECT_TRUE(asked.insert(node).second) << "node " << node << " again";
    RebuildResult result = Made(work);
    lie(&result);
    EXPECT_TRUE(repairer.TakeRebuilt(NodeId(node), result).value());
    EXPECT_EQ(Record(stripe.id)->info, stripe) << "the old shard stays";
    EXPECT_EQ(store->Count(Counter::kGarbageShards), ++garbage) << "the new one goes";
    EXPECT_EQ(repairer.in_flight(), 0u);
    ex.RunFor(kRepairRetryNs + kSecond);
  }
  EXPECT_EQ(asked, (std::set<uint32_t>{4, 5, 6}));
  EXPECT_TRUE(rebuilt.empty());
  Ask(repairer);  // there is no other: they are asked again
  const auto [node, work] = next();
  EXPECT_TRUE(repairer.TakeRebuilt(NodeId(node), Made(work)).value());
  EXPECT_EQ(Record(stripe.id)->info.columns[0].digest, Made(work).digest);
  EXPECT_EQ(rebuilt, std::vector<StripeId>{stripe.id});
}

// A shard that moves is compared as one that was lost.
TEST_F(RepairerTest, ACopyThatIsNotAsWrittenIsRefused) {
  Repairer repairer = Make();
  const StripeInfo stripe = WriteStripe(Raid(2, 1), 2, 1, {1, 2, 3}, kMiB);
  cluster.SetTargetState(TargetId(2), TargetState::kDraining);
  ASSERT_TRUE(repairer.FollowMap().ok());
  Ask(repairer);
  ASSERT_EQ(repairer.in_flight(), 1u);
  for (uint32_t n = 1; n <= 6; ++n) {
    for (const RebuildWork& w : WorkFor(repairer, n).rebuilds) {
      EXPECT_TRUE(w.copy);
      RebuildResult result = Made(w);
      result.table.back() ^= 1;
      result.digest = TableDigest(result.table, result.length);
      EXPECT_TRUE(repairer.TakeRebuilt(NodeId(n), result).value());
    }
  }
  EXPECT_EQ(repairer.in_flight(), 0u);
  EXPECT_EQ(Record(stripe.id)->info, stripe);
}

TEST_F(RepairerTest, ANodesWordCountsForItsOwnDisksOnly) {
  Repairer repairer = Make();
  const StripeInfo stripe = WriteStripe(Raid(2, 1), 2, 1, {1, 2, 3}, kMiB);
  const StripeInfo other = WriteStripe(Raid(2, 1), 2, 1, {3, 2, 1}, kMiB);
  cluster.SetNodeOut(NodeId(1), ex.WallNs());
  ASSERT_TRUE(repairer.FollowMap().ok());
  std::set<uint32_t> asked;
  for (int round = 0; round < 2; ++round) {
    Ask(repairer);
    for (uint32_t n = 1; n <= 6; ++n) {
      for (const RebuildWork& w : WorkFor(repairer, n).rebuilds) {
        if (w.stripe.info.id != stripe.id) continue;
        EXPECT_TRUE(asked.insert(n).second) << "another node is asked, as the first may be what is wrong";
        RebuildResult failed;
        failed.task = w.task;
        failed.result.code = FsError::kChecksum;
        failed.bad_columns = {1, 2, 9};
        EXPECT_TRUE(repairer.TakeRebuilt(NodeId(n), failed).value());
      }
    }
    ex.RunFor(kRepairRetryNs + kSecond);
  }
  EXPECT_EQ(asked.size(), 2u);
  for (uint16_t c = 1; c <= 2; ++c) EXPECT_FALSE(repairer.IsBad(stripe.id, c, stripe.columns[c].shard));
  ASSERT_EQ(doubted.size(), 4u);
  EXPECT_EQ(doubted[0].first, (ReportedShard{stripe.id, 1, stripe.columns[1].shard, FsError::kChecksum}));
  // Of its own disk.
  ASSERT_TRUE(repairer.NoteBadColumns(NodeId(3), other.id, nullptr, FsError::kChecksum, {0, 1}).ok());
  EXPECT_TRUE(repairer.IsBad(other.id, 0, other.columns[0].shard));
  EXPECT_FALSE(repairer.IsBad(other.id, 1, other.columns[1].shard));
  EXPECT_EQ(doubted.size(), 5u);
}

TEST_F(RepairerTest, ABadShardOutlivesARestartUntilItsColumnIsAnother) {
  const StripeInfo stripe = WriteStripe(Raid(2, 1), 2, 1, {1, 2, 3}, kMiB);
  {
    Repairer repairer = Make();
    ASSERT_TRUE(repairer.NoteBad({stripe.id, 2, stripe.columns[2].shard, FsError::kChecksum}).ok());
    EXPECT_TRUE(wake.is_set());
  }
  Repairer repairer = Make();
  {
    Txn txn(*store);
    ASSERT_TRUE(repairer.Load(txn).ok());
  }
  EXPECT_TRUE(repairer.IsBad(stripe.id, 2, stripe.columns[2].shard));
  EXPECT_EQ(repairer.NeedOf(*repairer.HealthOf(*Record(stripe.id))), 0);
  ASSERT_TRUE(repairer.FollowMap().ok());
  Ask(repairer);
  ASSERT_EQ(repairer.in_flight(), 1u);
  for (uint32_t n = 1; n <= 6; ++n) {
    for (const RebuildWork& w : WorkFor(repairer, n).rebuilds) EXPECT_TRUE(repairer.TakeRebuilt(NodeId(n), Made(w)).value());
  }
  EXPECT_TRUE(repairer.BadStripes().empty());
  EXPECT_EQ(repairer.in_flight(), 0u);
}

TEST_F(RepairerTest, ABadShardIsForgottenWhenItsStripeIsDeleted) {
  const auto records = [&] {
    Txn txn(*store);
    return txn.ScanPrefix(Family::kRepairs, BadShardPrefix(), 10).value().size();
  };
  const StripeInfo stripe = WriteStripe(Raid(2, 1), 2, 1, {1, 2, 3}, kMiB);
  NameRequest name;
  name.parent = kRootInode;
  name.name = "f1";
  const StripeInfo stays = WriteStripe(Raid(2, 1), 2, 1, {1, 2, 3}, kMiB);
  RepairSettings paused;
  paused.paused = true;
  Repairer repairer = Make();
  ASSERT_TRUE(repairer.SetSettings(paused).ok());
  ASSERT_TRUE(repairer.NoteBad({stripe.id, 2, stripe.columns[2].shard, FsError::kChecksum}).ok());
  ASSERT_TRUE(repairer.NoteBad({stays.id, 0, stays.columns[0].shard, FsError::kChecksum}).ok());
  Ask(repairer);
  EXPECT_EQ(records(), 2u);
  (void)Do([&](Txn& t) { return OpUnlink(t, ctx, name); });
  ex.RunFor(60 * kSecond);
  Ask(repairer);
  EXPECT_EQ(records(), 1u);
  EXPECT_EQ(repairer.BadStripes(), std::set<StripeId>{stays.id});
  EXPECT_EQ(repairer.waiting(), 1u);
}

TEST_F(RepairerTest, BadShardsOfDeletedStripesLeaveRoomForOthers) {
  Repairer repairer = Make();
  for (uint64_t i = 0; i < kMaxBadShards; ++i) {
    ASSERT_TRUE(repairer.NoteBad({StripeId(1'000'000 + i), 0, ShardId(1 + i), FsError::kChecksum}).ok());
  }
  const StripeInfo stripe = WriteStripe(Raid(2, 1), 2, 1, {1, 2, 3}, kMiB);
  const ReportedShard bad{stripe.id, 2, stripe.columns[2].shard, FsError::kChecksum};
  ASSERT_TRUE(repairer.NoteBad(bad).ok());
  EXPECT_FALSE(repairer.IsBad(bad.stripe, bad.column, bad.shard));
  do {  // as Upkeep
    wake.Reset();
    Ask(repairer);
  } while (wake.is_set());
  ASSERT_TRUE(repairer.NoteBad(bad).ok());
  EXPECT_TRUE(repairer.IsBad(bad.stripe, bad.column, bad.shard));
  EXPECT_EQ(repairer.BadStripes().size(), 1u);
}

TEST_F(RepairerTest, ATaskWhoseNodeIsGoneEndsAndItsShardIsGarbage) {
  Repairer repairer = Make();
  const StripeInfo stripe = WriteStripe(Raid(2, 1), 2, 1, {1, 2, 3}, kMiB);
  cluster.SetNodeOut(NodeId(1), ex.WallNs());
  ASSERT_TRUE(repairer.FollowMap().ok());
  Ask(repairer);
  ASSERT_EQ(repairer.in_flight(), 1u);
  uint32_t first = 0;
  for (uint32_t n = 4; n <= 6; ++n) {
    if (!WorkFor(repairer, n).rebuilds.empty()) first = n;
  }
  ASSERT_NE(first, 0u);
  cluster.SetNodeOut(NodeId(first), ex.WallNs());
  ASSERT_TRUE(repairer.FollowMap().ok());
  Ask(repairer);  // ends it, and begins another
  EXPECT_EQ(repairer.in_flight(), 1u);
  EXPECT_TRUE(WorkFor(repairer, first).rebuilds.empty());
  EXPECT_EQ(store->Count(Counter::kGarbageShards), 1u);
}

TEST_F(RepairerTest, PausedItBeginsNothingAndARestartKeepsThat) {
  {
    Repairer repairer = Make();
    RepairSettings s;
    s.paused = true;
    ASSERT_TRUE(repairer.SetSettings(s).ok());
  }
  Repairer repairer = Make();
  {
    Txn txn(*store);
    ASSERT_TRUE(repairer.Load(txn).ok());
  }
  WriteStripe(Raid(2, 1), 2, 1, {1, 2, 3}, kMiB);
  cluster.SetNodeOut(NodeId(1), ex.WallNs());
  ASSERT_TRUE(repairer.FollowMap().ok());
  Ask(repairer);
  EXPECT_EQ(repairer.in_flight(), 0u);
  EXPECT_EQ(repairer.waiting(), 1u);
}

}  // namespace
}  // namespace stria
