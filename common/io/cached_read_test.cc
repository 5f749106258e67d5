#include "common/io/cached_read.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <string>

#include <gtest/gtest.h>

#include "common/exec/loop_executor.h"
#include "common/exec/sim_executor.h"
#include "common/temp_dir.h"

namespace stria {
namespace {

class CachedReadTest : public testing::Test {
 protected:
  CachedReadTest() {
    fd_ = open((dir_.path() + "/file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    EXPECT_GE(fd_, 0);
    text_.resize(256 * kKiB);
    for (size_t i = 0; i < text_.size(); ++i) text_[i] = static_cast<char>('a' + i % 23);
    EXPECT_EQ(pwrite(fd_, text_.data(), text_.size(), 0), static_cast<ssize_t>(text_.size()));
  }
  ~CachedReadTest() override { close(fd_); }
  // Asked of the kernel itself, of bytes that were just written.
  bool KernelCan() const {
    struct {
      uint64_t offset, length;
    } range = {0, text_.size()};
    uint64_t pages[5] = {};
    char byte = 0;
    const iovec to = {&byte, 1};
    return syscall(451 /* cachestat */, fd_, &range, pages, 0) == 0 && preadv2(fd_, &to, 1, 0, RWF_NOWAIT) == 1;
  }
  void Forget() {
    EXPECT_EQ(fsync(fd_), 0);
    EXPECT_EQ(posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED), 0);
  }

  TempDir dir_;
  int fd_ = -1;
  std::string text_;
  CachedReads reads_;
  SimExecutor executor_{1};
};

TEST_F(CachedReadTest, GivesWhatTheCacheHas) {
  if (!KernelCan()) GTEST_SKIP() << "the kernel or the file system has no such thing";
  const auto bytes = reads_.Read(fd_, 8192, 64 * kKiB, false);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(bytes->view(), text_.substr(8192, 64 * kKiB));
}

TEST_F(CachedReadTest, AllOrNothing) {
  EXPECT_FALSE(reads_.Read(fd_, 255 * kKiB, 4 * kKiB, false)) << "the file ends before";
  EXPECT_FALSE(reads_.Read(fd_, kMiB, 4 * kKiB, false));
  EXPECT_FALSE(reads_.Read(-1, 0, 4 * kKiB, true));
}

TEST_F(CachedReadTest, WhatTheCacheHasNotIsReadByOthers) {
  Forget();
  std::string got(64 * kKiB, '\0');
  // Some file systems have no disk behind them, and it is there at once; then it has to be right.
  const auto bytes = reads_.Read(fd_, 0, 64 * kKiB, false);
  if (bytes) EXPECT_EQ(bytes->view(), text_.substr(0, 64 * kKiB));
  ASSERT_EQ(pread(fd_, got.data(), got.size(), 0), static_cast<ssize_t>(got.size()));
  EXPECT_EQ(got, text_.substr(0, 64 * kKiB));
}

TEST_F(CachedReadTest, AccessTimesAreNotNotedAnyMore) {
  EXPECT_FALSE(NotesNoAccessTimes(fd_));
  EXPECT_TRUE(StopAccessTimes(fd_));
  EXPECT_TRUE(NotesNoAccessTimes(fd_));
  const int same = dup(fd_);
  EXPECT_TRUE(NotesNoAccessTimes(same)) << "it is a property of the open file, and goes where that goes";
  close(same);
  EXPECT_FALSE(StopAccessTimes(-1));
}

TEST_F(CachedReadTest, WorthATryOnlyWhileItHoldsNobodyUp) {
  EXPECT_TRUE(reads_.Worth(4 * kKiB, executor_));
  EXPECT_TRUE(reads_.Worth(kMaxCachedReadBytes, executor_));
  EXPECT_FALSE(reads_.Worth(kMaxCachedReadBytes + 1, executor_));
  EXPECT_FALSE(reads_.Worth(0, executor_));
}

TEST_F(CachedReadTest, NotWhileTheDiskKeepsManyWaiting) {
  std::vector<std::shared_ptr<const void>> waiting;
  for (int i = 0; i < CachedReads::kMaxWaiting; ++i) {
    EXPECT_TRUE(reads_.Worth(4 * kKiB, executor_));
    waiting.push_back(reads_.Wait());
  }
  EXPECT_FALSE(reads_.Worth(4 * kKiB, executor_));
  waiting.pop_back();
  EXPECT_TRUE(reads_.Worth(4 * kKiB, executor_));
}

TEST_F(CachedReadTest, BeginsWhatIsNotThereOnlyWhereItWillNotWait) {
  using Kind = CachedReads::Kind;
  const int64_t now = BoottimeNs();
  EXPECT_TRUE(reads_.MayBegin(now));
  std::vector<std::shared_ptr<const void>> busy;
  for (size_t i = 0; i < CachedReads::kMaxBusy; ++i) {
    EXPECT_TRUE(reads_.MayBegin(now)) << i;
    busy.push_back(reads_.Wait(i % 2 == 0 ? Kind::kOther : Kind::kRead, now));
  }
  EXPECT_FALSE(reads_.MayBegin(now)) << "its queue may be full";
  busy.resize(1);
  EXPECT_TRUE(reads_.MayBegin(now));
  EXPECT_FALSE(reads_.MayBegin(now + CachedReads::kMaxBusyNs + 1)) << "it may not answer";
  busy.clear();
  (void)reads_.Wait(Kind::kOther, now - kSecond);
  EXPECT_TRUE(reads_.MayBegin(BoottimeNs())) << "syncs take their time";
}

// On a good disk a few reads are slow as well.
TEST_F(CachedReadTest, BeginsNothingOnADiskWhoseReadsAreSlow) {
  using Kind = CachedReads::Kind;
  // "Begun" in the future, so that it is quick on a machine that stands still as well.
  const auto quick = [&] { (void)reads_.Wait(Kind::kRead, BoottimeNs() + kSecond); };
  const auto slow = [&] { (void)reads_.Wait(Kind::kRead, BoottimeNs() - 2 * CachedReads::kSlowNs); };
  for (int i = 0; i < 1000; ++i) i % 20 == 0 ? slow() : quick();
  EXPECT_TRUE(reads_.MayBegin(BoottimeNs())) << "one in twenty";
  for (int i = 0; i <= CachedReads::kMaxSlow; ++i) slow();
  EXPECT_FALSE(reads_.MayBegin(BoottimeNs()));
  for (int i = 0; i < 1000; ++i) i % 4 == 0 ? slow() : quick();
  EXPECT_FALSE(reads_.MayBegin(BoottimeNs())) << "one in four";
  for (int i = 0; i < CachedReads::kLastReads; ++i) quick();
  EXPECT_TRUE(reads_.MayBegin(BoottimeNs()));
}

TEST_F(CachedReadTest, WhatWasBegunIsThereSoon) {
  const uint64_t n = 64 * kKiB;
  if (!KernelCan()) GTEST_SKIP() << "the kernel or the file system has no such thing";
  Forget();
  for (int i = 0; i < 1000; ++i) {
    const auto bytes = reads_.Read(fd_, 0, n, /*begin=*/true);
    if (bytes) {
      EXPECT_EQ(bytes->view(), text_.substr(0, n));
      return;
    }
    usleep(10'000);
  }
  FAIL() << "nobody else read it, and it did not come";
}

TEST_F(CachedReadTest, AReadThatWaitsMayOutliveIt) {
  std::shared_ptr<const void> waiting;
  {
    CachedReads gone;
    waiting = gone.Wait();
  }
  waiting.reset();
}

TEST_F(CachedReadTest, NotWhileOthersWantTheThread) {
  LoopExecutor loop;
  bool alone = false, with_others = true;
  loop.Post([&] {
    alone = reads_.Worth(4 * kKiB, loop);
    loop.Post([&] { loop.Stop(); });
    with_others = reads_.Worth(4 * kKiB, loop);
  });
  loop.Run();
  EXPECT_TRUE(alone);
  EXPECT_FALSE(with_others);
}

}  // namespace
}  // namespace stria
