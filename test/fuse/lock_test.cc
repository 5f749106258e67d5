// flock(2) and fcntl(2) locks through the kernel, within one mount and between two.
#include <sys/file.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "test/fuse/two_mounts.h"

namespace stria {
namespace {

class LockTest : public TwoMounts {
 protected:
  // Of all clients together.
  static size_t Waits() {
    size_t n = 0;
    cluster_->loop().Do([&n] { n = cluster_->server().locks().waits(); });
    return n;
  }
};

struct flock Range(short type, off_t start, off_t length) {
  struct flock l = {};
  l.l_type = type;
  l.l_whence = SEEK_SET;
  l.l_start = start;
  l.l_len = length;
  return l;
}
// 0 or errno.
int Set(int fd, short type, off_t start, off_t length, int cmd = F_SETLK) {
  struct flock l = Range(type, start, length);
  return fcntl(fd, cmd, &l) == 0 ? 0 : errno;
}
int Flock(int fd, int op) { return flock(fd, op) == 0 ? 0 : errno; }

// A process of its own that does what it is told, one step at a time: `steps` run in it, each when Step() is
// called; what they return comes back.
class Other {
 public:
  explicit Other(std::vector<std::function<int()>> steps) {
    CHECK(pipe(to_) == 0 && pipe(from_) == 0);
    pid_ = fork();
    if (pid_ != 0) return;
    close(to_[1]);  // so that it ends with us
    for (auto& step : steps) {
      char go;
      if (read(to_[0], &go, 1) != 1) _exit(1);
      const int got = step();
      if (write(from_[1], &got, sizeof(got)) != sizeof(got)) _exit(1);
    }
    char go;
    (void)!read(to_[0], &go, 1);
    _exit(0);
  }
  ~Other() {
    End();
    for (int fd : {to_[0], to_[1], from_[0], from_[1]}) close(fd);
  }
  void Begin() { ASSERT_EQ(write(to_[1], "g", 1), 1); }
  int Result() {
    int got = -1;
    EXPECT_EQ(read(from_[0], &got, sizeof(got)), static_cast<ssize_t>(sizeof(got)));
    return got;
  }
  int Step() {
    Begin();
    return Result();
  }
  pid_t pid() const { return pid_; }
  void End() {
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    waitpid(std::exchange(pid_, 0), nullptr, 0);
  }

