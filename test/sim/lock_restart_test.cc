// A change of a lock is under way while the metadata server restarts: what it would have given up is still there when
// it is refused. Or while its client is cut off, and loses what it had: it leaves nothing behind.
#include <gtest/gtest.h>

#include <string>

#include "test/sim/sim_cluster.h"

namespace stria {
namespace {

using enum LockType;
constexpr int64_t kLimitNs = 100 * kSecond;
const Caller kRoot;

// Owners 1 and 2 are on one client, 3 and 4 are on another.
class LockRestart : public testing::Test {
 protected:
  LockRestart() : cluster_(7, Options()) {}
  static SimClusterOptions Options() {
    SimClusterOptions o;
    o.disks = 1;
    return o;
  }
  void SetUp() override {
    const Result<void> booted = cluster_.Boot();
    ASSERT_TRUE(booted.ok()) << booted.error();
    ASSERT_TRUE(cluster_.Run(Open(), kLimitNs));
    ASSERT_TRUE(handles_[0] && handles_[1]);
  }
  Task<void> Open() {
    const auto made = co_await cluster_.vfs(0).MakeNode(kRoot, kRootInode, "f", FileType::kFile, 0644, 0, "");
    if (!made.ok()) co_return;
    VfsHandle flags;
    flags.read = flags.write = true;
    for (size_t c = 0; c < 2; ++c) {
      const auto opened = co_await cluster_.vfs(c).Open(kRoot, made->attr.ino, false, flags);
      if (opened.ok()) handles_[c] = opened->handle;
    }
  }
  // kOk, or why not.
  Task<void> Set(uint64_t owner, LockRange range, FsError* out, std::shared_ptr<LockWait> wait = nullptr) {
    const size_t c = owner >= 3 ? 1 : 0;
    *out = (co_await cluster_.vfs(c).SetLock(handles_[c], {LockKind::kPosix, owner, range}, wait)).code();
  }
  FsError Now(uint64_t owner, LockRange range) {
    FsError out = FsError::kIo;
    EXPECT_TRUE(cluster_.Run(Set(owner, range, &out), kLimitNs));
    return out;
  }

