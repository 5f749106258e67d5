// For tests in which the network between clients and the metadata server is away for a while.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "test/sim/small_files_testing.h"

namespace stria {

inline const Caller kRoot;
constexpr uint64_t kBlockBytes = 8 * kKiB;

inline std::string Block(char c) { return std::string(kBlockBytes, c); }

class Gaps : public SmallFiles {
 public:
  explicit Gaps(SimClusterOptions options = WithTimeout(60 * kSecond)) : SmallFiles(options) {}
  static SimClusterOptions WithTimeout(int64_t ns) {
    SimClusterOptions o = Options();
    o.client_timeout_ns = ns;
    return o;
  }
  void Cut(size_t c) { cluster_.network().Partition({"meta"}, {ClientHost(c)}); }
  void Heal() { cluster_.network().Heal(); }
  void RunFor(int64_t ns) {
    const int64_t until_ns = cluster_.executor().NowNs() + ns;
    while (cluster_.executor().NowNs() < until_ns) {
      cluster_.executor().RunFor(std::min<int64_t>(kMillisecond * 50, until_ns - cluster_.executor().NowNs()));
      const std::string unknown = cluster_.UnknownLease();
      ASSERT_EQ(unknown, "");
    }
  }
  void GapOf(size_t c, int64_t ns) {
    Cut(c);
    RunFor(ns);
    Heal();
  }
  VfsHandlePtr Open(size_t c, InodeId ino, bool write = true, bool truncate = false) {
    VfsHandle flags;
    flags.read = true;
    flags.write = write;
    auto opened = Do(vfs(c).Open(kRoot, ino, truncate, flags));
    EXPECT_TRUE(opened.ok()) << opened.error();
    return opened.ok() ? opened->handle : nullptr;
  }
  FsError Put(size_t c, const VfsHandlePtr& h, uint64_t offset, const std::string& text) {
    return Do(vfs(c).Write(kRoot, h, offset, Buffer::FromString(text))).code();
  }
  FsError Sync(size_t c, const VfsHandlePtr& h) { return Do(vfs(c).Fsync(kRoot, h)).code(); }
  std::string Get(size_t c, const VfsHandlePtr& h, uint64_t offset, uint64_t length) {
    return Text(Do(vfs(c).Read(kRoot, h, offset, length)));
  }
  void Close(size_t c, VfsHandlePtr h) { (void)Do(vfs(c).Release(kRoot, std::move(h))); }
  static LockIn WriteLock(uint64_t owner) {
    LockIn in;
    in.owner = owner;
    in.range = {0, 10, LockType::kWrite, 1};
    return in;
  }
  FsError Lock(size_t c, const VfsHandlePtr& h, uint64_t owner) {
    return Do(vfs(c).SetLock(h, WriteLock(owner), nullptr)).code();
  }
  FsError Unlock(size_t c, const VfsHandlePtr& h, uint64_t owner) {
    LockIn in = WriteLock(owner);
    in.range.type = LockType::kNone;
    return Do(vfs(c).SetLock(h, in, nullptr)).code();
  }
  uint64_t Session(size_t c) { return cluster_.client(c).session().generation(); }
};

}  // namespace stria
