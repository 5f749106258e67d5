#include "common/kv/dead_runs.h"

#include <gtest/gtest.h>

#include <set>

#include "common/random.h"
#include "common/sanitized.h"

namespace stria {
namespace {

std::string Key(uint64_t n) { return {static_cast<char>('a' + n / 26), static_cast<char>('a' + n % 26)}; }
constexpr uint64_t kKeys = 26 * 26;

KvBatch Puts(std::string key) {
  KvBatch b;
  b.Put(0, std::move(key), "v");
  return b;
}
KvBatch Deletes(std::string key) {
  KvBatch b;
  b.Delete(0, std::move(key));
  return b;
}
void Write(DeadRuns& runs, const KvBatch& batch, bool ok = true) {
  runs.WriteBegins(batch);
  runs.WriteEnded(batch, ok);
}

TEST(DeadRuns, LeadsRoundWhatIsDead) {
  DeadRuns runs(2);
  EXPECT_EQ(runs.Up(0, "b"), "b");
  runs.Found(runs.AsOf(), 0, "b", "f");
  EXPECT_EQ(runs.Up(0, "b"), "f");
  EXPECT_EQ(runs.Up(0, "a"), "a");
  EXPECT_EQ(runs.Up(0, "f"), "f");
  EXPECT_EQ(runs.Down(0, "e"), "b");
  EXPECT_EQ(runs.Down(0, "f"), "f");
  EXPECT_EQ(runs.Up(1, "b"), "b") << "another family";
}

TEST(DeadRuns, KeysThatComeDivideARunAndThoseThatGoJoinIt) {
  DeadRuns runs(1);
  runs.Found(runs.AsOf(), 0, "b", "f");
  Write(runs, Puts("c"));
  EXPECT_EQ(runs.Up(0, "b"), "c");
  EXPECT_EQ(runs.Down(0, "e"), std::string("c\0", 2));
  Write(runs, Deletes("c"));
  EXPECT_EQ(runs.Up(0, "b"), "f");
  EXPECT_EQ(runs.size(), 1u);
  Write(runs, Deletes("f"));
  EXPECT_EQ(runs.Up(0, "b"), std::string("f\0", 2));
  Write(runs, Deletes("z"));
  EXPECT_EQ(runs.size(), 1u) << "in nobody's way";
}

TEST(DeadRuns, WhatWasReadWhileSomethingWasWrittenDoesNotCount) {
  DeadRuns runs(1);
  const uint64_t before = runs.AsOf();
  const KvBatch batch = Puts("c");
  runs.WriteBegins(batch);
  const uint64_t during = runs.AsOf();
  runs.Found(before, 0, "b", "f");
  runs.Found(during, 0, "b", "f");
  runs.WriteEnded(batch, true);
  runs.Found(before, 0, "b", "f");
  runs.Found(during, 0, "b", "f");
  EXPECT_EQ(runs.size(), 0u);
}

TEST(DeadRuns, AWriteThatFailedDeletesNothing) {
  DeadRuns runs(1);
  runs.Found(runs.AsOf(), 0, "b", "f");
  Write(runs, Deletes("f"), false);
  EXPECT_EQ(runs.Up(0, "b"), "f");
}

TEST(DeadRuns, AgainstASet) {
  for (uint64_t seed = 1; seed <= (kSanitized ? 40 : 200); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random rng(seed);
    DeadRuns runs(1);
    std::set<std::string> live;
    for (int i = 0; i < 300; ++i) {
      KvBatch batch;
      for (uint64_t n = rng.Below(6); n > 0; --n) {
        const std::string key = Key(rng.Below(kKeys));
        if (rng.OneIn(2)) batch.Put(0, key, "v"), live.insert(key);
        else batch.Delete(0, key), live.erase(key);
      }
      Write(runs, batch);
      // A search for the next key, or the last one.
      const std::string at = Key(rng.Below(kKeys));
      auto next = live.lower_bound(at);
      if (rng.OneIn(2)) {
        if (next != live.end()) runs.Found(runs.AsOf(), 0, at, *next);
      } else if (!live.contains(at)) {
        runs.Found(runs.AsOf(), 0, next == live.begin() ? "" : *std::prev(next) + '\0', at + '\0');
      }
      for (uint64_t n = 0; n < kKeys; n += 7) {
        const std::string key = Key(n);
        const std::string up(runs.Up(0, key)), down(runs.Down(0, key));
        ASSERT_GE(up, key);
        ASSERT_LE(down, key);
        ASSERT_EQ(live.lower_bound(key), live.lower_bound(up));
        ASSERT_EQ(live.upper_bound(key), live.upper_bound(down));
      }
    }
  }
}

TEST(DeadRuns, AreBounded) {
  DeadRuns runs(1);
  for (size_t i = 0; i < 2 * DeadRuns::kMaxRuns; ++i) {
    const std::string key = std::to_string(1'000'000 + i);
    runs.Found(runs.AsOf(), 0, key, key + "a");
    ASSERT_LE(runs.size(), DeadRuns::kMaxRuns);
  }
}

}  // namespace
}  // namespace stria
