// For tests of mounts: a cluster in this process, mounted twice, and the system calls that they need. Needs root
// and /dev/fuse; says so and skips otherwise.
#pragma once

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/random.h"
#include "test/fuse/mini_cluster.h"

namespace stria {

inline std::string WhyNotHere() {
  if (geteuid() != 0) return "mounting with allow_other needs root";
  const int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (fd < 0) return std::string("/dev/fuse cannot be opened: ") + strerror(errno);
  close(fd);
  return "";
}

class Fd {
 public:
  Fd(const std::string& path, int flags, mode_t mode = 0644) : fd_(open(path.c_str(), flags | O_CLOEXEC, mode)) {}
  Fd(const Fd&) = delete;
  ~Fd() { Close(); }
  operator int() const { return fd_; }
  int Close() { return fd_ >= 0 ? close(std::exchange(fd_, -1)) : 0; }

 private:
  int fd_;
};

inline std::string RandomBytes(uint64_t seed, size_t n) {
  Random rng(seed);
  std::string out(n, '\0');
  for (size_t i = 0; i + 8 <= n; i += 8) {
    const uint64_t v = rng.Next();
    memcpy(out.data() + i, &v, 8);
  }
  return out;
}

inline std::string ReadAll(const std::string& path) {
  Fd fd(path, O_RDONLY);
  EXPECT_GE(fd, 0) << path << ": " << strerror(errno);
  std::string out;
  std::vector<char> part(1 << 20);
  ssize_t n;
  while ((n = read(fd, part.data(), part.size())) > 0) out.append(part.data(), static_cast<size_t>(n));
  EXPECT_EQ(n, 0) << strerror(errno);
  return out;
}

inline void WriteAll(const std::string& path, const std::string& bytes, int flags = O_WRONLY | O_CREAT | O_TRUNC) {
  Fd fd(path, flags);
  ASSERT_GE(fd, 0) << path << ": " << strerror(errno);
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t n = write(fd, bytes.data() + at, std::min<size_t>(bytes.size() - at, 1 << 20));
    ASSERT_GT(n, 0) << strerror(errno);
    at += static_cast<size_t>(n);
  }
  ASSERT_EQ(fd.Close(), 0) << strerror(errno);
}

inline struct stat Stat(const std::string& path) {
  struct stat st = {};
  EXPECT_EQ(lstat(path.c_str(), &st), 0) << path << ": " << strerror(errno);
  return st;
}

// In a child with these credentials; what `fn` returns.
inline int As(uid_t uid, gid_t gid, std::vector<gid_t> groups, const std::function<int()>& fn) {
  const pid_t child = fork();
  if (child == 0) {
    if (setgroups(groups.size(), groups.data()) != 0 || setgid(gid) != 0 || setuid(uid) != 0) _exit(255);
    _exit(fn());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Runs fn, with its assertions, in another process, and fails if it failed there or takes longer than any working mount
// needs; then the connections of `mounts` are ended, so that what hangs in them returns. What maps files of a mount
// must be run so: who unmaps waits for the mount, and while it does no other thread of its own process can have memory.
// Here those are the mount's.
inline void InOtherProcess(const std::vector<MiniMount*>& mounts, const std::function<void()>& fn) {
  constexpr int kMaxMs = 2 * 60 * 1000;
  const pid_t child = fork();
  ASSERT_GE(child, 0) << strerror(errno);
  if (child == 0) {
    close_range(3, ~0U, 0);  // /dev/fuse among them
    fn();
    fflush(nullptr);
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  pid_t ended = 0;
  for (int waited_ms = 0; (ended = waitpid(child, &status, WNOHANG)) == 0; waited_ms += 10) {
    if (waited_ms >= kMaxMs) {
      ADD_FAILURE() << "it hangs";
      for (MiniMount* m : mounts) (void)umount2(m->path().c_str(), MNT_FORCE);
      kill(child, SIGKILL);
      ended = waitpid(child, &status, 0);
      break;
    }
    usleep(10'000);
  }
  EXPECT_TRUE(ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0) << "in the other process";
}

// `a_` and `b_` are two clients of one cluster, as if on two nodes.
class TwoMounts : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!WhyNotHere().empty()) return;
    cluster_ = new MiniCluster(4, "raid5:2+1,unit=64K,stripe=1M");
    a_ = new MiniMount(cluster_, 1);
    b_ = new MiniMount(cluster_, 2);
  }
  static void TearDownTestSuite() {
    delete std::exchange(b_, nullptr);
    delete std::exchange(a_, nullptr);
    delete std::exchange(cluster_, nullptr);
  }
  void SetUp() override {
    const std::string why = WhyNotHere();
    if (!why.empty()) GTEST_SKIP() << why;
    dir_ = "/" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name());
    ASSERT_EQ(mkdir(A("").c_str(), 0755), 0) << strerror(errno);
  }
  // A name in this test's directory, by way of either mount.
  std::string A(const std::string& name) { return a_->path() + dir_ + (name.empty() ? "" : "/" + name); }
  std::string B(const std::string& name) { return b_->path() + dir_ + (name.empty() ? "" : "/" + name); }

  inline static MiniCluster* cluster_ = nullptr;
  inline static MiniMount* a_ = nullptr;
  inline static MiniMount* b_ = nullptr;
  std::string dir_;
};

}  // namespace stria
