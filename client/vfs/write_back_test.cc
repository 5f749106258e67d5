#include "client/vfs/write_back.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <string>

#include "common/exec/sim_run.h"

namespace stria {
namespace {

constexpr uint64_t kStripe = 1 * kMiB;
constexpr uint64_t kLimit = 8 * kMiB;

// Servers in memory: stripes that were stored, and of each file what was committed.
class WriteBackTest : public ::testing::Test {
 public:
  WriteBackTest() : ex(1), room(Options(), Needs(), counters, scope) {}
  ~WriteBackTest() override { scope.CancelAll(); }

  static WriteBackOptions Options() {
    WriteBackOptions o;
    o.dirty_limit_bytes = kLimit;
    o.max_batches_per_inode = 3;
    o.delay_ns = 5 * kSecond;
    o.timeout_ns = 60 * kSecond;
    return o;
  }

  WriteBackNeeds Needs() {
    WriteBackNeeds needs;
    needs.store = [this](InodeWritesPtr, BufferChain payload) { return Store(std::move(payload)); };
    needs.give_back = [this](const std::vector<WrittenPiece>& written, FsError) { given_back += written.size(); };
    needs.commit = [this](InodeWritesPtr writes, std::vector<StripeInfo> of, std::vector<Extent> extents,
                          uint64_t grow_to, bool durable) {
      return Commit(writes, std::move(of), std::move(extents), grow_to, durable);
    };
    needs.each = [this](const std::function<void(const InodeWritesPtr&)>& what) {
      for (const auto& [ino, writes] : files) what(writes);
    };
    needs.committed = [this](const InodeWritesPtr&) { ++committed; };
    needs.failed = [this](const InodeWritesPtr&) { ++failed; };
    needs.ended = [this](const InodeWritesPtr&) { ++ended; };
    needs.ended_lost = [this](const InodeWritesPtr&) { ++ended_lost; };
    return needs;
  }

  Task<Result<std::vector<WrittenPiece>>> Store(BufferChain payload) {
    const uint64_t bytes = payload.size();
    ++storing;
    most_storing = std::max(most_storing, storing);
    const int64_t takes_ns = store_ns.empty() ? kMillisecond : store_ns.front();
    if (!store_ns.empty()) store_ns.pop_front();
    co_await Sleep(takes_ns);
    --storing;
    if (!store_error.ok()) co_return store_error;
    WrittenPiece piece;
    piece.info.id = StripeId(++stripes);
    piece.info.shape.payload_bytes = bytes;
    counters.committed_bytes += bytes;
    std::vector<WrittenPiece> out;
    out.push_back(std::move(piece));
    co_return out;
  }

  Task<Result<void>> Commit(InodeWritesPtr writes, std::vector<StripeInfo> of, std::vector<Extent> extents,
                            uint64_t grow_to, bool durable) {
    co_await Sleep(kMillisecond);
    if (!commit_errors.empty()) {
      const Error error = commit_errors.front();
      commit_errors.pop_front();
      if (!error.ok()) co_return error;
    }
    commits.push_back({writes->ino(), extents.empty() ? 0 : extents.front().file_offset, of.size(), grow_to, durable});
    co_return Ok();
  }

  InodeWritesPtr File(uint64_t ino) {
    auto& slot = files[InodeId(ino)];
    if (!slot) slot = std::make_shared<InodeWrites>(InodeId(ino));
    return slot;
  }
  void Write(uint64_t ino, uint64_t offset, uint64_t length) {
    room.Take(File(ino), offset, Buffer::FromString(std::string(length, 'x')), true, kStripe);
  }
  Result<void> Flush(uint64_t ino, bool durable = false) { return RunSim(ex, room.Flush(File(ino), durable)); }
  static Task<void> For(int64_t ns) { co_await Sleep(ns); }

  struct Committed {
    InodeId ino;
    uint64_t offset = 0;
    size_t stripes = 0;
    uint64_t grow_to = 0;
    bool durable = false;
  };

