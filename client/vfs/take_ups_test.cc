#include "client/vfs/take_ups.h"

#include <gtest/gtest.h>

#include "common/exec/sim_run.h"

namespace stria {
namespace {

class TakeUpsTest : public ::testing::Test {
 public:
  TakeUpsTest() : ex(1), file(std::make_shared<InodeTakeUp>(InodeId(8))), room(Needs(), scope) {}
  ~TakeUpsTest() override { scope.CancelAll(); }

  TakeUpsNeeds Needs() {
    TakeUpsNeeds needs;
    needs.flush = [this](InodeTakeUpPtr of) -> Task<void> {
      ++flushes;
      co_await Sleep(kMillisecond);
      if (flushes < works_at) co_return;
      head = commits_to;
      room.CommittedTo(of, head);
    };
    needs.head_seal = [this](const InodeTakeUpPtr&) { return head; };
    needs.ended = [this](const InodeTakeUpPtr&) { ++ended; };
    needs.maybe_unused = [this](const InodeTakeUpPtr&) { ++unused; };
    return needs;
  }
  static Task<void> For(int64_t ns) { co_await Sleep(ns); }

  SimExecutor ex;
  int flushes = 0, works_at = 1, ended = 0, unused = 0;
  uint64_t head = 1, commits_to = 4;
  InodeTakeUpPtr file;
  TaskScope scope;
  TakeUps room;
};

TEST_F(TakeUpsTest, BytesOfBeforeAreCommittedOnce) {
  room.Start(file);  // there are none
  file->Lapsed(/*data_version=*/70, /*upto=*/3);
  room.Start(file);
  room.Start(file);
  RunSim(ex, scope.Join());
  EXPECT_EQ(flushes, 1);
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(unused, 1);
  EXPECT_FALSE(file->any());
}

TEST_F(TakeUpsTest, ItIsTriedUntilItWorks) {
  file->Lapsed(70, 3);
  works_at = 5;
  room.Start(file);
  RunSim(ex, scope.Join());
  EXPECT_EQ(flushes, 5);
  EXPECT_EQ(ended, 1);
}

// Batches of after the lapse do not count, nor do those that are only the first of them.
TEST_F(TakeUpsTest, ItEndsWithTheLastOfThem) {
  file->Lapsed(70, 3);
  room.CommittedTo(file, 3);
  EXPECT_TRUE(file->any());
  room.CommittedTo(file, 4);
  EXPECT_FALSE(file->any());
  room.CommittedTo(file, 5);
  EXPECT_EQ(ended, 1);
}

// What was written over stays what it was written over, but for commits of our own.
TEST_F(TakeUpsTest, TheVersionIsThatOfTheLastCommitOfOurs) {
  file->Committed(60);
  EXPECT_FALSE(file->base());
  file->Lapsed(70, 3);
  file->Lapsed(80, 5);
  EXPECT_EQ(file->base(), 70u);
  room.CommittedTo(file, 4);
  EXPECT_TRUE(file->any());
  file->Committed(71);
  EXPECT_EQ(file->base(), 71u);
  file->Renumbered(60, 61);  // others of ours came after that one
  EXPECT_EQ(file->base(), 71u);
  file->Renumbered(71, 91);
  EXPECT_EQ(file->base(), 91u);
}

TEST_F(TakeUpsTest, WhatIsLostIsNotTakenUp) {
  file->Lapsed(70, 3);
  works_at = 1000;
  room.Start(file);
  RunSim(ex, For(3 * kSecond));
  file->Forget();
  RunSim(ex, scope.Join());
  EXPECT_EQ(ended, 0);
  EXPECT_EQ(unused, 1);
}

}  // namespace
}  // namespace stria
