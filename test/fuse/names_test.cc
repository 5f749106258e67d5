// Names that the kernel has: each is asked for at each use, is never believed longer than it is true, and stays with what
// is mounted there.
#include <dirent.h>
#include <sys/sysmacros.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <set>
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

// Where the kernel has what is open there, as getcwd(2) says it of who works there.
std::string PlaceOf(int fd) {
  char path[4096];
  const ssize_t n = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof path);
  return n < 0 ? strerror(errno) : std::string(path, static_cast<size_t>(n));
}

constexpr int kMomentMs = 5'000;

// Nobody on this mount looks there: it takes a moment.
std::string PlaceSoon(int fd, const std::string& expected) {
  for (int i = 0; i < kMomentMs && PlaceOf(fd) != expected; ++i) usleep(1000);
  return PlaceOf(fd);
}

ino_t InodeAt(int dir, const char* path) {
  struct stat st = {};
  EXPECT_EQ(fstatat(dir, path, &st, 0), 0) << path << ": " << strerror(errno);
  return st.st_ino;
}

TEST_F(Names, OfDirectoriesThatAnotherMountMoves) {
  for (const char* dir : {"d", "d/x", "d/x/deep", "e"}) ASSERT_EQ(mkdir(A(dir).c_str(), 0755), 0);
  Fd deep(A("d/x/deep"), O_PATH | O_DIRECTORY), d(A("d"), O_RDONLY | O_DIRECTORY);
  const pid_t worker = fork();
  if (worker == 0) {
    char at[4096];
    if (chdir(A("d/x").c_str()) != 0) _exit(2);
    for (int i = 0; i < kMomentMs; ++i) {
      if (getcwd(at, sizeof at) != nullptr && A("e/y") == at) _exit(0);
      usleep(1000);
    }
    _exit(1);
  }
  while (std::filesystem::read_symlink("/proc/" + std::to_string(worker) + "/cwd") != A("d/x")) usleep(1000);
  ASSERT_EQ(rename(B("d/x").c_str(), B("e/y").c_str()), 0);
  EXPECT_EQ(PlaceSoon(deep, A("e/y/deep")), A("e/y/deep"));
  EXPECT_EQ(InodeAt(deep, "../.."), Stat(B("e")).st_ino);
  int status = 0;
  ASSERT_EQ(waitpid(worker, &status, 0), worker);
  EXPECT_EQ(status, 0) << "its working directory";
  ASSERT_EQ(rename(B("e").c_str(), B("above").c_str()), 0);
  EXPECT_EQ(PlaceSoon(deep, A("above/y/deep")), A("above/y/deep"));
  ASSERT_EQ(rename(B("above/y").c_str(), B("above/z").c_str()), 0);
  EXPECT_EQ(PlaceSoon(deep, A("above/z/deep")), A("above/z/deep"));
  ASSERT_EQ(renameat2(AT_FDCWD, B("d").c_str(), AT_FDCWD, B("above/z").c_str(), RENAME_EXCHANGE), 0);
  EXPECT_EQ(PlaceSoon(deep, A("d/deep")), A("d/deep"));
  EXPECT_EQ(PlaceSoon(d, A("above/z")), A("above/z"));
}

