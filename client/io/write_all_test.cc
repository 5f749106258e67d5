// WriteAll, StripePool, health; and the state when everything is destroyed.
#include <gtest/gtest.h>

#include "client/io/health.h"
#include "client/io/pool_test_env.h"

namespace stria {
namespace {

TEST(WriteAll, ManyStripes) {
  IoEnv env(1);
  const Layout layout = MakeLayout(1, 4, 1, 64 * kKiB, 2);
  const BufferChain payload = RandomPayload(env.rng, layout.stripe_bytes * 3 + 12'345);
  FakeSource source(&env.cluster, layout);
  Result<std::vector<WrittenPiece>> r = RunSim(env.ex, WriteAll(env.io, source, layout, payload));
  ASSERT_TRUE(r.ok()) << r.error();
  EXPECT_EQ(r->size(), 4u);
  EXPECT_EQ(source.taken, 4u);
  ExpectWritten(env, *r, payload);
}

// Nodes die, disks fill and messages get lost while it writes; m columns are lost after it.
TEST(WriteAll, SurvivesFailingTargets) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    IoEnv env(seed, 12);
    const auto layouts = TestLayouts();
    const auto& [name, layout] = layouts[env.rng.Below(layouts.size())];
    SCOPED_TRACE(name);
    const BufferChain payload = RandomPayload(env.rng, env.rng.Between(1, 2 * layout.stripe_bytes));
    for (uint64_t i = env.rng.Below(4); i > 0; --i) {
      const NodeId node(static_cast<uint32_t>(env.rng.Between(1, 12)));
      switch (env.rng.Below(4)) {
        case 0:
          env.cluster.node(node).down_after = env.rng.Below(6);
          break;
        case 1:
          env.cluster.target(TargetId(node.v)).write = FsError::kNoSpace;
          break;
        case 2:
          env.cluster.node(node).hung = true;
          break;
        case 3:
          env.cluster.target(TargetId(node.v)).lies_at_seal = true;
          break;
      }
    }
    for (uint32_t n = 1; n <= 12; ++n) {
      env.cluster.node(NodeId(n)).lost_reply_percent = static_cast<uint32_t>(env.rng.Below(10));
      env.cluster.node(NodeId(n)).duplicate_percent = 10;
    }
    FakeSource source(&env.cluster, layout);
    Result<std::vector<WrittenPiece>> r = RunSim(env.ex, WriteAll(env.io, source, layout, payload));
    ASSERT_TRUE(r.ok()) << r.error();
    for (uint32_t n = 1; n <= 12; ++n) env.cluster.node(NodeId(n)) = {};
    env.ex.RunFor(120 * kSecond);
    for (const WrittenPiece& p : *r) {
      for (uint32_t g = 0; g < p.info.shape.groups; ++g) {
        for (uint32_t lost = 0; lost < p.info.shape.m; ++lost) {
          const uint32_t i = static_cast<uint32_t>(env.rng.Below(uint32_t{layout.k} + layout.m));
          const ShardId shard = p.info.columns[ColumnOf(p.info.shape, g, i).v].shard;
          if (shard && env.cluster.Has(shard)) env.cluster.FlipBit(shard, 0);
        }
      }
    }
    ExpectWritten(env, *r, payload);
    EXPECT_EQ(env.cluster.violations(), std::vector<std::string>());
  }
}

TEST(WriteAll, NeverAcknowledgesLessThanFullM) {
  IoEnv env(2, 5);
  const Layout layout = MakeLayout(1, 4, 1, 64 * kKiB, 2);
  env.cluster.node(NodeId(3)).down = true;
  FakeSource source(&env.cluster, layout);
  WriteAllOptions options;
  options.timeout_ns = 20 * kSecond;
  const Result<std::vector<WrittenPiece>> r =
      RunSim(env.ex, WriteAll(env.io, source, layout, RandomPayload(env.rng, layout.stripe_bytes), options));
  EXPECT_FALSE(r.ok());
}

TEST(WriteAll, ErrorsGiveEverythingBack) {
  IoEnv env(3);
  const Layout layout = MakeLayout(1, 4, 1, 64 * kKiB, 1);
  class Source final : public GrantSource {
   public:
    Source(FakeDataCluster* c, const Layout& l) : fake_(c, l) {}
    Task<Result<StripeGrant>> Take(uint64_t bytes, std::vector<TargetId> avoid) override {
      if (ids.size() >= 3) co_return Error(FsError::kFenced, "fenced");
      Result<StripeGrant> g = co_await fake_.Take(bytes, std::move(avoid));
      ids.push_back(g->info.id);
      co_return g;
    }
    void GiveBack(StripeId id) override { fake_.GiveBack(id); }
    std::vector<StripeId> ids;

   private:
    FakeSource fake_;
  } source(&env.cluster, layout);
  const Result<std::vector<WrittenPiece>> r =
      RunSim(env.ex, WriteAll(env.io, source, layout, RandomPayload(env.rng, 5 * layout.stripe_bytes)));
  EXPECT_EQ(r.code(), FsError::kFenced);
  for (const StripeId id : source.ids) EXPECT_TRUE(env.cluster.IsGivenBack(id));
}

TEST(WriteAll, UsesNarrowerStripes) {
  IoEnv env(4, 4);
  const Layout layout = MakeLayout(1, 4, 1, 64 * kKiB, 2);
  Layout narrow = layout;
  narrow.k = 2;
  FakeSource source(&env.cluster, [&] {
    narrow.stripe_bytes = layout.stripe_bytes / 2;
    return narrow;
  }());
  const BufferChain payload = RandomPayload(env.rng, 2 * layout.stripe_bytes - 5);
  Result<std::vector<WrittenPiece>> r = RunSim(env.ex, WriteAll(env.io, source, layout, payload));
  ASSERT_TRUE(r.ok()) << r.error();
  EXPECT_EQ(r->size(), 4u);
  ExpectWritten(env, *r, payload);
}

TEST(WriteAll, UsesShorterStripes) {
  IoEnv env(12);
  const Layout layout = MakeLayout(1, 4, 2, 64 * kKiB, 4);
  FakeSource source(&env.cluster, layout);
  source.max_column_bytes = 64 * kKiB;
  const BufferChain payload = RandomPayload(env.rng, 2 * layout.stripe_bytes - 5);
  Result<std::vector<WrittenPiece>> r = RunSim(env.ex, WriteAll(env.io, source, layout, payload));
  ASSERT_TRUE(r.ok()) << r.error();
  EXPECT_EQ(r->size(), 8u);
  for (const WrittenPiece& p : *r) {
    for (const Column& c : p.info.columns) EXPECT_LE(c.length, source.max_column_bytes);
  }
  ExpectWritten(env, *r, payload);
}

// Too few disks: the bytes wait for them, as long as they may, and the reason is told.
TEST(WriteAll, WaitsForDisksAsLongAsItMay) {
  class Source final : public GrantSource {
   public:
    Source(FakeDataCluster* c, const Layout& l) : fake_(c, l) {}
    Task<Result<StripeGrant>> Take(uint64_t bytes, std::vector<TargetId> avoid) override {
      ++asked;
      if (Executor::Current().NowNs() < disks_at_ns) co_return Error(FsError::kTooFewDomains, "bring back n2");
      co_return co_await fake_.Take(bytes, std::move(avoid));
    }
    void GiveBack(StripeId id) override { fake_.GiveBack(id); }
    int64_t disks_at_ns = INT64_MAX;
    int asked = 0;

   private:
    FakeSource fake_;
  };
  IoEnv env(14);
  const Layout layout = MakeLayout(1, 4, 1, 64 * kKiB, 1);
  const BufferChain payload = RandomPayload(env.rng, layout.stripe_bytes);
  Source source(&env.cluster, layout);
  WriteAllOptions options;
  options.timeout_ns = options.place_timeout_ns = 20 * kSecond;
  int64_t start = env.ex.NowNs();
  auto r = RunSim(env.ex, WriteAll(env.io, source, layout, payload, options));
  EXPECT_EQ(r.code(), FsError::kTooFewDomains);
  EXPECT_NE(r.error().message.find("bring back n2"), std::string::npos) << r.error();
  EXPECT_LE(env.ex.NowNs() - start, options.timeout_ns);
  EXPECT_GE(env.ex.NowNs() - start, options.timeout_ns - 2 * kSecond);
  EXPECT_LT(source.asked, 80) << "each of two workers about once a second, and a few times at the beginning";
  // A writer that was told already asks once more.
  options.place_timeout_ns = 0;
  start = env.ex.NowNs();
  EXPECT_EQ(RunSim(env.ex, WriteAll(env.io, source, layout, payload, options)).code(), FsError::kTooFewDomains);
  EXPECT_EQ(env.ex.NowNs(), start);
  // They are back in time.
  options.place_timeout_ns = 20 * kSecond;
  source.disks_at_ns = env.ex.NowNs() + 8 * kSecond;
  r = RunSim(env.ex, WriteAll(env.io, source, layout, payload, options));
  ASSERT_TRUE(r.ok()) << r.error();
  ExpectWritten(env, *r, payload);
}

// A crash of the client at any step leaves nothing running and nothing held.
TEST(Crash, DestroysEverythingAtAnyPoint) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    IoEnv env(seed, 8);
    const Layout layout = MakeLayout(1, 4, 2, 64 * kKiB, 8);
    const BufferChain payload = RandomPayload(env.rng, layout.stripe_bytes);
    const StripeWritten w = env.Write(layout, payload);
    ASSERT_TRUE(w.error.ok());
    env.cluster.node(NodeId(2)).delay_ns = 300 * kMillisecond;
    env.cluster.node(NodeId(3)).lost_reply_percent = 50;
    FakeSource source(&env.cluster, layout);
    std::vector<uint8_t> out(payload.size());
    {
      TaskScope scope;
      scope.Spawn([](IoEnv* e, FakeSource* s, Layout l, BufferChain p) -> Task<void> {
        (void)co_await WriteAll(e->io, *s, l, std::move(p));
      }(&env, &source, layout, payload));
      scope.Spawn([](IoEnv* e, StripeInfo info, std::span<uint8_t> to) -> Task<void> {
        (void)co_await e->reader.Read(e->cluster.ReadGrant(info), 0, to);
      }(&env, w.info, out));
      uint64_t steps = env.rng.Below(400);
      env.ex.RunUntil([&] { return steps-- == 0; }, env.ex.NowNs() + 60 * kSecond);
    }
    EXPECT_EQ(env.cluster.in_service(), 0u);
    env.cluster.node(NodeId(2)) = env.cluster.node(NodeId(3)) = {};
    env.ex.RunFor(60 * kSecond);
    // Nothing that was in flight still holds its share.
    for (int i = 0; i < 3; ++i) EXPECT_EQ(env.Read(w.info, 0, payload.size()), BytesOf(payload));
    EXPECT_TRUE(env.Write(layout, payload).error.ok());
  }
}

