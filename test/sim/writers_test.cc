// Several processes of one mount with one file: writers that wait for a lease together while another mount writes to it
// as well; one that reads what another writes and cuts off.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/vfs/inode.h"
#include "test/sim/sim_cluster.h"

namespace stria {
namespace {

constexpr int64_t kLimitNs = 1000 * kSecond;
constexpr int kWrites = 300;  // of each
const Caller kRoot;

class SharedFile : public testing::Test {
 protected:
  SharedFile() : cluster_(7, Options()) {}
  static SimClusterOptions Options() {
    SimClusterOptions o;
    o.disks = 1;
    o.clients = 3;
    o.shuffle = 1;  // as in real life, first come, first served: what runs in a circle does so for ever
    return o;
  }
  // Opens anew now and then, so that leases come and go.
  Task<void> WriteAll(size_t client, InodeId ino, uint64_t offset, int* left) {
    VfsHandle flags;
    flags.write = true;
    while (*left > 0) {
      auto opened = co_await cluster_.vfs(client).Open(kRoot, ino, false, flags);
      if (!opened.ok()) co_return;
      for (int i = 0; i < 3 && *left > 0; ++i, --*left) {
        auto bytes = Buffer::Copy(std::vector<uint8_t>(100, 7));
        if (!(co_await cluster_.vfs(client).Write(kRoot, opened->handle, offset, std::move(bytes))).ok()) co_return;
        co_await Sleep(kMillisecond / 4);
      }
      (void)co_await cluster_.vfs(client).Release(kRoot, std::move(opened->handle));
    }
  }

