#include "client/fuse/kernel_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "client/fuse/executor_thread.h"

namespace stria {
namespace {

// A kernel to which inodes become known late.
std::atomic<int> asked;
std::atomic<int> unknown_for;  // so many notifications

std::atomic<bool> pages_are_held;
int Notify(fuse_session*, uint64_t, off_t offset, off_t) {
  if (offset >= 0) pages_are_held.wait(true);
  return ++asked <= unknown_for ? -ENOENT : 0;
}

class KernelCacheTest : public testing::Test {
 protected:
  KernelCacheTest() : cache_(RootMap(), &Notify) {
    asked = 0;
    cache_.Attach(reinterpret_cast<fuse_session*>(this));  // Notify does not look at it
  }
  void Invalidate(InodeId ino) {
    loop_.Run([&] { return cache_.InvalidateInode(ino, false, 0, 0); });
  }

  ExecutorThread loop_;
  FuseKernelCache cache_;
};

TEST_F(KernelCacheTest, WhatTheKernelNeverHeardOfIsNotWaitedFor) {
  unknown_for = 100;
  Invalidate(InodeId(7));
  EXPECT_EQ(asked, 1);
}

TEST_F(KernelCacheTest, AnAnswerOnItsWayIsRevokedWhenItHasArrived) {
  unknown_for = 3;
  loop_.Do([&] {
    cache_.Told(InodeId(7));
    cache_.Given(InodeId(7));
  });
  Invalidate(InodeId(7));
  EXPECT_EQ(asked, 4);
}

TEST_F(KernelCacheTest, AnInodeThatTheKernelDroppedIsWaitedForABoundedTime) {
  unknown_for = 1'000'000;
  loop_.Do([&] {
    cache_.Told(InodeId(7));
    cache_.Given(InodeId(7));
  });
  Invalidate(InodeId(7));
  EXPECT_GT(asked, 2);
  EXPECT_LT(asked, 1000);
}

TEST_F(KernelCacheTest, AnInodeThatTheKernelHasGivenBackIsNotWaitedFor) {
  unknown_for = 1'000'000;
  loop_.Do([&] {
    for (int i = 0; i < 2; ++i) {
      cache_.Told(InodeId(7));
      cache_.Given(InodeId(7));
    }
    cache_.Forgotten(7, 2);
  });
  Invalidate(InodeId(7));
  EXPECT_EQ(asked, 1);
  // One answer is still on its way.
  asked = 0;
  unknown_for = 3;
  loop_.Do([&] {
    for (int i = 0; i < 2; ++i) cache_.Given(InodeId(7));
    cache_.Forgotten(7, 1);
  });
  Invalidate(InodeId(7));
  EXPECT_EQ(asked, 4);
}

TEST_F(KernelCacheTest, KnowsWhatTheKernelMayHave) {
  loop_.Do([&] {
    EXPECT_FALSE(cache_.MayKnow(InodeId(7)));
    for (int i = 0; i < 2; ++i) cache_.Given(InodeId(7));
    cache_.Forgotten(7, 1);
    EXPECT_TRUE(cache_.MayKnow(InodeId(7)));
    cache_.Forgotten(7, 1);
    EXPECT_FALSE(cache_.MayKnow(InodeId(7)));
  });
}

TEST_F(KernelCacheTest, ChangedNamesOfDirectoriesThatTheKernelMayHaveAreToldOf) {
  std::vector<uint64_t> changed;
  const auto change = [&](uint64_t dir, const std::string& name) {
    changed.clear();
    loop_.Run([&] { return cache_.NameChanged(InodeId(dir), name); });
    return changed;
  };
  loop_.Do([&] {
    cache_.WatchDirs([&](InodeId ino, InodeId, const std::string&) { changed.push_back(ino.v); });
    for (const uint64_t ino : {7, 8, 9}) {
      cache_.Given(InodeId(ino));
      cache_.Named(InodeId(5), std::to_string(ino), InodeId(ino), /*is_dir=*/ino != 9);
    }
    cache_.Forgotten(8, 1);
  });
  EXPECT_EQ(change(5, "7"), std::vector<uint64_t>{7});
  EXPECT_EQ(change(5, "8"), std::vector<uint64_t>()) << "the kernel has it no more";
  EXPECT_EQ(change(5, "9"), std::vector<uint64_t>()) << "a file";
  EXPECT_EQ(change(5, "none"), std::vector<uint64_t>());
  EXPECT_EQ(change(6, "7"), std::vector<uint64_t>());
  EXPECT_EQ(change(5, ""), std::vector<uint64_t>());
  EXPECT_EQ(change(0, ""), std::vector<uint64_t>{0}) << "any";
  loop_.Do([&] { cache_.WatchDirs(nullptr); });
  EXPECT_EQ(change(5, "7"), std::vector<uint64_t>());
}

TEST(KernelInodes, AgreeWithCountsOfEach) {
  std::mt19937_64 rng(5);
  KernelInodes inodes;
  std::map<uint64_t, uint64_t> model;
  const auto check = [&](uint64_t node) { ASSERT_EQ(inodes.SurelyUnknown(node), !model.contains(node)) << node; };
  const auto forget = [&](uint64_t node, uint64_t times) {
    inodes.Forgotten(node, times);
    if ((model[node] -= times) == 0) model.erase(node);
  };
  for (int i = 0; i < 50'000; ++i) {
    const uint64_t node = rng() % 50 + 1;
    if (rng() % 3 != 0) {
      inodes.Given(node);
      ++model[node];
    } else if (auto it = model.find(node); it != model.end()) {
      forget(node, rng() % it->second + 1);
    }
    check(rng() % 60 + 1);
  }
  // More than are counted one by one: nothing is sure until those are gone.
  for (uint64_t node = 1; node <= KernelInodes::kMaxCounted + 100; ++node) {
    inodes.Given(node);
    ++model[node];
  }
  EXPECT_EQ(inodes.counted(), KernelInodes::kMaxCounted);
  EXPECT_FALSE(inodes.SurelyUnknown(UINT64_MAX));
  forget(1, model[1]);
  inodes.Given(KernelInodes::kMaxCounted + 100);  // is counted now, and was not
  ++model[KernelInodes::kMaxCounted + 100];
  EXPECT_FALSE(inodes.SurelyUnknown(1));
  for (uint64_t node = KernelInodes::kMaxCounted + 100; node > KernelInodes::kMaxCounted - 10; --node) {
    if (model.contains(node)) forget(node, model[node]);
  }
  for (uint64_t node = 1; node <= KernelInodes::kMaxCounted + 100; ++node) check(node);
}

TEST_F(KernelCacheTest, ASizeIsToldWithTheLastByte) {
  static std::atomic<uint64_t> told_node, told_last;
  static std::atomic<char> told_byte;
  FuseKernelCache cache(RootMap{InodeId(50)}, &Notify, [](fuse_session*, uint64_t node, off_t last, char byte) {
    told_node = node;
    told_last = static_cast<uint64_t>(last);
    told_byte = byte;
    return -ENOENT;  // not asked again: a kernel that does not know the inode is told its size with it
  });
  loop_.Run([&] { return cache.SizeGrew(InodeId(7), 99, 'x'); });  // nothing is mounted
  EXPECT_EQ(told_node, 0u);
  cache.Attach(reinterpret_cast<fuse_session*>(this));
  loop_.Run([&] { return cache.SizeGrew(InodeId(7), 99, 'x'); });
  EXPECT_EQ(told_node, 7u);
  EXPECT_EQ(told_last, 99u);
  EXPECT_EQ(told_byte, 'x');
}

TEST_F(KernelCacheTest, AttributesDoNotWaitForPages) {
  unknown_for = 0;
  pages_are_held = true;
  std::atomic<int> forgotten = 0;
  auto scope = std::make_unique<TaskScope>();
  loop_.Do([&] {
    for (uint64_t i = 1; i <= 5; ++i) {
      scope->Spawn([](FuseKernelCache* cache, uint64_t ino, std::atomic<int>* n) -> Task<void> {
        co_await cache->InvalidateInode(InodeId(ino), true, 0, 0);
        ++*n;
        n->notify_all();
      }(&cache_, i, &forgotten));
    }
  });
  Invalidate(InodeId(7));
  EXPECT_EQ(forgotten, 0);
  pages_are_held = false;
  pages_are_held.notify_all();
  for (int n = forgotten; n < 5; n = forgotten) forgotten.wait(n);
  loop_.Do([&] { scope.reset(); });
}

TEST(ToldInodes, AreKnownForAWhile) {
  ToldInodes told;
  told.Add(1, 0);
  told.Add(2, ToldInodes::kToldNs);
  EXPECT_TRUE(told.Has(1, ToldInodes::kToldNs));
  EXPECT_FALSE(told.Has(1, ToldInodes::kToldNs + 1));
  EXPECT_TRUE(told.Has(2, ToldInodes::kToldNs + 1));
  EXPECT_FALSE(told.Has(3, 0));
  told.Add(2, 2 * ToldInodes::kToldNs);  // again: as of now
  told.Add(4, 2 * ToldInodes::kToldNs + 1);
  EXPECT_TRUE(told.Has(2, 3 * ToldInodes::kToldNs));
  EXPECT_EQ(told.size(), 2u);
}

TEST(ToldInodes, AreBounded) {
  ToldInodes told;
  for (uint64_t node = 1; node <= 3 * ToldInodes::kMaxTold; ++node) {
    told.Add(node, 0);
    told.Add(1, 0);  // again and again
  }
  EXPECT_LE(told.size(), ToldInodes::kMaxTold);
  EXPECT_TRUE(told.Has(3 * ToldInodes::kMaxTold, 0));
  EXPECT_TRUE(told.Has(1, 0));
}

}  // namespace
}  // namespace stria