TEST(StripePool, AllocatesAheadOfNeed) {
  PoolEnv env(5);
  for (int i = 0; i < 200; ++i) {
    env.Take();
    env.ex.RunFor(3 * kMillisecond);
  }
  EXPECT_LT(env.requests, 60u);
  const int64_t before = env.ex.NowNs();
  env.Take();
  EXPECT_EQ(env.ex.NowNs(), before);
  RunSim(env.ex, env.stripes->Close());
  EXPECT_EQ(env.taken.size() + env.returned.size(), env.allocated.size());
}

TEST(StripePool, PassesOverWhatIsToBeAvoided) {
  PoolEnv env(6);
  for (int i = 0; i < 20; ++i) env.Take();
  for (int i = 0; i < 20; ++i) {
    const StripeGrant g = env.Take(0, {TargetId(4)});
    for (const Column& c : g.info.columns) EXPECT_NE(c.target, TargetId(4));
  }
}

TEST(StripePool, DropsGrantsOnDeadNodes) {
  PoolEnv env(7);
  for (int i = 0; i < 20; ++i) env.Take();
  env.ex.RunFor(kSecond);
  ASSERT_GT(env.stripes->ready(), 4u);
  env.cluster.SetState(NodeId(2), NodeState::kDown);
  env.peers.SetMap(env.cluster.Map());
  env.stripes->OnMapChanged();
  for (size_t i = env.stripes->ready(); i > 0; --i) {
    for (const Column& c : env.Take().info.columns) EXPECT_NE(env.cluster.NodeOf(c.target), NodeId(2));
  }
}

