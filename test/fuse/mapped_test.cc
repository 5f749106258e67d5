// Mappings: the kernel writes their pages back when it likes, also in the middle of what waits for it.
#include <linux/falloc.h>
#include <sys/mman.h>

#include <atomic>
#include <functional>
#include <thread>

#include "test/fuse/two_mounts.h"

namespace stria {
namespace {

class Mapping {
 public:
  Mapping(int fd, size_t bytes)
      : bytes_(bytes), at_(static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0))) {}
  Mapping(const Mapping&) = delete;
  ~Mapping() {
    if (ok()) munmap(at_, bytes_);
  }
  bool ok() const { return at_ != MAP_FAILED; }
  char* at() const { return at_; }
  int Sync() const { return msync(at_, bytes_, MS_SYNC); }

 private:
  const size_t bytes_;
  char* const at_;
};

constexpr size_t kPage = 4096;
constexpr size_t kBytes = 64 * kPage;

class Mapped : public TwoMounts {
 protected:
  void SetUp() override {
    TwoMounts::SetUp();
    if (IsSkipped()) return;
    if (!a_->adapter().features().direct_io_mmap) GTEST_SKIP() << "this kernel does not map direct_io files";
  }
  static void Elsewhere(const std::function<void()>& fn) { InOtherProcess({a_, b_}, fn); }
};

// Keeps pages [first, last) dirty until it ends.
class Scribbler {
 public:
  Scribbler(char* at, size_t first, size_t last) : thread_([=, this] {
    for (int i = 0; !stop_; ++i) {
      for (size_t p = first; p < last; ++p) at[p * kPage + 8] = static_cast<char>(i);
      ++rounds_;
    }
  }) {}
  ~Scribbler() {
    stop_ = true;
    thread_.join();
  }
  void WaitRounds(int n) const {
    for (const int from = rounds_; rounds_ < from + n;) std::this_thread::yield();
  }

 private:
  std::atomic<bool> stop_ = false;
  std::atomic<int> rounds_ = 0;
  std::thread thread_;
};

TEST_F(Mapped, PagesAreWrittenWhileTheFileIsCutAndPunched) {
  WriteAll(A("f"), RandomBytes(1, kBytes));
  Elsewhere([&] {
    Fd reader(A("f"), O_RDONLY);  // its pages must be forgotten
    Fd fd(A("f"), O_RDWR);
    Mapping m(fd, kBytes);
    ASSERT_TRUE(m.ok());
    Scribbler low(m.at(), 0, 16);  // never cut off: that would be SIGBUS
    char got[kPage];
    for (int i = 0; i < 15; ++i) {
      low.WaitRounds(1);
      ASSERT_EQ(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 100, 40 * kPage), 0) << strerror(errno);
      ASSERT_EQ(ftruncate(fd, 17 * kPage + i), 0) << strerror(errno);
      ASSERT_EQ(pwrite(fd, "x", 1, 16 * kPage + 5), 1) << strerror(errno);
      ASSERT_EQ(pread(reader, got, sizeof(got), 16 * kPage), static_cast<ssize_t>(sizeof(got))) << strerror(errno);
      ASSERT_EQ(got[5], 'x');
      ASSERT_EQ(ftruncate(fd, kBytes), 0) << strerror(errno);
      ASSERT_EQ(m.Sync(), 0) << strerror(errno);
    }
  });
  EXPECT_EQ(Stat(B("f")).st_size, static_cast<off_t>(kBytes));
}

TEST_F(Mapped, PagesAreWrittenWhileTheOtherMountOpens) {
  WriteAll(A("f"), std::string(kBytes, 'a'));
  Elsewhere([&] {
    for (int i = 0; i < 10; ++i) {
      Fd fd(A("f"), O_RDWR);
      Fd reader(A("f"), O_RDONLY);
      Mapping m(fd, kBytes);
      ASSERT_TRUE(m.ok());
      Scribbler scribbler(m.at(), 1, 64);
      scribbler.WaitRounds(1);
      Fd other(B("f"), O_RDWR);  // takes the exclusive lease away
      ASSERT_GE(other, 0) << strerror(errno);
      const char c = static_cast<char>('b' + i);
      ASSERT_EQ(pwrite(other, &c, 1, 0), 1) << strerror(errno);
      char got = 0;
      ASSERT_EQ(pread(reader, &got, 1, 0), 1);
      ASSERT_EQ(got, c);
      ASSERT_EQ(ftruncate(other, kBytes + i), 0) << strerror(errno);
      ASSERT_EQ(m.Sync(), 0) << strerror(errno);
    }
  });
}

