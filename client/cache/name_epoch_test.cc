#include "client/cache/name_epoch.h"

#include <gtest/gtest.h>

#include <optional>

#include "common/exec/sim_executor.h"

namespace stria {
namespace {

constexpr int64_t kMs = kMillisecond;

class NameEpochTest : public testing::Test {
 protected:
  // How long it took.
  int64_t Forget(InodeId in) {
    const int64_t begun_ns = ex_.NowNs();
    bool done = false;
    scope_.Spawn([](NameEpoch* names, InodeId dir, bool* d) -> Task<void> {
      co_await names->Forget(dir);
      *d = true;
    }(&names_, in, &done));
    ex_.RunUntil([&] { return epoch_ > told_; }, ex_.NowNs());
    EXPECT_EQ(epoch_, ++told_) << "the first time at once";
    ex_.RunUntil([&] { return done; }, ex_.NowNs() + kSecond);
    EXPECT_TRUE(done);
    return ex_.NowNs() - begun_ns;
  }
  void Pass(int64_t ns) {
    bool passed = false;
    scope_.Spawn([](int64_t wait_ns, bool* p) -> Task<void> {
      co_await Sleep(wait_ns);
      *p = true;
    }(ns, &passed));
    ex_.RunUntil([&] { return passed; }, ex_.NowNs() + kSecond);
  }

  SimExecutor ex_{1};
  TaskScope scope_;
  uint64_t epoch_ = 0, told_ = 0;
  NameEpoch names_{[this] { ++epoch_; }};
};

TEST_F(NameEpochTest, NobodyListed) {
  EXPECT_EQ(Forget(InodeId(7)), 0);
  EXPECT_EQ(Forget(InodeId()), 0);
  EXPECT_EQ(epoch_, 2u);
}

TEST_F(NameEpochTest, AListingOnItsWayIsWaitedFor) {
  names_.Listed(InodeId(7));
  Pass(20 * kMs);
  EXPECT_EQ(Forget(InodeId(8)), 0) << "of another directory";
  EXPECT_EQ(epoch_, 1u);
  EXPECT_EQ(Forget(InodeId(7)), NameEpoch::kEnteredNs - 20 * kMs);
  EXPECT_EQ(epoch_, 3u);
  told_ = epoch_;
  EXPECT_EQ(Forget(InodeId(7)), 0) << "it is over";
}

TEST_F(NameEpochTest, AnywhereIsEverywhere) {
  names_.Listed(InodeId(7));
  Pass(10 * kMs);
  names_.Listed(InodeId(8));
  EXPECT_EQ(Forget(InodeId()), NameEpoch::kEnteredNs);
  told_ = epoch_;
  Pass(kMs);
  EXPECT_EQ(Forget(InodeId()), 0);
}

TEST_F(NameEpochTest, ManyDirectories) {
  for (uint64_t i = 1; i <= 10'000; ++i) {
    names_.Listed(InodeId(i));
    Pass(kMs);
  }
  EXPECT_EQ(Forget(InodeId(1)), 0);
  EXPECT_GT(Forget(InodeId(10'000)), 0);
}

}  // namespace
}  // namespace stria
