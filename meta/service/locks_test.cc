// Locks of files across sessions: waiting, restarts, circles.
#include <gtest/gtest.h>

#include "meta/service/service_testing.h"

namespace stria {
namespace {

using Kind = SessionEvent::Kind;

LockRequest LockOf(TestClient& c, uint64_t term, LockOp op, InodeId ino, LockType type, uint64_t first = 0,
                   uint64_t last = kLockToEnd, uint64_t ticket = 0) {
  LockRequest r;
  r.header = op == LockOp::kTest ? c.Header() : c.Mutation();
  r.header.term = term;
  r.op = op;
  r.ticket = ticket;
  r.lock = {ino, LockKind::kPosix, 1, type, first, last, 77};
  return r;
}

TEST_F(ServiceTest, LocksAreWaitedForWithoutACall) {
  const InodeId ino(99);
  const uint64_t term = h.server->term();
  auto lock = [&](TestClient& c, LockOp op, LockType type, uint64_t ticket = 0) {
    return c.Run(h.server->Lock(LockOf(c, term, op, ino, type, 0, 9, ticket)));
  };
  ASSERT_TRUE(lock(a, LockOp::kTry, LockType::kWrite)->granted);
  auto tried = lock(b, LockOp::kTry, LockType::kRead);
  ASSERT_TRUE(tried.ok() && !tried->granted);
  EXPECT_EQ(tried->conflict->type, LockType::kWrite);
  EXPECT_EQ(tried->conflict->pid, 0u) << "a process of another client";
  EXPECT_EQ(lock(a, LockOp::kTest, LockType::kWrite)->conflict, std::nullopt);
  b.events.clear();
  EXPECT_FALSE(lock(b, LockOp::kWait, LockType::kWrite, 5)->granted);
  h.ex.RunFor(60 * kSecond);
  EXPECT_EQ(Count(b.events, Kind::kLockFree, ino), 0u);
  EXPECT_TRUE(lock(a, LockOp::kUnlock, LockType::kNone).ok());
  h.ex.RunFor(kSecond);
  ASSERT_EQ(Count(b.events, Kind::kLockFree, ino), 1u);
  EXPECT_EQ(b.events.back().ticket, 5u);
  // Told is not granted: somebody who only tries may come first.
  EXPECT_TRUE(lock(b, LockOp::kWait, LockType::kWrite, 5)->granted);
  EXPECT_EQ(h.server->locks().waits(), 0u);
}

TEST_F(ServiceTest, ALockThatKeepsTakesNothingAway) {
  const InodeId ino(99);
  const uint64_t term = h.server->term();
  ASSERT_TRUE(a.Run(h.server->Lock(LockOf(a, term, LockOp::kTry, ino, LockType::kWrite, 5, 9)))->granted);
  LockRequest more = LockOf(a, term, LockOp::kTry, ino, LockType::kRead, 0, 11);
  more.keep = true;
  EXPECT_TRUE(a.Run(h.server->Lock(more))->granted);
  EXPECT_FALSE(b.Run(h.server->Lock(LockOf(b, term, LockOp::kTry, ino, LockType::kRead, 6, 6)))->granted);
  EXPECT_TRUE(b.Run(h.server->Lock(LockOf(b, term, LockOp::kTry, ino, LockType::kRead, 0, 4)))->granted);
}

TEST_F(ServiceTest, LocksEndWithTheirSession) {
  const InodeId ino(99);
  const uint64_t term = h.server->term();
  ASSERT_TRUE(a.Run(h.server->Lock(LockOf(a, term, LockOp::kTry, ino, LockType::kWrite)))->granted);
  EXPECT_FALSE(b.Run(h.server->Lock(LockOf(b, term, LockOp::kWait, ino, LockType::kWrite, 0, 9, 1)))->granted);
  a.Stop();
  h.ex.RunFor(20 * kSecond);
  EXPECT_EQ(Count(b.events, Kind::kLockFree, ino), 1u);
  EXPECT_TRUE(b.Run(h.server->Lock(LockOf(b, term, LockOp::kWait, ino, LockType::kWrite, 0, 9, 1)))->granted);
  EXPECT_EQ(a.Run(h.server->Lock(LockOf(a, term, LockOp::kUnlock, ino, LockType::kNone))).code(), FsError::kFenced);
}

TEST_F(ServiceTest, LocksAreReclaimedAfterARestart) {
  const InodeId ino(99);
  LockRequest first = LockOf(a, h.server->term(), LockOp::kTry, ino, LockType::kWrite);
  ASSERT_TRUE(a.Run(h.server->Lock(first))->granted);
  EXPECT_TRUE(a.Run(h.server->Lock(first))->granted) << "the same request again";
  a.Stop(), b.Stop();
  h.Crash(false);
  TestClient c{&h, 3};
  c.Open();
  EXPECT_TRUE(a.Reclaim({}, {first.lock}));
  // B may still come and claim something: nobody is granted a lock before its lease is over.
  Result<LockReply> reply = FsError::kIo;
  const int64_t took =
      Timed(h.server->Lock(LockOf(c, h.server->term(), LockOp::kTry, InodeId(98), LockType::kRead)), &reply);
  ASSERT_TRUE(reply.ok() && reply->granted) << reply.error();
  EXPECT_GT(took, 10 * kSecond);
  EXPECT_FALSE(c.Run(h.server->Lock(LockOf(c, h.server->term(), LockOp::kTry, ino, LockType::kRead)))->granted);
  // A request of before the restart that arrives now changes nothing.
  LockRequest late = LockOf(a, h.server->term() - 1, LockOp::kUnlock, ino, LockType::kNone);
  EXPECT_EQ(a.Run(h.server->Lock(late)).code(), FsError::kRetryLater);
  EXPECT_EQ(h.server->locks().LocksOf(a.session).size(), 1u);
}

TEST_F(ServiceTest, OfTwoClaimsOfOneLockOneIsFenced) {
  const InodeId ino(99);
  a.Stop(), b.Stop();
  h.Crash(false);
  const FileLock lock{ino, LockKind::kFlock, 1, LockType::kWrite, 0, kLockToEnd, 0};
  EXPECT_TRUE(a.Reclaim({}, {lock}));
  EXPECT_FALSE(b.Reclaim({}, {lock}));
}

TEST_F(ServiceTest, WaitingInACircleIsRefused) {
  const uint64_t term = h.server->term();
  const InodeId f(98), g(99);
  ASSERT_TRUE(a.Run(h.server->Lock(LockOf(a, term, LockOp::kTry, f, LockType::kWrite)))->granted);
  ASSERT_TRUE(b.Run(h.server->Lock(LockOf(b, term, LockOp::kTry, g, LockType::kWrite)))->granted);
  EXPECT_FALSE(a.Run(h.server->Lock(LockOf(a, term, LockOp::kWait, g, LockType::kRead, 0, 0, 1)))->granted);
  EXPECT_EQ(b.Run(h.server->Lock(LockOf(b, term, LockOp::kWait, f, LockType::kRead, 0, 0, 1))).code(),
            FsError::kDeadlock);
  EXPECT_EQ(h.server->locks().waits(), 1u);
}

}  // namespace
}  // namespace stria
