// Names that the kernel has: each is asked for at each use, is never believed longer than it is true, and stays with what
// is mounted there.
#include <dirent.h>
#include <sys/sysmacros.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "test/fuse/two_mounts.h"

namespace stria {
namespace {

class Names : public TwoMounts {
 protected:
  // Requests that the kernel makes of mount a.
  template <class Fn>
  uint64_t RequestsFor(Fn fn) {
    const auto count = [] {
      uint64_t n = 0;
      cluster_->loop().Do([&] { n = a_->adapter().requests_begun(); });
      return n;
    };
    const uint64_t before = count();
    fn();
    return count() - before;
  }
  static int ErrorOf(int result) { return result == 0 ? 0 : errno; }
  static int StatError(const std::string& path) {
    struct stat st;
    return ErrorOf(lstat(path.c_str(), &st));
  }
  static size_t List(const std::string& path, bool with_stat) {
    DIR* dir = opendir(path.c_str());
    if (dir == nullptr) return 0;
    size_t n = 0;
    while (const dirent* e = readdir(dir)) {
      struct stat st;
      if (with_stat) (void)fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW);
      ++n;
    }
    closedir(dir);
    return n;
  }
};

// Threads that do something until the test has ended.
struct Others {
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  ~Others() {
    stop = true;
    for (std::thread& t : threads) t.join();
  }
};

// One request for each step of a path, which brings the attributes too.
TEST_F(Names, CostOneRequestEach) {
  ASSERT_EQ(mkdir(A("d").c_str(), 0755), 0);
  ASSERT_EQ(mkdir(A("d/e").c_str(), 0755), 0);
  WriteAll(A("d/e/f"), "text");
  ASSERT_EQ(StatError(A("d/e/f")), 0);
  ASSERT_EQ(StatError(A("d/e/none")), ENOENT);
  EXPECT_LE(RequestsFor([&] {
              for (int i = 0; i < 100; ++i) {
                EXPECT_EQ(StatError(A("d/e/f")), 0);
                EXPECT_EQ(StatError(A("d/e/none")), ENOENT);
              }
            }),
            605u);
  constexpr size_t kFiles = 300;
  for (size_t i = 0; i < kFiles; ++i) WriteAll(A("d/") + std::to_string(i), "x");
  WriteAll(B("d/other"), "x");
  const uint64_t asked = RequestsFor([&] { EXPECT_EQ(List(A("d"), true), kFiles + 4); });
  EXPECT_LE(asked, kFiles + kFiles / 4);
}

TEST_F(Names, StayWithWhatIsMountedThere) {
  ASSERT_EQ(mkdir(A("d").c_str(), 0755), 0);
  ASSERT_EQ(mkdir(A("d/e").c_str(), 0755), 0);
  ASSERT_EQ(mkdir(A("d/e/f").c_str(), 0755), 0);
  ASSERT_EQ(mount("test", A("d/e/f").c_str(), "tmpfs", 0, nullptr), 0) << strerror(errno);
  WriteAll(A("d/e/f/in it"), "x");
  const auto stays = [this](const char* after) { EXPECT_EQ(StatError(A("d/e/f/in it")), 0) << after; };
  WriteAll(B("d/x"), "x");
  stays("another mount made a name");
  ASSERT_EQ(rename(B("d/x").c_str(), B("d/e/y").c_str()), 0);
  stays("it renamed one");
  ASSERT_EQ(unlink(B("d/e/y").c_str()), 0);
  stays("it removed one");
  EXPECT_EQ(ErrorOf(rmdir(A("d/e").c_str())), ENOTEMPTY);
  stays("what failed here");
  EXPECT_EQ(ErrorOf(rmdir(A("d/e/f").c_str())), EBUSY);
  EXPECT_EQ(ErrorOf(rename(A("d/e/f").c_str(), A("d/e/g").c_str())), EBUSY);
  EXPECT_EQ(List(A("d/e"), true), 3u);
  stays("a listing");
  ASSERT_EQ(rename(A("d").c_str(), A("new").c_str()), 0);
  EXPECT_EQ(StatError(A("new/e/f/in it")), 0) << "a directory above it was renamed here";
  EXPECT_EQ(umount(A("new/e/f").c_str()), 0) << strerror(errno);
}

// Each change is seen on both mounts as soon as it is made, whatever the kernel was told before; listings that are on their
// way meanwhile included.
TEST_F(Names, AreForgottenWhenSomebodyChangesThem) {
  ASSERT_EQ(mkdir(A("d").c_str(), 0755), 0);
  Others others;
  for (const std::string& dir : {A("d"), B("d")}) {
    others.threads.emplace_back([dir, &others] {
      while (!others.stop) {
        List(dir, true);
        for (int i = 0; i < 6; ++i) StatError(dir + "/" + std::to_string(i));
      }
    });
  }
  Random rng(5);
  std::map<std::string, ino_t> model;
  const auto some = [&] { return std::to_string(rng.Below(6)); };
  for (int round = 0; round < 300 && !HasFailure(); ++round) {
    const std::string in = rng.OneIn(2) ? A("d/") : B("d/");
    const std::string name = some(), to = some();
    const bool there = model.contains(name);
    std::string did;
    switch (rng.Below(4)) {
      case 0: {
        did = "create " + name;
        const int fd = open((in + name).c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
        ASSERT_EQ(fd < 0 ? errno : 0, there ? EEXIST : 0) << did;
        if (fd < 0) break;
        struct stat st;
        ASSERT_EQ(fstat(fd, &st), 0);
        close(fd);
        model[name] = st.st_ino;
        break;
      }
      case 1:
        did = "unlink " + name;
        ASSERT_EQ(ErrorOf(unlink((in + name).c_str())), there ? 0 : ENOENT) << did;
        model.erase(name);
        break;
      case 2:
        did = "rename " + name + " " + to;
        ASSERT_EQ(ErrorOf(rename((in + name).c_str(), (in + to).c_str())), there ? 0 : ENOENT) << did;
        if (there && name != to) {
          model[to] = model[name];
          model.erase(name);
        }
        break;
      case 3:
        did = "exchange " + name + " " + to;
        ASSERT_EQ(ErrorOf(renameat2(AT_FDCWD, (in + name).c_str(), AT_FDCWD, (in + to).c_str(), RENAME_EXCHANGE)),
                  there && model.contains(to) ? 0 : ENOENT)
            << did;
        if (there && model.contains(to)) std::swap(model[name], model[to]);
        break;
    }
    for (const std::string& at : {A("d/"), B("d/")}) {
      for (int i = 0; i < 6; ++i) {
        const std::string n = std::to_string(i);
        struct stat st = {};
        const int error = ErrorOf(lstat((at + n).c_str(), &st));
        ASSERT_EQ(error, model.contains(n) ? 0 : ENOENT) << at + n << " after " << did << " in " << in << ", round " << round;
        if (error == 0) {
          ASSERT_EQ(st.st_ino, model[n]) << at + n << " after " << did << " in " << in << ", round " << round;
        }
      }
    }
  }
}

// Between the lookup, which finds nothing, and the creation of a file another mount makes something else of that name: it is
// opened as what it is, as if it had been there before.
TEST_F(Names, ThatBecomeSomethingElseThanAFileMeanwhile) {
  Others others;
  const std::string there = B("name");
  others.threads.emplace_back([there, &others] {
    for (int i = 0; !others.stop; ++i) {
      (void)(i % 3 == 0 ? mkfifo(there.c_str(), 0644)
             : i % 3 == 1 ? symlink("target", there.c_str())
                          : mknod(there.c_str(), S_IFCHR | 0644, makedev(1, 3)));
      (void)unlink(there.c_str());
    }
  });
  std::map<int, int> errors;
  for (int i = 0; i < 3000; ++i) {
    const int fd = open(A("name").c_str(), O_CREAT | O_RDWR | O_NONBLOCK | O_CLOEXEC, 0644);
    if (fd < 0) ++errors[errno];
    else close(fd);
  }
  // Devices are not opened on this mount (nodev). ESTALE is of a name that has changed twice meanwhile.
  for (const auto& [error, times] : errors) EXPECT_TRUE(error == EACCES || error == ESTALE) << strerror(error) << " " << times;
}

// Those of directories are believed for a moment: whoever changes one elsewhere waits for that.
TEST_F(Names, OfDirectoriesAreNotBelievedTooLong) {
  ASSERT_EQ(mkdir(A("d").c_str(), 0755), 0);
  Others others;
  for (const std::string& dir : {A("d"), B("d")}) {
    others.threads.emplace_back([dir, &others] {
      while (!others.stop) {
        for (int i = 0; i < 3; ++i) StatError(dir + "/" + std::to_string(i) + "/none");
      }
    });
  }
  Random rng(7);
  std::map<std::string, ino_t> model;
  for (int round = 0; round < 100 && !HasFailure(); ++round) {
    const std::string in = rng.OneIn(2) ? A("d/") : B("d/");
    const std::string name = std::to_string(rng.Below(3)), to = std::to_string(rng.Below(3));
    const bool there = model.contains(name);
    if (rng.OneIn(2)) {
      ASSERT_EQ(ErrorOf(there ? rmdir((in + name).c_str()) : mkdir((in + name).c_str(), 0755)), 0);
      if (there) model.erase(name);
      else model[name] = Stat(in + name).st_ino;
    } else {
      ASSERT_EQ(ErrorOf(rename((in + name).c_str(), (in + to).c_str())), there ? 0 : ENOENT);
      if (there && name != to) model[to] = std::exchange(model[name], 0);
      if (there && name != to) model.erase(name);
    }
    for (const std::string& at : {A("d/"), B("d/")}) {
      for (int i = 0; i < 3; ++i) {
        const std::string n = std::to_string(i);
        struct stat st = {};
        ASSERT_EQ(ErrorOf(lstat((at + n).c_str(), &st)), model.contains(n) ? 0 : ENOENT) << at + n << ", round " << round;
        if (model.contains(n)) ASSERT_EQ(st.st_ino, model[n]) << at + n << ", round " << round;
      }
    }
  }
}

// Who may not pass a directory does not because somebody else has.
TEST_F(Names, AreNoWayAroundPermissions) {
  ASSERT_EQ(mkdir(A("closed").c_str(), 0755), 0);
  WriteAll(A("closed/f"), "text");
  const auto look = [&] { return As(1000, 1000, {}, [&] { return StatError(A("closed/f")); }); };
  EXPECT_EQ(look(), 0);
  ASSERT_EQ(chmod(B("closed").c_str(), 0700), 0);
  EXPECT_EQ(look(), EACCES);
  EXPECT_EQ(StatError(A("closed/f")), 0);
}

}  // namespace
}  // namespace stria
