// Members that crash, lose power, lose messages, are cut off, are too slow, are deposed with batches that nobody has:
// replica_world.h.
#include "meta/replica/replica_world.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "common/sabotage.h"
#include "common/sabotage_testing.h"

namespace stria {
namespace {

// STRIA_SEEDS: how many, for long runs; STRIA_FIRST_SEED: from which on.
uint64_t FromEnv(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

size_t MembersOf(uint64_t seed) { return seed % 3 == 0 ? 2 : 3; }

TEST(ReplicaRandom, NothingAcknowledgedIsLostAndStoresAreEqual) {
  const uint64_t first = FromEnv("STRIA_FIRST_SEED", 1), seeds = FromEnv("STRIA_SEEDS", 150);
  ReplicaWorld::Counts all;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    ReplicaWorld world(seed, MembersOf(seed));
    ASSERT_EQ(world.Run(), "") << "seed " << seed;
    all.acked += world.counts().acked;
    all.terms += world.counts().terms;
    all.rewinds += world.counts().rewinds;
    all.copies += world.counts().copies;
    all.shrinks += world.counts().shrinks;
    all.grows += world.counts().grows;
    all.crashes += world.counts().crashes;
  }
  RecordProperty("acknowledged", static_cast<int>(all.acked));
  RecordProperty("terms", static_cast<int>(all.terms));
  RecordProperty("rewinds", static_cast<int>(all.rewinds));
  RecordProperty("copies", static_cast<int>(all.copies));
  if (seeds < 100) return;
  // A world in which nothing happens shows nothing.
  EXPECT_GT(all.acked, 10 * seeds);
  EXPECT_GT(all.terms, 2 * seeds);
  EXPECT_GT(all.rewinds, 0u);
  EXPECT_GT(all.copies, seeds);
  EXPECT_GT(all.shrinks, 0u);
  EXPECT_GT(all.grows, seeds);
}

// The same seed is the same run: what it finds can be found again.
TEST(ReplicaRandom, ASeedRepeats) {
  ReplicaWorld a(7, 3);
  const std::string problem = a.Run();
  const uint64_t steps = a.ex().steps(), acked = a.counts().acked;
  ReplicaWorld b(7, 3);
  EXPECT_EQ(b.Run(), problem);
  EXPECT_EQ(b.ex().steps(), steps);
  EXPECT_EQ(b.counts().acked, acked);
}

// Of the sabotages, those that any schedule with power cuts meets soon. The others have schedules of their own:
// replica_rules_test.
class Caught : public testing::TestWithParam<Sabotage> {};

TEST_P(Caught, BySomeSeed) {
  const ScopedSabotage on(GetParam());
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    ReplicaWorld world(seed, 3);
    if (!world.Run().empty()) return;
  }
  FAIL() << "300 seeds have not seen it";
}

INSTANTIATE_TEST_SUITE_P(Sabotages, Caught,
                         testing::Values(Sabotage::kCommitByMajority, Sabotage::kFollowUnsynced, Sabotage::kRewindLogOnly));

}  // namespace
}  // namespace stria
