// Seeds of the simulator. STRIA_SIM_SEEDS=N runs N seeds per plan (default a few), from
// STRIA_SIM_FIRST; a failing seed prints itself and reproduces exactly:
//   STRIA_SIM_FIRST=1234 STRIA_SIM_SEEDS=1 bazel test //test/sim:sim_test --test_filter='*.Crashes'
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "test/sim/world.h"

namespace stria {
namespace {

uint64_t FromEnv(const char* name, uint64_t otherwise) {
  const char* v = std::getenv(name);
  return v && *v ? std::strtoull(v, nullptr, 10) : otherwise;
}

SimRunOptions Quick() {
  SimRunOptions o;
  o.cluster.nodes = 6;
  o.cluster.disks = 2;
  o.cluster.clients = 2;
  o.duration_ns = 40 * kSecond;
  return o;
}

void RunSeeds(const SimRunOptions& options, uint64_t default_seeds) {
  const uint64_t first = FromEnv("STRIA_SIM_FIRST", 1);
  const uint64_t seeds = FromEnv("STRIA_SIM_SEEDS", default_seeds);
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    SimWorld world(seed, options);
    const std::string failure = world.RunAll();
    ASSERT_EQ(failure, "") << "seed " << seed << "; so far: " << world.Summary();
    if (seeds <= 20 || seed % 50 == 0) std::cout << "seed " << seed << ": " << world.Summary() << std::endl;
  }
}

SimFaultPlan NoFaults() {
  SimFaultPlan p;
  p.network = p.crash_clients = p.crash_meta = p.crash_nodes = p.power_cuts = p.partitions = p.slow_disks = false;
  return p;
}

TEST(Sim, Calm) {
  SimRunOptions o = Quick();
  o.faults = NoFaults();
  RunSeeds(o, 3);
}

TEST(Sim, Network) {
  SimRunOptions o = Quick();
  o.faults = NoFaults();
  o.faults.network = o.faults.partitions = true;
  RunSeeds(o, 5);
}

TEST(Sim, Crashes) {
  SimRunOptions o = Quick();
  RunSeeds(o, 10);
}

TEST(Sim, Losses) {
  SimRunOptions o = Quick();
  o.cluster.nodes = 7;
  o.faults.lose_nodes = true;
  RunSeeds(o, 5);
}

TEST(Sim, BitRot) {
  SimRunOptions o = Quick();
  o.faults = NoFaults();
  o.faults.bit_rot = o.faults.crash_meta = o.faults.crash_clients = true;
  RunSeeds(o, 5);
}

TEST(Sim, SameSeedSameRun) {
  SimRunOptions o = Quick();
  o.duration_ns = 15 * kSecond;
  const uint64_t first = FromEnv("STRIA_SIM_FIRST", 1);
  for (uint64_t seed = first; seed < first + 3; ++seed) {
    uint64_t traces[2];
    for (uint64_t& t : traces) {
      SimWorld world(seed, o);
      EXPECT_EQ(world.RunAll(), "") << "seed " << seed;
      t = world.trace();
    }
    EXPECT_EQ(traces[0], traces[1]) << "seed " << seed;
  }
}

}  // namespace
}  // namespace stria
