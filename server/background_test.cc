#include "server/background.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "server/node_testing.h"

namespace stria {
namespace {

constexpr int64_t kStep = 1 * kMillisecond;

TEST(BackgroundShareTest, OnlyPiecesAreBoundedWhenNobodyElseIsThere) {
  BackgroundOptions options;
  options.pieces = 3;
  BackgroundShare share(options);
  const int64_t now = 50 * kSecond;
  for (int i = 0; i < 3; ++i) {
    ASSERT_LE(share.MayBeginAt(now), now);
    share.BackgroundBegan(kGiB, now);
  }
  EXPECT_EQ(share.MayBeginAt(now), now + options.max_piece_ns) << "they might hang";
  share.BackgroundEnded(now);
  EXPECT_LE(share.MayBeginAt(now), now);
  EXPECT_LE(share.MayBeginAt(now + options.max_piece_ns), now + options.max_piece_ns);
}

TEST(BackgroundShareTest, WaitsWhileOthersAreThereAndNotForLongAfter) {
  BackgroundOptions options;
  options.floor_bytes_per_s = kMiB;
  BackgroundShare share(options);
  int64_t now = kSecond;
  share.ForegroundBegan(now);
  ASSERT_LE(share.MayBeginAt(now), now) << "the first piece need not wait";
  share.BackgroundBegan(2 * kMiB, now);
  share.BackgroundEnded(now);
  EXPECT_NEAR(static_cast<double>(share.MayBeginAt(now)), static_cast<double>(now + 2 * kSecond), 10);
  now += kSecond;
  EXPECT_TRUE(share.InUse(now));
  share.ForegroundEnded(0, now);
  EXPECT_EQ(share.MayBeginAt(now), now + options.quiet_ns);
  now += options.quiet_ns;
  EXPECT_FALSE(share.InUse(now));
  EXPECT_LE(share.MayBeginAt(now), now);
  share.BackgroundBegan(kGiB, now);
  share.BackgroundEnded(now);
  EXPECT_LE(share.MayBeginAt(now), now);
  share.ForegroundBegan(now);
  EXPECT_LE(share.MayBeginAt(now), now) << "what was done while nobody was there is not held against it";
}

TEST(BackgroundShareTest, TheShareChangesWhileItRuns) {
  for (const uint32_t percent : {10, 50}) {
    BackgroundOptions options;
    options.percent = 10;
    options.floor_bytes_per_s = kMiB;
    BackgroundShare share(options);
    const int64_t now = kSecond;
    for (int i = 0; i < 2; ++i) share.ForegroundBegan(now);
    share.BackgroundBegan(9 * kMiB, now);
    share.BackgroundEnded(now);
    share.SetPercent(percent);
    share.ForegroundEnded(9 * kMiB, now);
    EXPECT_NEAR(static_cast<double>(share.MayBeginAt(now)), static_cast<double>(now + (percent == 10 ? 8 * kSecond : 0)), 10);
  }
}

// Others are always there, the background always wants more: it gets its share and the floor, no less and no more.
TEST(BackgroundShareTest, GetsItsShareAndTheFloor) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Random rng(seed);
    BackgroundOptions options;
    options.percent = static_cast<uint32_t>(1 + rng.Below(50));
    options.floor_bytes_per_s = (1 + rng.Below(16)) * kMiB;
    options.pieces = 4 + rng.Below(5);
    BackgroundShare share(options);
    std::multimap<int64_t, uint64_t> requests;  // that end then
    std::multimap<int64_t, int64_t> pieces;     // that end then: began
    double others = 0, background = 0;
    const int64_t end = 20 * kSecond;
    for (int64_t now = kStep; now < end; now += kStep) {
      while (!pieces.empty() && pieces.begin()->first <= now) {
        share.BackgroundEnded(pieces.begin()->second);
        pieces.erase(pieces.begin());
      }
      while (requests.size() < 3) {
        share.ForegroundBegan(now);
        requests.emplace(now + kStep + static_cast<int64_t>(rng.Below(20)) * kStep, rng.Below(kMiB));
      }
      while (share.MayBeginAt(now) <= now) {
        const uint64_t bytes = 1 + rng.Below(kMiB);
        share.BackgroundBegan(bytes, now);
        background += static_cast<double>(bytes);
        pieces.emplace(now + kStep + static_cast<int64_t>(rng.Below(4)) * kStep, now);
      }
      while (!requests.empty() && requests.begin()->first <= now && requests.size() > 1) {
        share.ForegroundEnded(requests.begin()->second, now);
        others += static_cast<double>(requests.begin()->second);
        requests.erase(requests.begin());
      }
    }
    const double due = others * options.percent / (100.0 - options.percent) +
                       static_cast<double>(options.floor_bytes_per_s) * end / kSecond;
    EXPECT_LE(background, due + static_cast<double>(options.max_saved_bytes + kMiB)) << "seed " << seed;
    EXPECT_GE(background, 0.95 * due - 2 * kMiB) << "seed " << seed;
  }
}

