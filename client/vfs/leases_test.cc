#include "client/vfs/leases.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "common/exec/sim_run.h"
#include "common/token.h"

namespace stria {
namespace {

constexpr InodeId kIno{6};
constexpr uint64_t kGeneration = 2;

InodeLease::Grant Granted(LeaseMode mode, bool for_write, uint64_t asked = 0) {
  return {.mode = mode, .for_read = true, .for_write = for_write, .asked = asked};
}

class LeasesTest : public ::testing::Test {
 public:
  LeasesTest() : ex(1), file(std::make_shared<InodeLease>(kIno)), room(Needs()) { file->BelongsTo(kGeneration); }
  ~LeasesTest() override { scope.CancelAll(); }

  LeasesNeeds Needs() {
    LeasesNeeds needs;
    needs.generation = [this] { return generation; };
    needs.term = [this] { return term; };
    needs.era = [this] { return era; };
    needs.number_call = [this] { return ++calls; };
    needs.lease_left_ns = [this] { return lease_left_ns; };
    needs.release = [this](InodeRequest r) -> Task<Result<Empty>> {
      released.push_back(r.header.trace_id);
      co_await Sleep(kMillisecond);
      co_return Answer();
    };
    needs.lease_done = [this](LeaseDoneRequest r) -> Task<Result<Empty>> {
      done.push_back(r);
      co_await Sleep(kMillisecond);
      co_return Answer();
    };
    needs.maybe_unused = [this](const InodeLeasePtr& of) { unused.push_back(of->ino()); };
    return needs;
  }
  Result<Empty> Answer() {
    if (answers.empty()) return Empty();
    const Error error = answers.front();
    answers.pop_front();
    return error;
  }
  void At(int64_t ns, std::function<void()> what) {
    scope.Spawn([](int64_t wait_ns, std::function<void()> run) -> Task<void> {
      co_await Sleep(wait_ns);
      run();
    }(ns, std::move(what)));
  }

  SimExecutor ex;
  uint64_t generation = kGeneration, term = 1, era = 1, calls = 0;
  int64_t lease_left_ns = kSecond;
  std::deque<Error> answers;
  std::vector<uint64_t> released;
  std::vector<LeaseDoneRequest> done;
  std::vector<InodeId> unused;
  InodeLeasePtr file;
  TaskScope scope;
  Leases room;
};

TEST_F(LeasesTest, ALeaseIsHeldWhileItsSessionLasts) {
  EXPECT_FALSE(room.Holds(*file, false));
  file->Take(Granted(LeaseMode::kRead, false), "proof", {});
  EXPECT_TRUE(room.Holds(*file, false));
  EXPECT_FALSE(room.Holds(*file, true));
  lease_left_ns = 0;
  EXPECT_FALSE(room.Holds(*file, false));
  lease_left_ns = kSecond;
  ++generation;
  EXPECT_FALSE(room.Holds(*file, false));
}

TEST_F(LeasesTest, AGrantIsWhatTheServerSays) {
  EXPECT_FALSE(file->Has(false));
  file->Take(Granted(LeaseMode::kRead, false), "", {});
  EXPECT_TRUE(file->Has(false) && file->caches());
  EXPECT_FALSE(file->Has(true));
  file->Take(Granted(LeaseMode::kExclusive, true), "", {});
  EXPECT_TRUE(file->Has(true) && file->buffers_writes());
  EXPECT_EQ(file->grants(), 2u);
  file->Drop();
  EXPECT_FALSE(file->Has(false) || file->in_use());
}

// The answer to an open and a recall of what it grants may overtake each other.
TEST_F(LeasesTest, ARecallThatCameFirstLeavesLess) {
  const uint64_t asked = room.events_seen();
  const Leases::Opening opening(&room, file.get());
  room.EventSeen();
  RunSim(ex, room.DoneNotHeld(kIno, file, LeaseMode::kRead, 7));
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].lease, LeaseMode::kRead);
  EXPECT_EQ(done[0].event_seq, 7u);
  file->Take(Granted(LeaseMode::kExclusive, true, asked), "", {});
  EXPECT_EQ(file->mode(), LeaseMode::kRead);
  // What is asked for later is granted later.
  file->Take(Granted(LeaseMode::kExclusive, true, room.events_seen()), "", {});
  EXPECT_EQ(file->mode(), LeaseMode::kExclusive);
}

TEST_F(LeasesTest, WhatIsNotHeldIsAnsweredSo) {
  room.EventSeen();
  RunSim(ex, room.DoneNotHeld(kIno, file, LeaseMode::kRead, 7));
  RunSim(ex, room.DoneNotHeld(kIno, nullptr, LeaseMode::kRead, 8));
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].lease, LeaseMode::kNone);
  EXPECT_EQ(done[1].lease, LeaseMode::kNone);
}

TEST_F(LeasesTest, WhatIsBufferedIsFlushedUnderItsLease) {
  file->Take(Granted(LeaseMode::kExclusive, true), "", {});
  file->Take(Granted(LeaseMode::kShared, true), "", {.dirty = true});
  EXPECT_TRUE(file->buffers_writes());
  file->Take(Granted(LeaseMode::kShared, true), "", {});
  EXPECT_TRUE(file->shared());
}

