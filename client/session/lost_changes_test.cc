#include "client/session/lost_changes.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

constexpr InodeId kA{7}, kB{8}, kC{9};

TEST(LostChanges, TellsOnceOfEachInodeWhenTheServerHasHadAnotherLife) {
  LostChanges lost;
  lost.Doubt({kA, kB});
  EXPECT_TRUE(lost.Tell(kA).ok());  // nobody knows yet
  lost.Next(false);
  EXPECT_EQ(lost.Tell(kA).code, FsError::kIo);
  EXPECT_TRUE(lost.Tell(kA).ok());
  EXPECT_EQ(lost.Tell(kB).code, FsError::kIo);
  EXPECT_TRUE(lost.Tell(kC).ok());
}

TEST(LostChanges, AServerThatHasNotRestartedHasAll) {
  LostChanges lost;
  lost.Doubt({kA, InodeId()});
  lost.Next(true);
  EXPECT_TRUE(lost.Tell(kA).ok());
  lost.Next(false);
  EXPECT_TRUE(lost.Tell(kA).ok());
}

TEST(LostChanges, TellsAgainOfAnotherLoss) {
  LostChanges lost;
  for (int i = 0; i < 2; ++i) {
    lost.Lose({kA, InodeId()});
    EXPECT_FALSE(lost.Tell(kA).ok());
    EXPECT_TRUE(lost.Tell(kA).ok());
  }
}

TEST(LostChanges, WhoHasBeenToldByAnotherErrorIsNotToldAgain) {
  LostChanges lost;
  lost.Lose({kA, InodeId()});
  lost.Told(kA);
  lost.Doubt({kA, kB});
  lost.Told(kA);
  lost.Next(false);
  EXPECT_TRUE(lost.Tell(kA).ok());
  EXPECT_FALSE(lost.Tell(kB).ok());
  EXPECT_TRUE(lost.Tell(InodeId()).ok());
}

TEST(LostChanges, RemembersTheLast) {
  LostChanges lost;
  for (uint64_t i = 1; i <= LostChanges::kMax + 1; ++i) lost.Lose({InodeId(i), InodeId()});
  EXPECT_EQ(lost.size(), LostChanges::kMax);
  EXPECT_TRUE(lost.Tell(InodeId(1)).ok());
  EXPECT_FALSE(lost.Tell(InodeId(2)).ok());
}

}  // namespace
}  // namespace stria