  SimCluster cluster_;
};
class Writers : public SharedFile {};
class Readers : public SharedFile {};

TEST_F(Writers, ThatWaitForALeaseTogetherGoOnTogether) {
  const Result<void> booted = cluster_.Boot();
  ASSERT_TRUE(booted.ok()) << booted.error();
  InodeId ino;
  ASSERT_TRUE(cluster_.Run(
      [](SimCluster* c, InodeId* out) -> Task<void> {
        const auto made = co_await c->vfs(0).MakeNode(kRoot, kRootInode, "f", FileType::kFile, 0644, 0, "");
        if (made.ok()) *out = made->attr.ino;
      }(&cluster_, &ino),
      kLimitNs));
  int left[] = {kWrites, kWrites, kWrites, kWrites};
  for (size_t i = 0; i < std::size(left); ++i) {
    cluster_.scope(i / 3).Spawn(WriteAll(i / 3, ino, 1000 * i, &left[i]));  // three on one mount, one on the other
  }
  EXPECT_TRUE(cluster_.executor().RunUntil([&] { return left[0] + left[1] + left[2] + left[3] == 0; },
                                           cluster_.executor().NowNs() + kLimitNs))
      << left[0] << ' ' << left[1] << ' ' << left[2] << ' ' << left[3] << " writes are left";
}

// The answer about an atime that a read moved comes when the file is longer already.
TEST_F(Writers, ThatHaveGrownAFileSeeItsSize) {
  const Result<void> booted = cluster_.Boot();
  ASSERT_TRUE(booted.ok()) << booted.error();
  std::string error;
  const auto all = [](SimCluster* c, std::string* why) -> Task<void> {
    VfsHandle flags;
    flags.read = flags.write = true;
    auto made = co_await c->vfs(0).Create(kRoot, kRootInode, "f", 0644, true, false, flags);
    if (!made.ok()) co_return void(*why = made.error().ToString());
    const InodeId ino = made->handle->inode->ino;
    auto other = co_await c->vfs(1).Open(kRoot, ino, false, flags);
    if (!other.ok()) co_return void(*why = other.error().ToString());
    uint64_t size = 0;
    for (int i = 0; i < 200; ++i) {
      (void)co_await c->vfs(1).Write(kRoot, other->handle, 0, Buffer::FromString("changed"));
      size = std::max<uint64_t>(size, 7);
      co_await Sleep(2 * kSecond);
      (void)co_await c->vfs(0).GetAttr(kRoot, ino);
      (void)co_await c->vfs(0).Read(kRoot, made->handle, 0, 7);
      co_await Sleep(i * 10 * kMicrosecond);
      (void)co_await c->vfs(0).Write(kRoot, made->handle, size, Buffer::FromString("x"));
      ++size;
      co_await Sleep((i % 7) * 100 * kMicrosecond);
      const auto now = co_await c->vfs(0).GetAttr(kRoot, ino);
      if (!now.ok()) co_return void(*why = now.error().ToString());
      if (now->attr.size != size) {
        *why += "round " + std::to_string(i) + ": " + std::to_string(now->attr.size) + " of " + std::to_string(size) + "\n";
      }
    }
  };
  ASSERT_TRUE(cluster_.Run(all(&cluster_, &error), kLimitNs));
  EXPECT_EQ(error, "");
}

TEST_F(Writers, AReaderSeesAFileAsItWasOrCut) {
  const Result<void> booted = cluster_.Boot();
  ASSERT_TRUE(booted.ok()) << booted.error();
  std::vector<std::string> seen;
  std::string error;
  const auto all = [](SimCluster* c, std::vector<std::string>* out, std::string* why) -> Task<void> {
    Vfs& vfs = c->vfs(0);
    VfsHandle flags;
    flags.read = flags.write = true;
    auto made = co_await vfs.Create(kRoot, kRootInode, "f", 0644, true, false, flags);
    if (!made.ok()) co_return void(*why = made.error().ToString());
    const VfsHandlePtr h = made->handle;
    (void)co_await vfs.Write(kRoot, h, 0, Buffer::FromString("old"));
    (void)co_await vfs.Fsync(kRoot, h);
    (void)co_await vfs.Write(kRoot, h, 0, Buffer::FromString("new"));
    bool cut = false;
    TaskScope scope;
    scope.Spawn([](Vfs* v, InodeId ino, VfsHandle f, bool* done) -> Task<void> {
      auto opened = co_await v->Open(kRoot, ino, true, f);
      *done = true;
      if (opened.ok()) (void)co_await v->Release(kRoot, std::move(opened->handle));
    }(&vfs, h->inode->ino, flags, &cut));
    while (!cut) {
      auto bytes = co_await vfs.Read(kRoot, h, 0, 3);
      if (!bytes.ok()) co_return void(*why = bytes.error().ToString());
      const Buffer flat = bytes->Flatten();
      out->emplace_back(reinterpret_cast<const char*>(flat.data()), flat.size());
      co_await Sleep(kMillisecond / 50);
    }
    co_await scope.Join();
  };
  ASSERT_TRUE(cluster_.Run(all(&cluster_, &seen, &error), kLimitNs));
  EXPECT_EQ(error, "");
  EXPECT_GT(seen.size(), 10u);
  for (const std::string& s : seen) EXPECT_TRUE(s == "new" || s.empty()) << s;
}

// Two mounts read through pages what a third cuts off and lets grow again. Each kernel can forget pages only when they are
// read; if what they are read with waited until the other has forgotten his, nobody would ever go on.
TEST_F(Readers, OfPagesDoNotWaitForEachOther) {
  const Result<void> booted = cluster_.Boot();
  ASSERT_TRUE(booted.ok()) << booted.error();
  InodeId ino;
  VfsHandle flags;
  flags.read = true;
  std::string error;
  bool done = false;
  const auto make = [](SimCluster* c, InodeId* out, std::string* why) -> Task<void> {
    VfsHandle write;
    write.read = write.write = true;
    auto made = co_await c->vfs(2).Create(kRoot, kRootInode, "f", 0644, true, false, write);
    if (!made.ok()) co_return void(*why = made.error().ToString());
    *out = made->handle->inode->ino;
    (void)co_await c->vfs(2).Write(kRoot, made->handle, 0, Buffer::FromString(std::string(300'000, 'x')));
    (void)co_await c->vfs(2).Fsync(kRoot, made->handle);
    (void)co_await c->vfs(2).Release(kRoot, std::move(made->handle));
  };
  ASSERT_TRUE(cluster_.Run(make(&cluster_, &ino, &error), kLimitNs));
  ASSERT_EQ(error, "");
  int64_t longest_ns = 0;
  uint64_t paged = 0;
  const auto read = [](SimCluster* c, size_t client, InodeId of, VfsHandle f, bool* stop, uint64_t* pages, int64_t* longest,
                       std::string* why) -> Task<void> {
    Random rng(client);
    while (!*stop) {
      auto opened = co_await c->vfs(client).Open(kRoot, of, false, f);
      if (!opened.ok()) co_return void(*why = opened.error().ToString());
      *pages += opened->handle->page_cache;
      for (int i = 0; i < 20 && !*stop; ++i) {
        const int64_t began = Executor::Current().NowNs();
        const auto bytes = co_await c->Read(client, opened->handle, rng.Below(200'000), 100'000);
        if (!bytes.ok()) *why = bytes.error().ToString();
        *longest = std::max(*longest, Executor::Current().NowNs() - began);
        co_await Sleep(static_cast<int64_t>(rng.Below(300 * kMicrosecond)));
      }
      (void)co_await c->vfs(client).Release(kRoot, std::move(opened->handle));
    }
  };
  const auto change = [](SimCluster* c, InodeId of, bool* stop, int64_t* longest, std::string* why) -> Task<void> {
    Random rng(3);
    for (int i = 0; i < 600; ++i) {
      SetAttrIn set;
      if (i % 3 != 0) set.size = rng.Below(300'000);
      else set.mode = 0600 + static_cast<uint32_t>(rng.Below(0100));
      const int64_t began = Executor::Current().NowNs();
      const auto changed = co_await c->vfs(2).SetAttr(kRoot, of, set);
      if (!changed.ok()) *why = changed.error().ToString();
      *longest = std::max(*longest, Executor::Current().NowNs() - began);
      co_await Sleep(static_cast<int64_t>(rng.Below(2 * kMillisecond)));
    }
    *stop = true;
  };
  for (size_t client = 0; client < 2; ++client) {
    for (int i = 0; i < 2; ++i) {
      cluster_.scope(client).Spawn(read(&cluster_, client, ino, flags, &done, &paged, &longest_ns, &error));
    }
  }
  ASSERT_TRUE(cluster_.Run(change(&cluster_, ino, &done, &longest_ns, &error), kLimitNs));
  EXPECT_EQ(error, "");
  EXPECT_GT(paged, 10u);
  EXPECT_LT(longest_ns, 2 * kSecond);  // of virtual time
}

}  // namespace
}  // namespace stria
