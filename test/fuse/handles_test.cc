// Handles of files (name_to_handle_at): what is told by them outlives what the kernel knows, mounts, and other mounts' changes.
#include <sys/vfs.h>

#include <algorithm>
#include <map>
#include <optional>

#include "test/fuse/two_mounts.h"

namespace stria {
namespace {

struct Handle {
  alignas(file_handle) char bytes[sizeof(file_handle) + MAX_HANDLE_SZ] = {};
  file_handle* get() { return reinterpret_cast<file_handle*>(bytes); }
};

class Handles : public TwoMounts {
 protected:
  static Handle HandleOf(const std::string& path) {
    Handle h;
    h.get()->handle_bytes = MAX_HANDLE_SZ;
    int mount = 0;
    EXPECT_EQ(name_to_handle_at(AT_FDCWD, path.c_str(), h.get(), &mount, 0), 0) << path << ": " << strerror(errno);
    return h;
  }
  // The descriptor, or a negative errno.
  static int Open(const std::string& mount, Handle h, int flags) {
    const int at = open(mount.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    EXPECT_GE(at, 0) << strerror(errno);
    const int fd = open_by_handle_at(at, h.get(), flags | O_CLOEXEC);
    const int err = errno;
    close(at);
    return fd >= 0 ? fd : -err;
  }
  static int Error(const std::string& mount, Handle h, int flags = O_RDONLY) {
    const int fd = Open(mount, h, flags);
    if (fd >= 0) close(fd);
    return fd >= 0 ? 0 : -fd;
  }
  static std::string Content(const std::string& mount, Handle h) {
    const int fd = Open(mount, h, O_RDONLY);
    if (fd < 0) return std::string("error: ") + strerror(-fd);
    std::string out(1000, '\0');
    const ssize_t n = pread(fd, out.data(), out.size(), 0);
    close(fd);
    out.resize(static_cast<size_t>(std::max<ssize_t>(n, 0)));
    return out;
  }
  static std::string PathOf(int fd) {
    char path[PATH_MAX] = {};
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    return readlink(link.c_str(), path, sizeof(path) - 1) > 0 ? path : "";
  }
  static void DropCaches() {
    Fd fd("/proc/sys/vm/drop_caches", O_WRONLY);
    ASSERT_EQ(write(fd, "2", 1), 1) << strerror(errno);
  }
};

// The kernel of a mount that has never heard of them must ask for everything, as one that has dropped all inodes.
TEST_F(Handles, AreGoodForEachMount) {
  ASSERT_EQ(mkdir(A("d").c_str(), 0755), 0);
  ASSERT_EQ(mkdir(A("d/e").c_str(), 0700), 0);
  WriteAll(A("d/e/f"), "text");
  ASSERT_EQ(symlink("target", A("d/e/s").c_str()), 0);
  ASSERT_EQ(mkfifo(A("d/e/p").c_str(), 0644), 0);
  const Handle file = HandleOf(A("d/e/f")), dir = HandleOf(A("d/e")), link = HandleOf(A("d/e/s")), fifo = HandleOf(A("d/e/p"));
  EXPECT_EQ(Content(b_->path(), file), "text");
  EXPECT_EQ(Error(b_->path(), file, O_RDWR), 0);
  EXPECT_EQ(Error(b_->path(), link, O_PATH), 0);
  EXPECT_EQ(Error(b_->path(), fifo, O_RDONLY | O_NONBLOCK), 0);
  // A directory has a place again.
  const int fd = Open(b_->path(), dir, O_RDONLY | O_DIRECTORY);
  ASSERT_GE(fd, 0) << strerror(-fd);
  EXPECT_EQ(PathOf(fd), B("d/e"));
  EXPECT_EQ(faccessat(fd, "f", R_OK, 0), 0);
  EXPECT_EQ(faccessat(fd, "../e/f", R_OK, 0), 0);
  close(fd);
  EXPECT_EQ(Error(b_->path(), HandleOf(a_->path()), O_RDONLY | O_DIRECTORY), 0) << "the root";
}

TEST_F(Handles, StayGoodWhenTheKernelForgets) {
  std::map<std::string, Handle> handles;
  constexpr int kFiles = 200;
  for (int i = 0; i < kFiles; ++i) {
    const std::string name = "f" + std::to_string(i);
    WriteAll(A(name), name);
    handles[name] = HandleOf(A(name));
  }
  DropCaches();
  for (const auto& [name, h] : handles) ASSERT_EQ(Content(a_->path(), h), name);
  // Moved, by whichever mount.
  ASSERT_EQ(mkdir(A("d").c_str(), 0755), 0);
  const Handle d = HandleOf(A("d"));
  for (const auto& [name, h] : handles) {
    const bool here = name.back() % 2 == 0;
    ASSERT_EQ(rename(here ? A(name).c_str() : B(name).c_str(), here ? A("d/" + name).c_str() : B("d/" + name).c_str()), 0);
  }
  ASSERT_EQ(rename(B("d").c_str(), B("moved").c_str()), 0);
  DropCaches();
  for (const auto& [name, h] : handles) ASSERT_EQ(Content(a_->path(), h), name);
  const int fd = Open(a_->path(), d, O_RDONLY | O_DIRECTORY);
  ASSERT_GE(fd, 0) << strerror(-fd);
  EXPECT_EQ(PathOf(fd), A("moved"));
  close(fd);
}

TEST_F(Handles, OfWhatIsGoneAreStale) {
  for (const bool other : {false, true}) {
    const auto here = [&](const std::string& name) { return other ? B(name) : A(name); };
    WriteAll(A("f"), "text");
    ASSERT_EQ(mkdir(A("d").c_str(), 0755), 0);
    WriteAll(A("two"), "text");
    ASSERT_EQ(link(A("two").c_str(), A("names").c_str()), 0);
    const Handle file = HandleOf(A("f")), dir = HandleOf(A("d")), two = HandleOf(A("two"));
    ASSERT_EQ(unlink(here("f").c_str()), 0);
    ASSERT_EQ(rmdir(here("d").c_str()), 0);
    ASSERT_EQ(unlink(here("two").c_str()), 0);
    DropCaches();
    for (const std::string& mount : {a_->path(), b_->path()}) {
      EXPECT_EQ(Error(mount, file), ESTALE) << other;
      EXPECT_EQ(Error(mount, dir, O_RDONLY | O_DIRECTORY), ESTALE) << other;
      EXPECT_EQ(Content(mount, two), "text") << other << ": it has another name";
    }
    ASSERT_EQ(unlink(A("names").c_str()), 0);
    Handle none = file;
    std::fill(none.get()->f_handle, none.get()->f_handle + 8, '\x7f');  // a number that was never given
    EXPECT_EQ(Error(a_->path(), none), ESTALE);
  }
}

// Open here, and without a name.
TEST_F(Handles, OfWhatIsOpenOpenIt) {
  WriteAll(A("f"), "text");
  Fd fd(A("f"), O_RDWR);
  const Handle h = HandleOf(A("f"));
  ASSERT_EQ(unlink(A("f").c_str()), 0);
  DropCaches();
  EXPECT_EQ(Content(a_->path(), h), "text");
  fd.Close();
  DropCaches();
  EXPECT_EQ(Error(a_->path(), h), ESTALE);
}

TEST_F(Handles, OutliveTheMount) {
  ASSERT_EQ(mkdir(A("d").c_str(), 0755), 0);
  WriteAll(A("d/f"), "text");
  std::optional<Handle> file, dir;
  {
    const MiniMount c(cluster_, 10);
    file = HandleOf(c.path() + dir_ + "/d/f");
    dir = HandleOf(c.path() + dir_ + "/d");
    EXPECT_EQ(Content(c.path(), *file), "text");
  }
  const MiniMount c(cluster_, 11);
  EXPECT_EQ(Content(c.path(), *file), "text");
  const int fd = Open(c.path(), *dir, O_RDONLY | O_DIRECTORY);
  ASSERT_GE(fd, 0) << strerror(-fd);
  EXPECT_EQ(PathOf(fd), c.path() + dir_ + "/d");
  close(fd);
}

// Those that name the directory, too (Linux 6.13): the file has a path again.
TEST_F(Handles, WithTheDirectoryLeadToAPath) {
  constexpr int kConnectable = 2;  // AT_HANDLE_CONNECTABLE
  ASSERT_EQ(mkdir(A("d").c_str(), 0755), 0);
  WriteAll(A("d/f"), "text");
  Handle h;
  h.get()->handle_bytes = MAX_HANDLE_SZ;
  int mount = 0;
  if (name_to_handle_at(AT_FDCWD, A("d/f").c_str(), h.get(), &mount, kConnectable) != 0) {
    GTEST_SKIP() << "this kernel has none: " << strerror(errno);
  }
  for (int i = 0; i < 2; ++i) {
    const int fd = Open(b_->path(), h, O_RDONLY);
    ASSERT_GE(fd, 0) << strerror(-fd);
    EXPECT_EQ(PathOf(fd), i == 0 ? B("d/f") : B("e/f"));
    close(fd);
    if (i == 0) ASSERT_EQ(rename(A("d").c_str(), A("e").c_str()), 0);
    DropCaches();
  }
}

// A mount of one directory: its own handles, and nothing above it has a place.
TEST_F(Handles, OfAMountOfOneDirectory) {
  ASSERT_EQ(mkdir(A("d").c_str(), 0755), 0);
  ASSERT_EQ(mkdir(A("d/e").c_str(), 0755), 0);
  ASSERT_EQ(mkdir(A("beside").c_str(), 0755), 0);
  const MiniMount sub(cluster_, 12, RootMap{InodeId(Stat(A("d")).st_ino)});
  const int fd = Open(sub.path(), HandleOf(A("d/e")), O_RDONLY | O_DIRECTORY);
  ASSERT_GE(fd, 0) << strerror(-fd);
  EXPECT_EQ(PathOf(fd), sub.path() + "/e");
  close(fd);
  EXPECT_EQ(Error(sub.path(), HandleOf(sub.path() + "/e"), O_RDONLY | O_DIRECTORY), 0);
  EXPECT_EQ(Error(sub.path(), HandleOf(A("beside")), O_RDONLY | O_DIRECTORY), ESTALE);
  EXPECT_EQ(Error(sub.path(), HandleOf(A("")), O_RDONLY | O_DIRECTORY), ESTALE);
}

}  // namespace
}  // namespace stria
