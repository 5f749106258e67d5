#include "client/vfs/file_locks.h"

#include <gtest/gtest.h>

#include <deque>

#include "common/exec/sim_run.h"

namespace stria {
namespace {

constexpr InodeId kIno{7};

LockIn PosixLock(LockType type, uint64_t first, uint64_t last, uint64_t owner = 1) {
  LockIn in;
  in.owner = owner;
  in.range = {first, last, type, 0};
  return in;
}

// A server that answers as it was told to, or grants.
class FileLocksTest : public ::testing::Test {
 public:
  FileLocksTest() : ex(1, 1), file(std::make_shared<InodeLocks>(kIno, proof)), locks(Needs(), calls, scope) {}
  ~FileLocksTest() override { scope.CancelAll(); }

  FileLocksNeeds Needs() {
    FileLocksNeeds needs;
    needs.ask = needs.change = [this](LockRequest r) { return Answer(std::move(r)); };
    needs.generation = [this] { return generation; };
    needs.maybe_unused = [this](const InodeLocksPtr&) { ++unused; };
    return needs;
  }

  Task<Result<LockReply>> Answer(LockRequest r) {
    asked.push_back(r);
    if (before_answer) before_answer();
    co_await Sleep(kMillisecond);
    if (answers.empty()) co_return LockReply{.granted = true, .conflict = std::nullopt};
    auto next = std::move(answers.front());
    answers.pop_front();
    co_return next;
  }

  Result<void> Set(LockIn lock) {
    return RunSim(ex, locks.Set(file, lock, nullptr, [this] { return handle; }));
  }
  static LockReply Refused() { return LockReply{.granted = false, .conflict = FileLock()}; }

