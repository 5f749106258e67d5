#include "common/lock_ranges.h"

#include <gtest/gtest.h>

#include <array>

#include "common/random.h"

namespace stria {
namespace {

using enum LockType;

TEST(LockRanges, SplitsAndMerges) {
  LockRanges l;
  l.Set({10, 29, kRead, 1});
  l.Set({30, 39, kRead, 1});
  EXPECT_EQ(l.All(), (std::vector<LockRange>{{10, 39, kRead, 1}}));
  l.Set({20, 24, kWrite, 1});
  EXPECT_EQ(l.All(), (std::vector<LockRange>{{10, 19, kRead, 1}, {20, 24, kWrite, 1}, {25, 39, kRead, 1}}));
  l.Set({15, 30, kNone, 1});
  EXPECT_EQ(l.All(), (std::vector<LockRange>{{10, 14, kRead, 1}, {31, 39, kRead, 1}}));
  l.Set({0, kLockToEnd, kWrite, 1});
  EXPECT_EQ(l.All(), (std::vector<LockRange>{{0, kLockToEnd, kWrite, 1}}));
  l.Set({0, kLockToEnd, kNone, 1});
  EXPECT_TRUE(l.empty());
}

TEST(LockRanges, ConflictsAreOfOverlapAndType) {
  LockRanges l;
  l.Set({10, 19, kRead, 7});
  EXPECT_FALSE(l.Conflict({0, 9, kWrite, 1}));
  EXPECT_FALSE(l.Conflict({20, 30, kWrite, 1}));
  EXPECT_FALSE(l.Conflict({0, 30, kRead, 1}));
  EXPECT_EQ(l.Conflict({19, 30, kWrite, 1}), (LockRange{10, 19, kRead, 7}));
  l.Set({30, kLockToEnd, kWrite, 7});
  EXPECT_EQ(l.Conflict({0, kLockToEnd, kRead, 1}), (LockRange{30, kLockToEnd, kWrite, 7}));
}

// Against one type per byte.
TEST(LockRanges, AgreesWithOneTypePerByte) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Random rng(seed);
    constexpr uint64_t kBytes = 40;
    std::array<LockType, kBytes> bytes{};
    LockRanges l;
    for (int step = 0; step < 1000; ++step) {
      LockRange r;
      r.first = rng.Below(kBytes);
      r.last = rng.Between(r.first, kBytes - 1);
      r.type = static_cast<LockType>(rng.Below(3));
      if (rng.OneIn(2)) {
        l.Set(r);
        for (uint64_t b = r.first; b <= r.last; ++b) bytes[b] = r.type;
      } else if (rng.OneIn(5)) {
        l.Weaken(r);
        for (uint64_t b = r.first; b <= r.last; ++b) bytes[b] = std::min(bytes[b], r.type);
      } else if (rng.OneIn(5)) {
        l.Strengthen(r);
        for (uint64_t b = r.first; b <= r.last; ++b) bytes[b] = std::max(bytes[b], r.type);
      } else {
        std::optional<uint64_t> at;
        bool all = true;
        for (uint64_t b = r.first; b <= r.last; ++b) {
          if (!at && Excludes(bytes[b], r.type)) at = b;
          all = all && bytes[b] == r.type;
        }
        const auto found = l.Conflict(r);
        ASSERT_EQ(found.has_value(), at.has_value());
        if (found) ASSERT_TRUE(found->first <= *at && *at <= found->last);
        if (r.type != kNone) ASSERT_EQ(l.Has(r), all);
      }
      std::array<LockType, kBytes> seen{};
      uint64_t next = 0;
      LockType before = kNone;
      for (const LockRange& x : l.All()) {
        ASSERT_GE(x.first, next);
        ASSERT_NE(x.type, kNone);
        ASSERT_FALSE(x.first == next && x.type == before && next > 0) << "not merged";
        for (uint64_t b = x.first; b <= x.last; ++b) seen[b] = x.type;
        next = x.last + 1;
        before = x.type;
      }
      ASSERT_EQ(seen, bytes);
    }
  }
}

}  // namespace
}  // namespace stria
