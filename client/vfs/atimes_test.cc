#include "client/vfs/atimes.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/exec/sim_run.h"

namespace stria {
namespace {

class AtimesTest : public ::testing::Test {
 public:
  AtimesTest() : ex(1), inode(std::make_shared<InodeAtime>(InodeId(5))), room(true, Needs(), scope) {
    attr.mtime_ns = attr.ctime_ns = 2 * kSecond;
    attr.atime_ns = 1 * kSecond;
  }
  ~AtimesTest() override { scope.CancelAll(); }

  AtimesNeeds Needs() {
    AtimesNeeds needs;
    needs.may_tell = [this](InodeAtimePtr) -> Task<bool> { co_return may_tell; };
    needs.tell = [this](InodeAtimePtr, std::optional<int64_t> ns) -> Task<bool> {
      co_await Sleep(kMillisecond);
      told.emplace_back(ns, ex.NowNs());
      co_return takes;
    };
    needs.maybe_unused = [this](const InodeAtimePtr&) { ++unused; };
    return needs;
  }

  SimExecutor ex;
  Attr attr;
  bool may_tell = true, takes = true;
  std::vector<std::pair<std::optional<int64_t>, int64_t>> told;
  int unused = 0;
  InodeAtimePtr inode;
  TaskScope scope;
  Atimes room;
};

TEST_F(AtimesTest, TheFirstReadAfterAChangeIsShownAndTold) {
  room.Note(inode, attr, false);
  ASSERT_TRUE(inode->newest_ns());
  const int64_t noted_ns = *inode->newest_ns();
  EXPECT_TRUE(inode->telling());
  room.Note(inode, attr, false);  // moves nothing
  RunSim(ex, scope.Join());
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].first, noted_ns);
  EXPECT_FALSE(inode->telling());
  EXPECT_FALSE(inode->newest_ns());
  EXPECT_EQ(unused, 1);
}

TEST_F(AtimesTest, NothingIsNotedWithoutNeed) {
  room.Note(inode, attr, /*noatime=*/true);
  attr.atime_ns = ex.WallNs();
  attr.mtime_ns = attr.ctime_ns = attr.atime_ns - 1;
  room.Note(inode, attr, false);
  EXPECT_FALSE(inode->newest_ns());
  EXPECT_FALSE(inode->telling());
}

TEST_F(AtimesTest, ARemountEndsItAndBeginsItAgain) {
  room.SetRelatime(false);
  room.Note(inode, attr, false);
  EXPECT_FALSE(inode->newest_ns());
  room.SetRelatime(true);
  room.Note(inode, attr, false);
  EXPECT_TRUE(inode->newest_ns());
  RunSim(ex, scope.Join());
  EXPECT_EQ(told.size(), 1u);
}

TEST_F(AtimesTest, AtMostOnceASecond) {
  room.Note(inode, attr, false);
  RunSim(ex, scope.Join());
  room.Note(inode, attr, false);  // as if it had changed again
  RunSim(ex, scope.Join());
  ASSERT_EQ(told.size(), 2u);
  EXPECT_GE(told[1].second - told[0].second, kSecond);
}

TEST_F(AtimesTest, AUtimeMeanwhileIsNewer) {
  room.Note(inode, attr, false);
  inode->Forget();
  RunSim(ex, scope.Join());
  EXPECT_TRUE(told.empty());
  EXPECT_FALSE(inode->telling());
}

TEST_F(AtimesTest, WhatCannotBeToldIsForgotten) {
  may_tell = false;
  room.Note(inode, attr, false);
  RunSim(ex, scope.Join());
  EXPECT_TRUE(told.empty());
  EXPECT_FALSE(inode->newest_ns());
  EXPECT_EQ(unused, 1);
}

}  // namespace
}  // namespace stria