  SimExecutor ex;
  std::string proof = "proof";
  uint64_t generation = 1;
  int unused = 0;
  Result<void> handle;
  std::vector<LockRequest> asked;
  std::deque<Result<LockReply>> answers;  // in order; then all is granted
  std::function<void()> before_answer;
  CallList calls;
  InodeLocksPtr file;
  TaskScope scope;
  FileLocks locks;
};

TEST_F(FileLocksTest, WhatIsGrantedIsHeldUntilItIsUnlocked) {
  ASSERT_TRUE(Set(PosixLock(LockType::kWrite, 0, 99)).ok());
  ASSERT_EQ(file->Held().size(), 1u);
  EXPECT_EQ(file->Held()[0], (FileLock{kIno, LockKind::kPosix, 1, LockType::kWrite, 0, 99, 0}));
  EXPECT_EQ(asked.back().header.opened, "proof");
  ASSERT_TRUE(Set(PosixLock(LockType::kNone, 0, kLockToEnd)).ok());
  EXPECT_FALSE(file->in_use());
  EXPECT_EQ(calls.size(), 0u);
}

TEST_F(FileLocksTest, ARefusalLeavesWhatWasHeld) {
  ASSERT_TRUE(Set(PosixLock(LockType::kRead, 0, 99)).ok());
  answers.push_back(Refused());
  EXPECT_EQ(Set(PosixLock(LockType::kWrite, 0, 99)).code(), FsError::kAgain);
  ASSERT_EQ(file->Held().size(), 1u);
  EXPECT_EQ(file->Held()[0].type, LockType::kRead);
}

// Should the server restart while an unlock is under way, it is not claimed: others may have it by now.
TEST_F(FileLocksTest, WhatIsBeingUnlockedIsNotClaimed) {
  ASSERT_TRUE(Set(PosixLock(LockType::kWrite, 0, 99)).ok());
  std::vector<FileLock> claimed;
  before_answer = [&] { claimed = file->Held(); };
  ASSERT_TRUE(Set(PosixLock(LockType::kNone, 50, 99)).ok());
  ASSERT_EQ(claimed.size(), 1u);
  EXPECT_EQ(claimed[0].last, 49u);
}

// A lock that is more in one place and less in another is asked for in two steps.
TEST_F(FileLocksTest, WhatIsMoreIsAskedForFirst) {
  ASSERT_TRUE(Set(PosixLock(LockType::kWrite, 0, 49)).ok());
  asked.clear();
  ASSERT_TRUE(Set(PosixLock(LockType::kRead, 0, 99)).ok());
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_TRUE(asked[0].keep);
  EXPECT_FALSE(asked[1].keep);
  ASSERT_EQ(file->Held().size(), 1u);
  EXPECT_EQ(file->Held()[0].type, LockType::kRead);
}

TEST_F(FileLocksTest, WhoWaitsAsksAgainWhenItIsFree) {
  const auto wait = std::make_shared<LockWait>();
  answers.push_back(Refused());
  scope.Spawn([](FileLocksTest* t) -> Task<void> {
    co_await Sleep(kSecond);
    EXPECT_EQ(t->calls.size(), 0u) << "a place in line is no call";
    t->locks.Wake(t->asked.at(0).ticket);
  }(this));
  ASSERT_TRUE(RunSim(ex, locks.Set(file, PosixLock(LockType::kWrite, 0, 9), wait, [] { return Ok(); })).ok());
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_EQ(asked[0].op, LockOp::kWait);
  EXPECT_EQ(asked[0].ticket, asked[1].ticket);
  EXPECT_NE(asked[0].ticket, 0u);
}

TEST_F(FileLocksTest, AnInterruptedWaitGivesUpItsPlace) {
  const auto wait = std::make_shared<LockWait>();
  answers.push_back(Refused());
  scope.Spawn([](std::shared_ptr<LockWait> w) -> Task<void> {
    co_await Sleep(kSecond);
    w->interrupted = true;
    w->changed.Pulse();
  }(wait));
  const auto done = RunSim(ex, locks.Set(file, PosixLock(LockType::kWrite, 0, 9), wait, [] { return Ok(); }));
  EXPECT_EQ(done.code(), FsError::kIntr);
  EXPECT_EQ(asked.back().op, LockOp::kWithdraw);
  EXPECT_TRUE(file->empty());
}

// A place in line whose handle is lost is withdrawn, until the server has said that it knows.
TEST_F(FileLocksTest, WhoseFileIsLostStandsInLineNoMore) {
  const auto wait = std::make_shared<LockWait>();
  answers.push_back(Refused());
  answers.push_back(Error(FsError::kTimedOut));
  scope.Spawn([](FileLocksTest* t) -> Task<void> {
    co_await Sleep(kSecond);
    t->handle = Error(FsError::kIo);
    t->locks.WakeAll();
  }(this));
  const auto done = RunSim(ex, locks.Set(file, PosixLock(LockType::kWrite, 0, 9), wait, [this] { return handle; }));
  EXPECT_EQ(done.code(), FsError::kIo);
  RunSim(ex, scope.Join());
  ASSERT_EQ(asked.size(), 3u);
  EXPECT_EQ(asked[1].op, LockOp::kWithdraw);
  EXPECT_EQ(asked[2].op, LockOp::kWithdraw);
  EXPECT_EQ(unused, 1);
}

TEST_F(FileLocksTest, AnOwnerThatIsGoneIsUnlockedUntilTheServerKnows) {
  ASSERT_TRUE(Set(PosixLock(LockType::kWrite, 0, 99)).ok());
  asked.clear();
  answers.push_back(Error(FsError::kUnavailable));
  RunSim(ex, locks.Drop(file, LockKind::kPosix, 1));
  EXPECT_TRUE(file->in_use()) << "the server may have it still";
  RunSim(ex, scope.Join());
  EXPECT_EQ(asked.size(), 2u);
  EXPECT_FALSE(file->in_use());
  EXPECT_EQ(unused, 1);
}

TEST_F(FileLocksTest, AnOwnerWithoutLocksAsksNobody) {
  RunSim(ex, locks.Drop(file, LockKind::kPosix, 1));
  EXPECT_TRUE(asked.empty());
}

// What an answer gives that comes after all was lost counts for nothing; the owner has nothing any more.
TEST_F(FileLocksTest, WhatIsLostIsGivenUp) {
  ASSERT_TRUE(Set(PosixLock(LockType::kWrite, 0, 99)).ok());
  before_answer = [this] {
    before_answer = nullptr;
    const auto owners = file->Owners();
    file->LoseAll(Error(FsError::kIo, "lost"));
    locks.GiveUp(file, owners);
  };
  ASSERT_TRUE(Set(PosixLock(LockType::kWrite, 200, 299)).ok());
  EXPECT_TRUE(file->Held().empty());
  RunSim(ex, scope.Join());
  EXPECT_EQ(asked.back().op, LockOp::kUnlock);
  EXPECT_FALSE(file->in_use());
}

// What the next session is given nobody would know of.
TEST_F(FileLocksTest, ARequestOfAnOlderSessionIsNotSent) {
  Result<void> second;
  scope.Spawn([](FileLocksTest* t, Result<void>* out) -> Task<void> {
    co_await Sleep(kMillisecond / 4);  // the first is on its way
    *out = co_await t->locks.Set(t->file, PosixLock(LockType::kWrite, 200, 299, 2), nullptr, [] { return Ok(); });
  }(this, &second));
  scope.Spawn([](FileLocksTest* t) -> Task<void> {
    co_await Sleep(kMillisecond / 2);
    t->generation = 2;
  }(this));
  (void)Set(PosixLock(LockType::kWrite, 0, 99));
  RunSim(ex, scope.Join());
  EXPECT_EQ(asked.size(), 1u);
  EXPECT_EQ(second.code(), FsError::kFenced);
  EXPECT_TRUE(file->Held().empty());
}

}  // namespace
}  // namespace stria
