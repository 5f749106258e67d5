// Scrub orders and rebalancing.
#include <gtest/gtest.h>

#include <numeric>

#include "common/random.h"
#include "meta/repair/rebalance.h"
#include "meta/repair/scrub_orders.h"

namespace stria {
namespace {

ScrubProgress Heard(uint32_t target, int64_t order_s, bool running, int64_t finished_s) {
  ScrubProgress p;
  p.target = TargetId(target);
  p.order_s = order_s;
  p.running = running;
  p.finished_s = finished_s;
  return p;
}

TEST(ScrubOrders, EveryDiskOwesOnePass) {
  ScrubOrders o;
  EXPECT_FALSE(o.Take(Heard(1, 0, false, 50))) << "nothing was ordered";
  o.Start(100, 1000, {TargetId(1), TargetId(2)});
  ScrubOrder order = o.For({Heard(1, 0, false, 50), Heard(3, 0, false, 0)});
  EXPECT_EQ(order.start_s, 100);
  EXPECT_EQ(order.bytes_per_s, 1000u);
  EXPECT_EQ(order.targets, std::vector<TargetId>{TargetId(1)});
  EXPECT_FALSE(o.Take(Heard(1, 100, true, 50)));
  EXPECT_FALSE(o.Take(Heard(1, 0, false, 0))) << "its server has started anew: the pass is owed again";
  EXPECT_EQ(o.For({Heard(1, 0, false, 0)}).targets.size(), 1u);
  o.SetPaused(true);
  ScrubOrders again;
  const std::string bytes = o.Encode();
  EXPECT_FALSE(again.Decode(bytes.substr(0, bytes.size() - 1)).ok());
  ASSERT_TRUE(again.Decode(bytes).ok());
  EXPECT_TRUE(again.paused());
  EXPECT_TRUE(again.Take(Heard(1, 100, false, 120)));
  EXPECT_FALSE(again.Take(Heard(1, 100, false, 120)));
  EXPECT_EQ(again.owing(), std::set<TargetId>{TargetId(2)});
  again.Forget(TargetId(2));
  EXPECT_TRUE(again.owing().empty());
  again.Start(90, 0, {TargetId(1)});
  EXPECT_EQ(again.For({Heard(1, 100, false, 120)}).start_s, 101) << "a new order, whatever the clock says";
  EXPECT_FALSE(again.paused());
}

TEST(Rebalance, NothingToDoWhenEven) {
  const Rebalance r({{TargetId(1), kTiB, 10 * kGiB}, {TargetId(2), 2 * kTiB, 20 * kGiB}});
  EXPECT_TRUE(r.Givers().empty());
  EXPECT_EQ(r.BytesLeft(), 0u);
  EXPECT_TRUE(Rebalance({}).Givers().empty());
  EXPECT_FALSE(r.MayTake(TargetId(9), 1));
}

// Greedy moves, whichever shards and takers come first, end with every disk within its tolerance.
TEST(Rebalance, AnyOrderOfMovesEnds) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random rng(seed);
    const size_t n = rng.Between(2, 12);
    std::vector<RebalanceDisk> disks;
    std::map<TargetId, std::vector<uint64_t>> shards;
    uint64_t total = 0, capacity = 0;
    for (size_t i = 0; i < n; ++i) {
      RebalanceDisk d{TargetId(static_cast<uint32_t>(i + 1)), kTiB * rng.Between(1, 4), 0};
      for (uint64_t s = rng.OneIn(3) ? 0 : rng.Below(400); s > 0; --s) {
        shards[d.target].push_back(rng.Between(1, 8 * kMiB));
        d.bytes += shards[d.target].back();
      }
      total += d.bytes;
      capacity += d.capacity_bytes;
      disks.push_back(d);
    }
    Rebalance r(disks);
    uint64_t moves = 0;
    while (!r.Givers().empty()) {
      const TargetId from = r.Givers()[rng.Below(r.Givers().size())];
      std::vector<uint64_t>& mine = shards[from];
      const uint64_t bytes = mine.back();
      std::vector<TargetId> takers;
      for (const RebalanceDisk& d : disks) {
        if (r.MayTake(d.target, bytes)) takers.push_back(d.target);
      }
      ASSERT_FALSE(takers.empty()) << "seed " << seed;
      const TargetId to = takers[rng.Below(takers.size())];
      const uint64_t left = r.BytesLeft();
      r.Moved(from, to, bytes);
      mine.pop_back();
      shards[to].push_back(bytes);
      ASSERT_LT(r.BytesLeft(), left);
      ASSERT_LT(++moves, 100'000u);
    }
    for (const RebalanceDisk& d : disks) {
      const uint64_t bytes = std::accumulate(shards[d.target].begin(), shards[d.target].end(), uint64_t{0});
      const double share = static_cast<double>(total) * static_cast<double>(d.capacity_bytes) / static_cast<double>(capacity);
      ASSERT_LE(static_cast<double>(bytes), share * 1.05 + 8.0 * kMiB + 1) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace stria
