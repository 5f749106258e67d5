// Seeds of the simulator. STRIA_SIM_SEEDS=N runs N seeds per plan (default a few), from
// STRIA_SIM_FIRST; a failing seed prints itself and reproduces exactly:
//   STRIA_SIM_FIRST=1234 STRIA_SIM_SEEDS=1 bazel test //test/sim:sim_test --test_filter='*/Crashes'
// Under sanitizers the time with faults is shorter where a plan says more than kMostNs: reproduce with the same ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "common/sanitized.h"
#include "test/sim/world.h"

namespace stria {
namespace {

constexpr uint64_t kDefaultSeeds = kSanitized ? 1 : 3;  // of each plan
constexpr int64_t kLongNs = 100 * kSecond;              // a plan with faults for longer has one seed
constexpr int64_t kMostNs = kSanitized ? 40 * kSecond : INT64_MAX;

uint64_t FromEnv(const char* name, uint64_t otherwise) {
  const char* v = std::getenv(name);
  return v && *v ? std::strtoull(v, nullptr, 10) : otherwise;
}

class Sim : public testing::TestWithParam<SimPlan> {};

TEST_P(Sim, Seeds) {
  const uint64_t first = FromEnv("STRIA_SIM_FIRST", 1);
  SimRunOptions o = GetParam().options;
  const uint64_t seeds = FromEnv("STRIA_SIM_SEEDS", o.duration_ns > kLongNs ? 1 : kDefaultSeeds);
  o.duration_ns = std::min(o.duration_ns, kMostNs);
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    SimWorld world(seed, o);
    const std::string failure = world.RunAll();
    ASSERT_EQ(failure, "") << "seed " << seed << "; so far: " << world.Summary();
    if (seeds <= 20 || seed % 50 == 0) std::cout << "seed " << seed << ": " << world.Summary() << std::endl;
  }
}

INSTANTIATE_TEST_SUITE_P(Plan, Sim, testing::ValuesIn(SimPlans()),
                         [](const auto& i) { return i.param.name; });

TEST(SimRepeats, SameSeedSameRun) {
  const uint64_t first = FromEnv("STRIA_SIM_FIRST", 1);
  for (const char* plan : {"Crashes", "Disks", "Members"}) {
    SimRunOptions o = FindSimPlan(plan).options;
    o.duration_ns = (kSanitized ? 8 : 15) * kSecond;
    uint64_t traces[2];
    for (uint64_t& t : traces) {
      SimWorld world(first, o);
      EXPECT_EQ(world.RunAll(), "") << plan << " seed " << first;
      t = world.trace();
    }
    EXPECT_EQ(traces[0], traces[1]) << plan << " seed " << first;
  }
}

}  // namespace
}  // namespace stria