// A data server with one disk of 100 MB/s.
class BackgroundGateTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kDiskBytesPerS = 100'000'000;
  static constexpr uint64_t kShardBytes = 4 * kMiB;
  static constexpr uint64_t kShards = 4;
  static constexpr int64_t kRunNs = 2 * kSecond;

  BackgroundGateTest() : ex_(1), nodes_(ex_, 1, 1), sim_(7, SlowDisk()) {
    sim_.Start(ex_);
    server().SetTarget(TargetId(2), sim_.store.get());
    for (uint64_t id = 1; id <= kShards; ++id) {
      EXPECT_TRUE(RunSim(ex_, StoreWhole(sim_.store.get(), ShardId(id), kShardBytes)).ok());
    }
  }
  static SimDiskOptions SlowDisk() {
    SimDiskOptions o;
    o.bytes_per_s = kDiskBytesPerS;
    o.op_latency_ns = 500 * kMicrosecond;
    return o;
  }
  DataServer& server() { return *nodes_.nodes.at(1).server; }

  // Reads one shard again and again.
  static Task<void> ReadOn(BackgroundGateTest* t, uint64_t reader, uint64_t chunk, bool background, uint64_t* bytes) {
    const ShardId shard(1 + reader % kShards);
    for (uint64_t at = reader % (kShardBytes / chunk) * chunk;; at = (at + chunk) % kShardBytes) {
      ReadRequest r;
      r.header = t->nodes_.Header();
      r.header.background = background;
      r.items.push_back({shard, TargetId(2), t->nodes_.Token(shard, 2, kTokenRead), at, chunk});
      const Result<ReadReply> reply = co_await t->server().Read(std::move(r));
      EXPECT_TRUE(reply.ok()) << reply.error();
      if (reply.ok()) *bytes += reply->payload.size();
    }
  }
  struct Rates {
    uint64_t others = 0, background = 0;  // bytes
  };
  // `flagged`: the background readers say that they are background.
  Rates Run(uint64_t readers, uint64_t background_readers, bool flagged, int64_t run_ns = kRunNs) {
    Rates out;
    TaskScope scope;
    for (uint64_t i = 0; i < readers; ++i) scope.Spawn(ReadOn(this, i, 256 * kKiB, false, &out.others));
    for (uint64_t i = 0; i < background_readers; ++i) {
      scope.Spawn(ReadOn(this, i, kMiB, flagged, &out.background));
    }
    ex_.RunFor(run_ns);
    return out;
  }

  SimExecutor ex_;
  SimNodes nodes_;
  SimStore sim_;
};

TEST_F(BackgroundGateTest, ReadersKeepMostOfTheirRateDuringARebuild) {
  const Rates healthy = Run(3, 0, true);
  const Rates during = Run(3, 12, true);
  EXPECT_GT(during.others, healthy.others * 6 / 10) << healthy.others;
  EXPECT_GT(during.background, 8 * kMiB * kRunNs / kSecond * 8 / 10) << "the floor";
  const Rates unbounded = Run(3, 12, false);
  EXPECT_LT(unbounded.others, healthy.others / 2) << "this test shows nothing: a rebuild does no harm";
}

TEST_F(BackgroundGateTest, ARebuildHasTheDiskForItselfWhenNobodyReads) {
  const Rates alone = Run(0, 12, true);
  EXPECT_GT(alone.background, kDiskBytesPerS * kRunNs / kSecond * 9 / 10);
}

TEST_F(BackgroundGateTest, APieceThatIsGivenUpLeavesNothingBehind) {
  sim_.disk_media->faults.hung = true;
  // Before the disk is found silent (server/disk_silence.h): destroyed while they wait for the disk, or for their turn.
  (void)Run(0, 12, true, kSecond / 2);
  sim_.disk_media->faults.hung = false;
  EXPECT_GT(Run(0, 12, true).background, kDiskBytesPerS * kRunNs / kSecond * 9 / 10);
}

TEST_F(BackgroundGateTest, WhatWaitsTooLongIsTold) {
  BackgroundOptions options;
  options.floor_bytes_per_s = 1;
  DataServerOptions server_options;
  server_options.background = options;
  DataServer busy(&nodes_.verifier, server_options);
  busy.SetCluster(kTestCluster, kTestIncarnation);
  busy.SetTarget(TargetId(2), sim_.store.get());
  const GateUse others = busy.gate().Foreground(0);
  ReadRequest r;
  r.header = nodes_.Header();
  r.header.background = true;
  r.header.timeout_ns = 3 * kSecond;
  r.items.push_back({ShardId(1), TargetId(2), nodes_.Token(ShardId(1), 2, kTokenRead), 0, kMiB});
  EXPECT_TRUE(RunSim(ex_, busy.Read(r)).ok()) << "the first";
  const int64_t asked = ex_.NowNs();
  EXPECT_EQ(RunSim(ex_, busy.Read(r)).code(), FsError::kDeadline);
  EXPECT_EQ(ex_.NowNs() - asked, 3 * kSecond);
  r.header.background = false;
  EXPECT_TRUE(RunSim(ex_, busy.Read(r)).ok());
}

}  // namespace
}  // namespace stria
