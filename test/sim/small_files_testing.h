// For tests of work with small files: a cluster with two clients, operations as the kernel makes them, and the calls of the
// metadata server that they cost.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "client/vfs/inode.h"
#include "test/sim/sim_cluster.h"

namespace stria {

class SmallFiles : public testing::Test {
 public:
  explicit SmallFiles(SimClusterOptions options = Options()) : cluster_(7, options) {
    const Result<void> booted = cluster_.Boot();
    EXPECT_TRUE(booted.ok()) << booted.error();
  }
  static SimClusterOptions Options() {
    SimClusterOptions o;
    o.disks = 1;
    o.clients = 2;
    return o;
  }
  template <class T>
  T Do(Task<T> task) {
    return cluster_.Do(std::move(task), 1000 * kSecond);
  }
  // What it took since the last question, by method: "Create 1, Commit 2", without what goes on by itself.
  std::string Calls() {
    std::string out;
    std::map<std::string, uint64_t> now = cluster_.network().stats().calls;
    for (const auto& [method, count] : now) {
      const std::string name = method.substr(method.rfind('/') + 1);
      if (method.find(".Meta/") == method.npos || count == seen_[method]) continue;
      if (name == "Poll" || name == "Renew" || name == "Heartbeat" || name == "GetMap" || name == "ReportWork") continue;
      out += (out.empty() ? "" : ", ") + name + " " + std::to_string(count - seen_[method]);
    }
    seen_ = std::move(now);
    return out;
  }

  Vfs& vfs(size_t c) { return cluster_.vfs(c); }
  InodeId MakeDir(size_t c, const std::string& name) {
    const auto made = Do(vfs(c).MakeNode(Caller(), kRootInode, name, FileType::kDirectory, 0755, 0, ""));
    EXPECT_TRUE(made.ok()) << made.error();
    return made.ok() ? made->attr.ino : InodeId();
  }
  FsError Lookup(size_t c, InodeId dir, const std::string& name) { return Do(vfs(c).Lookup(Caller(), dir, name)).code(); }
  // As open(O_CREAT), write, close.
  InodeId Create(size_t c, InodeId dir, const std::string& name, const std::string& text) {
    (void)Lookup(c, dir, name);
    VfsHandle flags;
    flags.read = flags.write = true;
    auto made = Do(vfs(c).Create(Caller(), dir, name, 0644, true, false, flags));
    EXPECT_TRUE(made.ok()) << made.error();
    if (!made.ok()) return InodeId();
    if (!text.empty()) EXPECT_TRUE(Do(vfs(c).Write(Caller(), made->handle, 0, Buffer::FromString(text))).ok());
    EXPECT_TRUE(Do(vfs(c).Flush(Caller(), made->handle)).ok());
    EXPECT_TRUE(Do(vfs(c).Release(Caller(), made->handle)).ok());
    return made->entry.attr.ino;
  }
  Result<void> Rename(size_t c, InodeId dir, const std::string& from, const std::string& to) {
    (void)Lookup(c, dir, from);
    (void)Lookup(c, dir, to);
    return Do(vfs(c).Rename(Caller(), dir, from, dir, to, false, false));
  }
  Result<void> Unlink(size_t c, InodeId dir, const std::string& name) {
    (void)Lookup(c, dir, name);
    return Do(vfs(c).Unlink(Caller(), dir, name));
  }
  static std::string Text(const Result<BufferChain>& bytes) {
    if (!bytes.ok()) return bytes.error().ToString();
    const Buffer flat = bytes->Flatten();
    return std::string(reinterpret_cast<const char*>(flat.data()), flat.size());
  }
  std::string Read(size_t c, InodeId ino) {
    VfsHandle flags;
    flags.read = flags.noatime = true;
    auto opened = Do(vfs(c).Open(Caller(), ino, false, flags));
    if (!opened.ok()) return opened.error().ToString();
    const std::string text = Text(Do(vfs(c).Read(Caller(), opened->handle, 0, kMiB)));
    EXPECT_TRUE(Do(vfs(c).Release(Caller(), opened->handle)).ok());
    return text;
  }
  void Write(size_t c, InodeId ino, uint64_t offset, const std::string& text) {
    VfsHandle flags;
    flags.write = true;
    auto opened = Do(vfs(c).Open(Caller(), ino, false, flags));
    ASSERT_TRUE(opened.ok()) << opened.error();
    EXPECT_TRUE(Do(vfs(c).Write(Caller(), opened->handle, offset, Buffer::FromString(text))).ok());
    EXPECT_TRUE(Do(vfs(c).Flush(Caller(), opened->handle)).ok());
    EXPECT_TRUE(Do(vfs(c).Release(Caller(), opened->handle)).ok());
  }
  // `limit` names at a time.
  size_t List(size_t c, InodeId dir, uint32_t limit) {
    size_t names = 0;
    for (uint64_t cookie = 0;;) {
      const auto part = Do(vfs(c).ReadDir(Caller(), dir, cookie, limit, false));
      EXPECT_TRUE(part.ok()) << part.error();
      if (!part.ok()) return names;
      names += part->entries.size();
      if (part->end) return names;
      cookie = part->entries.back().cookie;
    }
  }

  SimCluster cluster_;
  std::map<std::string, uint64_t> seen_;
};

}  // namespace stria
