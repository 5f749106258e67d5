#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "common/sabotage_testing.h"
#include "test/sim/replica/replica_model.h"

namespace stria {
namespace {

// STRIA_SEEDS=N: more; STRIA_FIRST_SEED=N: others.
uint64_t Setting(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : fallback;
}

TEST(ReplicaModel, HoldsInEveryHistory) {
  const uint64_t seeds = Setting("STRIA_SEEDS", 40), first = Setting("STRIA_FIRST_SEED", 1);
  ReplicaStats all;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    ReplicaModel model(seed);
    EXPECT_EQ(model.Run(), "") << "seed " << seed;
    all.Add(model.stats());
    if (HasFailure()) break;
  }
  std::printf("%s\n", all.ToString().c_str());
  if (seeds < 40) return;
  // Otherwise the histories are not what they are meant to be.
  EXPECT_GT(all.acks, 1000u);
  EXPECT_GT(all.reads, 1000u);
  EXPECT_GT(all.terms, 2 * seeds);
  EXPECT_GT(all.rewinds, 5u);
  EXPECT_GT(all.joins, seeds);
  EXPECT_GT(all.shrinks, 10u);
  EXPECT_GT(all.offers, 5u);
}

struct Case {
  const char* name;
  Sabotage bug;
  uint64_t seeds;  // so many at most until it is seen
  const char* seen;
  uint64_t first = 1;  // of the seeds: those before it do not show it
};

class ReplicaSabotage : public testing::TestWithParam<Case> {};

TEST_P(ReplicaSabotage, IsSeen) {
  const ScopedSabotage on(GetParam().bug);
  for (uint64_t seed = GetParam().first; seed <= GetParam().seeds; ++seed) {
    ReplicaModel model(seed);
    const std::string bad = model.Run();
    if (bad.find(GetParam().seen) == std::string::npos) continue;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), bad.c_str());
    return;
  }
  FAIL() << "nobody sees it in " << GetParam().seeds << " seeds";
}

INSTANTIATE_TEST_SUITE_P(All, ReplicaSabotage,
                         testing::Values(Case{"UncleanElection", Sabotage::kUncleanElection, 200, "is not in"},
                                         Case{"EagerTakeover", Sabotage::kEagerTakeover, 200, "answers a read", 35},
                                         Case{"ForgetPromises", Sabotage::kForgetPromises, 1000, "answers a read", 145},
                                         Case{"GrowBeforeRequired", Sabotage::kGrowBeforeRequired, 200, "does not have it", 25},
                                         Case{"AnswerBeforeShrink", Sabotage::kAnswerBeforeShrink, 200, "does not have it"},
                                         Case{"MajorityCommits", Sabotage::kMajorityCommits, 200, "does not have it"},
                                         Case{"IgnoreAuthority", Sabotage::kIgnoreAuthority, 200, "answers a read", 38},
                                         Case{"CountFromAnswer", Sabotage::kCountFromAnswer, 1000, "answers a read", 260},
                                         Case{"ServeWhileHanding", Sabotage::kServeWhileHanding, 200, "answers a read", 10}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace stria
