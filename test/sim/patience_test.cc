// Whether the bound on calls bites, and what it forgives.
#include "test/sim/patience.h"

#include <gtest/gtest.h>

#include <string>

#include "client/vfs/inode.h"

namespace stria {
namespace {

const Caller kRoot;
constexpr int64_t kBoundNs = 5 * kSecond;

class PatienceTest : public testing::Test {
 protected:
  PatienceTest() : cluster_(7, SimClusterOptions{}) { EXPECT_TRUE(cluster_.Boot().ok()); }
  ~PatienceTest() override { scope_.CancelAll(); }

  VfsHandlePtr Create(size_t c, const std::string& name) {
    VfsHandle flags;
    flags.read = flags.write = true;
    auto made = cluster_.Do(cluster_.vfs(c).Create(kRoot, kRootInode, name, 0666, true, false, flags), 60 * kSecond);
    CHECK(made.ok());
    return made->handle;
  }
  void Write(size_t c, VfsHandlePtr h) {
    CHECK(cluster_.Do(cluster_.vfs(c).Write(kRoot, h, 0, Buffer::FromString(std::string(kMiB, 'x'))), 60 * kSecond).ok());
  }
  template <class T>
  void Start(Task<Result<T>> task) {
    scope_.Spawn([](Task<Result<T>> t, bool* done, Error* error) -> Task<void> {
      const auto r = co_await std::move(t);
      if (!r.ok()) *error = r.error();
      *done = true;
    }(std::move(task), &done_, &error_));
  }
  // What is said until the call has ended, or the time is over.
  std::string LookFor(int64_t ns, const Patience::Troubles& troubles) {
    std::string said;
    SimExecutor& ex = cluster_.executor();
    (void)ex.RunUntil([&] { return done_ || !(said = patience_.Look(troubles)).empty(); }, ex.NowNs() + ns);
    return said;
  }
  void HangDisks(bool hung) {
    for (size_t n = 0; n < cluster_.nodes(); ++n) {
      for (size_t d = 0; d < cluster_.options().disks; ++d) cluster_.disks().media(n, d).faults.hung = hung;
    }
  }

  SimCluster cluster_;
  Patience patience_{&cluster_, 1, {.longest_ns = kBoundNs, .message_ns = 100 * kMillisecond}};
  bool done_ = false;
  Error error_;
  TaskScope scope_;
};

TEST_F(PatienceTest, ACallThatNothingExcuses) {
  const VfsHandlePtr h = Create(0, "f");
  Write(0, h);
  HangDisks(true);  // of which it is not told
  const int64_t began_ns = cluster_.executor().NowNs();
  Start(cluster_.vfs(0).Fsync(kRoot, h));
  const std::string said = LookFor(60 * kSecond, {});
  EXPECT_NE(said.find("fsync of inode"), std::string::npos) << said;
  EXPECT_LT(cluster_.executor().NowNs() - began_ns, kBoundNs + kSecond);
}

TEST_F(PatienceTest, MoreNodesInTroubleThanParityMakesUpFor) {
  const VfsHandlePtr h = Create(0, "f");
  Write(0, h);
  HangDisks(true);
  Start(cluster_.vfs(0).Fsync(kRoot, h));
  EXPECT_EQ(LookFor(3 * kBoundNs, {.nodes = {0, 1}}), "");
  EXPECT_FALSE(done_);
  EXPECT_NE(LookFor(3 * kBoundNs, {.nodes = {0}}), "") << "one is no excuse";
}

TEST_F(PatienceTest, WithoutTheMetadataServer) {
  Create(0, "f");
  cluster_.CrashMeta(false);
  Start(cluster_.vfs(0).Lookup(kRoot, kRootInode, "g"));
  EXPECT_EQ(LookFor(4 * kBoundNs, {}), "");
  EXPECT_FALSE(done_);
  cluster_.StartMeta();
  EXPECT_EQ(LookFor(60 * kSecond, {}), "");
  EXPECT_TRUE(done_);
}

TEST_F(PatienceTest, WhatTheDeadHoldForALease) {
  const VfsHandlePtr h = Create(1, "f");
  Write(1, h);
  const InodeId ino = h->inode->ino;
  cluster_.CrashClient(1);
  VfsHandle flags;
  flags.read = true;
  const int64_t began_ns = cluster_.executor().NowNs();
  Start(cluster_.vfs(0).Open(kRoot, ino, false, flags));
  EXPECT_EQ(LookFor(60 * kSecond, {}), "");
  EXPECT_TRUE(done_ && error_.ok()) << error_.ToString();
  EXPECT_GT(cluster_.executor().NowNs() - began_ns, kBoundNs);
}

TEST_F(PatienceTest, AClientThatIsCutOff) {
  Create(0, "f");
  cluster_.network().Block({"meta"}, {ClientHost(0)});
  Start(cluster_.vfs(0).Lookup(kRoot, kRootInode, "g"));
  EXPECT_EQ(LookFor(4 * kBoundNs, {}), "");
  EXPECT_FALSE(done_);
}

TEST_F(PatienceTest, AListingIsUnderWayUntilItsAnswer) {
  cluster_.network().Block({"meta"}, {ClientHost(0)});
  Start(cluster_.vfs(0).ReadDir(kRoot, kRootInode, 0, 100, false));
  EXPECT_EQ(LookFor(kSecond, {}), "");
  ASSERT_FALSE(done_);
  const CallList& calls = cluster_.vfs(0).report().calls();
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_STREQ(calls.oldest()->what(), "listing of directory");
}

}  // namespace
}  // namespace stria