TEST_F(Names, OfDirectoriesThatAreMovedHereAndThere) {
  for (const char* dir : {"d", "d/x", "e", "e/here"}) ASSERT_EQ(mkdir(A(dir).c_str(), 0755), 0);
  Fd x(A("d/x"), O_RDONLY | O_DIRECTORY);
  std::string at = "d/x";
  {
    Others others;  // while the kernel renames between directories it does not move what it has otherwise
    others.threads.emplace_back([here = A("e/here"), there = A("d/there"), &others] {
      while (!others.stop) {
        (void)rename(here.c_str(), there.c_str());
        (void)rename(there.c_str(), here.c_str());
        usleep(100'000);  // or none of another would be taken over
      }
    });
    for (int i = 0; i < 40; ++i) {
      const std::string to = (i % 2 == 0 ? "e/" : "d/") + std::to_string(i);
      ASSERT_EQ(rename(B(at).c_str(), B(to).c_str()), 0) << to;
      at = to;
      if (i % 8 == 7) EXPECT_EQ(PlaceSoon(x, A(at)), A(at));
    }
  }
  EXPECT_EQ(PlaceSoon(x, A(at)), A(at));
}

TEST_F(Names, OfDirectoriesThatAnotherMountMovesWithWhatIsMountedBelow) {
  for (const char* dir : {"d", "d/x", "d/x/m", "d/x/m/n"}) ASSERT_EQ(mkdir(A(dir).c_str(), 0755), 0);
  Fd hidden(A("d/x/m/n"), O_PATH | O_DIRECTORY), x(A("d/x"), O_PATH | O_DIRECTORY);
  ASSERT_EQ(mount("test", A("d/x/m").c_str(), "tmpfs", 0, nullptr), 0) << strerror(errno);
  WriteAll(A("d/x/m/in it"), "x");
  ASSERT_EQ(rename(B("d/x").c_str(), B("d/y").c_str()), 0);
  EXPECT_EQ(PlaceSoon(x, A("d/y")), A("d/y"));
  EXPECT_EQ(StatError(A("d/y/m/in it")), 0);
  ASSERT_EQ(rename(B("d/y/m/n").c_str(), B("d/y/m/o").c_str()), 0);
  // It shows when nothing hides it any more; until then nobody could look there but we.
  usleep(200'000);
  EXPECT_EQ(StatError(A("d/y/m/in it")), 0);
  EXPECT_EQ(umount(A("d/y/m").c_str()), 0) << strerror(errno);
  EXPECT_EQ(PlaceSoon(hidden, A("d/y/m/o")), A("d/y/m/o"));
}

// What another mount has changed beside it before is of no account.
TEST_F(Names, OfDirectoriesThatAreKnownByAListing) {
  for (const char* dir : {"d", "d/x", "d/y", "e"}) ASSERT_EQ(mkdir(B(dir).c_str(), 0755), 0);
  ASSERT_EQ(List(A("d"), true), 4u);
  Fd x(A("d/x"), O_PATH | O_DIRECTORY);
  WriteAll(B("d/f"), "x");
  ASSERT_EQ(rename(B("d/y").c_str(), B("d/z").c_str()), 0);
  ASSERT_EQ(rename(B("d/x").c_str(), B("e/x").c_str()), 0);
  EXPECT_EQ(PlaceSoon(x, A("e/x")), A("e/x"));
  ASSERT_EQ(rename(B("e/x").c_str(), B("d/y").c_str()), 0);
  EXPECT_EQ(PlaceSoon(x, A("d/y")), A("d/y"));
}

// By which the mount finds out what to look for when nobody has told it for a while.
TEST_F(Names, OfDirectoriesInUse) {
  for (const char* dir : {"cwd", "open", "path", "unused"}) ASSERT_EQ(mkdir(A(dir).c_str(), 0755), 0);
  WriteAll(A("file"), "x");
  Fd open(A("open"), O_RDONLY | O_DIRECTORY), path(A("path"), O_PATH), file(A("file"), O_RDONLY), other(B("open"), O_PATH);
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  const pid_t worker = fork();
  if (worker == 0) {
    if (chdir(A("cwd").c_str()) != 0) _exit(1);
    (void)!write(go[1], "x", 1);
    while (true) pause();
  }
  close(go[1]);
  char byte;
  ASSERT_EQ(read(go[0], &byte, 1), 1);
  std::set<uint64_t> found;
  for (const InodeId ino : DirsInUse(a_->path())) found.insert(ino.v);
  kill(worker, SIGKILL);
  waitpid(worker, nullptr, 0);
  close(go[0]);
  for (const char* dir : {"cwd", "open", "path"}) EXPECT_TRUE(found.contains(Stat(A(dir)).st_ino)) << dir;
  EXPECT_EQ(found.size(), 3u);
}

// Of a mount of one directory.
TEST_F(Names, OfDirectoriesThatAreMovedBelowAMountedOne) {
  for (const char* dir : {"root", "root/x", "outside"}) ASSERT_EQ(mkdir(A(dir).c_str(), 0755), 0);
  MiniMount c(cluster_, 3, RootMap{InodeId(Stat(A("root")).st_ino)});
  {
    Fd x(c.path() + "/x", O_RDONLY | O_DIRECTORY);
    ASSERT_EQ(rename(B("root/x").c_str(), B("root/y").c_str()), 0);
    EXPECT_EQ(PlaceSoon(x, c.path() + "/y"), c.path() + "/y");
    ASSERT_EQ(rename(B("root/y").c_str(), B("outside/y").c_str()), 0);
    ASSERT_EQ(rename(B("root").c_str(), B("new root").c_str()), 0);
    ASSERT_EQ(rename(B("outside/y").c_str(), B("new root/z").c_str()), 0);
    EXPECT_EQ(InodeAt(x, "."), Stat(B("new root/z")).st_ino);
    EXPECT_EQ(StatError(c.path() + "/z"), 0);
    EXPECT_EQ(PlaceOf(x), c.path() + "/z");
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