TEST(StripePool, OldGrantsAreGivenBackByThemselves) {
  PoolEnv env(8);
  for (int i = 0; i < 20; ++i) env.Take();
  env.ex.RunFor(1000 * kSecond);
  EXPECT_EQ(env.stripes->ready(), 0u);
  const std::vector<StripeId> ids = env.stripes->TakeGiveBack(10'000);
  EXPECT_EQ(ids.size() + env.returned.size() + env.taken.size(), env.allocated.size());
}

TEST(StripePool, ForgetsThoseOfALostSession) {
  PoolEnv env(9);
  for (int i = 0; i < 20; ++i) env.Take();
  const std::set<StripeId> old = env.allocated;
  env.stripes->Drop(true);
  for (int i = 0; i < 40; ++i) EXPECT_FALSE(old.count(env.Take().info.id));
  RunSim(env.ex, env.stripes->Close());
  for (StripeId id : env.returned) EXPECT_FALSE(old.count(id));
  EXPECT_EQ(RunSim(env.ex, env.stripes->Take(InodeId(9), env.layout, 0, {})).code(), FsError::kCancelled);
}

TEST(StripePool, GivesBackWhatARestartOfTheServerMadeDoubtful) {
  PoolEnv env(11);
  for (int i = 0; i < 20; ++i) env.Take();
  const size_t ready = env.stripes->ready();
  ASSERT_GT(ready, 0u);
  const std::set<StripeId> old = env.allocated;
  env.stripes->Drop(false);
  EXPECT_EQ(env.stripes->ready(), 0u);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(old.count(env.Take().info.id));
  RunSim(env.ex, env.stripes->Close());
  EXPECT_EQ(env.returned.size() + env.taken.size(), env.allocated.size());
}

TEST(StripePool, FeedsWriteAll) {
  PoolEnv env(10);
  const BufferChain payload = RandomPayload(env.rng, 5 * env.layout.stripe_bytes);
  env.cluster.node(NodeId(4)).down = true;
  auto source = env.stripes->SourceFor(InodeId(9), env.layout);
  Result<std::vector<WrittenPiece>> r = RunSim(env.ex, WriteAll(env.io, *source, env.layout, payload));
  ASSERT_TRUE(r.ok()) << r.error();
  ExpectWritten(env, *r, payload);
  RunSim(env.ex, env.stripes->Close());
  EXPECT_EQ(env.returned.size() + r->size(), env.allocated.size());
}

TEST(StripePool, KeepsNoShortGrants) {
  PoolEnv env(13);
  for (int i = 0; i < 20; ++i) env.Take();
  env.max_column_bytes = env.layout.unit_bytes;
  while (env.stripes->ready() > 0) env.Take();
  env.ex.RunFor(kSecond);
  EXPECT_EQ(env.stripes->ready(), 0u);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(env.Take().max_column_bytes, env.layout.unit_bytes);
    env.ex.RunFor(kSecond);
    EXPECT_EQ(env.stripes->ready(), 0u);
  }
  env.max_column_bytes = 0;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(env.Take().max_column_bytes, 0u);
  env.ex.RunFor(kSecond);
  EXPECT_GT(env.stripes->ready(), 0u);
  RunSim(env.ex, env.stripes->Close());
  EXPECT_EQ(env.taken.size() + env.returned.size(), env.allocated.size());
}

