// A data server that falls silent: packets vanish, nothing refuses. Readers and writers go on without it within seconds and
// keep away from it until it is heard again; they wait for servers that are only slow.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/io/pool_test_env.h"
#include "common/sanitized.h"

namespace stria {
namespace {

constexpr int64_t kMostNs = 3 * kSecond;
constexpr int64_t kUsualNs = 200 * kMillisecond;

// Counts what writers had and gave up.
class CountingSource final : public GrantSource {
 public:
  explicit CountingSource(std::unique_ptr<GrantSource> from) : from_(std::move(from)) {}
  Task<Result<StripeGrant>> Take(uint64_t payload_bytes, std::vector<TargetId> avoid) override {
    return from_->Take(payload_bytes, std::move(avoid));
  }
  void GiveBack(StripeId stripe) override {
    ++abandoned;
    from_->GiveBack(stripe);
  }
  size_t abandoned = 0;

 private:
  std::unique_ptr<GrantSource> from_;
};

class Silent : public PoolEnv {
 public:
  explicit Silent(uint64_t seed, uint32_t nodes = 10, uint32_t disks = 2) : PoolEnv(seed, nodes, disks) {
    Use(layout);
  }
  void Use(const Layout& l) {
    layout = l;
    source = std::make_unique<CountingSource>(stripes->SourceFor(InodeId(9), layout));
  }
  // The time it took; all is durable, with full m.
  int64_t WriteDurably(uint64_t bytes) {
    const BufferChain payload = RandomPayload(rng, bytes);
    const int64_t began = ex.NowNs();
    Result<std::vector<WrittenPiece>> r = RunSim(ex, WriteAll(io, *source, layout, payload));
    const int64_t took = ex.NowNs() - began;
    EXPECT_TRUE(r.ok()) << r.error();
    if (!r.ok()) return took;
    pieces += r->size();
    for (const WrittenPiece& p : *r) {
      EXPECT_EQ(p.info.shape.m, layout.m);
      for (const Column& c : p.info.columns) {
        if (c.shard) EXPECT_TRUE(cluster.IsSealed(c.shard));
      }
    }
    if (check) ExpectWritten(*this, *r, payload);
    return took;
  }
  size_t abandoned() const { return source->abandoned; }

