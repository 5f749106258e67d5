#include "common/io/posix_disk.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/exec/loop_executor.h"
#include "common/io/disk_conformance.h"
#include "common/random.h"
#include "common/temp_dir.h"

// System calls that fail when told to: errno, for the next `times` calls. They take the place of libc's.
namespace {
struct Fault {
  int error = 0;
  int times = 0;
  bool Hits() {
    if (times == 0) return false;
    --times;
    errno = error;
    return true;
  }
};
Fault fail_fdatasync, fail_fsync, fail_pwritev, fail_pread;
}  // namespace

extern "C" int fdatasync(int fd) {
  return fail_fdatasync.Hits() ? -1 : static_cast<int>(syscall(SYS_fdatasync, fd));
}
extern "C" int fsync(int fd) { return fail_fsync.Hits() ? -1 : static_cast<int>(syscall(SYS_fsync, fd)); }
extern "C" ssize_t pwritev(int fd, const iovec* iov, int count, off_t offset) {
  return fail_pwritev.Hits() ? -1 : syscall(SYS_pwritev, fd, iov, count, offset, 0);
}
extern "C" ssize_t pread(int fd, void* to, size_t n, off_t offset) {
  return fail_pread.Hits() ? -1 : syscall(SYS_pread64, fd, to, n, offset);
}

namespace stria {
namespace {

namespace fs = std::filesystem;

PosixDiskOptions FewFiles(size_t n) {
  PosixDiskOptions options;
  options.max_open_files = n;
  return options;
}

class PosixHarness final : public DiskHarness {
 public:
  explicit PosixHarness(size_t max_open_files) : max_open_files_(max_open_files) { Reopen(); }
  Disk& disk() override { return *disk_; }
  void Reopen() override {
    disk_.reset();
    disk_ = PosixDisk::OpenOn(pool_, dir_.path(), FewFiles(max_open_files_)).value();
  }

