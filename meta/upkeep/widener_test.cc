// The widener on a store and a cluster, without a metadata server.
#include "meta/upkeep/widener.h"

#include <functional>
#include <iterator>

#include "meta/upkeep/keeper_testing.h"
#include "stripe/relaid_testing.h"

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
  // What the node of each new column says of it.
  static std::vector<CheckResult> Looked(const WidenWork& w, FsError code = FsError::kOk) {
    std::vector<CheckResult> out;
    for (const Column& c : w.to.info.columns) {
      if (c.shard) out.push_back({c.shard, c.target, ItemResult{code, ""}});
    }
    return out;
  }
  void Say(Keeper& keeper, const CheckResult& said) {
    EXPECT_TRUE(keeper.TakeChecked(NodeId(said.target.v), said).value()) << "shard " << said.shard.v;
  }
  void SayAllIsThere(Keeper& keeper, const WidenWork& w) {
    for (const CheckResult& said : Looked(w)) Say(keeper, said);
  }
  static WidenResult Done(const WidenWork& w) {
    WidenResult r;
    r.task = w.task;
    r.pieces = TestPieces(w.from.info, w.to.info.shape);
    r.digests = DigestsOfPieces(w.from.info, w.to.info, r.pieces);
    return r;
  }
  // The task of that stripe, which its node has reported as done and nobody has proved yet.
  std::optional<WidenWork> Widen(Widener& keeper, const StripeInfo& narrow) {
    keeper.Consider(*Record(narrow.id));
    Ask(keeper);
    auto [node, w] = Find(keeper);
    if (w) EXPECT_TRUE(keeper.TakeWidened(NodeId(node), Done(*w)).value());
    return std::move(w);
  }
  int given_up = 0;
  std::vector<ReportedShard> doubted;
  Repairer repairer{Env(), RepairBudget(), [](const auto&, const auto&) {},
                    [this](const ReportedShard& said, TargetId, NodeId) { doubted.push_back(said); }};
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
  SayAllIsThere(widener, *w);
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
  SayAllIsThere(next, *w);
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
  failed.bad_columns = {0, 1, 2};
  ASSERT_TRUE(widener.TakeWidened(NodeId(node), failed).value());
  EXPECT_EQ(given_up, 1);
  EXPECT_EQ(widener.in_flight(), 0u);
  EXPECT_EQ(store->Count(Counter::kGarbageShards), 5u);
  // Its word counts for its own disk; of the others their own nodes are asked.
  size_t others = 0;
  for (uint16_t c = 0; c < 3; ++c) {
    const bool own = narrow.columns[c].target == TargetId(node);
    EXPECT_EQ(repairer.IsBad(narrow.id, c, narrow.columns[c].shard), own) << "column " << c;
    others += !own;
  }
  EXPECT_EQ(doubted.size(), others);
}

TEST_F(WidenerTest, WhatIsNotAsWrittenIsRefused) {
  const std::function<void(WidenResult*)> lies[] = {
      [](WidenResult* r) { r->digests[0] ^= 1; },      // other bytes in a new column
      [](WidenResult* r) { r->digests.back() ^= 1; },  // or in its parity, which is their sum
      [](WidenResult* r) { r->pieces[3] ^= 1; },       // of another payload
      [](WidenResult* r) { r->pieces.pop_back(); },
      [](WidenResult* r) { r->pieces.clear(); },
  };
  const StripeInfo narrow = Narrow();
  uint64_t garbage = 0;
  for (size_t i = 0; i < std::size(lies); ++i) {
    SCOPED_TRACE(i);
    widener.Consider(*Record(narrow.id));
    Ask(widener);
    const auto [node, w] = Find(widener);
    ASSERT_TRUE(w);
    WidenResult result = Done(*w);
    lies[i](&result);
    ASSERT_TRUE(widener.TakeWidened(NodeId(node), result).value());
    EXPECT_EQ(Record(narrow.id)->info, narrow) << "it stays as it is";
    EXPECT_EQ(store->Count(Counter::kGarbageShards), garbage += 5) << "the new shards go";
    EXPECT_EQ(given_up, static_cast<int>(i) + 1);
  }
  // A lie of another payload that agrees with itself.
  widener.Consider(*Record(narrow.id));
  Ask(widener);
  const auto [node, w] = Find(widener);
  ASSERT_TRUE(w);
  WidenResult result = Done(*w);
  result.pieces[0] ^= 1;
  result.digests = DigestsOfPieces(w->from.info, w->to.info, result.pieces);
  ASSERT_TRUE(widener.TakeWidened(NodeId(node), result).value());
  EXPECT_EQ(Record(narrow.id)->info, narrow);
}

