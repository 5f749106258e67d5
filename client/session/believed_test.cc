#include "client/session/believed.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace stria {
namespace {

Caller Who(uint32_t uid, uint32_t gid, std::vector<uint32_t> groups = {}) {
  Caller who;
  who.uid = uid;
  who.gid = gid;
  who.groups = std::move(groups);
  who.umask = 027;
  return who;
}

TEST(Believed, NobodyOfWhomNothingWasSaid) {
  EXPECT_FALSE(AsBelieved({}, Who(0, 0)));
  EXPECT_FALSE(AsBelieved({}, Who(1000, 1000)));
}

TEST(Believed, AllButASquashedRoot) {
  const BelievedCallers others = {false, {{1, UINT32_MAX}}, {{1, UINT32_MAX}}};
  EXPECT_FALSE(AsBelieved(others, Who(0, 0)));
  EXPECT_FALSE(AsBelieved(others, Who(1000, 0))) << "root's group is somebody else's there";
  const auto user = AsBelieved(others, Who(1000, 1000, {0, 20, 0, UINT32_MAX}));
  ASSERT_TRUE(user);
  EXPECT_EQ(user->uid, 1000u);
  EXPECT_EQ(user->gid, 1000u);
  EXPECT_EQ(user->groups, (std::vector<uint32_t>{20, UINT32_MAX})) << "he has not what root's group may do";
  EXPECT_EQ(user->umask, 027u);
  EXPECT_TRUE(AsBelieved(others, Who(UINT32_MAX, 1)));
}

TEST(Believed, RangesAreWithTheirEnds) {
  const BelievedCallers some = {false, {{1000, 1999}, {3000, 3000}}, {{50, 60}}};
  for (const uint32_t uid : {1000, 1999, 3000}) EXPECT_TRUE(AsBelieved(some, Who(uid, 55))) << uid;
  for (const uint32_t uid : {999, 2000, 2999, 3001}) EXPECT_FALSE(AsBelieved(some, Who(uid, 55))) << uid;
  for (const uint32_t gid : {49, 61, 0}) EXPECT_FALSE(AsBelieved(some, Who(1000, gid))) << gid;
  EXPECT_EQ(AsBelieved(some, Who(1000, 50, {49, 60, 61}))->groups, std::vector<uint32_t>{60});
}

TEST(Believed, ATrustedRootIsRootWhateverItsGroups) {
  const BelievedCallers root = {true, {{1000, 1999}}, {{1000, 1999}}};
  const auto who = AsBelieved(root, Who(0, 7, {8}));
  ASSERT_TRUE(who);
  EXPECT_EQ(who->gid, 7u);
  EXPECT_EQ(who->groups, std::vector<uint32_t>{8});
  EXPECT_FALSE(AsBelieved(root, Who(1000, 7)));
}

}  // namespace
}  // namespace stria
