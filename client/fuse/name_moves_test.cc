#include "client/fuse/name_moves.h"

#include <gtest/gtest.h>

#include <map>

#include "common/exec/sim_run.h"

namespace stria {
namespace {

constexpr InodeId kDir(5), kMoved(9);
constexpr uint32_t kMover = 70, kWalker = 71;
constexpr int64_t kFindNs = kMillisecond;  // a lookup at the server

class NameMovesTest : public testing::Test {
 protected:
  using Answer = NameMoves::Answer<int>;
  // A LOOKUP of "a" that begins now.
  void Ask(uint32_t thread = kWalker) {
    answer_.reset();
    scope_.Spawn(moves_.Ask<int>(kDir, "a", thread, [this] { return Find(this); }), [this](Answer answer) { answer_ = answer; });
    ex_.RunFor(1);
  }
  static Task<int> Find(NameMovesTest* t) {
    const int number = ++t->finds_;
    co_await Sleep(kFindNs);
    co_return number;
  }
  // As FuseAdapter has it: the rename ends at the server, and is answered.
  void RenameIsAnswered() {
    moves_.Answered(kDir, "a", kMover);
    moves_.End(kDir, "a");
    mover_.runnable = true;  // it has the answer, and waits for a processor
  }

  SimExecutor ex_{1};
  ThreadRun mover_{false, 40 * kMillisecond};
  NameMoves moves_{&ex_, [this](uint32_t thread) { return std::optional<ThreadRun>(thread == kMover ? mover_ : ThreadRun{true, kMillisecond}); }};
  std::optional<Answer> answer_;
  int finds_ = 0;
  TaskScope scope_;
};

TEST_F(NameMovesTest, WithoutARenameItIsWhatIsFound) {
  Ask();
  ex_.RunFor(kFindNs);
  ASSERT_TRUE(answer_);
  EXPECT_EQ(answer_->found, 1);
  EXPECT_FALSE(answer_->moving);
}

TEST_F(NameMovesTest, WhileItIsRenamedItIsWhatTheKernelHas) {
  moves_.Begin(kDir, "a", kMoved);
  EXPECT_TRUE(moves_.IsMoving(kDir, "a"));
  Ask();
  ASSERT_TRUE(answer_);
  EXPECT_EQ(answer_->moving, kMoved);
  EXPECT_FALSE(answer_->found);
  EXPECT_EQ(finds_, 0) << "nobody asks the server, who may say that it is gone";
}

// The kernel has the answer, and has not moved its entry yet: to be told that the old name is gone would end what is mounted below it.
TEST_F(NameMovesTest, AfterTheAnswerItWaitsUntilTheKernelHasMovedIt) {
  moves_.Begin(kDir, "a", kMoved);
  RenameIsAnswered();
  Ask();
  ex_.RunFor(kSecond);
  EXPECT_FALSE(answer_);
  EXPECT_EQ(finds_, 0) << "it waits before it asks";
  mover_.processor_ns += LateMoves::kTailNs + 1;
  ex_.RunFor(2 * LateMoves::kLongestPauseNs + kFindNs);
  ASSERT_TRUE(answer_);
  EXPECT_EQ(answer_->found, 1);
}

TEST_F(NameMovesTest, TheRenamingThreadDoesNotWaitForItself) {
  moves_.Begin(kDir, "a", kMoved);
  RenameIsAnswered();
  Ask(kMover);
  ex_.RunFor(kFindNs);
  ASSERT_TRUE(answer_);
  EXPECT_EQ(answer_->found, 1);
}

TEST_F(NameMovesTest, ARenameThatBeginsMeanwhileCounts) {
  Ask();
  moves_.Begin(kDir, "a", kMoved);
  ex_.RunFor(kFindNs);
  ASSERT_TRUE(answer_);
  EXPECT_EQ(answer_->moving, kMoved);
  EXPECT_FALSE(answer_->found) << "that was out of date";
}

// The kernel asks about the entry that it has moved since: the answer that the old name is gone would end it where it is now.
TEST_F(NameMovesTest, OneThatIsAnsweredMeanwhileCountsToo) {
  Ask();
  EXPECT_EQ(finds_, 1);
  moves_.Begin(kDir, "a", kMoved);
  RenameIsAnswered();
  mover_.processor_ns += LateMoves::kTailNs + 1;
  ex_.RunFor(kFindNs);
  ASSERT_TRUE(answer_);
  EXPECT_EQ(answer_->had, kMoved);
  EXPECT_FALSE(answer_->moving) << "it has another name by now";
  EXPECT_FALSE(answer_->found);
}

TEST_F(NameMovesTest, ALookupOfANameThatIsNotBelievedAnyMoreMayAskAboutTheEntryThatIsMoved) {
  for (const bool believed : {true, false}) {
    moves_.Begin(kDir, "a", kMoved);
    moves_.Answered(kDir, "a", kMover, believed ? ex_.NowNs() + kMillisecond : ex_.NowNs());
    moves_.End(kDir, "a");
    mover_.runnable = true;
    Ask();
    mover_.processor_ns += LateMoves::kTailNs + 1;
    ex_.RunFor(2 * LateMoves::kLongestPauseNs + kFindNs);
    ASSERT_TRUE(answer_);
    EXPECT_EQ(answer_->unsure, !believed);
    EXPECT_TRUE(answer_->found);
  }
  Ask();
  ex_.RunFor(kFindNs);
  ASSERT_TRUE(answer_);
  EXPECT_FALSE(answer_->unsure) << "the kernel has moved it by now";
}

}  // namespace
}  // namespace stria
