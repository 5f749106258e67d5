#include "client/session/lost_changes.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

constexpr InodeId kA{7}, kB{8}, kC{9};

// A sync that begins now and takes no time.
bool Told(LostChanges* lost, InodeId ino) { return lost->Tell(ino, lost->Mark()).code == FsError::kIo; }

TEST(LostChanges, TellsOnceOfEachInodeWhenTheServerHasHadAnotherLife) {
  LostChanges lost;
  lost.Doubt({kA, kB});
  EXPECT_FALSE(Told(&lost, kA));  // nobody knows yet
  EXPECT_EQ(lost.Next(false), 1u);
  EXPECT_TRUE(Told(&lost, kA));
  EXPECT_FALSE(Told(&lost, kA));
  EXPECT_TRUE(Told(&lost, kB));
  EXPECT_FALSE(Told(&lost, kC));
}

TEST(LostChanges, AServerThatHasNotRestartedHasAll) {
  LostChanges lost;
  lost.Doubt({kA});
  EXPECT_EQ(lost.Next(true), 0u);
  EXPECT_FALSE(Told(&lost, kA));
  EXPECT_EQ(lost.Next(false), 0u);
  EXPECT_FALSE(Told(&lost, kA));
}

TEST(LostChanges, TellsAgainOfAnotherLoss) {
  LostChanges lost;
  for (int i = 0; i < 2; ++i) {
    lost.Lose({kA});
    EXPECT_TRUE(Told(&lost, kA));
    EXPECT_FALSE(Told(&lost, kA));
  }
}

TEST(LostChanges, ASyncThatWasUnderWayIsToldOfAll) {
  LostChanges lost;
  const uint64_t before = lost.Mark();
  lost.Doubt({kA});
  const uint64_t in_doubt = lost.Mark();
  EXPECT_TRUE(lost.Tell(kB, before).ok());
  lost.Next(false);
  EXPECT_FALSE(lost.Tell(kB, before).ok());
  EXPECT_TRUE(lost.Tell(kB, in_doubt).ok());  // it began when the session was lost already, as one that begins now
  EXPECT_FALSE(lost.Tell(kA, in_doubt).ok());
}

TEST(LostChanges, AnInodeThatAnotherErrorWasAboutIsNotToldAgain) {
  LostChanges lost;
  lost.Lose({kA});
  lost.Told(kA);
  lost.Doubt({kA, kB});
  lost.Told(kA);
  lost.Next(false);
  EXPECT_FALSE(Told(&lost, kA));
  EXPECT_TRUE(Told(&lost, kB));
  EXPECT_FALSE(Told(&lost, InodeId()));
}

TEST(LostChanges, IsBounded) {
  LostChanges lost;
  for (uint64_t i = 1; i <= LostChanges::kMax + 1; ++i) lost.Lose({InodeId(i)});
  EXPECT_EQ(lost.size(), LostChanges::kMax);
  EXPECT_FALSE(Told(&lost, InodeId(1)));
  EXPECT_TRUE(Told(&lost, InodeId(2)));
}

}  // namespace
}  // namespace stria
