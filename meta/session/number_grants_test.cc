#include "meta/session/number_grants.h"

#include <gtest/gtest.h>

#include <set>

#include "common/random.h"

namespace stria {
namespace {

TEST(NumberGrants, AgreesWithSetsOfNumbers) {
  Random rng(7);
  NumberGrants grants;
  std::map<SessionId, std::set<uint64_t>> model;
  std::map<SessionId, size_t> grants_of;
  uint64_t next = 100;
  for (int i = 0; i < 20'000; ++i) {
    const SessionId s(rng.Between(1, 3));
    if (rng.OneIn(30) && grants_of[s] < NumberGrants::kMaxGrants) {
      ++grants_of[s];
      const auto count = static_cast<uint32_t>(rng.Between(1, 20));
      grants.Grant(s, InodeId(next), count);
      for (uint32_t k = 0; k < count; ++k) model[s].insert(next++);
    } else if (rng.OneIn(500)) {
      grants.Drop(s);
      model.erase(s);
      grants_of[s] = 0;
    } else {
      const uint64_t n = rng.Between(next > 300 ? next - 300 : 90, next + 5);
      ASSERT_EQ(grants.Has(s, InodeId(n)), model[s].contains(n)) << s.v << " " << n;
      if (rng.OneIn(2)) {
        grants.Used(s, InodeId(n));
        model[s].erase(n);
        ASSERT_FALSE(grants.Has(s, InodeId(n)));
      }
    }
  }
  for (uint64_t s = 1; s <= 3; ++s) {
    for (uint64_t n = 90; n < next + 5; ++n) {
      ASSERT_EQ(grants.Has(SessionId(s), InodeId(n)), model[SessionId(s)].contains(n));
    }
  }
}

TEST(NumberGrants, TheOldestEnds) {
  NumberGrants grants;
  const SessionId s(1);
  for (uint64_t i = 0; i < NumberGrants::kMaxGrants; ++i) grants.Grant(s, InodeId(10 + 10 * i), 3);
  EXPECT_TRUE(grants.Has(s, InodeId(10)));
  grants.Grant(s, InodeId(10'000), 3);
  EXPECT_FALSE(grants.Has(s, InodeId(10)));
  EXPECT_TRUE(grants.Has(s, InodeId(22)));
  EXPECT_FALSE(grants.Has(s, InodeId(23)));
  EXPECT_TRUE(grants.Has(s, InodeId(10'002)));
  grants.Drop(s);
  EXPECT_EQ(grants.sessions(), 0u);
}

}  // namespace
}  // namespace stria