TEST_F(LeasesTest, SomeWritesMakeLessOfAGrant) {
  file->Take(Granted(LeaseMode::kExclusive, true), "", {.shared_writes = true});
  EXPECT_TRUE(file->shared());
  file->Take(Granted(LeaseMode::kRead, false), "", {.of_before = true});
  EXPECT_TRUE(file->shared());
}

TEST_F(LeasesTest, ARecallTakesWriting) {
  file->Take(Granted(LeaseMode::kExclusive, true), "", {});
  file->Recalled(LeaseMode::kRead, room.events_seen());
  EXPECT_FALSE(file->Has(true));
  EXPECT_TRUE(file->Has(false));
}

TEST_F(LeasesTest, WhatAnEventToldIsNewerThanAnOlderAnswer) {
  const uint64_t asked = room.events_seen();
  EXPECT_FALSE(file->ToldSince(asked));
  room.EventSeen();
  room.Told(*file);
  EXPECT_TRUE(file->ToldSince(asked));
  EXPECT_FALSE(file->ToldSince(room.events_seen()));
}

// An open that failed, or that nobody waits for any more, may have been done.
TEST_F(LeasesTest, AnOpenWithoutAnAnswerIsOwed) {
  { const Leases::Opening opening(&room, file.get()); }
  EXPECT_EQ(file->owes(), 1u);
  EXPECT_TRUE(file->in_use());
  EXPECT_TRUE(RunSim(ex, room.Release(file, ++calls)));
  EXPECT_FALSE(file->in_use());
  {
    Leases::Opening opening(&room, file.get());
    opening.granted = true;
  }
  EXPECT_EQ(file->owes(), 0u);
  generation = kGeneration + 1;  // the server knows nothing of this one
  { const Leases::Opening opening(&room, file.get()); }
  EXPECT_EQ(file->owes(), 0u);
}

TEST_F(LeasesTest, AReleaseIsOwedUntilTheServerKnows) {
  answers.push_back(Error(FsError::kTimedOut));
  EXPECT_FALSE(RunSim(ex, room.Release(file, 5)));
  EXPECT_EQ(file->owes(), 5u);
  // An answer of another term may be of nothing.
  At(kMillisecond / 2, [this] { ++term; });
  EXPECT_FALSE(RunSim(ex, room.Release(file, 6)));
  EXPECT_EQ(file->owes(), 6u);
  // It is granted again meanwhile: that is another's to give back.
  At(kMillisecond / 2, [this] { file->Take(Granted(LeaseMode::kRead, false), "", {}); });
  EXPECT_TRUE(RunSim(ex, room.Release(file, 7)));
  EXPECT_TRUE(file->Has(false));
}

TEST_F(LeasesTest, WhatIsGivenBackWithAnotherRequest) {
  const Leases::GivenBack given = room.GiveBack(*file);
  EXPECT_EQ(given.term, term);
  EXPECT_FALSE(room.WasGivenBack(*file, given.call, /*surely=*/false));
  EXPECT_EQ(file->owes(), given.call);
  EXPECT_TRUE(room.WasGivenBack(*file, given.call, /*surely=*/true));
  EXPECT_EQ(file->owes(), 0u);
  EXPECT_TRUE(room.WasGivenBack(*file, given.call, /*surely=*/false));
}

// Others wait for it.
TEST_F(LeasesTest, AnAnswerIsSentUntilItIsHeard) {
  answers = {Error(FsError::kTimedOut), Error(FsError::kUnavailable)};
  EXPECT_TRUE(RunSim(ex, room.Done(kIno, LeaseMode::kNone, 3)));
  EXPECT_EQ(done.size(), 3u);
  EXPECT_EQ(done[0].header.trace_id, done[2].header.trace_id);
  answers = {Error(FsError::kTimedOut), Error(FsError::kTimedOut)};
  At(kMillisecond / 2, [this] { ++era; });
  EXPECT_FALSE(RunSim(ex, room.Done(kIno, LeaseMode::kNone, 3)));
}

// What events say of an inode that a Create may be about is kept until that has ended.
TEST_F(LeasesTest, WhatIsMetWhileCreatingStays) {
  room.CreateBegins(1);
  room.EventSeen();
  room.Meet(file);
  room.Told(*file);
  room.CreateBegins(2);  // after it
  EXPECT_TRUE(file->in_use());
  room.CreateEnded(2);
  EXPECT_TRUE(file->in_use());
  room.CreateEnded(1);
  EXPECT_FALSE(file->in_use());
  EXPECT_EQ(unused, std::vector{kIno});
}

TEST_F(LeasesTest, CreatesThatBeganBeforeAreWaitedFor) {
  room.CreateBegins(1);
  room.CreateBegins(9);
  RunSim(ex, room.CreatesBefore(1));
  At(kSecond, [this] { room.CreateEnded(1); });
  RunSim(ex, room.CreatesBefore(5));
  EXPECT_GE(ex.NowNs(), kSecond);
  EXPECT_TRUE(room.creating());
}

TEST_F(LeasesTest, WithItsSessionAllIsLost) {
  file->Take(Granted(LeaseMode::kExclusive, true), "proof", {});
  file->Owe(4);
  file->LoseAll(kGeneration + 1);
  EXPECT_FALSE(file->in_use());
  EXPECT_EQ(file->proof(), "");
  EXPECT_EQ(file->generation(), kGeneration + 1);
}

}  // namespace
}  // namespace stria