TEST_F(Mapped, BothMountsMapAndWriteOneFile) {
  WriteAll(A("f"), std::string(kBytes, 'a'));
  Elsewhere([&] {
    Fd fa(A("f"), O_RDWR), fb(B("f"), O_RDWR);
    Fd ra(A("f"), O_RDONLY), rb(B("f"), O_RDONLY);
    Mapping ma(fa, kBytes), mb(fb, kBytes);
    ASSERT_TRUE(ma.ok() && mb.ok());
    Scribbler sa(ma.at(), 1, 32), sb(mb.at(), 32, 64);
    for (int i = 0; i < 10; ++i) {
      sa.WaitRounds(1);
      sb.WaitRounds(1);
      const char c = static_cast<char>('b' + i);
      Fd& from = i % 2 == 0 ? fa : fb;
      ASSERT_EQ(pwrite(from, &c, 1, i), 1) << strerror(errno);
      for (int reader : {static_cast<int>(ra), static_cast<int>(rb)}) {
        char got = 0;
        ASSERT_EQ(pread(reader, &got, 1, i), 1);
        ASSERT_EQ(got, c);
      }
      ASSERT_EQ(ma.Sync(), 0) << strerror(errno);
      ASSERT_EQ(mb.Sync(), 0) << strerror(errno);
    }
  });
  EXPECT_EQ(Stat(A("f")).st_size, static_cast<off_t>(kBytes));
}

TEST_F(Mapped, AfterMsyncTheOtherMountReadsIt) {
  WriteAll(A("f"), std::string(kBytes, 'a'));
  Elsewhere([&] {
    Fd fa(A("f"), O_RDWR), fb(B("f"), O_RDWR);
    Mapping m(fa, kBytes);
    ASSERT_TRUE(m.ok());
    for (int i = 0; i < 10; ++i) {
      const char c = static_cast<char>('b' + i);
      m.at()[i * kPage] = c;
      ASSERT_EQ(m.Sync(), 0);
      char got = 0;
      ASSERT_EQ(pread(fb, &got, 1, static_cast<off_t>(i * kPage)), 1);
      EXPECT_EQ(got, c);
    }
  });
}

// Both mounts have it open, so each write is committed by itself: a page that came before must not come after.
TEST_F(Mapped, AWriteComesAfterThePagesBeforeIt) {
  WriteAll(A("f"), std::string(kBytes, 'a'));
  Elsewhere([&] {
    Fd fa(A("f"), O_RDWR), fb(B("f"), O_RDWR);
    Mapping m(fa, kBytes);
    ASSERT_TRUE(m.ok());
    for (int i = 0; i < 20; ++i) {
      const char c = static_cast<char>('b' + i);
      m.at()[0] = c;
      // The kernel writes the page back before it passes on a write into it.
      ASSERT_EQ(pwrite(fa, &c, 1, 100), 1) << strerror(errno);
      ASSERT_EQ(fsync(fa), 0);
      char got[101] = {};
      ASSERT_EQ(pread(fb, got, sizeof(got), 0), static_cast<ssize_t>(sizeof(got)));
      EXPECT_EQ(got[0], c);
      EXPECT_EQ(got[100], c);
    }
  });
}

TEST_F(Mapped, PagesDoNotGrowAFileThatAnotherMountHasCut) {
  WriteAll(A("f"), std::string(kBytes, 'a'));
  Elsewhere([&] {
    Fd fa(A("f"), O_RDWR), fb(B("f"), O_RDWR);
    {
      Mapping m(fa, kBytes);
      ASSERT_TRUE(m.ok());
      memset(m.at(), 'm', kBytes);
      ASSERT_EQ(ftruncate(fb, 5 * kPage + 7), 0) << strerror(errno);
    }
    ASSERT_EQ(fsync(fa), 0);
    EXPECT_EQ(Stat(A("f")).st_size, static_cast<off_t>(5 * kPage + 7));
    EXPECT_EQ(Stat(B("f")).st_size, static_cast<off_t>(5 * kPage + 7));
  });
}

}  // namespace
}  // namespace stria