// The node that lays a stripe out anew has tokens to write on the disks of others, and can tell the digests of what it should have
// written.
TEST_F(WidenerTest, EachNewColumnsOwnNodeSaysWhetherItIsThere) {
  const StripeInfo narrow = Narrow();
  uint64_t garbage = 0;
  int tries = 0;
  for (const FsError found : {FsError::kChecksum, FsError::kNoSuchShard, FsError::kUnavailable, FsError::kIo}) {
    SCOPED_TRACE(static_cast<int>(found));
    widener.Consider(*Record(narrow.id));
    Ask(widener);
    const auto [node, w] = Find(widener);
    ASSERT_TRUE(w);
    const WidenResult done = Done(*w);
    ASSERT_TRUE(widener.TakeWidened(NodeId(node), done).value());
    EXPECT_EQ(Record(narrow.id)->info, narrow) << "nobody but who wrote them has said that they are there";
    EXPECT_EQ(Find(widener).first, 0u) << "it is made";
    const std::vector<CheckResult> looked = Looked(*w);
    for (size_t i = 0; i < looked.size(); ++i) {
      const NodeWork work = WorkFor(widener, looked[i].target.v, 0);
      ASSERT_EQ(work.checks.size(), 1u) << "without a slot, and again until it is reported";
      EXPECT_EQ(work.checks[0].shard, looked[i].shard);
      EXPECT_EQ(work.checks[0].target, looked[i].target);
      EXPECT_EQ(work.checks[0].digest, done.digests[i]);
    }
    // Others cannot say so, nor can the same report again.
    ASSERT_TRUE(widener.TakeChecked(NodeId(6), looked[0].target.v == 6 ? looked[1] : looked[0]).value());
    ASSERT_TRUE(widener.TakeWidened(NodeId(node), done).value());
    for (size_t i = 0; i + 1 < looked.size(); ++i) Say(widener, looked[i]);
    EXPECT_EQ(Record(narrow.id)->info, narrow) << "one is missing";
    EXPECT_TRUE(WorkFor(widener, looked[0].target.v).checks.empty()) << "it has answered";
    CheckResult bad = looked.back();
    bad.result.code = found;
    Say(widener, bad);
    EXPECT_EQ(Record(narrow.id)->info, narrow) << "it stays as it is";
    EXPECT_EQ(store->Count(Counter::kGarbageShards), garbage += looked.size()) << "the new shards go";
    EXPECT_EQ(given_up, ++tries);
    EXPECT_FALSE(widener.TakeChecked(NodeId(bad.target.v), bad).value()) << "nobody waits for it any more";
  }
  // In order at last.
  const std::optional<WidenWork> w = Widen(widener, narrow);
  ASSERT_TRUE(w);
  SayAllIsThere(widener, *w);
  EXPECT_FALSE(Record(narrow.id)->info.narrow);
  EXPECT_EQ(Record(narrow.id)->info.columns[0].digest, Done(*w).digests[0]);
  EXPECT_EQ(given_up, tries);
}

TEST_F(WidenerTest, ANodeThatDoesNotSayWhatItHasIsDoneWithout) {
  const StripeInfo narrow = Narrow();
  const std::optional<WidenWork> w = Widen(widener, narrow);
  ASSERT_TRUE(w);
  const std::vector<CheckResult> looked = Looked(*w);
  for (size_t i = 1; i < looked.size(); ++i) Say(widener, looked[i]);
  ex.RunFor(kProveNs - kSecond);
  Ask(widener);
  EXPECT_EQ(given_up, 0);
  ex.RunFor(kSecond);
  Ask(widener);
  EXPECT_EQ(given_up, 1);
  EXPECT_EQ(widener.in_flight(), 0u);
  EXPECT_EQ(Record(narrow.id)->info, narrow);
  EXPECT_EQ(store->Count(Counter::kGarbageShards), looked.size());
}

TEST_F(WidenerTest, ANodeThatGoesBeforeItHasSaidSoIsDoneWithout) {
  const StripeInfo narrow = Narrow();
  const std::optional<WidenWork> w = Widen(widener, narrow);
  ASSERT_TRUE(w);
  const std::vector<CheckResult> looked = Looked(*w);
  Say(widener, looked[0]);
  ex.RunFor(60 * kSecond);
  cluster.Tick(ex.NowNs(), ex.WallNs());
  ASSERT_EQ(cluster.FindNode(NodeId(1))->state, NodeState::kDown);
  Ask(widener);
  EXPECT_EQ(given_up, 1) << "it may be back in minutes";
  EXPECT_EQ(Record(narrow.id)->info, narrow);
}

// The old columns are there until then: nothing is lost. What was said of the new ones is not kept, and their node makes them again.
TEST_F(WidenerTest, ARestartBeforeAllHaveSaidSoLosesNothing) {
  const StripeInfo narrow = Narrow();
  widener.Consider(*Record(narrow.id));
  Ask(widener);
  const auto [node, w] = Find(widener);
  ASSERT_TRUE(w);
  ASSERT_TRUE(widener.TakeWidened(NodeId(node), Done(*w)).value());
  Say(widener, Looked(*w)[0]);
  Widener next(Env(), &repairer, [] {});
  {
    Txn txn(*store);
    ASSERT_TRUE(next.Load(txn).ok());
  }
  EXPECT_EQ(Record(narrow.id)->info, narrow);
  EXPECT_FALSE(next.TakeChecked(NodeId(Looked(*w)[1].target.v), Looked(*w)[1]).value()) << "not asked";
  const auto [again, same] = Find(next);
  ASSERT_TRUE(same);
  EXPECT_EQ(again, node);
  ASSERT_TRUE(next.TakeWidened(NodeId(node), Done(*same)).value());
  SayAllIsThere(next, *same);
  EXPECT_FALSE(Record(narrow.id)->info.narrow);
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
