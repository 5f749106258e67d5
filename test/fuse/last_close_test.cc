// What ends with the last close: the space of a file that has no name any more, and leases of no use.
#include <sys/mman.h>

#include <chrono>
#include <functional>
#include <optional>
#include <thread>

#include "test/fuse/two_mounts.h"

namespace stria {
namespace {

constexpr size_t kBytes = 3 << 20;

// True as soon as `condition` is. (A lease is longer: what only the end of a session brings is not waited for.)
bool Comes(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kDefaultLeaseNs) * 2 / 3;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

class LastClose : public TwoMounts {
 protected:
  void SetUp() override {
    TwoMounts::SetUp();
    if (IsSkipped()) return;
    before_ = Files();
  }
  // Inodes and bytes that the server has.
  std::pair<uint64_t, uint64_t> Files() {
    std::pair<uint64_t, uint64_t> out;
    cluster_->loop().Do([&] {
      MetaStore* store = cluster_->server().store();
      out = {store->Count(Counter::kFiles), store->Count(Counter::kLiveBytes)};
    });
    return out;
  }
  void ExpectAllGone() {
    EXPECT_TRUE(Comes([this] { return Files() == before_; }))
        << Files().first - before_.first << " files and " << Files().second - before_.second << " bytes are left";
    const FsckReply checked = cluster_->loop().Run([] { return cluster_->server().Fsck(InodeRequest()); }).value();
    EXPECT_TRUE(checked.problems.empty()) << checked.problems.front();
  }
  std::pair<uint64_t, uint64_t> before_;
};

TEST_F(LastClose, UnlinkedByTheOtherMountWhileOpenForWriting) {
  const std::string bytes = RandomBytes(1, kBytes);
  WriteAll(A("f"), bytes);
  Fd fd(A("f"), O_RDWR);
  ASSERT_EQ(pwrite(fd, "new", 3, 0), 3);
  ASSERT_EQ(unlink(B("f").c_str()), 0);
  struct stat st = {};
  ASSERT_EQ(fstat(fd, &st), 0);
  EXPECT_EQ(st.st_nlink, 0u);
  ASSERT_EQ(pwrite(fd, "more", 4, kBytes), 4);
  std::string got(7, 0);
  EXPECT_EQ(pread(fd, got.data(), 7, 0), 7);
  EXPECT_EQ(got, "new" + bytes.substr(3, 4));
  EXPECT_NE(Files(), before_);
  EXPECT_EQ(fd.Close(), 0);
  ExpectAllGone();
}

TEST_F(LastClose, UnlinkedByTheOtherMountWhileOpenForReading) {
  WriteAll(B("f"), RandomBytes(1, kBytes));
  Fd fd(A("f"), O_RDONLY);
  ASSERT_EQ(unlink(B("f").c_str()), 0);
  EXPECT_NE(Files(), before_);
  EXPECT_EQ(fd.Close(), 0);
  ExpectAllGone();
}

// A closed file keeps its lease for the next open.
TEST_F(LastClose, UnlinkedAfterTheCloseByEitherMount) {
  for (int i = 0; i < 2; ++i) {
    WriteAll(A("f"), RandomBytes(1, kBytes));
    ASSERT_EQ(unlink((i == 0 ? A("f") : B("f")).c_str()), 0);
    ExpectAllGone();
  }
}

TEST_F(LastClose, ReplacedByEitherMountOpenOrNot) {
  for (int i = 0; i < 4; ++i) {
    SCOPED_TRACE(i);
    WriteAll(A("f"), RandomBytes(1, kBytes));
    std::optional<Fd> fd;
    if (i >= 2) fd.emplace(A("f"), O_RDWR);
    const bool here = i % 2 == 0;
    WriteAll(here ? A("new") : B("new"), "");
    ASSERT_EQ(rename((here ? A("new") : B("new")).c_str(), (here ? A("f") : B("f")).c_str()), 0);
    fd.reset();
    ASSERT_EQ(unlink(A("f").c_str()), 0);
    ExpectAllGone();
  }
}

TEST_F(LastClose, TheLastOfTwoNamesGoesWhileOpen) {
  WriteAll(A("f"), RandomBytes(1, kBytes));
  ASSERT_EQ(link(B("f").c_str(), B("g").c_str()), 0);
  Fd fd(A("f"), O_RDONLY);
  ASSERT_EQ(unlink(B("f").c_str()), 0);
  ASSERT_EQ(unlink(B("g").c_str()), 0);
  EXPECT_EQ(fd.Close(), 0);
  ExpectAllGone();
}

// Its pages are written back when it is unmapped, after all else has ended. (By another process: who unmaps waits for
// the mount, which is in this one, and lets no other thread of its own have memory meanwhile.)
TEST_F(LastClose, AMappedFileUnlinkedByEitherMount) {
  if (!a_->adapter().features().direct_io_mmap) GTEST_SKIP() << "this kernel does not map direct_io files";
  for (int i = 0; i < 2; ++i) {
    SCOPED_TRACE(i);
    const std::string path = A("f"), name = i == 0 ? A("f") : B("f");
    EXPECT_EQ(As(0, 0, {}, [&] {
      const int fd = open(path.c_str(), O_RDWR | O_CREAT, 0644);
      if (fd < 0 || ftruncate(fd, kBytes) != 0) return 1;
      auto* at = static_cast<char*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
      if (at == MAP_FAILED || close(fd) != 0 || unlink(name.c_str()) != 0) return 2;
      memset(at, 'x', kBytes);
      return munmap(at, kBytes) == 0 ? 0 : 3;
    }), 0);
    ExpectAllGone();
  }
}

// When nobody shares it any more it is worth caching again.
TEST_F(LastClose, ALeaseThatWasSharedIsNotKept) {
  WriteAll(A("f"), "x");
  const InodeId ino(Stat(A("f")).st_ino);
  Fd a(A("f"), O_RDWR);
  EXPECT_EQ(ReadAll(B("f")), "x");
  ASSERT_EQ(pwrite(a, "y", 1, 0), 1);
  EXPECT_EQ(a.Close(), 0);
  EXPECT_TRUE(Comes([&] {
    size_t holders = 0;
    cluster_->loop().Do([&] { holders = cluster_->server().leases().HoldersExcept(SessionId(), ino).size(); });
    return holders == 0;
  }));
}

// Who has read it and closed it keeps its lease for the next open, and costs nobody theirs.
TEST_F(LastClose, AnIdleLeaseMakesNobodyShare) {
  for (const bool wrote : {false, true}) {
    const std::string name = wrote ? "written" : "read";
    WriteAll(A(name), "x");
    const InodeId ino(Stat(A(name)).st_ino);
    if (!wrote) {
      // Open for reading on both, and closed: both keep a lease.
      EXPECT_EQ(ReadAll(A(name)), "x");
      EXPECT_EQ(ReadAll(B(name)), "x");
      EXPECT_EQ(ReadAll(A(name)), "x");
    }
    Fd b(B(name), O_RDWR);
    LeaseMode mode = LeaseMode::kNone;
    size_t holders = 0;
    cluster_->loop().Do([&] {
      const LeaseTable& leases = cluster_->server().leases();
      const auto all = leases.HoldersExcept(SessionId(), ino);
      holders = all.size();
      if (!all.empty()) mode = leases.ModeOf(all.front(), ino);
    });
    EXPECT_EQ(holders, 1u);
    EXPECT_EQ(mode, LeaseMode::kExclusive);
    ASSERT_EQ(pwrite(b, "yz", 2, 0), 2);
    EXPECT_EQ(ReadAll(A(name)), "yz");
    EXPECT_EQ(b.Close(), 0);
  }
}

}  // namespace
}  // namespace stria
