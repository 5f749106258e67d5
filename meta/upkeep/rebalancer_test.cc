// The rebalancer on a store and a cluster, without a metadata server.
#include "meta/upkeep/rebalancer.h"

#include "meta/upkeep/keeper_testing.h"
#include "meta/upkeep/weight.h"

namespace stria {
namespace {

class RebalancerTest : public KeeperTest {
 protected:
  Result<std::string> Order(UpkeepVerb verb, bool dry_run = false) {
    UpkeepRequest r;
    r.verb = verb;
    r.dry_run = dry_run;
    return RunSim(ex, rebalancer.Order(r));
  }
  UpkeepReply Told() {
    UpkeepReply r;
    rebalancer.Tell(&r);
    return r;
  }
  DiskWeight Weigh(uint32_t target) {
    return RunSim(ex, WeighDisks(store.get(), &cluster, std::vector<TargetId>(1, TargetId(target)))).value();
  }
  std::set<StripeId> in_use;
  Repairer repairer{Env(), RepairBudget(), [this](const RepairTaskRecord& t, const auto&) { rebalancer.NoteRebuilt(t); }};
  Rebalancer rebalancer{Env(), &repairer, [this](StripeId s) { return repairer.HasTask(s) || in_use.count(s) > 0; }};
};

TEST_F(RebalancerTest, FullDisksGiveToEmptyOnesUntilEachHasItsShare) {
  for (int i = 0; i < 12; ++i) WriteStripe(Raid(2, 1), 2, 1, {1, 2, 3}, 16 * kMiB);
  EXPECT_EQ(Weigh(1).bytes, 96 * kMiB);
  Ask(rebalancer);
  EXPECT_EQ(repairer.in_flight(), 0u);  // nobody has ordered it
  ASSERT_TRUE(Order(UpkeepVerb::kRebalanceStart).ok());
  EXPECT_TRUE(Told().rebalancing);
  EXPECT_GT(Told().rebalance_bytes_left, 0u);
  for (int round = 0; round < 60 && Told().rebalancing; ++round) {
    Ask(rebalancer);
    for (uint32_t n = 1; n <= 6; ++n) {
      for (const RebuildWork& w : WorkFor(repairer, n, 64).rebuilds) {
        EXPECT_TRUE(repairer.TakeRebuilt(NodeId(n), Made(w)).value());
      }
    }
    ex.RunFor(kSecond);
  }
  EXPECT_FALSE(Told().rebalancing);
  EXPECT_GT(Told().rebalance_bytes_done, 0u);
  for (uint32_t n = 1; n <= 3; ++n) EXPECT_LT(Weigh(n).bytes, 72 * kMiB) << n;
  for (uint32_t n = 4; n <= 6; ++n) EXPECT_GT(Weigh(n).bytes, 24 * kMiB) << n;
}

TEST_F(RebalancerTest, LeavesAloneWhatOthersAreAtWorkWith) {
  for (int i = 0; i < 12; ++i) in_use.insert(WriteStripe(Raid(2, 1), 2, 1, {1, 2, 3}, 16 * kMiB).id);
  ASSERT_TRUE(Order(UpkeepVerb::kRebalanceStart).ok());
  Ask(rebalancer);
  EXPECT_EQ(repairer.in_flight(), 0u);
}

TEST_F(RebalancerTest, ADryRunOnlySays) {
  for (int i = 0; i < 12; ++i) WriteStripe(Raid(2, 1), 2, 1, {1, 2, 3}, 16 * kMiB);
  const auto said = Order(UpkeepVerb::kRebalanceStart, true);
  ASSERT_TRUE(said.ok());
  EXPECT_NE(said->find("bytes are moved"), std::string::npos) << *said;
  EXPECT_FALSE(Told().rebalancing);
  Ask(rebalancer);
  EXPECT_EQ(repairer.in_flight(), 0u);
}

TEST_F(RebalancerTest, AnOrderOutlivesARestart) {
  ASSERT_TRUE(Order(UpkeepVerb::kRebalanceStart).ok());
  Repairer next(Env(), RepairBudget(), [](const auto&, const auto&) {});
  Txn txn(*store);
  ASSERT_TRUE(next.Load(txn).ok());
  EXPECT_TRUE(next.settings().rebalance);
}

}  // namespace
}  // namespace stria
