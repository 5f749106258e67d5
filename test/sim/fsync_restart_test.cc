// The metadata server loses what it has not synced, and the client dies as soon as fsync is answered: nobody can repeat
// what it was told is durable.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "test/sim/sim_cluster.h"

namespace stria {
namespace {

constexpr int64_t kLimitNs = 100 * kSecond;
constexpr uint64_t kSeeds = 20;
const Caller kRoot;

// Client 0 changes and syncs a file, client 1 does other things and looks at it in the end.
class FsyncRestart {
 public:
  explicit FsyncRestart(uint64_t seed) : cluster_(seed, Options()) {
    const Result<void> booted = cluster_.Boot();
    EXPECT_TRUE(booted.ok()) << booted.error();
    EXPECT_TRUE(cluster_.Run(Open(), kLimitNs));
  }
  SimCluster& cluster() { return cluster_; }
  // Answers that the server has not synced are lost with it; those of client 1 nobody repeats.
  void TruncateAndLose(uint64_t size, uint64_t others, int64_t later_ns) {
    for (uint64_t i = 0; i < others; ++i) cluster_.scope(1).Spawn(Make("x" + std::to_string(i)));
    cluster_.executor().RunUntil([] { return false; }, cluster_.executor().NowNs() + later_ns);
    Begin(Truncate(size));
    Await();
    cluster_.CrashClient(1);
    cluster_.CrashMeta(true);
  }
  void Begin(Task<Result<void>> t) {
    done_.reset();
    cluster_.scope(0).Spawn(Keep(std::move(t)));
  }
  // To the moment of the answer.
  void Await() {
    ASSERT_TRUE(cluster_.executor().RunUntil([&] { return done_.has_value(); }, cluster_.executor().NowNs() + kLimitNs));
    ASSERT_TRUE(done_->ok()) << done_->error();
  }
  Task<Result<void>> Truncate(uint64_t size) {
    SetAttrIn set;
    set.size = size;
    const auto done = co_await cluster_.vfs(0).SetAttr(kRoot, ino_, set);
    if (!done.ok()) co_return done.error();
    co_return Ok();
  }
  Task<Result<void>> SetXattr() { return cluster_.vfs(0).SetXattr(kRoot, ino_, "user.a", "1", false, false); }
  Task<Result<void>> Rename() { return cluster_.vfs(0).Rename(kRoot, kRootInode, "f", kRootInode, "g", false, false); }
  Task<Result<void>> Link() {
    const auto done = co_await cluster_.vfs(0).Link(kRoot, ino_, kRootInode, "g");
    if (!done.ok()) co_return done.error();
    co_return Ok();
  }
  // Of a file that nobody has open, and then it is opened.
  Task<Result<void>> ChmodAndOpen() {
    CO_RETURN_IF_ERROR(co_await cluster_.vfs(0).Release(kRoot, std::move(handle_)));
    co_await Sleep(30 * kSecond);
    CO_RETURN_IF_ERROR(co_await cluster_.vfs(0).Unlink(kRoot, kRootInode, "f"));
    CO_ASSIGN_OR_RETURN(const EntryOut made,
                        co_await cluster_.vfs(1).MakeNode(kRoot, kRootInode, "f", FileType::kFile, 0644, 0, ""));
    SetAttrIn set;
    set.mode = 0600;
    CO_RETURN_IF_ERROR(co_await cluster_.vfs(0).SetAttr(kRoot, made.attr.ino, set));
    VfsHandle flags;
    flags.read = true;
    CO_ASSIGN_OR_RETURN(const Vfs::Opened opened, co_await cluster_.vfs(0).Open(kRoot, made.attr.ino, false, flags));
    handle_ = opened.handle;
    co_return Ok();
  }
  template <class T>
  T SeenByOther(Task<T> look) {
    return cluster_.Do(std::move(look), kLimitNs);
  }
  InodeId ino() const { return ino_; }
  Task<Result<void>> Fsync() { return cluster_.vfs(0).Fsync(kRoot, handle_); }
  void DieAtOnce() {
    handle_.reset();
    cluster_.CrashClient(0);
    cluster_.CrashMeta(true);
    cluster_.StartMeta();
    cluster_.StartClient(1);
  }
  uint64_t SizeSeenByOther() {
    uint64_t size = 0;
    EXPECT_TRUE(cluster_.Run(Look(&size), kLimitNs));
    return size;
  }