 private:
  int to_[2], from_[2];
  pid_t pid_ = 0;
};

TEST_F(LockTest, FlockExcludesOnOneMountAndTwo) {
  WriteAll(A("f"), "x");
  Fd a1(A("f"), O_RDONLY), a2(A("f"), O_RDONLY), b(B("f"), O_RDWR);
  ASSERT_EQ(Flock(a1, LOCK_SH | LOCK_NB), 0);
  ASSERT_EQ(Flock(b, LOCK_SH | LOCK_NB), 0);
  EXPECT_EQ(Flock(a2, LOCK_EX | LOCK_NB), EWOULDBLOCK);
  ASSERT_EQ(Flock(b, LOCK_UN), 0);
  EXPECT_EQ(Flock(a2, LOCK_EX | LOCK_NB), EWOULDBLOCK) << "the other file of the same process";
  ASSERT_EQ(Flock(a1, LOCK_EX | LOCK_NB), 0) << "shared to exclusive";
  EXPECT_EQ(Flock(b, LOCK_SH | LOCK_NB), EWOULDBLOCK);
  ASSERT_EQ(Flock(a1, LOCK_UN), 0);
  EXPECT_EQ(Flock(b, LOCK_EX | LOCK_NB), 0);
}

TEST_F(LockTest, RangesSplitAndConflictWithWhoHoldsThem) {
  WriteAll(A("f"), "x");
  Fd a(A("f"), O_RDWR);
  ASSERT_EQ(Set(a, F_WRLCK, 0, 100), 0);
  ASSERT_EQ(Set(a, F_UNLCK, 40, 20), 0);
  ASSERT_EQ(Set(a, F_RDLCK, 80, 0), 0);
  Other same({[&] {
    // In another process of the same mount: 0..39 write, 60..79 write, 80.. read.
    Fd fd(A("f"), O_RDWR);
    struct flock l = Range(F_WRLCK, 10, 60);
    if (fcntl(fd, F_GETLK, &l) != 0) return errno;
    return l.l_type == F_WRLCK && l.l_start == 0 && l.l_len == 40 && l.l_pid == getppid() ? 0 : -2;
  }});
  EXPECT_EQ(same.Step(), 0);
  Fd b(B("f"), O_RDWR);
  struct flock l = Range(F_WRLCK, 80, 10);
  ASSERT_EQ(fcntl(b, F_GETLK, &l), 0);
  EXPECT_TRUE(l.l_type == F_RDLCK && l.l_start == 80 && l.l_len == 0) << l.l_type << " " << l.l_start;
  Other other({[&] { return Set(b, F_WRLCK, 40, 20); }, [&] { return Set(b, F_WRLCK, 39, 2); },
               [&] { return Set(b, F_RDLCK, 80, 5); }, [&] { return Set(b, F_WRLCK, 85, 5); }});
  EXPECT_EQ(other.Step(), 0);
  EXPECT_EQ(other.Step(), EAGAIN);
  EXPECT_EQ(other.Step(), 0);
  EXPECT_EQ(other.Step(), EAGAIN);
  EXPECT_EQ(Set(a, F_WRLCK, 80, 1), EAGAIN) << "the other mount reads it";
  other.End();
}

TEST_F(LockTest, WhoWaitsGetsTheLockWhenItIsFree) {
  WriteAll(A("f"), "x");
  Fd a(A("f"), O_RDWR), b(B("f"), O_RDWR);
  ASSERT_EQ(Set(a, F_WRLCK, 0, 0), 0);
  Other waits({[&] { return Set(b, F_WRLCK, 0, 0, F_SETLKW); }});
  waits.Begin();
  while (Waits() == 0) std::this_thread::yield();
  EXPECT_EQ(Set(a, F_UNLCK, 0, 0), 0);
  EXPECT_EQ(waits.Result(), 0);
  EXPECT_EQ(Set(a, F_RDLCK, 5, 1), EAGAIN);
  waits.End();  // killed: its lock goes with it
  EXPECT_EQ(Set(a, F_WRLCK, 0, 0), 0);
}

TEST_F(LockTest, ASignalEndsTheWait) {
  WriteAll(A("f"), "x");
  Fd a(A("f"), O_RDWR), b(B("f"), O_RDWR);
  ASSERT_EQ(Flock(a, LOCK_EX), 0);
  Other waits({[&] {
                 struct sigaction act = {};
                 act.sa_handler = [](int) {};  // no SA_RESTART
                 sigaction(SIGUSR1, &act, nullptr);
                 return Flock(b, LOCK_SH);
               },
               [&] { return Flock(b, LOCK_SH | LOCK_NB); }});
  waits.Begin();
  while (Waits() == 0) std::this_thread::yield();
  kill(waits.pid(), SIGUSR1);
  EXPECT_EQ(waits.Result(), EINTR);
  while (Waits() > 0) std::this_thread::yield();
  ASSERT_EQ(Flock(a, LOCK_UN), 0);
  EXPECT_EQ(waits.Step(), 0) << "and it can have it later";
}

TEST_F(LockTest, LocksEndWithCloseAndExit) {
  WriteAll(A("f"), "x");
  Fd b(B("f"), O_RDWR);
  {
    Fd a1(A("f"), O_RDWR), a2(A("f"), O_RDONLY);
    ASSERT_EQ(Set(a1, F_WRLCK, 0, 10), 0);
    EXPECT_EQ(Set(b, F_WRLCK, 0, 10), EAGAIN) << "another mount is another client";
    ASSERT_EQ(a2.Close(), 0);
    EXPECT_EQ(Set(b, F_WRLCK, 0, 10), 0) << "closing any descriptor of the file gives up the process' locks";
    ASSERT_EQ(Set(b, F_UNLCK, 0, 0), 0);
  }
  Other holds({[&] { return Set(open(A("f").c_str(), O_RDONLY), F_RDLCK, 0, 0); }});
  ASSERT_EQ(holds.Step(), 0);
  EXPECT_EQ(Set(b, F_WRLCK, 0, 0), EAGAIN);
  holds.End();
  EXPECT_EQ(Set(b, F_WRLCK, 0, 0), 0);
}

TEST_F(LockTest, LocksOfOpenFilesEndWithThem) {
  WriteAll(A("f"), "x");
  Fd b(B("f"), O_RDWR);
  Fd a(A("f"), O_RDWR), same_process(A("f"), O_RDWR);
  ASSERT_EQ(Set(a, F_WRLCK, 0, 10, F_OFD_SETLK), 0);
  EXPECT_EQ(Set(same_process, F_WRLCK, 5, 10, F_OFD_SETLK), EAGAIN) << "another open file";
  EXPECT_EQ(Set(b, F_RDLCK, 5, 1, F_OFD_SETLK), EAGAIN);
  Other waits({[&] {
                 close(a);  // the copy that it inherited
                 return Set(b, F_WRLCK, 0, 1, F_OFD_SETLKW);
               },
               [&] { return Flock(b, LOCK_EX); }});
  waits.Begin();
  a.Close();
  EXPECT_EQ(waits.Result(), 0);
  Fd again(A("f"), O_RDWR);
  ASSERT_EQ(Flock(again, LOCK_SH), 0);
  waits.Begin();
  again.Close();
  EXPECT_EQ(waits.Result(), 0);
}

TEST_F(LockTest, ADeadlockBetweenMountsIsRefused) {
  WriteAll(A("f"), "x");
  Fd a(A("f"), O_RDWR), b(B("f"), O_RDWR);
  ASSERT_EQ(Set(a, F_WRLCK, 0, 1), 0);
  Other other({[&] { return Set(b, F_WRLCK, 1, 1); }, [&] { return Set(b, F_WRLCK, 0, 1, F_SETLKW); }});
  ASSERT_EQ(other.Step(), 0);
  other.Begin();
  while (Waits() == 0) std::this_thread::yield();
  EXPECT_EQ(Set(a, F_WRLCK, 1, 1, F_SETLKW), EDEADLK);
  ASSERT_EQ(Set(a, F_UNLCK, 0, 0), 0);
  EXPECT_EQ(other.Result(), 0);
}

// A counter in a file, read and written under a lock by two processes on each mount.
TEST_F(LockTest, ReadsUnderALockSeeWritesUnderIt) {
  constexpr int kRounds = 40;
  WriteAll(A("f"), "00000000");
  auto count = [&](const std::string& path, bool bsd) {
    return [=] {
      Fd fd(path, O_RDWR);
      for (int i = 0; i < kRounds; ++i) {
        char text[9] = {};
        if ((bsd ? Flock(fd, LOCK_EX) : Set(fd, F_WRLCK, 0, 8, F_SETLKW)) != 0) return 1;
        if (pread(fd, text, 8, 0) != 8) return 2;
        snprintf(text, sizeof(text), "%08d", atoi(text) + 1);
        if (pwrite(fd, text, 8, 0) != 8) return 3;
        if ((bsd ? Flock(fd, LOCK_UN) : Set(fd, F_UNLCK, 0, 8)) != 0) return 4;
      }
      return 0;
    };
  };
  for (const bool bsd : {false, true}) {
    SCOPED_TRACE(bsd ? "flock" : "fcntl");
    std::vector<std::unique_ptr<Other>> others;
    for (int i = 0; i < 4; ++i) {
      others.push_back(std::make_unique<Other>(std::vector<std::function<int()>>{count(i % 2 ? A("f") : B("f"), bsd)}));
    }
    for (auto& o : others) o->Begin();
    for (auto& o : others) EXPECT_EQ(o->Result(), 0);
  }
  EXPECT_EQ(ReadAll(B("f")), "00000320");
  EXPECT_EQ(Waits(), 0u);
}

// A client that ends takes its locks with it (one that is fenced too: meta/service/sessions_test.cc).
TEST_F(LockTest, LocksEndWithTheirClient) {
  WriteAll(A("f"), "x");
  Fd a(A("f"), O_RDWR);
  auto third = std::make_unique<MiniMount>(cluster_, 3);
  Fd c(third->path() + dir_ + "/f", O_RDWR);
  ASSERT_EQ(Flock(c, LOCK_EX), 0);
  EXPECT_EQ(Flock(a, LOCK_SH | LOCK_NB), EWOULDBLOCK);
  third.reset();
  EXPECT_EQ(Flock(a, LOCK_SH), 0);
}

}  // namespace
}  // namespace stria
