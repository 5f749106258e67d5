#include "client/fuse/late_moves.h"

#include <gtest/gtest.h>

#include <map>

namespace stria {
namespace {

constexpr InodeId kDir(5);
constexpr uint32_t kMover = 70, kWalker = 71;

class LateMovesTest : public ::testing::Test {
 protected:
  std::map<uint32_t, ThreadRun> runs_ = {{kMover, {false, 40 * kMillisecond}}, {kWalker, {true, kMillisecond}}};
  LateMoves late_{[this](uint32_t thread) {
    const auto it = runs_.find(thread);
    return it == runs_.end() ? std::nullopt : std::optional<ThreadRun>(it->second);
  }};
};

TEST_F(LateMovesTest, MayComeUntilItsThreadHasHadAProcessor) {
  EXPECT_FALSE(late_.MayCome(kDir, "a", kWalker, 0));
  late_.Answered(kDir, "a", kMover, 0);
  runs_[kMover].runnable = true;
  EXPECT_TRUE(late_.MayCome(kDir, "a", kWalker, kSecond)) << "it waits for a processor";
  EXPECT_FALSE(late_.MayCome(kDir, "b", kWalker, kSecond));
  EXPECT_FALSE(late_.MayCome(InodeId(6), "a", kWalker, kSecond));
  runs_[kMover].processor_ns += LateMoves::kTailNs;
  EXPECT_TRUE(late_.MayCome(kDir, "a", kWalker, kSecond));
  runs_[kMover].processor_ns += 1;
  EXPECT_FALSE(late_.MayCome(kDir, "a", kWalker, kSecond));
  EXPECT_EQ(late_.size(), 0u);
}

TEST_F(LateMovesTest, AThreadThatWaitsAgainIsPastIt) {
  late_.Answered(kDir, "a", kMover, 0);
  EXPECT_FALSE(late_.MayCome(kDir, "a", kWalker, 0));
}

TEST_F(LateMovesTest, AThreadThatIsGoneOrAsksItselfIsPastIt) {
  late_.Answered(kDir, "a", kMover, 0);
  late_.Answered(kDir, "b", kMover, 0);
  runs_[kMover].runnable = true;
  EXPECT_FALSE(late_.MayCome(kDir, "a", kMover, 0));
  EXPECT_TRUE(late_.MayCome(kDir, "b", kWalker, 0));
  runs_.erase(kMover);
  EXPECT_FALSE(late_.MayCome(kDir, "b", kWalker, 0));
}

TEST_F(LateMovesTest, AnotherThreadWithItsNumberIsNotIt) {
  late_.Answered(kDir, "a", kMover, 0);
  runs_[kMover] = {true, kMillisecond};
  EXPECT_FALSE(late_.MayCome(kDir, "a", kWalker, 0));
}

TEST_F(LateMovesTest, IsBounded) {
  late_.Answered(kDir, "a", kMover, 0);
  runs_[kMover].runnable = true;
  EXPECT_TRUE(late_.MayCome(kDir, "a", kWalker, LateMoves::kLongestNs - 1));
  EXPECT_FALSE(late_.MayCome(kDir, "a", kWalker, LateMoves::kLongestNs));
  for (size_t i = 0; i <= LateMoves::kMost; ++i) late_.Answered(kDir, std::to_string(i), kMover, 0);
  EXPECT_EQ(late_.size(), LateMoves::kMost);
  EXPECT_FALSE(late_.MayCome(kDir, "0", kWalker, 0));
  EXPECT_TRUE(late_.MayCome(kDir, "1", kWalker, 0));
}

TEST_F(LateMovesTest, AThreadThatNobodyKnowsIsNotWaitedFor) {
  late_.Answered(kDir, "a", 99, 0);
  EXPECT_EQ(late_.size(), 0u);
}

}  // namespace
}  // namespace stria