  SimExecutor ex;
  IoCounters counters;
  std::map<InodeId, InodeWritesPtr> files;
  std::deque<int64_t> store_ns;  // how long each takes; then a millisecond
  Error store_error;
  std::deque<Error> commit_errors;  // in order; ok ones are commits
  std::vector<Committed> commits;
  int storing = 0, most_storing = 0;
  uint64_t stripes = 0;
  size_t given_back = 0;
  int committed = 0, failed = 0, ended = 0, ended_lost = 0;
  TaskScope scope;
  WriteBack room;
};

TEST_F(WriteBackTest, FewBytesAreCommittedInline) {
  Write(1, 0, 100);
  EXPECT_EQ(room.dirty_bytes(), 100u);
  ASSERT_TRUE(Flush(1, /*durable=*/true).ok());
  ASSERT_EQ(commits.size(), 1u);
  EXPECT_EQ(commits[0].stripes, 0u);
  EXPECT_EQ(commits[0].grow_to, 100u);
  EXPECT_TRUE(commits[0].durable);
  EXPECT_TRUE(File(1)->clean());
  EXPECT_EQ(room.dirty_bytes(), 0u);
  EXPECT_EQ(committed, 1);
  EXPECT_EQ(ended, 1);
}

TEST_F(WriteBackTest, WhatInlineRefusesBecomesAStripe) {
  commit_errors.push_back(Error(FsError::kQuota));
  Write(1, 0, 100);
  ASSERT_TRUE(Flush(1).ok());
  ASSERT_EQ(commits.size(), 1u);
  EXPECT_EQ(commits[0].stripes, 1u);
}

// The first batch takes longest to be stored: those after it wait for it to be committed.
TEST_F(WriteBackTest, BatchesAreStoredTogetherAndCommittedInOrder) {
  store_ns = {kSecond, kMillisecond, kMillisecond, kMillisecond};
  Write(1, 0, 4 * kStripe);
  ASSERT_TRUE(Flush(1).ok());
  ASSERT_EQ(commits.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(commits[i].offset, i * kStripe);
  EXPECT_EQ(most_storing, 3);
}

// A failed batch keeps its bytes, and whoever flushes is told; the next flush tries again.
TEST_F(WriteBackTest, AFailureIsToldAndForgetsNothing) {
  store_error = Error(FsError::kIo, "no disk");
  Write(1, 0, kStripe);
  const auto first = Flush(1);
  EXPECT_EQ(first.code(), FsError::kIo);
  EXPECT_TRUE(File(1)->failing());
  EXPECT_EQ(room.dirty_bytes(), kStripe);
  EXPECT_EQ(failed, 1);
  store_error = Error();
  ASSERT_TRUE(Flush(1).ok());
  EXPECT_FALSE(File(1)->failing());
  EXPECT_EQ(commits.size(), 1u);
}

// An attempt that began while servers were silent says nothing of an attempt that begins now.
TEST_F(WriteBackTest, AFlushDoesNotFailWithAnAttemptOfBefore) {
  store_ns = {kSecond};
  store_error = Error(FsError::kTimedOut);
  Write(1, 0, kStripe);
  room.Start(File(1));
  RunSim(ex, For(kSecond / 2));
  scope.Spawn([](WriteBackTest* t) -> Task<void> {
    co_await Sleep(kSecond / 2 + kMillisecond / 2);  // the next one is under way
    t->store_error = Error();
  }(this));
  EXPECT_TRUE(Flush(1).ok());
  EXPECT_EQ(failed, 1);
  store_error = Error(FsError::kTimedOut);
  Write(1, 0, kStripe);
  EXPECT_EQ(Flush(1).code(), FsError::kTimedOut);
}

TEST_F(WriteBackTest, AFlushEndsWithoutProgress) {
  store_ns = {10 * Options().timeout_ns};
  Write(1, 0, kStripe);
  EXPECT_EQ(Flush(1).code(), FsError::kTimedOut);
  EXPECT_GE(ex.NowNs(), Options().timeout_ns);
  EXPECT_EQ(room.dirty_bytes(), kStripe);  // kept
}

// What others wrote after the flush began is not its business.
TEST_F(WriteBackTest, AFlushWaitsForWhatWasWrittenBefore) {
  Write(1, 0, 100);
  scope.Spawn([](WriteBackTest* t) -> Task<void> {
    co_await Sleep(kMillisecond / 2);  // the commit is on its way
    t->Write(1, 5000, 100);
  }(this));
  ASSERT_TRUE(Flush(1).ok());
  EXPECT_EQ(commits.size(), 1u);
  EXPECT_EQ(File(1)->dirty().bytes(), 100u);
}

TEST_F(WriteBackTest, AllocationsThatARestartLostAreMadeAgain) {
  commit_errors.push_back(Error(FsError::kConflict));
  Write(1, 0, kStripe);
  ASSERT_TRUE(Flush(1).ok());
  EXPECT_EQ(stripes, 2u);
  EXPECT_EQ(given_back, 1u);
}

// Too big for one transaction: it is divided until it is not.
TEST_F(WriteBackTest, ATooBigBatchIsDivided) {
  commit_errors.push_back(Error(FsError::kTooBig));
  Write(1, 0, kStripe);
  ASSERT_TRUE(Flush(1).ok());
  EXPECT_EQ(commits.size(), 2u);
  EXPECT_EQ(failed, 0);
}

TEST_F(WriteBackTest, LostBytesAreNotCommittedAndTheirFlushSaysWhy) {
  store_ns = {kSecond};
  Write(1, 0, kStripe);
  scope.Spawn([](WriteBackTest* t) -> Task<void> {
    co_await Sleep(kSecond / 2);
    t->room.LoseAll(*t->File(1), Error(FsError::kIo, "lost"));
    t->Write(1, 0, 100);  // under the next session
  }(this));
  EXPECT_EQ(Flush(1).code(), FsError::kIo);
  ASSERT_TRUE(Flush(1).ok());
  RunSim(ex, For(2 * kSecond));
  ASSERT_EQ(commits.size(), 1u);
  EXPECT_EQ(commits[0].grow_to, 100u);
  EXPECT_EQ(ended_lost, 1);
}

// The same when they are lost before their batch has begun.
TEST_F(WriteBackTest, BytesLostAtOnceAreNotCommitted) {
  Write(1, 0, 100);
  File(1)->Seal();
  room.Start(File(1));
  room.LoseAll(*File(1), Error(FsError::kIo, "lost"));
  Write(1, 0, 200);
  ASSERT_TRUE(Flush(1).ok());
  RunSim(ex, For(kSecond));
  ASSERT_EQ(commits.size(), 1u);
  EXPECT_EQ(commits[0].grow_to, 200u);
  EXPECT_EQ(ended_lost, 1);
}

// While it lasts nothing is committed; what waits for its turn is put back, and may be cut.
TEST_F(WriteBackTest, APauseHoldsBatchesBack) {
  Write(1, 0, kStripe);
  Write(1, kStripe, 100);
  std::optional<WriteBackPause> pause(std::in_place, File(1));
  RunSim(ex, pause->Begin());
  room.Start(File(1));
  RunSim(ex, For(kSecond));
  EXPECT_TRUE(commits.empty());
  File(1)->Truncate(50);
  room.Account(*File(1));
  EXPECT_EQ(room.dirty_bytes(), 50u);
  pause.reset();
  ASSERT_TRUE(Flush(1).ok());
  ASSERT_EQ(commits.size(), 1u);
}

TEST_F(WriteBackTest, WritersWaitForRoomThatOthersMake) {
  Write(1, 0, kLimit);
  Write(2, 0, 100);
  EXPECT_FALSE(room.RoomFor(1));
  ASSERT_TRUE(RunSim(ex, room.WaitForRoom(File(2), kStripe, nullptr)).ok());
  EXPECT_FALSE(commits.empty());
  EXPECT_TRUE(room.RoomFor(kStripe));
}

TEST_F(WriteBackTest, WhatMustPassPassesWithoutRoom) {
  Write(1, 0, kLimit);
  store_error = Error(FsError::kTimedOut);
  bool passes = false;
  scope.Spawn([](WriteBackTest* t, bool* p) -> Task<void> {
    co_await Sleep(kSecond);
    *p = true;
    t->room.WakeRoomWaits();
  }(this, &passes));
  ASSERT_TRUE(RunSim(ex, room.WaitForRoom(File(2), kStripe, [&] { return passes; })).ok());
  EXPECT_FALSE(room.RoomFor(kStripe));
}

TEST_F(WriteBackTest, NobodyWaitsForRoomForEver) {
  Write(1, 0, kLimit);
  store_error = Error(FsError::kTimedOut);
  const auto waited = RunSim(ex, room.WaitForRoom(File(2), kStripe, nullptr));
  EXPECT_EQ(waited.code(), FsError::kTimedOut);
  EXPECT_GE(ex.NowNs(), Options().timeout_ns);
}

TEST_F(WriteBackTest, OldBytesLeaveByThemselves) {
  scope.Spawn(room.Periodic());
  Write(1, 0, 100);
  RunSim(ex, For(2 * kSecond));
  EXPECT_TRUE(commits.empty());
  RunSim(ex, For(8 * kSecond));
  EXPECT_EQ(commits.size(), 1u);
}

// One commit is to hold so many pieces at most, however small they are.
TEST_F(WriteBackTest, ABatchHasABoundOfPieces) {
  for (uint64_t i = 0; i < 2000; ++i) Write(1, 10 * i, 1);
  EXPECT_GE(File(1)->dirty().batches(), 3u);
}

}  // namespace
}  // namespace stria
