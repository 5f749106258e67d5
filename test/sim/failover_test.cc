// Seeds of the failover plans. STRIA_SIM_SEEDS=N runs N seeds per plan (default a few), from STRIA_SIM_FIRST; a failing seed prints
// itself and repeats exactly. By the thousand: tools/sim-soak N --plan Failover,ThreeMetas,...
#include "test/sim/failover.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "common/sanitized.h"

namespace stria {
namespace {

uint64_t FailoverSetting(const char* name, uint64_t otherwise) {
  const char* v = std::getenv(name);
  return v && *v ? std::strtoull(v, nullptr, 10) : otherwise;
}

class Failovers : public testing::TestWithParam<FailoverPlan> {};

TEST_P(Failovers, Seeds) {
  const uint64_t first = FailoverSetting("STRIA_SIM_FIRST", 1);
  const uint64_t seeds = FailoverSetting("STRIA_SIM_SEEDS", kSanitized ? 1 : 3);
  uint64_t terms = 0;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    FailoverWorld world(seed, GetParam());
    const std::string failure = world.RunAll();
    ASSERT_EQ(failure, "") << "seed " << seed << "; so far: " << world.Summary();
    if (seeds <= 20 || seed % 50 == 0) std::cout << "seed " << seed << ": " << world.Summary() << std::endl;
    // A world in which nothing happens shows nothing.
    EXPECT_GT(world.count("files"), 10u) << "seed " << seed;
    EXPECT_GT(world.count("last reads"), 0u) << "seed " << seed;
    EXPECT_GT(world.metas().counts().compared, 0u) << "seed " << seed;
    EXPECT_GT(world.metas().counts().durable, 10u) << "seed " << seed;
    terms += world.metas().counts().terms;
  }
  // One term is of the beginning.
  if (!GetParam().same_term) EXPECT_GT(terms, seeds) << "who serves has never changed";
}

INSTANTIATE_TEST_SUITE_P(Plan, Failovers, testing::ValuesIn(FailoverPlans()), [](const auto& i) { return i.param.name; });

// The same seed is the same run: what it finds can be found again.
TEST(FailoverRepeats, SameSeedSameRun) {
  FailoverPlan plan = FindFailoverPlan("ThreeMetas");
  plan.duration_ns = 30 * kSecond;
  uint64_t traces[2];
  for (uint64_t& t : traces) {
    FailoverWorld world(FailoverSetting("STRIA_SIM_FIRST", 1), plan);
    EXPECT_EQ(world.RunAll(), "");
    t = world.trace();
  }
  EXPECT_EQ(traces[0], traces[1]);
}

// ---- One thing at a time --------------------------------------------------------------------------

FailoverPlan Quiet(size_t metas) {
  FailoverPlan p;
  p.name = "Quiet";
  p.metas = metas;
  p.network = p.late_coordinator = false;
  return p;
}

TEST(FailoverSteps, AnotherTakesOverAndClientsGoOn) {
  FailoverWorld w(5, Quiet(2));
  w.Begin();
  w.RunFor(5 * kSecond);
  ASSERT_EQ(w.failure(), "");
  const size_t first = *w.metas().Primary();
  const uint64_t term = w.cluster().meta_server()->term();
  w.metas().Crash(first, true);
  ASSERT_TRUE(w.RunUntil([&] { return w.metas().Primary() == 1 - first; }, 30 * kSecond)) << w.failure() << w.metas().Describe();
  EXPECT_GT(w.cluster().meta_server()->term(), term);
  const uint64_t files = w.count("files");
  EXPECT_TRUE(w.RunUntil([&] { return w.count("files") > files + 5; }, 60 * kSecond)) << w.failure();
  EXPECT_EQ(w.count("answers when the session had lapsed"), 0u);
  w.Finish();
  EXPECT_EQ(w.failure(), "");
}

// Nobody answers in its place before it cannot answer any more; and it does not when it is heard again.
TEST(FailoverSteps, APrimaryThatIsCutOffAnswersNothing) {
  FailoverWorld w(6, Quiet(3));
  w.Begin();
  w.RunFor(3 * kSecond);
  ASSERT_EQ(w.failure(), "");
  const size_t first = *w.metas().Primary();
  w.CutOff(first, true);
  ASSERT_TRUE(w.RunUntil([&] { return w.metas().Primary() != first; }, 30 * kSecond)) << w.failure() << w.metas().Describe();
  const uint64_t files = w.count("files");
  EXPECT_TRUE(w.RunUntil([&] { return w.count("files") > files + 5; }, 60 * kSecond)) << w.failure();
  w.CutOff(first, false);
  w.Finish();
  EXPECT_EQ(w.failure(), "");
}

TEST(FailoverSteps, AllLoseTheirPower) {
  FailoverWorld w(7, Quiet(3));
  w.Begin();
  w.RunFor(5 * kSecond);
  for (size_t c = 0; c < w.cluster().options().clients; ++c) w.CrashClientNow(c);
  for (size_t m = 0; m < 3; ++m) w.metas().Crash(m, true);
  w.RunFor(20 * kSecond);
  w.Finish();
  EXPECT_EQ(w.failure(), "");
  EXPECT_GT(w.count("last reads"), 0u);
}

// The only one that is in sync is lost. What was durable when the other one left the set is there; clients are new ones then.
TEST(FailoverSteps, OneThatLacksSomethingIsPromoted) {
  FailoverWorld w(8, Quiet(2));
  w.Begin();
  w.RunFor(8 * kSecond);
  w.OnlyMake();
  w.RunFor(3 * kSecond);
  ASSERT_EQ(w.failure(), "");
  ASSERT_TRUE(w.metas().AllIn());
  const size_t lost = *w.metas().Primary(), left = 1 - lost;
  const std::vector<std::set<std::string>> durable = w.DurableNames();
  w.metas().Crash(left, false);
  const std::set<std::string> alone = {MetaHost(lost)};
  ASSERT_TRUE(w.RunUntil([&] { return w.metas().InForce().in_sync == alone; }, 30 * kSecond)) << w.failure() << w.metas().Describe();
  const uint64_t files = w.count("files");
  ASSERT_TRUE(w.RunUntil([&] { return w.count("files") > files + 5; }, 30 * kSecond)) << w.failure();

  for (size_t c = 0; c < w.cluster().options().clients; ++c) w.CrashClientNow(c);
  w.metas().Crash(lost, true);
  w.GiveUpAllBut(durable);
  w.metas().Start(left);
  w.RunFor(8 * kSecond);
  EXPECT_FALSE(w.metas().Primary()) << "it serves although something is missing";
  w.AskToPromoteLosing(left);
  ASSERT_TRUE(w.RunUntil([&] { return w.metas().Primary() == left; }, 60 * kSecond)) << w.failure() << w.metas().Describe();
  ASSERT_TRUE(w.RunUntil([&] { return w.count("losses") == 1; }, 30 * kSecond)) << w.failure();
  w.Replace(lost);
  const uint64_t before = w.count("files");
  EXPECT_TRUE(w.RunUntil([&] { return w.count("files") > before + 5; }, 120 * kSecond)) << w.failure() << w.metas().Describe();
  w.Finish();
  EXPECT_EQ(w.failure(), "");
  EXPECT_GT(w.count("last reads"), 0u);
}

}  // namespace
}  // namespace stria
