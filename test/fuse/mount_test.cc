// POSIX as programs see it, through the kernel: a cluster in this process, mounted twice. Needs root and
// /dev/fuse; says so and passes otherwise.
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <linux/falloc.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "client/fuse/mount_table.h"
#include "common/random.h"
#include "test/fuse/two_mounts.h"

namespace stria {
namespace {

using Mount = TwoMounts;

TEST_F(Mount, WriteReadAppendTruncate) {
  const std::string f = A("f");
  WriteAll(f, "hello");
  EXPECT_EQ(ReadAll(f), "hello");
  WriteAll(f, " world", O_WRONLY | O_APPEND);
  EXPECT_EQ(ReadAll(f), "hello world");
  EXPECT_EQ(Stat(f).st_size, 11);
  ASSERT_EQ(truncate(f.c_str(), 4), 0);
  EXPECT_EQ(ReadAll(f), "hell");
  ASSERT_EQ(truncate(f.c_str(), 6), 0);
  EXPECT_EQ(ReadAll(f), std::string("hell\0\0", 6));
  WriteAll(f, "x");
  EXPECT_EQ(ReadAll(f), "x");
  EXPECT_EQ(open(f.c_str(), O_CREAT | O_EXCL | O_WRONLY, 0600), -1);
  EXPECT_EQ(errno, EEXIST);
  EXPECT_EQ(open(A("none").c_str(), O_RDONLY), -1);
  EXPECT_EQ(errno, ENOENT);
}

TEST_F(Mount, OneHandleForReadingAndWriting) {
  Fd fd(A("f"), O_RDWR | O_CREAT);
  ASSERT_EQ(pwrite(fd, "0123456789", 10, 0), 10);
  ASSERT_EQ(pwrite(fd, "ab", 2, 4), 2);
  char got[16] = {};
  ASSERT_EQ(pread(fd, got, 16, 0), 10);
  EXPECT_STREQ(got, "0123ab6789");
  ASSERT_EQ(ftruncate(fd, 5), 0);
  ASSERT_EQ(fsync(fd), 0);
  struct stat st;
  ASSERT_EQ(fstat(fd, &st), 0);
  EXPECT_EQ(st.st_size, 5);
  ASSERT_EQ(fchmod(fd, 0), 0);
  ASSERT_EQ(ftruncate(fd, 3), 0) << strerror(errno);
}

TEST_F(Mount, NamesMove) {
  WriteAll(A("a"), "A");
  WriteAll(A("b"), "B");
  ASSERT_EQ(rename(A("a").c_str(), A("b").c_str()), 0);
  EXPECT_EQ(ReadAll(A("b")), "A");
  EXPECT_EQ(access(A("a").c_str(), F_OK), -1);
  WriteAll(A("c"), "C");
  EXPECT_EQ(renameat2(AT_FDCWD, A("c").c_str(), AT_FDCWD, A("b").c_str(), RENAME_NOREPLACE), -1);
  EXPECT_EQ(errno, EEXIST);
  ASSERT_EQ(renameat2(AT_FDCWD, A("c").c_str(), AT_FDCWD, A("b").c_str(), RENAME_EXCHANGE), 0);
  EXPECT_EQ(ReadAll(A("c")), "A");
  EXPECT_EQ(ReadAll(A("b")), "C");
  ASSERT_EQ(mkdir(A("d").c_str(), 0755), 0);
  ASSERT_EQ(rename(A("b").c_str(), A("d/b").c_str()), 0);
  EXPECT_EQ(rmdir(A("d").c_str()), -1);
  EXPECT_EQ(errno, ENOTEMPTY);
  ASSERT_EQ(unlink(A("d/b").c_str()), 0);
  ASSERT_EQ(rmdir(A("d").c_str()), 0);
  EXPECT_EQ(open(A(std::string(256, 'n')).c_str(), O_CREAT | O_WRONLY, 0600), -1);
  EXPECT_EQ(errno, ENAMETOOLONG);
}

TEST_F(Mount, UnlinkedFileLivesWhileOpen) {
  Fd fd(A("f"), O_RDWR | O_CREAT);
  ASSERT_EQ(write(fd, "still here", 10), 10);
  ASSERT_EQ(unlink(A("f").c_str()), 0);
  EXPECT_EQ(access(A("f").c_str(), F_OK), -1);
  char got[16] = {};
  ASSERT_EQ(pread(fd, got, 16, 0), 10);
  EXPECT_STREQ(got, "still here");
  ASSERT_EQ(pwrite(fd, "!", 1, 10), 1);
  struct stat st;
  ASSERT_EQ(fstat(fd, &st), 0);
  EXPECT_EQ(st.st_nlink, 0u);
  EXPECT_EQ(st.st_size, 11);
  EXPECT_EQ(fd.Close(), 0);
}

TEST_F(Mount, ListsTwoThousandNames) {
  std::set<std::string> made;
  for (int i = 0; i < 2000; ++i) {
    const std::string name = "file-with-a-name-of-some-length-" + std::to_string(i);
    Fd fd(A(name), O_CREAT | O_WRONLY);
    ASSERT_GE(fd, 0) << strerror(errno);
    made.insert(name);
  }
  DIR* d = opendir(A("").c_str());
  ASSERT_NE(d, nullptr);
  std::set<std::string> seen;
  long middle = 0;
  std::string after_middle;
  while (dirent* e = readdir(d)) {
    EXPECT_TRUE(seen.insert(e->d_name).second) << e->d_name;
    if (seen.size() == 1000) middle = telldir(d);
    if (seen.size() == 1001) after_middle = e->d_name;
    if (std::string(e->d_name) == ".") {
      EXPECT_EQ(e->d_ino, Stat(A("")).st_ino);
    }
  }
  EXPECT_TRUE(seen.erase(".") && seen.erase(".."));
  EXPECT_EQ(seen, made);
  seekdir(d, middle);
  dirent* again = readdir(d);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again->d_name, after_middle);
  WriteAll(A("new"), "");
  rewinddir(d);
  bool found = false;
  while (dirent* e = readdir(d)) found = found || std::string(e->d_name) == "new";
  EXPECT_TRUE(found);
  closedir(d);
  EXPECT_EQ(Stat(B("file-with-a-name-of-some-length-77")).st_size, 0);
}

TEST_F(Mount, ExtendedAttributes) {
  const std::string f = A("f");
  WriteAll(f, "");
  ASSERT_EQ(setxattr(f.c_str(), "user.a", "one", 3, XATTR_CREATE), 0) << strerror(errno);
  EXPECT_EQ(setxattr(f.c_str(), "user.a", "two", 3, XATTR_CREATE), -1);
  EXPECT_EQ(errno, EEXIST);
  EXPECT_EQ(setxattr(f.c_str(), "user.b", "two", 3, XATTR_REPLACE), -1);
  EXPECT_EQ(errno, ENODATA);
  char got[8] = {};
  EXPECT_EQ(getxattr(f.c_str(), "user.a", nullptr, 0), 3);
  EXPECT_EQ(getxattr(f.c_str(), "user.a", got, 2), -1);
  EXPECT_EQ(errno, ERANGE);
  EXPECT_EQ(getxattr(f.c_str(), "user.a", got, 8), 3);
  EXPECT_STREQ(got, "one");
  char names[1024];
  const ssize_t n = listxattr(f.c_str(), names, sizeof(names));
  ASSERT_GT(n, 0);
  EXPECT_NE(std::string(names, static_cast<size_t>(n)).find(std::string("user.a\0", 7)), std::string::npos);
  ASSERT_EQ(removexattr(f.c_str(), "user.a"), 0);
  EXPECT_EQ(getxattr(f.c_str(), "user.a", nullptr, 0), -1);
  EXPECT_EQ(errno, ENODATA);
  EXPECT_EQ(getxattr(f.c_str(), "system.posix_acl_access", nullptr, 0), -1);
  EXPECT_EQ(errno, ENODATA);
}

TEST_F(Mount, LinksAndSpecialFiles) {
  WriteAll(A("f"), "content");
  ASSERT_EQ(link(A("f").c_str(), A("g").c_str()), 0);
  EXPECT_EQ(Stat(A("g")).st_nlink, 2u);
  EXPECT_EQ(Stat(A("g")).st_ino, Stat(A("f")).st_ino);
  ASSERT_EQ(unlink(A("f").c_str()), 0);
  EXPECT_EQ(ReadAll(A("g")), "content");
  EXPECT_EQ(Stat(A("g")).st_nlink, 1u);
  ASSERT_EQ(symlink("g", A("s").c_str()), 0);
  EXPECT_EQ(ReadAll(A("s")), "content");
  char target[16] = {};
  ASSERT_EQ(readlink(A("s").c_str(), target, sizeof(target)), 1);
  EXPECT_STREQ(target, "g");
  ASSERT_EQ(mkfifo(A("p").c_str(), 0600), 0);
  EXPECT_TRUE(S_ISFIFO(Stat(A("p")).st_mode));
  ASSERT_EQ(mknod(A("null").c_str(), S_IFCHR | 0666, makedev(1, 3)), 0) << strerror(errno);
  EXPECT_EQ(Stat(A("null")).st_rdev, makedev(1, 3));
}

TEST_F(Mount, Permissions) {
  WriteAll(A("f"), "secret");
  ASSERT_EQ(chown(A("f").c_str(), 1000, 2000), 0);
  ASSERT_EQ(chmod(A("f").c_str(), 0640), 0);
  const std::string f = A("f");
  auto may = [&f](int flags) {
    return [&f, flags] {
      const int fd = open(f.c_str(), flags);
      return fd >= 0 ? 0 : errno;
    };
  };
  EXPECT_EQ(As(1000, 1000, {}, may(O_RDWR)), 0);
  EXPECT_EQ(As(1001, 2000, {}, may(O_RDONLY)), 0);
  EXPECT_EQ(As(1001, 1001, {5, 2000}, may(O_RDONLY)), 0);  // by a supplementary group
  EXPECT_EQ(As(1001, 2000, {}, may(O_WRONLY)), EACCES);
  EXPECT_EQ(As(1001, 1001, {}, may(O_RDONLY)), EACCES);
  EXPECT_EQ(As(1001, 1001, {}, [this] { return mkdir(A("d").c_str(), 0755) == 0 ? 0 : errno; }), EACCES);
  EXPECT_EQ(As(1001, 1001, {}, [&f] { return chmod(f.c_str(), 0777) == 0 ? 0 : errno; }), EPERM);
}

TEST_F(Mount, SuidGoesWithAWriteByAnotherUser) {
  const std::string f = A("f");
  WriteAll(f, "program");
  auto write_as = [&f](uid_t uid) {
    EXPECT_EQ(As(uid, uid, {}, [&f] {
                const int fd = open(f.c_str(), O_WRONLY);
                return fd >= 0 && write(fd, "x", 1) == 1 ? 0 : errno;
              }), 0);
  };
  ASSERT_EQ(chmod(f.c_str(), 06777), 0);
  write_as(0);
  EXPECT_EQ(Stat(f).st_mode & 07777, 06777u);
  write_as(1000);
  EXPECT_EQ(Stat(f).st_mode & 07777, 0777u);
  ASSERT_EQ(chmod(f.c_str(), 06777), 0);
  EXPECT_EQ(As(1000, 1000, {}, [&f] { return truncate(f.c_str(), 1) == 0 ? 0 : errno; }), 0);
  EXPECT_EQ(Stat(f).st_mode & 07777, 0777u);
  ASSERT_EQ(chmod(f.c_str(), 06777), 0);
  ASSERT_EQ(chown(f.c_str(), 5, 5), 0);
  EXPECT_EQ(Stat(f).st_mode & 07777, 0777u);
}

TEST_F(Mount, HolesAndFallocate) {
  Fd fd(A("f"), O_RDWR | O_CREAT);
  ASSERT_EQ(pwrite(fd, "data", 4, 3 << 20), 4);
  ASSERT_EQ(fsync(fd), 0);
  char got[4] = {1, 1, 1, 1};
  ASSERT_EQ(pread(fd, got, 4, 1 << 20), 4);
  EXPECT_EQ(std::string(got, 4), std::string(4, '\0'));
  const off_t data = lseek(fd, 0, SEEK_DATA);
  EXPECT_GT(data, 2 << 20);
  EXPECT_LE(data, 3 << 20);
  EXPECT_EQ(lseek(fd, 0, SEEK_HOLE), 0);
  EXPECT_EQ(lseek(fd, 3 << 20, SEEK_HOLE), (3 << 20) + 4);
  EXPECT_EQ(lseek(fd, 4 << 20, SEEK_DATA), -1);
  EXPECT_EQ(errno, ENXIO);
  EXPECT_LT(Stat(A("f")).st_blocks * 512, 1 << 20);
  const std::string bytes = RandomBytes(3, 300'000);
  ASSERT_EQ(pwrite(fd, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  ASSERT_EQ(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 100'000, 50'000), 0) << strerror(errno);
  std::string all(bytes.size(), 1);
  ASSERT_EQ(pread(fd, all.data(), all.size(), 0), static_cast<ssize_t>(all.size()));
  EXPECT_EQ(all, bytes.substr(0, 100'000) + std::string(50'000, '\0') + bytes.substr(150'000));
  ASSERT_EQ(fallocate(fd, 0, 0, 5 << 20), 0);
  EXPECT_EQ(Stat(A("f")).st_size, 5 << 20);
  ASSERT_EQ(fallocate(fd, 0, 0, 1 << 20), 0);
  EXPECT_EQ(Stat(A("f")).st_size, 5 << 20);
  EXPECT_EQ(fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, 0, 4096), -1);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(Mount, TimesAndOwners) {
  WriteAll(A("f"), "x");
  const timespec times[2] = {{1'000'000'000, 5}, {-100, 7}};
  ASSERT_EQ(utimensat(AT_FDCWD, A("f").c_str(), times, 0), 0);
  EXPECT_EQ(Stat(A("f")).st_atim.tv_sec, 1'000'000'000);
  EXPECT_EQ(Stat(A("f")).st_mtim.tv_sec, -100);
  EXPECT_EQ(Stat(A("f")).st_mtim.tv_nsec, 7);
  EXPECT_EQ(Stat(B("f")).st_mtim.tv_sec, -100);
  umask(022);
  ASSERT_EQ(mkdir(A("d").c_str(), 0777), 0);
  EXPECT_EQ(Stat(A("d")).st_mode & 07777, 0755u);
  struct statvfs vfs;
  ASSERT_EQ(statvfs(A("").c_str(), &vfs), 0);
  EXPECT_GT(vfs.f_blocks, 0u);
  EXPECT_EQ(vfs.f_namemax, 255u);
}

TEST_F(Mount, HundredMegabytes) {
  const std::string bytes = RandomBytes(11, 100 << 20);
  WriteAll(A("big"), bytes);
  EXPECT_TRUE(ReadAll(A("big")) == bytes);
  EXPECT_TRUE(ReadAll(A("big")) == bytes);  // from the page cache
  EXPECT_TRUE(ReadAll(B("big")) == bytes);
  Random rng(5);
  Fd fd(B("big"), O_RDONLY);
  std::string part(200'000, 0);
  for (int i = 0; i < 50; ++i) {
    const uint64_t at = rng.Below(bytes.size() - part.size());
    ASSERT_EQ(pread(fd, part.data(), part.size(), static_cast<off_t>(at)), static_cast<ssize_t>(part.size()));
    ASSERT_TRUE(part == bytes.substr(at, part.size())) << at;
  }
}

TEST_F(Mount, SmallRandomWrites) {
  std::string model(2 << 20, '\0');
  Random rng(17);
  {
    Fd fd(A("f"), O_RDWR | O_CREAT);
    ASSERT_EQ(ftruncate(fd, static_cast<off_t>(model.size())), 0);
    for (int i = 0; i < 300; ++i) {
      const std::string bytes = RandomBytes(rng.Next(), 8 * rng.Between(1, 15'000));
      const uint64_t at = rng.Below(model.size() - bytes.size());
      ASSERT_EQ(pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at)), static_cast<ssize_t>(bytes.size()));
      model.replace(at, bytes.size(), bytes);
      if (rng.OneIn(40)) {
        ASSERT_EQ(fdatasync(fd), 0);
      }
    }
  }
  EXPECT_TRUE(ReadAll(A("f")) == model);
  EXPECT_TRUE(ReadAll(B("f")) == model);
}

TEST_F(Mount, ManyThreadsWriteOneFile) {
  const size_t kPart = 512 << 10;
  const std::string bytes = RandomBytes(23, 16 * kPart);
  {
    Fd fd(A("f"), O_WRONLY | O_CREAT);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < 16; ++i) {
      threads.emplace_back([&, i] {
        EXPECT_EQ(pwrite(fd, bytes.data() + i * kPart, kPart, static_cast<off_t>(i * kPart)),
                  static_cast<ssize_t>(kPart));
      });
    }
    for (std::thread& t : threads) t.join();
    ASSERT_EQ(fd.Close(), 0);
  }
  EXPECT_TRUE(ReadAll(A("f")) == bytes);
}

TEST_F(Mount, MappedFiles) {
  if (!a_->adapter().features().direct_io_mmap) GTEST_SKIP() << "this kernel does not map direct_io files";
  const std::string bytes = RandomBytes(29, 1 << 20);
  WriteAll(A("f"), bytes);
  InOtherProcess({a_, b_}, [&] {
    {
      Fd fd(A("f"), O_RDWR);
      auto* p = static_cast<char*>(mmap(nullptr, bytes.size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
      ASSERT_NE(p, MAP_FAILED) << strerror(errno);
      EXPECT_EQ(memcmp(p, bytes.data(), bytes.size()), 0);
      memcpy(p + 5000, "mapped", 6);
      ASSERT_EQ(msync(p, bytes.size(), MS_SYNC), 0);
      char got[6];
      ASSERT_EQ(pread(fd, got, 6, 5000), 6);
      EXPECT_EQ(std::string(got, 6), "mapped");
      ASSERT_EQ(munmap(p, bytes.size()), 0);
    }
    EXPECT_EQ(ReadAll(B("f")).substr(5000, 6), "mapped");
    // An O_APPEND file may be the one that the kernel writes mapped pages with.
    Fd fd(A("f"), O_RDWR | O_APPEND);
    auto* p = static_cast<char*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    ASSERT_NE(p, MAP_FAILED);
    memcpy(p, "front", 5);
    ASSERT_EQ(munmap(p, 4096), 0);
    ASSERT_EQ(fsync(fd), 0);
    EXPECT_EQ(Stat(A("f")).st_size, static_cast<off_t>(bytes.size()));
    EXPECT_EQ(ReadAll(B("f")).substr(0, 5), "front");
  });
}

TEST_F(Mount, CopiesShareStripes) {
  const std::string bytes = RandomBytes(31, 3 << 20);
  Fd from(A("from"), O_RDWR | O_CREAT), to(A("to"), O_RDWR | O_CREAT);
  ASSERT_EQ(pwrite(from, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  ASSERT_EQ(fsync(from), 0);
  ASSERT_EQ(pwrite(to, "beneath", 7, 100), 7);
  auto stored = [] {
    uint64_t n = 0;
    cluster_->loop().Do([&n] { n = a_->client().vfs().report().counters().committed_bytes; });
    return n;
  };
  const uint64_t before = stored();
  auto copy = [](int in, off_t in_at, int out, off_t out_at, size_t length) {
    while (length > 0) {
      const ssize_t n = copy_file_range(in, &in_at, out, &out_at, length, 0);
      ASSERT_GT(n, 0) << strerror(errno);
      length -= static_cast<size_t>(n);
    }
  };
  copy(from, 1000, to, 7, bytes.size() - 1000);
  EXPECT_EQ(stored(), before) << "bytes were written again";
  const std::string want = std::string(7, '\0') + bytes.substr(1000);
  EXPECT_TRUE(ReadAll(A("to")) == want);
  EXPECT_TRUE(ReadAll(B("to")) == want);
  // What is only buffered is copied too, as it is now.
  ASSERT_EQ(pwrite(from, "newer", 5, 2000), 5);
  copy(from, 2000, to, 0, 5);
  ASSERT_EQ(pwrite(from, "again", 5, 2000), 5);
  EXPECT_EQ(ReadAll(B("to")).substr(0, 5), "newer");
  ASSERT_EQ(unlink(A("from").c_str()), 0);
  ASSERT_EQ(from.Close(), 0);
  EXPECT_TRUE(ReadAll(B("to")).substr(5) == want.substr(5));
}

TEST_F(Mount, ProgramsRunFromIt) {
  WriteAll(A("run.sh"), "#!/bin/sh\nexit 7\n");
  ASSERT_EQ(chmod(A("run.sh").c_str(), 0755), 0);
  EXPECT_EQ(WEXITSTATUS(std::system(A("run.sh").c_str())), 7);
}

TEST_F(Mount, OtherMountSeesChangesAtOnce) {
  WriteAll(A("f"), "one");
  EXPECT_EQ(ReadAll(B("f")), "one");
  WriteAll(A("f"), "two and more");
  EXPECT_EQ(ReadAll(B("f")), "two and more");
  EXPECT_EQ(Stat(B("f")).st_size, 12);
  Fd reader(B("f"), O_RDONLY);
  char got[16] = {};
  ASSERT_EQ(pread(reader, got, 3, 0), 3);
  Fd writer(A("f"), O_WRONLY);
  for (int i = 0; i < 20; ++i) {
    const std::string text = "v" + std::to_string(10 + i);
    ASSERT_EQ(pwrite(writer, text.data(), 3, 0), 3);
    ASSERT_EQ(pread(reader, got, 3, 0), 3);
    EXPECT_EQ(std::string(got, 3), text);
  }
  ASSERT_EQ(unlink(B("f").c_str()), 0);
  EXPECT_EQ(access(A("f").c_str(), F_OK), -1);
  ASSERT_EQ(mkdir(B("d").c_str(), 0755), 0);
  EXPECT_TRUE(S_ISDIR(Stat(A("d")).st_mode));
}

// Readers on one mount keep pages locked while leases are recalled for writers on the other.
TEST_F(Mount, ReadersAndWritersOnTwoMounts) {
  constexpr size_t kBytes = 4 << 20;
  WriteAll(A("f"), std::string(kBytes, 'a'));
  std::atomic<bool> stop = false;
  std::atomic<int> rounds = 0;
  std::thread reader([&] {
    while (!stop) {
      const std::string all = ReadAll(B("f"));
      EXPECT_EQ(all.size(), kBytes);
      ++rounds;
    }
  });
  for (int i = 0; i < 10; ++i) {
    Fd fd(A("f"), O_WRONLY);
    const std::string part(1 << 20, static_cast<char>('b' + i));
    for (int j = 0; j < 4; ++j) {
      ASSERT_EQ(pwrite(fd, part.data(), part.size(), j << 20), static_cast<ssize_t>(part.size())) << strerror(errno);
    }
    ASSERT_EQ(fd.Close(), 0);
    EXPECT_EQ(ReadAll(B("f")), std::string(kBytes, static_cast<char>('b' + i)));
  }
  stop = true;
  reader.join();
  EXPECT_GT(rounds, 0);
}

TEST_F(Mount, AppendersOnTwoMounts) {
  constexpr int kLines = 50;
  auto line = [](char who, int i) { return std::string(1, who) + std::to_string(1000 + i) + std::string(94, '.') + "\n"; };
  auto append = [&line](const std::string& path, char who) {
    Fd fd(path, O_WRONLY | O_APPEND);
    ASSERT_GE(fd, 0);
    for (int i = 0; i < kLines; ++i) {
      ASSERT_EQ(write(fd, line(who, i).data(), 100), 100) << strerror(errno);
    }
  };
  WriteAll(A("log"), "");
  std::thread other([&] { append(B("log"), 'b'); });
  append(A("log"), 'a');
  other.join();
  const std::string all = ReadAll(A("log"));
  std::map<char, int> next;
  std::string order;  // of the writers' lines
  for (size_t at = 0; at + 100 <= all.size(); at += 100) {
    const char who = all[at];
    order += all.substr(at, 5) + " ";
    EXPECT_EQ(all.substr(at, 100), line(who, next[who]++)) << "at " << at;
  }
  EXPECT_TRUE(next['a'] == kLines && next['b'] == kLines) << order;
  EXPECT_EQ(all.size(), 200u * kLines);
}

TEST_F(Mount, ADirectoryCanBeMounted) {
  ASSERT_EQ(mkdir(A("sub").c_str(), 0750), 0);
  WriteAll(A("sub/inside"), "here");
  MiniMount sub(cluster_, 3, RootMap{InodeId(Stat(A("sub")).st_ino)});
  EXPECT_EQ(ReadAll(sub.path() + "/inside"), "here");
  EXPECT_EQ(Stat(sub.path()).st_mode & 07777, 0750u);
  WriteAll(sub.path() + "/new", "from below");
  EXPECT_EQ(ReadAll(A("sub/new")), "from below");
}

TEST_F(Mount, EndsAlthoughFilesAreOpen) {
  auto mounted = std::make_unique<MiniMount>(cluster_, 5);
  Fd fd(mounted->path() + dir_ + "/f", O_RDWR | O_CREAT);
  ASSERT_EQ(write(fd, "kept", 4), 4);
  mounted.reset();
  EXPECT_EQ(pwrite(fd, "x", 1, 0), -1);
  EXPECT_EQ(ReadAll(A("f")), "kept");
}

// Whoever unshares the mount table, as containers do, keeps a copy of all mounts.
TEST_F(Mount, EndsAlthoughSomeoneKeepsACopy) {
  auto mounted = std::make_unique<MiniMount>(cluster_, 4);
  WriteAll(mounted->path() + dir_ + "/f", "x");
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    for (int fd = 3; fd < 1024; ++fd) {
      if (fd != ready[1]) close(fd);
    }
    const bool ok = unshare(CLONE_NEWNS) == 0 && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    (void)!write(ready[1], ok ? "y" : "n", 1);
    pause();
    _exit(0);
  }
  char answer = 0;
  ASSERT_EQ(read(ready[0], &answer, 1), 1);
  ASSERT_EQ(answer, 'y');
  mounted.reset();
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
}

// Its readers all notice at once; the program ends by what the last of them says.
// A change of something else is given up meanwhile, which nothing answers.
TEST_F(Mount, AnFsyncMayTakeLongerThanTheTimeout) {
  MiniMount c(cluster_, 6, {}, "", FuseMountOptions().readers, 2 * kSecond);
  c.MayWarn();
  const std::string here = c.path() + dir_;
  ASSERT_EQ(mkdir((here + "/other").c_str(), 0755), 0);
  Fd fd(here + "/f", O_CREAT | O_RDWR);
  const std::string data = RandomBytes(6, 16 << 20);
  auto answers = std::make_shared<bool>(false);
  cluster_->SetBefore([answers](std::string method) -> Task<void> {
    while (method == "MakeNode" && !*answers) co_await Sleep(10 * kMillisecond);
    if (method == "Write" && !*answers) co_await Sleep(kSecond);
  });
  ASSERT_EQ(pwrite(fd, data.data(), data.size(), 0), static_cast<ssize_t>(data.size()));
  using Clock = std::chrono::steady_clock;
  Clock::time_point given_up;
  std::thread other([&] {
    EXPECT_EQ(mkdir((here + "/other/x").c_str(), 0755), -1);
    EXPECT_EQ(errno, EIO) << strerror(errno);
    given_up = Clock::now();
  });
  EXPECT_EQ(fsync(fd), 0) << strerror(errno);
  const Clock::time_point synced = Clock::now();
  other.join();
  EXPECT_GT(synced - given_up, std::chrono::milliseconds(1500)) << "this shows nothing: the fsync was too quick";
  cluster_->loop().Do([&] { *answers = true; });
  cluster_->SetBefore(nullptr);
  EXPECT_TRUE(ReadAll(B("f")) == data);
}

TEST_F(Mount, IsToldOfItsEndOnce) {
  for (int round = 0; round < 500; ++round) {
    MiniMount mounted(cluster_, 4, {}, "", 2);
    struct stat st;
    ASSERT_EQ(stat(mounted.path().c_str(), &st), 0);
    ASSERT_EQ(umount2(mounted.path().c_str(), 0), 0);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (mounted.times_gone() == 0 && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_EQ(mounted.times_gone(), 1) << "round " << round;
  }
}

TEST(MountPoint, ADeadMountIsClearedAway) {
  const std::string why = WhyNotHere();
  if (!why.empty()) GTEST_SKIP() << why;
  TempDir dir;
  const pid_t child = fork();
  if (child == 0) {  // a mount whose program dies
    const int fd = open("/dev/fuse", O_RDWR);
    const std::string options = "fd=" + std::to_string(fd) + ",rootmode=40000,user_id=0,group_id=0";
    _exit(mount("dead", dir.path().c_str(), "fuse", 0, options.c_str()) == 0 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
  struct stat st;
  ASSERT_EQ(stat(dir.path().c_str(), &st), -1);
  ASSERT_EQ(errno, ENOTCONN);
  auto ready = PrepareMountpoint(dir.path());
  EXPECT_TRUE(ready.ok()) << ready.error();
  EXPECT_EQ(stat(dir.path().c_str(), &st), 0);
}

}  // namespace
}  // namespace stria