 private:
  size_t max_open_files_;
  TempDir dir_;
  InlinePool pool_;
  std::unique_ptr<PosixDisk> disk_;
};

INSTANTIATE_TEST_SUITE_P(
    Posix, DiskConformance,
    testing::Values(DiskMaker{"Many", [] { return std::make_unique<PosixHarness>(256); }},
                    DiskMaker{"OneDescriptor", [] { return std::make_unique<PosixHarness>(1); }}),
    [](const testing::TestParamInfo<DiskMaker>& info) { return info.param.name; });

class PosixDiskTest : public testing::Test {
 protected:
  PosixDiskTest() { disk_ = PosixDisk::OpenOn(pool_, dir_.path()).value(); }
  Result<void> Write(const std::string& name, const std::string& data) {
    return RunSim(ex_, disk_->Write(name, 0, BufferChain(Buffer::FromString(data))));
  }
  SimExecutor ex_{1};
  TempDir dir_;
  InlinePool pool_;
  std::unique_ptr<PosixDisk> disk_;
};

TEST_F(PosixDiskTest, OneOwnerAtATime) {
  EXPECT_EQ(PosixDisk::Open(dir_.path()).code(), FsError::kBusy);
  PosixDiskOptions shared;
  shared.exclusive = false;
  EXPECT_TRUE(PosixDisk::Open(dir_.path(), shared).ok());
  disk_.reset();
  EXPECT_TRUE(PosixDisk::Open(dir_.path()).ok());
  const auto missing = PosixDisk::Open(dir_.path() + "/missing");
  EXPECT_EQ(missing.code(), FsError::kNoEnt);
  EXPECT_NE(missing.error().message.find("/missing"), std::string::npos);
}

TEST_F(PosixDiskTest, FollowsNoLinks) {
  TempDir outside;
  std::ofstream(outside.path() + "/secret") << "secret";
  fs::create_symlink(outside.path(), dir_.path() + "/out");
  fs::create_symlink(outside.path() + "/secret", dir_.path() + "/link");
  for (const char* name : {"out/secret", "link"}) {
    EXPECT_FALSE(RunSim(ex_, disk_->Read(name, 0, 10)).ok());
    EXPECT_FALSE(Write(name, "x").ok());
    EXPECT_FALSE(disk_->OpenForRead(name).ok());
  }
  EXPECT_FALSE(Write("out/new", "x").ok());
  EXPECT_FALSE(fs::exists(outside.path() + "/new"));
  ASSERT_TRUE(Write("real", "x").ok());
  const auto files = RunSim(ex_, disk_->List(""));
  ASSERT_EQ(files->size(), 1u);
  EXPECT_EQ((*files)[0].name, "real");
}

TEST_F(PosixDiskTest, StoredIsWhatTheNameLeadsTo) {
  ASSERT_TRUE(Write("d/a", "as written").ok());
  const auto stored = [&] {
    const auto r = RunSim(ex_, disk_->ReadStored("d/a", 3, 100));
    return r.ok() ? std::string(r->view()) : std::string(FsErrorName(r.code()));
  };
  EXPECT_EQ(stored(), "written");
  fs::remove(dir_.path() + "/d/a");
  EXPECT_TRUE(RunSim(ex_, disk_->Read("d/a", 0, 100)).ok()) << "this test is about a file that is still open";
  EXPECT_EQ(stored(), FsErrorName(FsError::kNoEnt));
  std::ofstream(dir_.path() + "/d/a") << "another";
  EXPECT_EQ(stored(), "ther");
  EXPECT_EQ(RunSim(ex_, disk_->ReadStored("../a", 0, 1)).code(), FsError::kBadRequest);
}

// Past the page cache, where possible: the same bytes, for any range, and with any bytes not written back yet.
TEST_F(PosixDiskTest, LargeReadsAreOfWhatWasWritten) {
  Random rng(3);
  for (const uint64_t size : {uint64_t{4096 * 100}, uint64_t{500'001}, uint64_t{1'048'577}}) {
    std::string bytes(size, '\0');
    for (char& c : bytes) c = static_cast<char>(rng.Next());
    ASSERT_TRUE(Write("big", bytes).ok());
    for (int i = 0; i < 200; ++i) {
      const uint64_t offset = i == 0 ? 0 : rng.Below(size + 5000), length = i == 1 ? size * 2 : rng.Below(size);
      const std::string want = offset >= size ? "" : bytes.substr(offset, length);
      const auto once = RunSim(ex_, disk_->ReadOnce("big", offset, length));
      const auto stored = RunSim(ex_, disk_->ReadStored("big", offset, length));
      ASSERT_TRUE(once.ok() && stored.ok()) << once.error() << stored.error();
      ASSERT_TRUE(once->view() == want) << offset << " " << length << " of " << size;
      ASSERT_TRUE(stored->view() == want) << offset << " " << length << " of " << size;
      if (!rng.OneIn(4) || offset >= size) continue;
      const std::string patch(std::min<uint64_t>(size - offset, 5), 'p');
      ASSERT_TRUE(RunSim(ex_, disk_->Write("big", offset, BufferChain(Buffer::FromString(patch)))).ok());
      bytes.replace(offset, patch.size(), patch);
    }
    EXPECT_TRUE(RunSim(ex_, disk_->Remove("big")).ok());
  }
  EXPECT_EQ(RunSim(ex_, disk_->ReadOnce("none", 0, kMiB)).code(), FsError::kNoEnt);
  const std::string bytes(kMiB, 'x');
  ASSERT_TRUE(Write("a", bytes).ok());
  fail_pread = {EIO, 1};
  EXPECT_EQ(RunSim(ex_, disk_->ReadOnce("a", 0, kMiB)).code(), FsError::kDiskFailed);
  fail_pread = {EINVAL, 1};  // the file system cannot: the ordinary way then, and from now on
  for (int i = 0; i < 2; ++i) {
    const auto read = RunSim(ex_, disk_->ReadOnce("a", 1, kMiB));
    ASSERT_TRUE(read.ok()) << read.error();
    EXPECT_TRUE(read->view() == bytes.substr(1));
  }
  fail_pread = {EIO, 1};
  EXPECT_EQ(RunSim(ex_, disk_->ReadStored("a", 0, kMiB)).code(), FsError::kDiskFailed);
  EXPECT_EQ(RunSim(ex_, disk_->ReadOnce("../a", 0, kMiB)).code(), FsError::kBadRequest);
}

// A limit of the file size is the one write error that needs no rights.
TEST_F(PosixDiskTest, ErrorsNameTheDisk) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit old;
  getrlimit(RLIMIT_FSIZE, &old);
  rlimit small = old;
  small.rlim_cur = 8192;
  setrlimit(RLIMIT_FSIZE, &small);
  const auto r = Write("a", std::string(20'000, 'x'));
  setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_EQ(r.code(), FsError::kFBig);
  EXPECT_NE(r.error().message.find(dir_.path()), std::string::npos);
}

TEST_F(PosixDiskTest, AFailedSyncPoisonsTheFile) {
  ASSERT_TRUE(Write("d/a", "x").ok());
  ASSERT_TRUE(Write("d/b", "x").ok());
  fail_fdatasync = {EIO, 1};
  const auto r = RunSim(ex_, disk_->SyncFiles({"d/a"}));
  EXPECT_EQ(r.code(), FsError::kDiskFailed);
  EXPECT_NE(r.error().message.find(dir_.path()), std::string::npos);
  EXPECT_EQ(RunSim(ex_, disk_->SyncFiles({"d/a", "d/b"})).code(), FsError::kDiskFailed);
  EXPECT_TRUE(RunSim(ex_, disk_->SyncFiles({"d/b"})).ok());
  ASSERT_TRUE(RunSim(ex_, disk_->Remove("d/a")).ok());
  ASSERT_TRUE(Write("d/a", "new").ok());
  EXPECT_TRUE(RunSim(ex_, disk_->SyncFiles({"d/a"})).ok());
  // The directory of a file that is new.
  ASSERT_TRUE(Write("d/c", "x").ok());
  fail_fsync = {EIO, 1};
  EXPECT_EQ(RunSim(ex_, disk_->SyncFiles({"d/c"})).code(), FsError::kDiskFailed);
  EXPECT_EQ(RunSim(ex_, disk_->SyncFiles({"d/c"})).code(), FsError::kDiskFailed);
}

TEST_F(PosixDiskTest, WriteAndSyncTellsWhichOfThemFailed) {
  const auto write = [&](const std::string& name) {
    return RunSim(ex_, disk_->WriteAndSync(name, 0, BufferChain(Buffer::FromString("x"))));
  };
  fail_pwritev = {ENOSPC, 1};
  fail_fdatasync = {EIO, 1};
  DiskWritten done = write("a");
  EXPECT_EQ(done.write.code, FsError::kNoSpace);
  EXPECT_TRUE(done.sync.ok());
  EXPECT_EQ(fail_fdatasync.times, 1);  // nothing was synced
  done = write("a");
  EXPECT_TRUE(done.write.ok());
  EXPECT_EQ(done.sync.code, FsError::kDiskFailed);
  done = write("a");  // writes since the last good sync may be gone
  EXPECT_TRUE(done.write.ok());
  EXPECT_EQ(done.sync.code, FsError::kDiskFailed);
  fail_fsync = {EIO, 1};
  EXPECT_EQ(write("d/b").sync.code, FsError::kDiskFailed);  // the directory of a new file
  done = write("c");
  EXPECT_TRUE(done.write.ok() && done.sync.ok());
  done = RunSim(ex_, disk_->WriteAndSync("c", UINT64_MAX, BufferChain(Buffer::FromString("x"))));
  EXPECT_EQ(done.write.code, FsError::kFBig);
}

TEST_F(PosixDiskTest, AnErrorSeenWhileClosingIsNotForgotten) {
  disk_.reset();
  disk_ = PosixDisk::OpenOn(pool_, dir_.path(), FewFiles(1)).value();
  ASSERT_TRUE(Write("f0", "x").ok());
  fail_fdatasync = {EIO, 1};
  for (int i = 1; i < 200 && fail_fdatasync.times > 0; ++i)
    ASSERT_TRUE(Write("f" + std::to_string(i), "x").ok());
  ASSERT_EQ(fail_fdatasync.times, 0);
  int poisoned = 0;
  const auto files = RunSim(ex_, disk_->List(""));
  for (const DiskFile& f : *files) {
    poisoned += !RunSim(ex_, disk_->SyncFiles({f.name})).ok();
  }
  EXPECT_EQ(poisoned, 1);
}

TEST_F(PosixDiskTest, SystemErrorsAreTold) {
  ASSERT_TRUE(Write("a", "old").ok());
  fail_pread = {EIO, 1};
  EXPECT_EQ(RunSim(ex_, disk_->Read("a", 0, 9)).code(), FsError::kDiskFailed);
  fail_pread = {EINTR, 3};
  EXPECT_EQ(RunSim(ex_, disk_->Read("a", 0, 9))->view(), "old");
  fail_pwritev = {ENOSPC, 1};
  EXPECT_EQ(Write("a", "new").code(), FsError::kNoSpace);
  fail_pwritev = {EROFS, 1};
  EXPECT_EQ(Write("a", "new").code(), FsError::kDiskFailed);
  fail_pwritev = {ENOSPC, 1};
  EXPECT_EQ(RunSim(ex_, disk_->ReplaceFile("a", Buffer::FromString("new"))).code(), FsError::kNoSpace);
  fail_fsync = {EIO, 1};
  EXPECT_EQ(RunSim(ex_, disk_->ReplaceFile("a", Buffer::FromString("new"))).code(), FsError::kDiskFailed);
  EXPECT_EQ(RunSim(ex_, disk_->Read("a", 0, 9))->view(), "old");
  EXPECT_TRUE(RunSim(ex_, disk_->SyncFiles({"a"})).ok());
}

TEST_F(PosixDiskTest, DescriptorsAreBounded) {
  disk_.reset();
  disk_ = PosixDisk::OpenOn(pool_, dir_.path(), FewFiles(16)).value();
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(Write("f" + std::to_string(i), "x").ok());
  size_t open_here = 0;
  for (const auto& e : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    open_here += fs::read_symlink(e.path(), gone).string().starts_with(dir_.path() + "/f");
  }
  EXPECT_GE(open_here, 1u);
  EXPECT_LE(open_here, 16u);
}

TEST_F(PosixDiskTest, ALeftoverTemporaryFileIsHarmless) {
  std::ofstream(dir_.path() + "/a.new~") << "leftover of a crash, and longer";
  EXPECT_TRUE(RunSim(ex_, disk_->List(""))->empty());
  ASSERT_TRUE(RunSim(ex_, disk_->ReplaceFile("a", Buffer::FromString("new"))).ok());
  EXPECT_EQ(RunSim(ex_, disk_->Read("a", 0, 100))->view(), "new");
  EXPECT_FALSE(fs::exists(dir_.path() + "/a.new~"));
}

// Writes past the page cache mix with others: at any place and from any memory, the file holds the last writes, also after a
// reopening.
TEST_F(PosixDiskTest, DirectWritesAreOrdinaryWrites) {
  constexpr uint64_t kSeed = 5;
  SCOPED_TRACE(kSeed);
  Random rng(kSeed);
  std::string want(2 * kMiB, '\0');
  ASSERT_TRUE(Write("f", want).ok());
  for (int i = 0; i < 200; ++i) {
    const bool aligned = rng.OneIn(2);
    const uint64_t offset = aligned ? 4096 * rng.Below(want.size() / 4096) : rng.Below(want.size());
    const uint64_t length = rng.Between(1, std::min<uint64_t>(want.size() - offset, 600 * kKiB));
    const uint64_t skew = rng.OneIn(4) ? rng.Below(100) : 0;  // of the memory
    MutableBuffer memory(length + skew);
    for (uint64_t b = 0; b < length; ++b) memory.data()[skew + b] = static_cast<uint8_t>(rng.Next());
    const Buffer bytes = std::move(memory).Freeze().Slice(skew, length);
    const uint64_t cut = rng.OneIn(2) ? AlignDown(rng.Below(length), 4096) : rng.Below(length);
    BufferChain chain(bytes.Slice(0, cut));
    chain.Append(bytes.Slice(cut, length - cut));
    ASSERT_TRUE(RunSim(ex_, disk_->Write("f", offset, std::move(chain))).ok());
    want.replace(offset, length, bytes.view());
    if (rng.OneIn(10)) ASSERT_TRUE(RunSim(ex_, disk_->SyncFiles({"f"})).ok());
    if (rng.OneIn(20)) {
      disk_.reset();
      disk_ = PosixDisk::OpenOn(pool_, dir_.path()).value();
    }
    if (rng.OneIn(4)) ASSERT_EQ(RunSim(ex_, disk_->Read("f", 0, want.size()))->view(), want) << i;
  }
  EXPECT_EQ(RunSim(ex_, disk_->Read("f", 0, want.size()))->view(), want);
}

TEST_F(PosixDiskTest, ARefusedDirectWriteIsDoneTheOrdinaryWay) {
  fail_pwritev = {EINVAL, 1};
  MutableBuffer memory(kMiB);
  std::fill_n(memory.data(), memory.size(), uint8_t{'x'});
  ASSERT_TRUE(RunSim(ex_, disk_->Write("f", 0, BufferChain(std::move(memory).Freeze()))).ok());
  EXPECT_EQ(RunSim(ex_, disk_->Read("f", 0, kMiB))->view(), std::string(kMiB, 'x'));
  EXPECT_EQ(fail_pwritev.times, 0);
}

TEST_F(PosixDiskTest, RefusesOffsetsBeyondTheFileSystem) {
  const auto data = BufferChain(Buffer::FromString("x"));
  EXPECT_EQ(RunSim(ex_, disk_->Write("a", UINT64_MAX, data)).code(), FsError::kFBig);
  EXPECT_EQ(RunSim(ex_, disk_->Truncate("a", UINT64_MAX)).code(), FsError::kFBig);
  ASSERT_TRUE(Write("a", "x").ok());
  EXPECT_EQ(RunSim(ex_, disk_->Read("a", UINT64_MAX, UINT64_MAX))->size(), 0u);
}

TEST(PosixDiskLoop, ManyAtOnceOnItsOwnThreads) {
  TempDir dir;
  LoopExecutor ex;
  ex.MakeCurrent();
  auto disk = PosixDisk::Open(dir.path()).value();
  TaskScope scope;
  for (int i = 0; i < 40; ++i) {
    scope.Spawn([](Disk& d, int n) -> Task<void> {
      const std::string name = "d" + std::to_string(n % 4) + "/f" + std::to_string(n);
      const std::string data(10'000 + static_cast<size_t>(n), 'x');
      EXPECT_TRUE((co_await d.Write(name, 0, BufferChain(Buffer::FromString(data)))).ok());
      EXPECT_TRUE((co_await d.SyncFiles({name, name})).ok());
      auto back = co_await d.Read(name, 0, 1 << 20);
      EXPECT_EQ(back->size(), data.size());
      EXPECT_TRUE((co_await d.ReplaceFile("same", Buffer::FromString(data))).ok());
      EXPECT_TRUE((co_await d.Remove(name)).ok());
    }(*disk, i));
  }
  TaskScope stopper;
  stopper.Spawn([](TaskScope& s, LoopExecutor& e) -> Task<void> {
    co_await s.Join();
    e.Stop();
  }(scope, ex));
  ex.Run();
  EXPECT_EQ(scope.running(), 0u);
  // Destroyed with work under way: waits for it.
  scope.Spawn([](Disk& d) -> Task<void> {
    (void)co_await d.Write("late", 0, BufferChain(Buffer::FromString("x")));
  }(*disk));
  scope.CancelAll();
  disk.reset();
}

}  // namespace
}  // namespace stria