TEST(StripePool, SendsWhatIsGivenBackInAHurryOnlyThen) {
  PoolEnv env(14);
  const StripeId first = env.Take().info.id;
  const StripeId second = env.Take().info.id;
  env.stripes->HurryGiveBack();  // there is nothing
  env.stripes->GiveBack(first);
  env.ex.RunFor(kSecond);
  EXPECT_FALSE(env.returned.count(first)) << "the next commit takes it along";
  env.stripes->HurryGiveBack();
  env.ex.RunFor(10 * kMillisecond);
  EXPECT_TRUE(env.returned.count(first));
  env.stripes->GiveBack(second);
  env.ex.RunFor(kSecond);
  EXPECT_FALSE(env.returned.count(second));
  env.ex.RunFor(10 * kSecond);
  EXPECT_TRUE(env.returned.count(second));
}

TEST(StripePool, WhatAWriteWithoutSpaceHasWrittenGoesBackAtOnce) {
  PoolEnv env(15);
  env.full_after = 2;
  const BufferChain payload = RandomPayload(env.rng, 40 * env.layout.stripe_bytes);
  auto source = env.stripes->SourceFor(InodeId(9), env.layout);
  EXPECT_EQ(RunSim(env.ex, WriteAll(env.io, *source, env.layout, payload)).code(), FsError::kNoSpace);
  env.ex.RunFor(10 * kMillisecond);
  EXPECT_GT(env.returned.size(), 0u);
  EXPECT_EQ(env.returned.size() + env.stripes->ready(), env.allocated.size());
}

