#include "meta/store/room.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

constexpr uint64_t kTotal = 1024 * kMiB;  // the reserve is 128 MiB, the margin 16 MiB
RoomSample Free(uint64_t mib) { return {kTotal, mib * kMiB, 0, 0, false, false}; }

TEST(Room, EndsInTimeAndGoesOnByItself) {
  bool held = true;
  const auto level = [&](const RoomSample& s) {
    const RoomStep step = NextRoom(s, held);
    held = step.hold;
    return step.level;
  };
  EXPECT_EQ(level(Free(500)), RoomLevel::kPlenty);
  EXPECT_EQ(level(Free(170)), RoomLevel::kScarce);
  EXPECT_EQ(level(Free(16)), RoomLevel::kScarce);
  EXPECT_EQ(level(Free(15)), RoomLevel::kFull);
  EXPECT_FALSE(held) << "the reserve is given back";
  EXPECT_EQ(level(Free(15 + 128)), RoomLevel::kFull);
  EXPECT_EQ(level(Free(16)), RoomLevel::kFull);
  EXPECT_EQ(level(Free(15)), RoomLevel::kNone);
  EXPECT_EQ(level(Free(159)), RoomLevel::kFull);
  EXPECT_EQ(level(Free(160)), RoomLevel::kScarce);
  EXPECT_TRUE(held);
  EXPECT_EQ(level(Free(32)), RoomLevel::kScarce) << "no back and forth";
}

TEST(Room, InodesQuotaAndReadOnly) {
  RoomSample s = Free(900);
  s.total_files = 1000;
  s.free_files = 500;
  EXPECT_EQ(NextRoom(s, true).level, RoomLevel::kPlenty);
  s.free_files = 150;
  EXPECT_EQ(NextRoom(s, true).level, RoomLevel::kScarce);
  EXPECT_NE(RoomAdviceOf(s, RoomLevel::kScarce, true, "/m")[0].what.find("150 inodes"), std::string::npos);
  s.free_files = 63;
  EXPECT_EQ(NextRoom(s, true).level, RoomLevel::kFull);
  s.free_files = 127;
  EXPECT_EQ(NextRoom(s, false).level, RoomLevel::kFull);
  s.free_files = 20;
  EXPECT_EQ(NextRoom(s, false).level, RoomLevel::kNone);
  s = Free(900);
  s.over_quota = true;
  EXPECT_EQ(NextRoom(s, true).level, RoomLevel::kFull);
  EXPECT_NE(RoomAdviceOf(s, RoomLevel::kFull, false, "/m")[0].what.find("quota"), std::string::npos);
  s.over_quota = false;
  s.read_only = true;
  EXPECT_EQ(NextRoom(s, true).level, RoomLevel::kNone);
}

TEST(Room, IsToldFrom80PercentOn) {
  EXPECT_TRUE(RoomAdviceOf(Free(500), NextRoom(Free(500), true).level, true, "/m").empty());
  const auto told = RoomAdviceOf(Free(100), NextRoom(Free(100), true).level, true, "/var/lib/stria/meta");
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].what, "The metadata's disk (/var/lib/stria/meta) is 89 % full: 100MiB are left.");
}

}  // namespace
}  // namespace stria
