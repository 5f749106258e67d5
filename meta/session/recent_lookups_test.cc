#include "meta/session/recent_lookups.h"

#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "common/random.h"

namespace stria {
namespace {

TEST(RecentLookups, KnowsWhoElseLookedItUp) {
  Random rng(11);
  RecentLookups lookups;
  std::map<std::pair<SessionId, InodeId>, int64_t> model;
  int64_t now = 0;
  for (int i = 0; i < 30'000; ++i) {
    now += 1 + static_cast<int64_t>(rng.Between(0, RecentLookups::kKeepNs / 20));
    const SessionId s(rng.Between(1, 4));
    const InodeId ino(rng.Between(1, 10));
    if (rng.OneIn(2)) {
      lookups.Note(s, ino, now);
      model[{s, ino}] = now;
      continue;
    }
    bool expected = false;
    for (const auto& [key, at_ns] : model) {
      expected = expected || (key.first != s && key.second == ino && now - at_ns <= RecentLookups::kKeepNs);
    }
    ASSERT_EQ(lookups.ByAnother(s, ino, now), expected) << i;
    ASSERT_LE(lookups.size(), 50u);
  }
}

TEST(RecentLookups, IsBounded) {
  RecentLookups lookups;
  const uint64_t count = 3 * RecentLookups::kMaxLookups;
  for (uint64_t i = 1; i <= count; ++i) lookups.Note(SessionId(1), InodeId(i), 5);
  EXPECT_EQ(lookups.size(), RecentLookups::kMaxLookups);
  EXPECT_TRUE(lookups.ByAnother(SessionId(2), InodeId(count), 5));
  EXPECT_FALSE(lookups.ByAnother(SessionId(2), InodeId(1), 5));
}

}  // namespace
}  // namespace stria
