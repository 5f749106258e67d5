#include "meta/session/address_writes.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

constexpr SessionId kA(1), kB(2);
constexpr int64_t kEvery = AddressWrites::kEveryNs;
using Sessions = std::vector<SessionId>;

TEST(AddressWrites, TheFirstMoveIsWrittenAtOnceAndOthersWait) {
  AddressWrites writes;
  EXPECT_TRUE(writes.Due(0).empty());
  EXPECT_TRUE(writes.Moved(kA, 10));
  for (int64_t t = 10; t < 10 + kEvery; t += kSecond) EXPECT_FALSE(writes.Moved(kA, t)) << t;
  EXPECT_TRUE(writes.Moved(kB, 20)) << "each session for itself";
  EXPECT_TRUE(writes.Due(9 + kEvery).empty());
  EXPECT_EQ(writes.Due(10 + kEvery), Sessions{kA});
  EXPECT_TRUE(writes.Due(10 + kEvery).empty()) << "it is written";
  EXPECT_FALSE(writes.Moved(kA, 11 + kEvery)) << "a minute counts from then";
  EXPECT_EQ(writes.Due(10 + 2 * kEvery), Sessions{kA});
}

TEST(AddressWrites, AMoveAfterAMinuteIsWrittenAtOnce) {
  AddressWrites writes;
  EXPECT_TRUE(writes.Moved(kA, 0));
  EXPECT_FALSE(writes.Moved(kA, kEvery - 1));
  EXPECT_TRUE(writes.Moved(kA, kEvery));
  EXPECT_TRUE(writes.Due(kEvery).empty()) << "nothing waits any more";
}

TEST(AddressWrites, RemembersOnlyWhoMovedOfLate) {
  AddressWrites writes;
  EXPECT_TRUE(writes.Moved(kA, 0));
  EXPECT_TRUE(writes.Moved(kB, 0));
  EXPECT_FALSE(writes.Moved(kB, 1));
  EXPECT_EQ(writes.size(), 2u);
  writes.Forget(kB);
  EXPECT_EQ(writes.size(), 1u);
  EXPECT_TRUE(writes.Due(kEvery).empty());
  EXPECT_EQ(writes.size(), 0u);
}

}  // namespace
}  // namespace stria
