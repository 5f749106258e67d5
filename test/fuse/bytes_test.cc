// What the kernel, and programs that do not read everything, go by: how much of a file is allocated while it is being written,
// and where it ends when another mount has made it longer.
#include <sys/mman.h>
#include <sys/sendfile.h>

#include <algorithm>

#include "test/fuse/two_mounts.h"

namespace stria {
namespace {

class Bytes : public TwoMounts {
 protected:
  static uint64_t Allocated(int fd) {
    struct stat st = {};
    EXPECT_EQ(fstat(fd, &st), 0) << strerror(errno);
    return static_cast<uint64_t>(st.st_blocks) * 512;
  }
  static off_t SizeOf(int fd) {
    struct stat st = {};
    EXPECT_EQ(fstat(fd, &st), 0) << strerror(errno);
    return st.st_size;
  }
  static std::string Get(int fd, off_t from, size_t n) {
    std::string out(n, '\0');
    const ssize_t got = pread(fd, out.data(), n, from);
    EXPECT_GE(got, 0) << strerror(errno);
    out.resize(got < 0 ? 0 : static_cast<size_t>(got));
    return out;
  }
  static std::string SendFile(int fd, off_t from, size_t n) {
    FILE* to = tmpfile();
    const ssize_t sent = sendfile(fileno(to), fd, &from, n);
    EXPECT_GE(sent, 0) << strerror(errno);
    const std::string out = Get(fileno(to), 0, n);
    EXPECT_EQ(out.size(), static_cast<size_t>(std::max<ssize_t>(sent, 0)));
    fclose(to);
    return out;
  }
  static std::string Splice(int fd, off_t from, size_t n) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    std::string out(n, '\0');
    const ssize_t sent = splice(fd, &from, ends[1], nullptr, n, 0);
    EXPECT_GE(sent, 0) << strerror(errno);
    out.resize(static_cast<size_t>(std::max<ssize_t>(sent, 0)));
    for (size_t at = 0; at < out.size();) at += static_cast<size_t>(read(ends[0], out.data() + at, out.size() - at));
    close(ends[0]);
    close(ends[1]);
    return out;
  }
};

constexpr size_t kHundredKb = 100'000;

TEST_F(Bytes, ThatAreNotWrittenBackCountAsAllocated) {
  Fd fd(A("f"), O_CREAT | O_RDWR);
  const std::string data = RandomBytes(1, kHundredKb);
  for (size_t done = 0; done < 3 * kHundredKb; done += kHundredKb) {
    ASSERT_EQ(pwrite(fd, data.data(), data.size(), static_cast<off_t>(done)), static_cast<ssize_t>(data.size()));
    EXPECT_GE(Allocated(fd), done + kHundredKb) << "after " << done;
  }
  EXPECT_EQ(Stat(A("f")).st_blocks * 512, AlignUp(3 * kHundredKb, 512));
  Fd reader(A("f"), O_RDONLY);
  EXPECT_EQ(lseek(reader, 0, SEEK_DATA), 0);
  EXPECT_EQ(lseek(reader, 0, SEEK_HOLE), static_cast<off_t>(3 * kHundredKb));
  ASSERT_EQ(pwrite(fd, "more", 4, 3 * kHundredKb), 4);
  EXPECT_GE(static_cast<uint64_t>(Stat(B("f")).st_blocks) * 512, 3 * kHundredKb + 4) << "by the other mount";
}

// Nobody asks for the file's attributes before, which would have the bytes written back.
TEST_F(Bytes, ThatAreNotWrittenBackAreNoHolesForTheOtherMount) {
  constexpr off_t kFar = 64 << 20;
  Fd fd(A("f"), O_CREAT | O_RDWR);
  ASSERT_EQ(pwrite(fd, "first", 5, 0), 5);
  ASSERT_EQ(fsync(fd), 0);
  Fd reader(B("f"), O_RDONLY);
  const std::string data = RandomBytes(3, kHundredKb);
  const auto write_at = [&](off_t at) { ASSERT_EQ(pwrite(fd, data.data(), data.size(), at), static_cast<ssize_t>(data.size())); };
  constexpr off_t kEnd = kFar + static_cast<off_t>(kHundredKb);
  write_at(kFar);
  EXPECT_EQ(lseek(reader, 5, SEEK_DATA), kFar);
  write_at(2 * kFar);
  EXPECT_EQ(lseek(reader, kFar, SEEK_HOLE), kEnd);
  EXPECT_EQ(lseek(reader, kEnd, SEEK_DATA), 2 * kFar);
  EXPECT_EQ(lseek(reader, 2 * kFar, SEEK_HOLE), kEnd + kFar) << "the end";
}

TEST_F(Bytes, ThatAreOverwrittenCountOnceAndHolesDoNot) {
  Fd fd(A("f"), O_CREAT | O_RDWR);
  constexpr off_t kFar = 64 << 20;
  const std::string data = RandomBytes(2, 8192);
  const auto write_far = [&] { ASSERT_EQ(pwrite(fd, data.data(), data.size(), kFar), static_cast<ssize_t>(data.size())); };
  write_far();
  EXPECT_EQ(Allocated(fd), 8192u);
  EXPECT_EQ(lseek(fd, 0, SEEK_DATA), kFar);
  write_far();
  EXPECT_EQ(Allocated(fd), 8192u);
  ASSERT_EQ(fsync(fd), 0);
  EXPECT_EQ(Allocated(fd), 8192u);
  write_far();
  EXPECT_EQ(Allocated(fd), 8192u) << "written back, and written again";
  ASSERT_EQ(pwrite(fd, data.data(), data.size(), kFar + 4096), static_cast<ssize_t>(data.size()));
  EXPECT_EQ(Allocated(fd), 12288u);
  ASSERT_EQ(ftruncate(fd, 5 * kFar), 0);
  EXPECT_EQ(Allocated(fd), 12288u);
}

// Stores into a mapping, which the kernel has not written back and nobody has synced.
TEST_F(Bytes, ThatAreStoredIntoMappingsCountAsAllocated) {
  InOtherProcess({a_, b_}, [this] {
    constexpr off_t kSize = 256 << 10, kStored = 64 << 10;
    for (const bool first_bytes : {true, false}) {
      const std::string name = first_bytes ? "first" : "more";
      WriteAll(A(name), "");
      ASSERT_EQ(truncate(A(name).c_str(), kSize), 0);
      if (!first_bytes) {
        Fd some(A(name), O_WRONLY);
        ASSERT_EQ(pwrite(some, "some", 4, 0), 4);
        ASSERT_EQ(fsync(some), 0);
      }
      if (first_bytes) ASSERT_EQ(Stat(A(name)).st_blocks, 0);
      Fd fd(A(name), O_RDWR);
      char* const at = static_cast<char*>(mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
      ASSERT_NE(at, MAP_FAILED);
      at[kStored] = 'x';
      // tar -S takes a file without any for one hole, and looks no further.
      EXPECT_GT(Stat(A(name)).st_blocks, 0) << name;
      Fd reader(A(name), O_RDONLY);
      EXPECT_EQ(lseek(reader, kStored, SEEK_DATA), kStored) << name;
      EXPECT_GT(lseek(reader, kStored, SEEK_HOLE), kStored) << name;
      at[2 * kStored] = 'y';
      EXPECT_EQ(lseek(reader, 2 * kStored, SEEK_DATA), 2 * kStored) << name << ", once more";
      EXPECT_EQ(Get(reader, 2 * kStored, 1), "y");
      munmap(at, kSize);
    }
  });
}

// By the page cache, by descriptors of before; each way goes by another idea of the size.
TEST_F(Bytes, ThatAnotherMountAppendsAreThereForWhoDoesNotAsk) {
  for (const int how : {O_RDONLY, O_RDWR}) {
    for (const bool shared_before : {false, true}) {
      const std::string name = "f" + std::to_string(how) + std::to_string(shared_before);
      WriteAll(A(name), "first");
      std::optional<Fd> writer;
      if (shared_before) writer.emplace(A(name), O_WRONLY | O_APPEND);
      Fd reader(B(name), how);
      ASSERT_EQ(Get(reader, 0, 100), "first");
      ASSERT_EQ(SendFile(reader, 0, 100), "first");
      if (!shared_before) writer.emplace(A(name), O_WRONLY | O_APPEND);
      std::string all = "first";
      // Within a page, at its end, and beyond what one look at the mapping shows.
      for (const size_t more : {size_t{500}, size_t{4096 - 505}, size_t{1}, size_t{5000}, size_t{700'000}, size_t{3'000'000}}) {
        const off_t old = SizeOf(reader);
        ASSERT_EQ(old, static_cast<off_t>(all.size()));
        const std::string added = RandomBytes(all.size(), AlignUp(more, 8)).substr(0, more);
        for (size_t at = 0; at < more;) {
          const ssize_t n = write(*writer, added.data() + at, more - at);
          ASSERT_GT(n, 0) << strerror(errno);
          at += static_cast<size_t>(n);
        }
        all += added;
        const size_t some = std::min<size_t>(more, 60'000);
        const std::string what = name + " + " + std::to_string(more);
        // Nothing here asks for the size before: nor does SEEK_END, by the kernel's own.
        EXPECT_EQ(lseek(reader, 0, SEEK_END), static_cast<off_t>(all.size())) << what;
        // These have pages read that are kept.
        EXPECT_EQ(posix_fadvise(reader, 0, 0, POSIX_FADV_WILLNEED), 0) << what;
        EXPECT_EQ(readahead(reader, old, some), 0) << strerror(errno) << ", " << what;
        EXPECT_TRUE(SendFile(reader, old, some) == added.substr(0, some)) << "sendfile of " << what;
        EXPECT_TRUE(Splice(reader, old, some) == added.substr(0, some)) << "splice of " << what;
        Fd copy(B("copy of " + name), O_CREAT | O_RDWR | O_TRUNC);
        loff_t from = old;
        const ssize_t copied = copy_file_range(reader, &from, copy, nullptr, some, 0);
        ASSERT_GT(copied, 0) << strerror(errno) << ", " << what;
        EXPECT_TRUE(Get(copy, 0, some) == added.substr(0, static_cast<size_t>(copied))) << "copy_file_range of " << what;
        EXPECT_TRUE(Get(reader, old, some) == added.substr(0, some)) << "read of " << what;
        EXPECT_TRUE(SendFile(reader, 0, all.size()).substr(0, 1'000'000) == all.substr(0, 1'000'000)) << what;
      }
      EXPECT_TRUE(ReadAll(B(name)) == all);
    }
  }
}

// The first question after an append comes from a read, and is answered while old pages go.
TEST_F(Bytes, ThatAnotherMountAppendsAreReadAtOnce) {
  WriteAll(A("f"), "first");
  Fd reader(B("f"), O_RDONLY);
  ASSERT_EQ(Get(reader, 0, 100), "first");
  Fd writer(A("f"), O_WRONLY | O_APPEND);
  std::string all = "first";
  for (int i = 0; i < 50; ++i) {
    ASSERT_EQ(SizeOf(reader), static_cast<off_t>(all.size()));
    const std::string line = "line " + std::to_string(i) + "\n";
    ASSERT_EQ(write(writer, line.data(), line.size()), static_cast<ssize_t>(line.size()));
    EXPECT_EQ(Get(reader, static_cast<off_t>(all.size()), 100), line) << i;
    all += line;
  }
}

TEST_F(Bytes, ThatAnotherMountAppendsAreInMappings) {
  constexpr size_t kPage = 4096;
  WriteAll(A("f"), std::string(100, 'a'));
  InOtherProcess({a_, b_}, [this] {
    Fd reader(B("f"), O_RDONLY);
    const char* at = static_cast<const char*>(mmap(nullptr, 16 * kPage, PROT_READ, MAP_SHARED, reader, 0));
    ASSERT_NE(at, MAP_FAILED);
    ASSERT_EQ(at[99], 'a');
    Fd writer(A("f"), O_WRONLY | O_APPEND);
    const std::string more(9 * kPage, 'b');
    ASSERT_EQ(write(writer, more.data(), more.size()), static_cast<ssize_t>(more.size()));
    // Behind the old end it would be SIGBUS.
    for (size_t i = 100; i < 100 + more.size(); i += 1000) ASSERT_EQ(at[i], 'b') << i;
    ASSERT_EQ(at[100 + more.size() - 1], 'b');
  });
}

TEST_F(Bytes, HolesThatAnotherMountAppendsAreThereToo) {
  WriteAll(A("f"), "first");
  Fd reader(B("f"), O_RDONLY);
  ASSERT_EQ(Get(reader, 0, 100), "first");
  ASSERT_EQ(truncate(A("f").c_str(), 10'000), 0);
  EXPECT_TRUE(SendFile(reader, 0, 20'000) == "first" + std::string(9'995, '\0'));
  Fd writer(A("f"), O_RDWR);
  ASSERT_EQ(fallocate(writer, 0, 0, 20'000), 0);
  EXPECT_TRUE(SendFile(reader, 10'000, 20'000) == std::string(10'000, '\0'));
}

// What is cut off again is gone, whoever had been told of it.
TEST_F(Bytes, ThatAreCutOffAgainAreNotThere) {
  WriteAll(A("f"), "first");
  Fd reader(B("f"), O_RDONLY);
  Fd writer(A("f"), O_RDWR);
  for (int i = 0; i < 20; ++i) {
    const std::string more = RandomBytes(static_cast<uint64_t>(i), 4096u * static_cast<size_t>(i % 3 + 1));
    ASSERT_EQ(pwrite(writer, more.data(), more.size(), 5), static_cast<ssize_t>(more.size()));
    EXPECT_TRUE(SendFile(reader, 5, more.size()) == more) << i;
    ASSERT_EQ(ftruncate(writer, 5), 0);
    EXPECT_EQ(SendFile(reader, 0, 100'000), "first") << i;
    EXPECT_EQ(Get(reader, 0, 100'000), "first") << i;
    EXPECT_EQ(SizeOf(reader), 5) << i;
  }
}

}  // namespace
}  // namespace stria