  std::unique_ptr<CountingSource> source;
  size_t pieces = 0;
  bool check = true;  // reads it again
};

// At each request of a write: before it is done, or after it.
TEST(SilentNode, StallsAWriterLittleWhateverItIsAskedForThen) {
  for (uint64_t step = 0; step < 24; ++step) {
    for (const uint64_t bytes : {uint64_t{20'000}, uint64_t{900'000}, 20 * kMiB}) {
      if (kSanitized && bytes > kMiB && step % 4 != 3) continue;  // these are most of the time
      SCOPED_TRACE(std::to_string(step) + " requests, " + std::to_string(bytes) + " bytes");
      Silent env(100 + step);
      env.Use(MakeLayout(1, 4, 1, kDefaultUnitBytes, 8));
      for (int i = 0; i < 3; ++i) EXPECT_LT(env.WriteDurably(bytes), kUsualNs);
      env.cluster.node(NodeId(3)).hung_after = step;
      for (int i = 0; i < 8; ++i) EXPECT_LE(env.WriteDurably(bytes), kMostNs);
    }
  }
}

TEST(SilentNode, StallsManyWritersAtOnceLittle) {
  Silent env(1);
  for (int i = 0; i < 3; ++i) env.WriteDurably(100'000);
  env.cluster.node(NodeId(3)).hung = true;
  TaskScope scope;
  int left = 60;
  int64_t longest_ns = 0;
  for (int i = left; i > 0; --i) {
    scope.Spawn([](Silent* e, int* n, int64_t* longest) -> Task<void> {
      const int64_t began = e->ex.NowNs();
      auto r = co_await WriteAll(e->io, *e->source, e->layout, RandomPayload(e->rng, 700'000));
      EXPECT_TRUE(r.ok()) << r.error();
      *longest = std::max(*longest, e->ex.NowNs() - began);
      --*n;
    }(&env, &left, &longest_ns));
  }
  EXPECT_TRUE(env.ex.RunUntil([&] { return left == 0; }, env.ex.NowNs() + 100 * kSecond));
  EXPECT_LE(longest_ns, kMostNs);
  EXPECT_EQ(env.io.peers.LostNodes(), std::vector<NodeId>{NodeId(3)}) << "which the metadata server is told";
}

// Two of raid6 lose power together.
TEST(SilentNode, AndAnotherStallNoLonger) {
  Silent env(2);
  env.Use(MakeLayout(1, 4, 2, 64 * kKiB, 4));
  env.WriteDurably(1 * kMiB);
  env.cluster.node(NodeId(3)).hung = env.cluster.node(NodeId(6)).hung = true;
  for (int i = 0; i < 8; ++i) EXPECT_LE(env.WriteDurably(1 * kMiB), kMostNs);
}

// The metadata server hears it and goes on placing stripes there: this client alone cannot reach it.
TEST(SilentNode, StallsNoLaterWrite) {
  Silent env(3);
  for (int i = 0; i < 3; ++i) env.WriteDurably(100'000);
  env.cluster.node(NodeId(3)).hung = true;
  int stalls = 0;
  uint64_t written = 0;
  for (int i = 0; i < 60; ++i) {
    const int64_t took = env.WriteDurably(300'000);
    EXPECT_LE(took, kMostNs);
    if (took > kUsualNs) {
      ++stalls;
      written = env.cluster.counters(NodeId(3)).writes;
    }
    env.ex.RunFor(2 * kSecond);
  }
  EXPECT_EQ(stalls, 1);
  EXPECT_EQ(env.cluster.counters(NodeId(3)).writes, written) << "no later write sends it anything (probes are seals)";
  // It is used again soon when it is heard.
  env.cluster.node(NodeId(3)).hung = false;
  env.ex.RunFor(10 * kSecond);
  for (int i = 0; i < 20; ++i) EXPECT_LT(env.WriteDurably(300'000), kUsualNs);
  EXPECT_GT(env.cluster.counters(NodeId(3)).writes, written);
}

// It is removed while a call to it is under way. Time passes all the same, the call ends, and then nothing is asked of it.
TEST(SilentNode, ThatIsRemovedMeanwhileIsNotWaitedFor) {
  Silent env(3);
  for (int i = 0; i < 3; ++i) env.WriteDurably(100'000);
  env.cluster.node(NodeId(3)).hung = true;
  TaskScope scope;
  std::optional<FsError> said;
  scope.Spawn([](Silent* e, std::optional<FsError>* out) -> Task<void> {
    *out = (co_await e->io.peers.Seal(NodeId(3), SealRequest())).code();
  }(&env, &said));
  env.ex.RunFor(100 * kMillisecond);
  auto map = std::make_shared<ClusterMap>(*env.cluster.Map());
  std::erase_if(map->nodes, [](const NodeInfo& n) { return n.id == NodeId(3); });
  std::erase_if(map->targets, [](const TargetInfo& t) { return t.node == NodeId(3); });
  env.io.peers.SetMap(map);
  env.ex.RunFor(kMostNs);
  EXPECT_TRUE(said);
  env.ex.RunFor(10 * kSecond);
  const uint64_t seals = env.cluster.counters(NodeId(3)).seals;
  env.ex.RunFor(60 * kSecond);
  EXPECT_EQ(env.cluster.counters(NodeId(3)).seals, seals);
}

// A connection that is refused at once, by this client's view only.
TEST(SilentNode, ThatRefusesStallsNoLaterWriteEither) {
  Silent env(4);
  for (int i = 0; i < 3; ++i) env.WriteDurably(100'000);
  env.cluster.node(NodeId(3)).down = true;
  int stalls = 0;
  for (int i = 0; i < 60; ++i) {
    const int64_t took = env.WriteDurably(300'000);
    EXPECT_LE(took, kMostNs);
    stalls += took > kUsualNs;
    env.ex.RunFor(2 * kSecond);
  }
  EXPECT_LE(stalls, 2);
}

// There is no place without it: it is waited for, and the write ends when it is back.
TEST(SilentNode, ThatCannotBeDoneWithoutIsWaitedFor) {
  Silent env(5, 5, 1);
  for (int i = 0; i < 3; ++i) env.WriteDurably(100'000);
  env.cluster.node(NodeId(3)).hung = true;
  Timer back;
  env.ex.StartTimer(&back, env.ex.NowNs() + 20 * kSecond, [&] { env.cluster.node(NodeId(3)).hung = false; });
  const int64_t took = env.WriteDurably(300'000);
  EXPECT_GE(took, 19 * kSecond);
  EXPECT_LE(took, 26 * kSecond);
}

TEST(SilentNode, StallsReadersLittle) {
  Silent env(6);
  const BufferChain payload = RandomPayload(env.rng, env.layout.stripe_bytes);
  const StripeWritten w = env.Write(env.layout, payload);
  ASSERT_TRUE(w.error.ok());
  for (int i = 0; i < 3; ++i) env.Read(w.info, 0, payload.size());
  env.cluster.node(env.cluster.NodeOf(w.info.columns[1].target)).hung = true;
  TaskScope scope;
  int left = 200;  // far more than may be raced
  int64_t longest_ns = 0;
  for (int i = left; i > 0; --i) {
    scope.Spawn([](Silent* e, StripeInfo info, uint64_t bytes, int* n, int64_t* longest) -> Task<void> {
      std::vector<uint8_t> out(bytes);
      const int64_t began = e->ex.NowNs();
      const Result<void> r = co_await e->reader.Read(e->cluster.ReadGrant(info), 0, out);
      EXPECT_TRUE(r.ok()) << r.error();
      *longest = std::max(*longest, e->ex.NowNs() - began);
      --*n;
    }(&env, w.info, payload.size(), &left, &longest_ns));
  }
  EXPECT_TRUE(env.ex.RunUntil([&] { return left == 0; }, env.ex.NowNs() + 100 * kSecond));
  EXPECT_LE(longest_ns, kMostNs);
}

// ---- Slow is not silent ----

TEST(SlowNodes, AllOfThemAreWaitedFor) {
  Silent env(7);
  env.check = false;
  for (int i = 0; i < 3; ++i) env.WriteDurably(100'000);
  for (uint32_t n = 1; n <= 10; ++n) env.cluster.node(NodeId(n)).delay_ns = 2700 * kMillisecond;
  for (int i = 0; i < 40; ++i) env.WriteDurably(2 * env.layout.stripe_bytes);
  EXPECT_EQ(env.abandoned(), 0u);
}

// Their disks have much to do; the servers answer what takes no disk.
TEST(SlowNodes, WithBusyDisksAreWaitedFor) {
  Silent env(8);
  env.check = false;
  for (int i = 0; i < 3; ++i) env.WriteDurably(100'000);
  for (uint32_t n = 1; n <= 3; ++n) env.cluster.node(NodeId(n)).disk_delay_ns = 5 * kSecond;
  for (int i = 0; i < 40; ++i) env.WriteDurably(2 * env.layout.stripe_bytes);
  EXPECT_EQ(env.abandoned(), 0u);
}

// One server alone takes longer for everything than any call would wait: it is given up a few times, then it is known.
TEST(SlowNodes, OneThatIsTakenForSilentIsSoonGivenMoreTime) {
  Silent env(9);
  env.check = false;
  for (int i = 0; i < 3; ++i) env.WriteDurably(100'000);
  env.cluster.node(NodeId(3)).delay_ns = 2700 * kMillisecond;
  for (int i = 0; i < 200; ++i) env.WriteDurably(2 * env.layout.stripe_bytes);
  EXPECT_GE(env.pieces, 400u);
  EXPECT_LE(env.abandoned(), 20u);
}

// ---- Pure ----

TEST(Silence, OnlyWhatIsOwedCanBeMissed) {
  Silence s;
  EXPECT_FALSE(s.DoubtNs());
  s.Asked(0);
  EXPECT_EQ(s.DoubtNs(), Silence::kPatienceNs);
  s.Asked(100);
  s.Heard(500 * kMillisecond);  // of one of the two
  s.Ended();
  EXPECT_FALSE(s.InDoubt(Silence::kPatienceNs));
  EXPECT_TRUE(s.InDoubt(500 * kMillisecond + Silence::kPatienceNs));
  s.Ended();  // no call waits any more
  EXPECT_FALSE(s.InDoubt(100 * kSecond));
  s.Failed(100 * kSecond);
  EXPECT_TRUE(s.WantsProbes(100 * kSecond));
  EXPECT_FALSE(s.Unanswered(100 * kSecond + Silence::kPatienceNs)) << "it may just be starting";
  EXPECT_TRUE(s.Unanswered(100 * kSecond + Silence::kPatienceNs + Silence::kProbeNs));
  s.Heard(103 * kSecond);
  EXPECT_FALSE(s.WantsProbes(200 * kSecond));
}

TEST(Silence, FalseAlarmsMakeItPatientForAWhile) {
  Silence s;
  int64_t now = 0;
  EXPECT_EQ(s.ProbeNs(), Silence::kProbeNs);
  for (int i = 1; i < 10; ++i) {
    s.Lost(now);
    EXPECT_TRUE(s.lost());
    s.Heard(now += 2 * kSecond);
    EXPECT_FALSE(s.lost());
    EXPECT_EQ(s.ProbeNs(), Silence::kProbeNs << std::min(i, Silence::kMaxAlarms));
  }
  s.Lost(now);
  s.Heard(now += 100 * kSecond);  // it was away indeed
  EXPECT_EQ(s.ProbeNs(), Silence::kProbeNs << Silence::kMaxAlarms);
  for (int i = 0; i < 10; ++i) s.Heard(now += Silence::kForgetAlarmNs);
  EXPECT_EQ(s.ProbeNs(), Silence::kProbeNs);
}

TEST(Silence, ProbesThatUsuallyTakeLongAreWaitedForLonger) {
  Silence s;
  for (int i = 0; i < 100; ++i) s.ProbeAnswered(1500 * kMillisecond);
  EXPECT_GT(s.ProbeNs(), Silence::kProbeNs);
  for (int i = 0; i < 100; ++i) s.ProbeAnswered(20 * kSecond);
  EXPECT_EQ(s.ProbeNs(), Silence::kUsualProbeMaxNs);
  for (int i = 0; i < 100; ++i) s.ProbeAnswered(kMillisecond);
  EXPECT_EQ(s.ProbeNs(), Silence::kProbeNs);
}

TEST(GiveUpBudget, NeverMoreThanHalfAndNotTooOften) {
  GiveUpBudget b;
  EXPECT_FALSE(b.Take(3, 5));
  EXPECT_FALSE(b.Take(1, 1));
  EXPECT_TRUE(b.Take(1, 2));
  size_t taken = 1;
  while (b.Take(2, 5)) ++taken;
  EXPECT_EQ(taken, GiveUpBudget::kBurst);
  for (uint64_t i = 0; i < GiveUpBudget::kAnswersEach; ++i) {
    EXPECT_FALSE(b.Take(1, 5));
    b.Answered();
  }
  EXPECT_TRUE(b.Take(1, 5));
}

}  // namespace
}  // namespace stria