TEST(Health, AvoidsProbesAndForgives) {
  Health h;
  h.Sent(0);
  EXPECT_FALSE(h.Avoided(0));
  h.Failed(0);
  EXPECT_TRUE(h.Avoided(Health::kAvoidMinNs - 1));
  EXPECT_FALSE(h.Avoided(Health::kAvoidMinNs));
  h.Sent(Health::kAvoidMinNs);  // the probe: others keep away
  EXPECT_TRUE(h.Avoided(Health::kAvoidMinNs + kSecond));
  h.Failed(2 * kSecond);
  EXPECT_TRUE(h.Avoided(2 * kSecond + 2 * Health::kAvoidMinNs - 1));
  h.Succeeded();
  EXPECT_FALSE(h.Avoided(2 * kSecond));
  for (int i = 0; i < 100; ++i) h.Failed(0);
  EXPECT_FALSE(h.Avoided(Health::kAvoidMaxNs));
}

TEST(Health, SlownessCountsAfterSomeStrikes) {
  Health h;
  for (int i = 1; i < Health::kSlowStrikes; ++i) h.Slow(0);
  EXPECT_FALSE(h.Avoided(0));
  h.Slow(0);
  EXPECT_TRUE(h.Avoided(0));
}

TEST(Latency, HedgesAfterWhatIsUnusual) {
  Latency l;
  EXPECT_EQ(l.HedgeAfterNs(0), Latency::kFirstNs);
  for (int i = 0; i < 100; ++i) l.Add(kMillisecond, 0);
  EXPECT_EQ(l.HedgeAfterNs(0), Latency::kMinNs);
  for (int i = 0; i < 100; ++i) l.Add(100 * kMillisecond, 0);
  EXPECT_GE(l.HedgeAfterNs(0), 100 * kMillisecond);
  EXPECT_LE(l.HedgeAfterNs(0), 200 * kMillisecond);
  for (int i = 0; i < 100; ++i) l.Add(20 * kSecond, 0);
  EXPECT_EQ(l.HedgeAfterNs(0), Latency::kMaxNs);
}

}  // namespace
}  // namespace stria