  SimCluster cluster_;
  VfsHandlePtr handles_[2];
};

TEST_F(LockRestart, ARefusedChangeKeepsWhatItWouldHaveGivenUp) {
  ASSERT_EQ(Now(1, {5, 9, kWrite, 0}), FsError::kOk);
  ASSERT_EQ(Now(2, {2, 3, kWrite, 0}), FsError::kOk);
  cluster_.CrashMeta(true);
  FsError changed = FsError::kIo, other = FsError::kIo;
  cluster_.scope(0).Spawn(Set(1, {0, 11, kRead, 0}, &changed));
  cluster_.scope(1).Spawn(Set(3, {5, kLockToEnd, kRead, 0}, &other));
  cluster_.executor().RunUntil([] { return false; }, cluster_.executor().NowNs() + kSecond);
  cluster_.StartMeta();
  ASSERT_TRUE(cluster_.executor().RunUntil([&] { return changed != FsError::kIo && other != FsError::kIo; },
                                           cluster_.executor().NowNs() + kLimitNs));
  EXPECT_EQ(changed, FsError::kAgain) << "owner 2 has some of it";
  EXPECT_EQ(other, FsError::kAgain) << "owner 1 still has its lock";
  EXPECT_EQ(Now(2, {5, 5, kRead, 0}), FsError::kAgain);
}

TEST_F(LockRestart, AChangeThatIsWaitedForGivesUpWhatItReplaces) {
  ASSERT_EQ(Now(1, {5, 9, kWrite, 0}), FsError::kOk);
  ASSERT_EQ(Now(2, {2, 3, kWrite, 0}), FsError::kOk);
  FsError changed = FsError::kIo;
  cluster_.scope(0).Spawn(Set(1, {0, 11, kRead, 0}, &changed, std::make_shared<LockWait>()));
  cluster_.executor().RunUntil([] { return false; }, cluster_.executor().NowNs() + kSecond);
  EXPECT_EQ(changed, FsError::kIo) << "it waits";
  EXPECT_EQ(Now(3, {5, 5, kRead, 0}), FsError::kAgain) << "and still has its old lock";
  cluster_.CrashMeta(true);
  cluster_.StartMeta();
  ASSERT_EQ(Now(2, {2, 3, kNone, 0}), FsError::kOk);
  ASSERT_TRUE(cluster_.executor().RunUntil([&] { return changed != FsError::kIo; },
                                           cluster_.executor().NowNs() + kLimitNs));
  EXPECT_EQ(changed, FsError::kOk);
  EXPECT_EQ(Now(3, {0, kLockToEnd, kRead, 0}), FsError::kOk);
  EXPECT_EQ(Now(3, {5, 5, kWrite, 0}), FsError::kAgain);
}

// Asked for when the session is back, and answered to a handle that is lost: others do not wait behind it.
TEST_F(LockRestart, APlaceInLineGoesWithTheHandleThatIsLost) {
  ASSERT_EQ(Now(1, {0, 4, kWrite, 0}), FsError::kOk);
  cluster_.network().Partition({ClientHost(0)}, {"meta"});
  FsError lost = FsError::kAgain, other = FsError::kAgain, next = FsError::kAgain;
  const auto until = [&](const FsError& e) {
    return cluster_.executor().RunUntil([&] { return e != FsError::kAgain; }, cluster_.executor().NowNs() + kLimitNs);
  };
  cluster_.scope(0).Spawn(Set(2, {0, 4, kWrite, 0}, &lost, std::make_shared<LockWait>()));
  cluster_.scope(1).Spawn(Set(3, {0, 4, kWrite, 0}, &other, std::make_shared<LockWait>()));
  ASSERT_TRUE(until(other));
  ASSERT_EQ(other, FsError::kOk) << "owner 1's lease has run out";
  cluster_.network().Heal();
  ASSERT_TRUE(until(lost));
  EXPECT_EQ(lost, FsError::kIo);
  ASSERT_EQ(Now(3, {0, 4, kNone, 0}), FsError::kOk);
  cluster_.scope(1).Spawn(Set(4, {0, 4, kWrite, 0}, &next, std::make_shared<LockWait>()));
  ASSERT_TRUE(until(next)) << "it waits behind nobody";
  EXPECT_EQ(next, FsError::kOk);
}

// The file is lost while a request for one of its locks is under way, which is refused then: what its owner had before has not
// come back with that. It claims nothing when the server restarts, and so whoever has it now keeps it, and its session.
TEST_F(LockRestart, ALockOfALostFileIsNotClaimed) {
  ASSERT_EQ(Now(1, {0, 4, kWrite, 0}), FsError::kOk);
  cluster_.network().Partition({ClientHost(0)}, {"meta"});
  FsError lost = FsError::kIntr;
  cluster_.scope(0).Spawn(Set(1, {10, 14, kWrite, 0}, &lost));
  FsError theirs = FsError::kAgain;
  cluster_.scope(1).Spawn(Set(3, {0, 20, kWrite, 0}, &theirs, std::make_shared<LockWait>()));
  const auto until = [&](const FsError& e, FsError not_yet) {
    return cluster_.executor().RunUntil([&, not_yet] { return e != not_yet; }, cluster_.executor().NowNs() + kLimitNs);
  };
  ASSERT_TRUE(until(theirs, FsError::kAgain));
  ASSERT_EQ(theirs, FsError::kOk);
  const uint64_t sessions[2] = {cluster_.client(0).session().generation(), cluster_.client(1).session().generation()};
  cluster_.network().Heal();
  ASSERT_TRUE(until(lost, FsError::kIntr));
  EXPECT_EQ(lost, FsError::kIo);
  EXPECT_TRUE(cluster_.vfs(0).session_side().HeldLocks().empty());
  cluster_.CrashMeta(true);
  cluster_.StartMeta();
  EXPECT_EQ(Now(4, {0, 4, kWrite, 0}), FsError::kAgain) << "owner 3 has it";
  for (size_t c = 0; c < 2; ++c) EXPECT_EQ(cluster_.client(c).session().generation(), sessions[c]) << c;
}

// The same, but it is granted: it is given back, and others have it.
TEST_F(LockRestart, ALockThatIsGrantedToALostFileIsGivenBack) {
  ASSERT_EQ(Now(1, {0, 4, kWrite, 0}), FsError::kOk);
  cluster_.network().Partition({ClientHost(0)}, {"meta"});
  FsError lost = FsError::kIntr, queued = FsError::kIntr, theirs = FsError::kAgain;
  cluster_.scope(0).Spawn(Set(1, {10, 14, kWrite, 0}, &lost));
  cluster_.scope(0).Spawn(Set(2, {30, 34, kWrite, 0}, &queued));  // stands behind it
  cluster_.scope(1).Spawn(Set(3, {0, 4, kWrite, 0}, &theirs, std::make_shared<LockWait>()));
  ASSERT_TRUE(cluster_.executor().RunUntil([&] { return theirs == FsError::kOk; }, cluster_.executor().NowNs() + kLimitNs));
  cluster_.network().Heal();
  ASSERT_TRUE(cluster_.executor().RunUntil([&] { return lost != FsError::kIntr && queued != FsError::kIntr; },
                                           cluster_.executor().NowNs() + kLimitNs));
  EXPECT_EQ(lost, FsError::kIo);
  EXPECT_EQ(queued, FsError::kIo);
  EXPECT_TRUE(cluster_.vfs(0).session_side().HeldLocks().empty());
  cluster_.executor().RunFor(5 * kSecond);
  EXPECT_EQ(Now(4, {10, 34, kWrite, 0}), FsError::kOk);
}

// What the server owes an answer to is under way, and is told of when that takes long; what another owner has is waited for.
TEST_F(LockRestart, ARequestIsUnderWayAndAPlaceInLineIsNot) {
  ASSERT_EQ(Now(1, {0, 4, kWrite, 0}), FsError::kOk);
  FsError waited = FsError::kAgain, asked = FsError::kAgain;
  cluster_.scope(1).Spawn(Set(3, {0, 4, kWrite, 0}, &waited, std::make_shared<LockWait>()));
  cluster_.executor().RunFor(30 * kSecond);
  EXPECT_EQ(waited, FsError::kAgain);
  EXPECT_EQ(cluster_.vfs(1).report().calls().size(), 0u);
  cluster_.network().Partition({ClientHost(0)}, {"meta"});
  const int64_t since_ns = cluster_.executor().NowNs();
  cluster_.scope(0).Spawn(Set(2, {5, 9, kWrite, 0}, &asked));
  cluster_.executor().RunFor(5 * kSecond);
  ASSERT_EQ(cluster_.vfs(0).report().calls().size(), 1u);
  EXPECT_STREQ(cluster_.vfs(0).report().calls().oldest()->what(), "lock of");
  EXPECT_EQ(cluster_.vfs(0).report().calls().oldest()->since_ns(), since_ns);
  cluster_.network().Heal();
  ASSERT_TRUE(cluster_.executor().RunUntil([&] { return asked != FsError::kAgain; }, cluster_.executor().NowNs() + kLimitNs));
  EXPECT_EQ(asked, FsError::kOk);
  EXPECT_EQ(cluster_.vfs(0).report().calls().size(), 0u);
}

}  // namespace
}  // namespace stria