 private:
  static SimClusterOptions Options() {
    SimClusterOptions o;
    o.disks = 1;
    return o;
  }
  Task<void> Open() {
    VfsHandle flags;
    flags.read = flags.write = true;
    const auto made = co_await cluster_.vfs(0).MakeNode(kRoot, kRootInode, "f", FileType::kFile, 0644, 0, "");
    EXPECT_TRUE(made.ok()) << made.error();
    if (!made.ok()) co_return;
    ino_ = made->attr.ino;
    const auto opened = co_await cluster_.vfs(0).Open(kRoot, ino_, false, flags);
    EXPECT_TRUE(opened.ok()) << opened.error();
    if (!opened.ok()) co_return;
    handle_ = opened->handle;
    EXPECT_TRUE((co_await Fsync()).ok());
    EXPECT_TRUE((co_await cluster_.vfs(0).SyncDir(kRoot, kRootInode)).ok());
  }
  Task<void> Make(std::string name) {
    (void)co_await cluster_.vfs(1).MakeNode(kRoot, kRootInode, name, FileType::kFile, 0644, 0, "");
  }
  Task<void> Keep(Task<Result<void>> t) { done_ = co_await std::move(t); }
  Task<void> Look(uint64_t* size) {
    const auto found = co_await cluster_.vfs(1).Lookup(kRoot, kRootInode, "f");
    EXPECT_TRUE(found.ok()) << found.error();
    if (found.ok()) *size = found->attr.size;
  }

  SimCluster cluster_;
  InodeId ino_;
  VfsHandlePtr handle_;
  std::optional<Result<void>> done_;
};

// fsync is on its way while the server restarts.
TEST(SimFsyncRestart, IsNotAnsweredBeforeWhatWasLostIsRepeated) {
  for (uint64_t seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    FsyncRestart run(seed);
    run.TruncateAndLose(1000, 3, 0);
    run.Begin(run.Fsync());
    run.cluster().executor().RunUntil([] { return false; },
                                      run.cluster().executor().NowNs() + static_cast<int64_t>(seed * 150) * kMillisecond);
    run.cluster().StartMeta();
    run.Await();
    run.DieAtOnce();
    EXPECT_EQ(run.SizeSeenByOther(), 1000u);
  }
}

// Commits after the restart have smaller numbers than the one that was lost, and are not durable because of that.
TEST(SimFsyncRestart, NumbersOfLostCommitsSayNothing) {
  for (uint64_t seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    FsyncRestart run(seed);
    run.TruncateAndLose(1000, 200, static_cast<int64_t>(seed) * 200 * kMicrosecond);
    run.cluster().StartMeta();
    run.Begin(run.Fsync());
    run.Await();
    run.Begin(run.Truncate(500));
    run.Await();
    run.Begin(run.Fsync());
    run.Await();
    run.DieAtOnce();
    EXPECT_EQ(run.SizeSeenByOther(), 500u);
  }
}

// What was changed of the file by its name, and its names.
TEST(SimFsync, CoversWhatWasChangedByName) {
  using Change = Task<Result<void>> (FsyncRestart::*)();
  const auto after = [](uint64_t seed, Change change, auto look) {
    FsyncRestart run(seed);
    run.Begin((run.*change)());
    run.Await();
    run.Begin(run.Fsync());
    run.Await();
    run.cluster().CrashClient(1);
    run.DieAtOnce();
    look(run, run.cluster().vfs(1));
  };
  const auto is_there = [](const char* name) {
    return [name](FsyncRestart& run, Vfs& other) {
      EXPECT_TRUE(run.SeenByOther(other.Lookup(kRoot, kRootInode, name)).ok());
    };
  };
  for (uint64_t seed = 1; seed <= kSeeds && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    after(seed, &FsyncRestart::Rename, is_there("g"));
    after(seed, &FsyncRestart::Link, is_there("g"));
    after(seed, &FsyncRestart::SetXattr, [](FsyncRestart& run, Vfs& other) {
      EXPECT_TRUE(run.SeenByOther(other.GetXattr(kRoot, run.ino(), "user.a")).ok());
    });
    after(seed, &FsyncRestart::ChmodAndOpen, [](FsyncRestart& run, Vfs& other) {
      const auto seen = run.SeenByOther(other.Lookup(kRoot, kRootInode, "f"));
      ASSERT_TRUE(seen.ok()) << seen.error();
      EXPECT_EQ(seen->attr.mode & 0777, 0600u);
    });
  }
}

}  // namespace
}  // namespace stria
