// Do the checkers of the failover plans bite, with whole servers and clients? Each bug of common/sabotage.h that a situation made by hand
// or a few seeds show; the others are in test/sim/replica and meta/replica, where schedules are many.
#include <gtest/gtest.h>

#include <iostream>
#include <string>

#include "common/sabotage.h"
#include "common/sabotage_testing.h"
#include "test/sim/failover.h"

namespace stria {
namespace {

constexpr uint64_t kTries = 8;  // seeds of a situation

FailoverPlan ByHand(size_t metas) {
  FailoverPlan p;
  p.name = "ByHand";
  p.metas = metas;
  p.network = p.late_coordinator = false;
  return p;
}

// Runs the situation with the bug until a check sees it; the same seed without it is sound.
void IsSeen(Sabotage bug, size_t metas, const std::string& seen_as, void (*situation)(FailoverWorld*)) {
  for (uint64_t seed = 1; seed <= kTries; ++seed) {
    std::string failure;
    {
      FailoverWorld world(seed, ByHand(metas));
      world.Begin();
      world.RunFor(3 * kSecond);
      ASSERT_EQ(world.failure(), "") << "before there was any bug";
      const ScopedSabotage on(bug);
      situation(&world);
      failure = world.failure();
    }
    if (failure.empty()) continue;
    std::cout << "seed " << seed << ": " << failure << std::endl;
    EXPECT_NE(failure.find(seen_as), std::string::npos) << "another check saw it: " << failure;
    FailoverWorld sound(seed, ByHand(metas));
    sound.Begin();
    sound.RunFor(3 * kSecond);
    situation(&sound);
    EXPECT_EQ(sound.failure(), "") << "seed " << seed << " fails without the bug";
    return;
  }
  ADD_FAILURE() << kTries << " seeds did not see it";
}

// The primary hears nobody any more, and another takes its place.
void CutOffThePrimary(FailoverWorld* w) {
  w->CutOff(*w->metas().Primary(), true);
  w->RunFor(15 * kSecond);
}

TEST(FailoverSabotage, IgnoreAuthority) { IsSeen(Sabotage::kIgnoreAuthority, 2, "answer", &CutOffThePrimary); }

TEST(FailoverSabotage, EagerTakeover) { IsSeen(Sabotage::kEagerTakeover, 2, "answer", &CutOffThePrimary); }

// It asks in vain for a set without the other one.
TEST(FailoverSabotage, AnswerBeforeShrink) { IsSeen(Sabotage::kAnswerBeforeShrink, 2, "answer", &CutOffThePrimary); }

// A standby starts again just when it cannot hear the primary any more, which still counts on what that has promised.
void StartAgainWithoutThePrimary(FailoverWorld* w) {
  const size_t primary = *w->metas().Primary(), standby = 1 - primary;
  w->CutOff(primary, true);
  w->metas().Crash(standby, false);
  w->metas().Start(standby);
  w->RunFor(4 * kSecond);
}

TEST(FailoverSabotage, ForgetPromises) { IsSeen(Sabotage::kForgetPromises, 2, "answer", &StartAgainWithoutThePrimary); }

// One standby of two has fallen silent, and the coordinator takes its time to drop it.
void SilenceAStandby(FailoverWorld* w) {
  FakeCoordinatorOptions slow;
  slow.delay_ns = 400 * kMillisecond;
  w->metas().coordinator().SetOptions(slow);
  const size_t standby = (*w->metas().Primary() + 1) % 3;
  w->CutOff(standby, true);
  w->RunFor(6 * kSecond);
}

TEST(FailoverSabotage, CommitByMajority) { IsSeen(Sabotage::kCommitByMajority, 3, "does not have it", &SilenceAStandby); }

// The standby's disk is slow. Then all lose their power, and the standby alone comes back.
void LoseWhatIsNotSynced(FailoverWorld* w) {
  const size_t primary = *w->metas().Primary(), standby = 1 - primary;
  w->metas().SetSyncNs(standby, 900 * kMillisecond);
  w->metas().Crash(standby, false);
  w->metas().Start(standby);
  if (!w->RunUntil([w] { return w->metas().AllIn(); }, 60 * kSecond)) return;
  w->RunFor(3 * kSecond);
  for (size_t m = 0; m < 2; ++m) w->metas().Crash(m, true);
  w->metas().Start(standby);
  (void)w->RunUntil([w, standby] { return w->metas().Primary() == standby; }, 60 * kSecond);
  w->RunFor(2 * kSecond);
}

TEST(FailoverSabotage, FollowUnsynced) { IsSeen(Sabotage::kFollowUnsynced, 2, "does not have it", &LoseWhatIsNotSynced); }

// A standby that was away, and has left the set, meets nobody when it comes back.
void LeaveItToOneThatWasAway(FailoverWorld* w) {
  const size_t primary = *w->metas().Primary(), standby = 1 - primary;
  w->metas().Crash(standby, false);
  w->RunFor(8 * kSecond);
  w->metas().Crash(primary, false);
  w->metas().Start(standby);
  w->RunFor(20 * kSecond);
}

TEST(FailoverSabotage, UncleanElection) { IsSeen(Sabotage::kUncleanElection, 2, "does not have it", &LeaveItToOneThatWasAway); }

// A primary writes what nobody receives, and comes back to another one.
void ComeBackWithAnotherLog(FailoverWorld* w) {
  const size_t primary = *w->metas().Primary();
  w->CutOff(primary, true);
  if (!w->RunUntil([w, primary] { return w->metas().Primary() != primary; }, 30 * kSecond)) return;
  w->RunFor(1 * kSecond);
  w->CutOff(primary, false);
  if (!w->RunUntil([w] { return w->metas().AllIn(); }, 60 * kSecond)) return;
  w->Finish();
}

TEST(FailoverSabotage, RewindLogOnly) { IsSeen(Sabotage::kRewindLogOnly, 2, "differs", &ComeBackWithAnotherLog); }

// A change that a former primary has answered, and that is asked for again at the next one, is done twice.
TEST(FailoverSabotage, RetryTwice) {
  const FailoverPlan& plan = FindFailoverPlan("Failover");
  for (uint64_t seed = 1; seed <= kTries; ++seed) {
    std::string failure;
    {
      const ScopedSabotage on(Sabotage::kRetryTwice);
      FailoverWorld world(seed, plan);
      failure = world.RunAll();
    }
    if (failure.empty()) continue;
    std::cout << "seed " << seed << ": " << failure << std::endl;
    FailoverWorld sound(seed, plan);
    EXPECT_EQ(sound.RunAll(), "") << "seed " << seed << " fails without the bug";
    return;
  }
  ADD_FAILURE() << kTries << " seeds did not see it";
}

}  // namespace
}  // namespace stria
