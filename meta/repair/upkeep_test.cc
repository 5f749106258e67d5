// Scrub orders, rebalancing, and the queue of widenings.
#include <gtest/gtest.h>

#include <numeric>

#include "common/random.h"
#include "meta/repair/rebalance.h"
#include "meta/repair/scrub_orders.h"
#include "meta/repair/widen_queue.h"

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

// Greedy moves end with every disk within its tolerance, in any order of shards and takers.
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

StripeInfo Columns(uint64_t stripe, uint64_t first_shard, uint8_t k) {
  StripeInfo info;
  info.id = StripeId(stripe);
  info.shape.k = k;
  info.shape.payload_bytes = 1000;
  for (uint8_t c = 0; c < k; ++c) info.columns.push_back({ShardId(first_shard + c), TargetId(c + 1u), 100, 5});
  return info;
}

TEST(WidenQueue, FromCandidateToDone) {
  WidenQueue q;
  EXPECT_TRUE(q.Add(StripeId(9)));
  EXPECT_TRUE(q.Add(StripeId(9)));
  EXPECT_EQ(q.waiting(), 1u);
  EXPECT_EQ(q.Next(), StripeId(9));
  EXPECT_EQ(q.Next(), std::nullopt);
  WidenRecord w;
  w.task = 4;
  w.executor = TargetId(2);
  w.from = Columns(9, 100, 2);
  w.to = Columns(9, 200, 4);
  q.Start(w);
  EXPECT_TRUE(q.HasStripe(StripeId(9)));
  EXPECT_TRUE(q.Add(StripeId(9))) << "it is in work";
  EXPECT_EQ(q.waiting(), 0u);
  EXPECT_TRUE(q.HandOut({TargetId(3)}, 5).empty()) << "of another node";
  EXPECT_TRUE(q.HandOut({TargetId(2)}, 0).empty());
  EXPECT_EQ(q.HandOut({TargetId(2)}, 1).size(), 1u);
  EXPECT_EQ(q.HandOut({TargetId(2)}, 0).size(), 1u) << "until it reports";
  q.ForgetHandedOut({TargetId(2)});
  EXPECT_TRUE(q.HandOut({TargetId(2)}, 0).empty());
  EXPECT_EQ(q.Find(4)->leftovers(), w.to.columns);
  EXPECT_FALSE(q.BeginTelling(4));
  q.Swapped(4, w.from, w.to);
  EXPECT_EQ(q.Find(4)->leftovers(), w.from.columns);
  EXPECT_TRUE(q.HandOut({TargetId(2)}, 5).empty());
  EXPECT_TRUE(q.BeginTelling(4));
  EXPECT_FALSE(q.BeginTelling(4));
  q.End(4);
  q.End(4);
  EXPECT_EQ(q.Find(4), nullptr);
  EXPECT_FALSE(q.HasStripe(StripeId(9)));
}

TEST(WidenQueue, WhatLacksCopiesComesFirst) {
  WidenQueue q;
  q.Add(StripeId(1));
  q.Add(StripeId(3), true);
  q.Add(StripeId(2), true);
  EXPECT_EQ(q.Next(), StripeId(2));
  EXPECT_EQ(q.Next(true), StripeId(3));
  EXPECT_EQ(q.Next(true), std::nullopt);
  EXPECT_EQ(q.Next(), StripeId(1));
}

TEST(WidenQueue, IsBounded) {
  WidenQueue q;
  for (uint64_t i = 1; i <= kMaxWidenCandidates; ++i) EXPECT_TRUE(q.Add(StripeId(i)));
  EXPECT_FALSE(q.Add(StripeId(kMaxWidenCandidates + 1)));
  EXPECT_TRUE(q.Add(StripeId(1)));
  EXPECT_TRUE(q.Add(StripeId(kMaxWidenCandidates + 1), true)) << "in place of one that is not urgent";
  EXPECT_EQ(q.waiting(), kMaxWidenCandidates);
  EXPECT_EQ(q.Next(), StripeId(kMaxWidenCandidates + 1));
}

TEST(WidenQueue, RecordsSurvive) {
  WidenRecord w;
  w.task = 4;
  w.executor = TargetId(2);
  w.swapped = true;
  w.from = Columns(9, 100, 2);
  w.to = Columns(9, 200, 4);
  const std::string bytes = EncodeWiden(w);
  EXPECT_EQ(DecodeWiden(bytes).value(), w);
  for (size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(DecodeWiden(bytes.substr(0, n)).ok()) << n;
  w.to.id = StripeId(10);
  EXPECT_FALSE(DecodeWiden(EncodeWiden(w)).ok());
}

}  // namespace
}  // namespace stria
