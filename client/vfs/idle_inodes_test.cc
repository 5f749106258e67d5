#include "client/vfs/idle_inodes.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

TEST(IdleInodesTest, TheOneUsedLongestAgoGoes) {
  IdleInodes room(2);
  InodeIdle a(InodeId(1)), b(InodeId(2)), c(InodeId(3)), d(InodeId(4));
  EXPECT_FALSE(room.Keep(a));
  EXPECT_FALSE(room.Keep(b));
  EXPECT_FALSE(room.Keep(a));  // again
  EXPECT_EQ(room.Keep(c), InodeId(2));
  EXPECT_FALSE(b.kept());
  EXPECT_TRUE(a.kept() && c.kept());
  room.Drop(a);
  room.Drop(a);
  EXPECT_FALSE(room.Keep(d));
  EXPECT_EQ(room.size(), 2u);
  EXPECT_EQ(room.Keep(b), InodeId(3));
}

}  // namespace
}  // namespace stria
