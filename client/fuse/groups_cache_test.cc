#include "client/fuse/groups_cache.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

TEST(GroupsCache, AsksOncePerThreadAndSecond) {
  GroupsCache cache;
  int asked = 0;
  auto ask = [&asked] {
    ++asked;
    return std::vector<uint32_t>{static_cast<uint32_t>(asked)};
  };
  EXPECT_EQ(cache.Get(10, 1, 1, 0, ask).ids[0], 1u);
  EXPECT_EQ(cache.Get(10, 1, 1, kGroupsValidNs - 1, ask).ids[0], 1u);
  EXPECT_EQ(cache.Get(11, 1, 1, 0, ask).ids[0], 2u);  // another thread
  EXPECT_EQ(cache.Get(10, 2, 1, 0, ask).ids[0], 3u);  // the same, after setuid
  EXPECT_EQ(cache.Get(10, 1, 1, kGroupsValidNs, ask).ids[0], 4u);
}

TEST(GroupsCache, SaysWhatIsRemembered) {
  GroupsCache cache;
  uint32_t now = 1;
  auto ask = [&now] { return std::vector<uint32_t>{now}; };
  EXPECT_FALSE(cache.Get(10, 1, 1, 0, ask).remembered);
  now = 2;
  EXPECT_EQ(cache.Get(10, 1, 1, 0, ask).ids[0], 1u);
  EXPECT_TRUE(cache.Get(10, 1, 1, 0, ask).remembered);
  const GroupsCache::Groups afresh = cache.Get(10, 1, 1, 0, ask, true);
  EXPECT_EQ(afresh.ids[0], 2u);
  EXPECT_FALSE(afresh.remembered);
  EXPECT_EQ(cache.Get(10, 1, 1, 0, ask).ids[0], 2u);
}

TEST(GroupsCache, IsBounded) {
  GroupsCache cache;
  int asked = 0;
  auto ask = [&asked] { return ++asked, std::vector<uint32_t>{}; };
  for (pid_t p = 1; p <= static_cast<pid_t>(3 * kMaxGroupsCached); ++p) cache.Get(p, 1, 1, 0, ask);
  EXPECT_EQ(asked, static_cast<int>(3 * kMaxGroupsCached));
  cache.Get(3 * kMaxGroupsCached, 1, 1, 0, ask);
  EXPECT_EQ(asked, static_cast<int>(3 * kMaxGroupsCached));
}

}  // namespace
}  // namespace stria
