#include "meta/session/lapsed_sessions.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

using enum LockType;
const SessionId kA(1), kB(2);
const InodeId kFile(10), kOther(11);

FileLock Lock(InodeId ino, uint64_t owner, LockType type, uint64_t first, uint64_t last,
              LockKind kind = LockKind::kPosix) {
  return {ino, kind, owner, type, first, last, 0};
}

TEST(LapsedSessions, WhatTheyHadOpenStaysOpenUntilTheyAreDropped) {
  LapsedSessions t;
  EXPECT_FALSE(t.Knows(kA));
  t.Add(kA, {{kFile, false}, {kOther, true}}, {});
  t.Add(kB, {{kFile, true}}, {});
  EXPECT_TRUE(t.Knows(kA));
  EXPECT_EQ(t.OpenBy(kA, kFile), false);
  EXPECT_EQ(t.OpenBy(kB, kFile), true);
  EXPECT_EQ(t.OpenBy(kB, kOther), std::nullopt);
  EXPECT_EQ(t.Drop(kA), (std::vector<InodeId>{kFile, kOther}));
  EXPECT_TRUE(t.IsOpen(kFile));
  EXPECT_FALSE(t.IsOpen(kOther));
  EXPECT_EQ(t.Drop(kB), std::vector<InodeId>{kFile});
  EXPECT_FALSE(t.IsOpen(kFile));
  EXPECT_TRUE(t.Drop(kB).empty());
  EXPECT_EQ(t.sessions(), 0u);
}

TEST(LapsedSessions, ALockThatAnotherWantedIsGone) {
  LapsedSessions t;
  t.Add(kA, {}, {Lock(kFile, 1, kWrite, 0, 9), Lock(kFile, 1, kRead, 20, 29), Lock(kFile, 2, kRead, 40, 49),
                 Lock(kFile, 3, kWrite, 0, kLockToEnd, LockKind::kFlock)});
  t.Strike(Lock(kOther, 1, kWrite, 0, kLockToEnd));   // another file
  t.Strike(Lock(kFile, 9, kRead, 20, 45));            // both can have it
  t.Strike(Lock(kFile, 9, kWrite, 10, 19));           // beside
  EXPECT_TRUE(t.Has(kA, Lock(kFile, 1, kWrite, 0, 9)));
  EXPECT_TRUE(t.Has(kA, Lock(kFile, 1, kRead, 22, 25)));
  EXPECT_TRUE(t.Has(kA, Lock(kFile, 2, kRead, 40, 49)));
  EXPECT_TRUE(t.Has(kA, Lock(kFile, 3, kWrite, 0, kLockToEnd, LockKind::kFlock)));
  EXPECT_FALSE(t.Has(kA, Lock(kFile, 2, kWrite, 40, 49))) << "it had less";
  EXPECT_FALSE(t.Has(kA, Lock(kFile, 2, kRead, 40, 50)));
  EXPECT_FALSE(t.Has(kB, Lock(kFile, 2, kRead, 40, 49)));
  t.Strike(Lock(kFile, 9, kWrite, 5, 25));
  EXPECT_FALSE(t.Has(kA, Lock(kFile, 1, kWrite, 0, 9)));
  EXPECT_FALSE(t.Has(kA, Lock(kFile, 1, kRead, 20, 29)));
  EXPECT_TRUE(t.Has(kA, Lock(kFile, 2, kRead, 40, 49)));
  EXPECT_TRUE(t.Has(kA, Lock(kFile, 3, kWrite, 0, kLockToEnd, LockKind::kFlock))) << "kinds do not see each other";
}

}  // namespace
}  // namespace stria
