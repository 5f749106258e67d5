#include "meta/session/once_ops.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

TEST(OnceOps, ExactlyOnce) {
  OnceOps ops(OpSeq(), 3);
  EXPECT_EQ(ops.Lookup(OpSeq(1)), OpState::kNew);
  ops.Begin(OpSeq(1));
  EXPECT_EQ(ops.Lookup(OpSeq(1)), OpState::kRunning);
  ops.Commit(OpSeq(1), "one");
  EXPECT_EQ(ops.Lookup(OpSeq(1)), OpState::kRunning) << "not answered before others have been told";
  ops.Finish(OpSeq(1));
  EXPECT_EQ(ops.Lookup(OpSeq(1)), OpState::kDone);
  EXPECT_EQ(ops.Reply(OpSeq(1)), "one");
  ops.Begin(OpSeq(2));
  ops.Finish(OpSeq(2));
  EXPECT_EQ(ops.Lookup(OpSeq(2)), OpState::kNew) << "an error without effect may be tried again";
  ops.Begin(OpSeq(2));
  ops.Begin(OpSeq(3));
  EXPECT_EQ(ops.Lookup(OpSeq(4)), OpState::kTooMany);
  ops.Ack(OpSeq(2));
  EXPECT_EQ(ops.Lookup(OpSeq(1)), OpState::kForgotten);
  EXPECT_EQ(ops.Lookup(OpSeq(4)), OpState::kNew);
  EXPECT_EQ(ops.Forgotten(10), std::vector<OpSeq>{OpSeq(1)});
  ops.Deleted({OpSeq(1)});
  EXPECT_TRUE(ops.Forgotten(10).empty());
}

TEST(OnceOps, VolatileRepliesAreNotDeletedFromTheStore) {
  OnceOps ops(OpSeq(), 10);
  ops.Commit(OpSeq(1), "stored");
  ops.CommitVolatile(OpSeq(2), "in memory");
  EXPECT_EQ(ops.Reply(OpSeq(2)), "in memory");
  ops.Ack(OpSeq(3));
  EXPECT_EQ(ops.Lookup(OpSeq(2)), OpState::kForgotten);
  EXPECT_EQ(ops.Forgotten(10), std::vector<OpSeq>{OpSeq(1)});
}

TEST(OnceOps, VolatileEffectsThatAreLostAreDoneAgain) {
  OnceOps ops(OpSeq(), 10);
  ops.Commit(OpSeq(1), "stored");
  ops.CommitVolatile(OpSeq(2), "in memory");
  ops.LoseVolatile();
  EXPECT_EQ(ops.Lookup(OpSeq(1)), OpState::kDone);
  EXPECT_EQ(ops.Lookup(OpSeq(2)), OpState::kNew);
}

TEST(OnceOps, ARefusalIsKeptUntilItHasArrived) {
  OnceOps ops(OpSeq(), 10);
  ops.Refuse(OpSeq(1), Error(FsError::kExist));
  EXPECT_EQ(ops.Lookup(OpSeq(1)), OpState::kRefused);
  EXPECT_EQ(ops.Refusal(OpSeq(1)).code, FsError::kExist);
  ops.Commit(OpSeq(2), "done");
  ops.Refuse(OpSeq(2), Error(FsError::kIo));
  EXPECT_EQ(ops.Lookup(OpSeq(2)), OpState::kDone);
  ops.Ack(OpSeq(2));
  EXPECT_EQ(ops.Lookup(OpSeq(1)), OpState::kForgotten);
}

TEST(OnceOps, WhatARestartFoundBelowIsDeleted) {
  OnceOps ops(OpSeq(5), 10);
  ops.Load(OpSeq(4), "four");
  ops.Load(OpSeq(6), "six");
  EXPECT_EQ(ops.Lookup(OpSeq(4)), OpState::kForgotten);
  EXPECT_EQ(ops.Lookup(OpSeq(6)), OpState::kDone);
  EXPECT_EQ(ops.Forgotten(10), std::vector<OpSeq>{OpSeq(4)});
}

}  // namespace
}  // namespace stria
