#include "meta/repair/repair_queue.h"

#include <gtest/gtest.h>

#include "common/random.h"

namespace stria {
namespace {

using Parked = RepairQueue::Parked;

RepairTaskRecord Task(uint64_t id, uint64_t stripe, uint32_t target) {
  RepairTaskRecord t;
  t.task = id;
  t.stripe = StripeId(stripe);
  t.column = 2;
  t.new_target = TargetId(target);
  t.old_shard = ShardId(7);
  t.new_shard = ShardId(8);
  t.shard_bytes = 100;
  return t;
}

TEST(RepairQueue, RecordsRoundTripAndRefuseNoise) {
  const RepairTaskRecord t = Task(3, 4, 5);
  const std::string bytes = EncodeRepairTask(t);
  ASSERT_TRUE(DecodeRepairTask(bytes).ok());
  EXPECT_EQ(*DecodeRepairTask(bytes), t);
  const ReportedShard b{StripeId(1), 3, ShardId(9), FsError::kDiskFailed};
  EXPECT_EQ(*DecodeBadShard(EncodeBadShard(b)), b);
  const RepairSettings s{true, 1234};
  EXPECT_EQ(*DecodeRepairSettings(EncodeRepairSettings(s)), s);
  Random rng(5);
  for (int i = 0; i < 2000; ++i) {
    std::string noise = bytes.substr(0, rng.Below(bytes.size() + 1));
    if (!noise.empty()) noise[rng.Below(noise.size())] = static_cast<char>(rng.Next());
    (void)DecodeRepairTask(noise);
    (void)DecodeBadShard(noise);
    (void)DecodeRepairSettings(noise);
  }
}

TEST(RepairQueue, FewestSparesFirst) {
  RepairQueue q;
  EXPECT_TRUE(q.Add(StripeId(1), 1));
  EXPECT_TRUE(q.Add(StripeId(2), 0));
  EXPECT_TRUE(q.Add(StripeId(3), 1));
  EXPECT_EQ(q.Best(2), (std::vector<StripeId>{StripeId(2), StripeId(1)}));
  EXPECT_TRUE(q.Add(StripeId(3), -1));
  EXPECT_EQ(q.Best(9), (std::vector<StripeId>{StripeId(3), StripeId(2), StripeId(1)}));
  q.Start(Task(1, 3, 9), {});
  EXPECT_EQ(q.Best(1), std::vector<StripeId>{StripeId(2)}) << "one task per stripe";
  q.Forget(StripeId(2));
  q.End(1);
  EXPECT_EQ(q.Best(9), (std::vector<StripeId>{StripeId(3), StripeId(1)}));
}

TEST(RepairQueue, ParkedOnesAreOutOfTheWay) {
  RepairQueue q;
  for (uint64_t i = 1; i <= 3; ++i) q.Add(StripeId(i), 0);
  q.Park(StripeId(1), Parked::kUnrepairable, {TargetId(4)}, INT64_MAX);
  q.Park(StripeId(2), Parked::kRetry, {TargetId(4)}, 100);
  EXPECT_EQ(q.StuckOn(TargetId(4)), 1u);
  EXPECT_TRUE(q.Add(StripeId(1), 0)) << "stays parked";
  EXPECT_EQ(q.Best(9), std::vector<StripeId>{StripeId(3)});
  q.Unpark(99);
  EXPECT_EQ(q.parked(), 2u);
  q.Unpark(100);
  EXPECT_EQ(q.Best(9), (std::vector<StripeId>{StripeId(2), StripeId(3)}));
  q.UnparkAll();
  EXPECT_EQ(q.Best(9).size(), 3u);
  EXPECT_EQ(q.StuckOn(TargetId(4)), 0u);
}

TEST(RepairQueue, HandsOutAgainAndRespectsSlotsAndPause) {
  RepairQueue q;
  for (uint64_t i = 1; i <= 4; ++i) q.Start(Task(i, i, i == 4 ? 7 : 5), {});
  EXPECT_EQ(q.HandOut({TargetId(5)}, 2).size(), 2u);
  EXPECT_EQ(q.HandOut({TargetId(5)}, 0).size(), 2u) << "the same two";
  q.settings.paused = true;
  EXPECT_EQ(q.HandOut({TargetId(5)}, 5).size(), 2u);
  q.settings.paused = false;
  EXPECT_EQ(q.HandOut({TargetId(5)}, 5).size(), 3u);
  q.ForgetHandedOut({TargetId(5)});
  EXPECT_EQ(q.HandOut({TargetId(5)}, 1).size(), 1u);
  EXPECT_EQ(q.Where([](const RepairTaskRecord& t) { return t.new_target == TargetId(7); }).size(), 1u);
}

TEST(RepairQueue, ThrottleSpacesStarts) {
  RepairQueue q;
  q.Started(1 << 30, 0);
  EXPECT_TRUE(q.MayStart(0)) << "no limit";
  q.settings.limit_bytes_per_s = 1000;
  q.Started(500, 0);
  EXPECT_FALSE(q.MayStart(499 * kMillisecond));
  EXPECT_TRUE(q.MayStart(500 * kMillisecond));
  q.settings.paused = true;
  EXPECT_FALSE(q.MayStart(kSecond));
}

TEST(RepairQueue, ProgressRateAndEta) {
  RepairQueue q;
  q.BeginTarget(TargetId(1), "n1 is out");
  q.SetRemaining(TargetId(1), 10, 1000);
  auto p = q.Progress(0);
  ASSERT_EQ(p.size(), 1u);
  EXPECT_EQ(p[0].eta_s, -1);
  EXPECT_EQ(p[0].stripes_total, 10u);
  for (int i = 0; i < 5; ++i) q.Done(TargetId(1), 100, i * kSecond);
  p = q.Progress(5 * kSecond);
  EXPECT_EQ(p[0].stripes_done, 5u);
  EXPECT_EQ(p[0].bytes_done, 500u);
  EXPECT_EQ(p[0].bytes_total, 1000u);
  EXPECT_NEAR(p[0].bytes_per_s, 100, 1);
  EXPECT_NEAR(static_cast<double>(p[0].eta_s), 5, 1);
  EXPECT_EQ(q.Progress(100 * kSecond)[0].bytes_per_s, 0) << "old news";
  q.SetRemaining(TargetId(1), 0, 0);
  EXPECT_EQ(q.Progress(100 * kSecond)[0].eta_s, 0);
}

TEST(RepairQueue, ProgressGoesOnAfterARestart) {
  RepairQueue q;
  const RepairDone done{3, 300};
  const std::string bytes = EncodeRepairDone(done);
  EXPECT_FALSE(DecodeRepairDone(bytes.substr(0, bytes.size() - 1)).ok());
  q.LoadDone(TargetId(1), *DecodeRepairDone(bytes));
  q.BeginTarget(TargetId(1), "n1 is out");
  q.SetRemaining(TargetId(1), 7, 700);
  EXPECT_EQ(q.Progress(0)[0].stripes_done, 3u);
  EXPECT_EQ(q.Progress(0)[0].bytes_total, 1000u);
  q.Done(TargetId(1), 100, 0);
  EXPECT_EQ(q.DoneOf(TargetId(1)), (RepairDone{4, 400}));
  EXPECT_EQ(q.Targets(), std::vector<TargetId>{TargetId(1)});
}

TEST(RepairQueue, BadShardsAreOfOneShard) {
  RepairQueue q;
  EXPECT_TRUE(q.MarkBad({StripeId(1), 0, ShardId(5)}));
  EXPECT_FALSE(q.MarkBad({StripeId(1), 0, ShardId(5)}));
  EXPECT_TRUE(q.IsBad(StripeId(1), 0, ShardId(5)));
  EXPECT_FALSE(q.IsBad(StripeId(1), 0, ShardId(6))) << "the new one is fine";
  q.ClearBad(StripeId(1), 0);
  EXPECT_TRUE(q.BadStripes().empty());
}

}  // namespace
}  // namespace stria
