#include "common/io/usable_space.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

using StatVfs = struct statvfs;

StatVfs Room(uint64_t blocks, uint64_t free, uint64_t available) {
  StatVfs st = {};
  st.f_frsize = 4096;
  st.f_blocks = blocks;
  st.f_bfree = free;
  st.f_bavail = available;
  return st;
}

TEST(UsableSpace, LeavesOutWhatOnlyRootMayUse) {
  const StatVfs st = Room(1000, 900, 300);  // 100 used of 400 that an ordinary writer has: 25 % full, as df says
  EXPECT_EQ(UsableBytes(st), 400u * 4096);
  EXPECT_EQ(FreeBytes(st), 300u * 4096);
}

TEST(UsableSpace, WithoutAReserveIsAll) { EXPECT_EQ(UsableBytes(Room(1000, 900, 900)), 1000u * 4096); }

TEST(UsableSpace, TakesNoNonsense) {
  EXPECT_EQ(UsableBytes(Room(10, 5, 9)), 10u * 4096);   // more available than free
  EXPECT_EQ(UsableBytes(Room(10, 50, 0)), 0u);
}

}  // namespace
}  // namespace stria
