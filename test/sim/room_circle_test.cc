// Pages of mappings, which the kernel writes back before it forgets them, while there is no room for their bytes: room is made
// by commits, which wait until another mount's kernel has forgotten its pages, which it writes back before, where there is no
// room. ARCHITECTURE.md, "The order of waits", says why such pages wait for no room; if they do, it is seen as a circle.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "client/vfs/inode.h"
#include "common/sabotage_testing.h"
#include "test/sim/progress.h"
#include "test/sim/sim_cluster.h"

namespace stria {
namespace {

const Caller kRoot;
constexpr uint64_t kBytes = 64 * kKiB;
constexpr int64_t kLimitNs = 100 * kSecond;
constexpr int64_t kLongestNs = 3 * kSecond;

class RoomCircle : public testing::Test {
 protected:
  RoomCircle() : cluster_(3, Options()), progress_(&cluster_, kLongestNs) {}
  static SimClusterOptions Options() {
    SimClusterOptions o;
    o.disks = 1;
    o.dirty_limit_bytes = kBytes;
    return o;
  }
  void SetUp() override {
    const Result<void> booted = cluster_.Boot();
    ASSERT_TRUE(booted.ok()) << booted.error();
    ASSERT_TRUE(cluster_.Run(Open(), kLimitNs));
    for (const auto& of : handles_) {
      for (const VfsHandlePtr& h : of) ASSERT_TRUE(h);
    }
  }
  // Both files by both clients, which share them.
  Task<void> Open() {
    for (size_t f = 0; f < 2; ++f) {
      const auto made =
          co_await cluster_.vfs(0).MakeNode(kRoot, kRootInode, "f" + std::to_string(f), FileType::kFile, 0644, 0, "");
      if (!made.ok()) co_return;
      VfsHandle flags;
      flags.write = true;
      for (size_t c = 0; c < 2; ++c) {
        auto opened = co_await cluster_.vfs(c).Open(kRoot, made->attr.ino, false, flags);
        if (!opened.ok()) co_return;
        handles_[c][f] = opened->handle;
      }
      (void)co_await cluster_.vfs(1).Write(kRoot, handles_[1][f], 0, Buffer::FromString(std::string(kBytes, 'a')));
    }
  }
  // As the kernel does it: the pages are locked until that is answered.
  Task<void> WritePages(size_t c, size_t f) {
    const SimPages::Locked locked(&cluster_.kernel(c).pages(), handles_[c][f]->inode->ino, 0, kBytes / SimPages::kPageBytes - 1);
    const auto wrote =
        co_await cluster_.vfs(c).WritePages(handles_[c][f], 0, Buffer::FromString(std::string(kBytes, static_cast<char>('b' + c))));
    EXPECT_TRUE(wrote.ok()) << wrote.error();
    ++written_;
  }
  // "", or what does not go on.
  std::string Run() {
    for (size_t c = 0; c < 2; ++c) cluster_.scope(c).Spawn(WritePages(c, c));      // which fills its room
    for (size_t c = 0; c < 2; ++c) cluster_.scope(c).Spawn(WritePages(c, 1 - c));  // which waits for room
    std::string wrong;
    (void)cluster_.executor().RunUntil(
        [&] {
          wrong = progress_.Stalled();
          return !wrong.empty() || written_ == 4;
        },
        cluster_.executor().NowNs() + kLimitNs);
    return wrong;
  }

  SimCluster cluster_;
  Progress progress_;
  VfsHandlePtr handles_[2][2];
  int written_ = 0;
};

TEST_F(RoomCircle, ThereIsNone) {
  EXPECT_EQ(Run(), "");
  EXPECT_EQ(written_, 4);
}

TEST_F(RoomCircle, IsSeen) {
  const ScopedSabotage on(Sabotage::kPagesWaitForRoom);
  const std::string wrong = Run();
  std::printf("%s\n", wrong.c_str());
  EXPECT_EQ(wrong.rfind("calls wait in a circle", 0), 0u) << wrong;
  EXPECT_NE(wrong.find("room for bytes to be written"), std::string::npos);
  cluster_.CrashClient(0);  // nobody waits for it any more
}

}  // namespace
}  // namespace stria
