// A client that knows where a file's bytes lay before a node was lost: once they are made again elsewhere it finds them
// there, and does not decode for ever what another disk has.
#include <gtest/gtest.h>

#include <string>

#include "locality/read_tally.h"
#include "test/sim/sim_cluster.h"

namespace stria {
namespace {

constexpr size_t kLost = 2;
constexpr uint64_t kFileBytes = 16 * kMiB;
const Caller kRoot;

class Moved {
 public:
  explicit Moved(uint64_t seed) : cluster_(seed, Options()) {}

  void Run() {
    const Result<void> booted = cluster_.Boot();
    ASSERT_TRUE(booted.ok()) << booted.error();
    ASSERT_TRUE(cluster_.Run(Write(), 100 * kSecond));
    ASSERT_TRUE(cluster_.Run(Open(), 100 * kSecond));
    EXPECT_EQ(Read(0, 4 * kKiB), 0u) << "nothing is lost yet";
    cluster_.CrashNode(kLost, true);
    EXPECT_GT(Read(2 * kMiB, 2 * kMiB), 0u) << "it did not lie there at all";
    ASSERT_TRUE(cluster_.Run(Rebuild(), 1000 * kSecond));
    // What is known for a while may be used once more.
    (void)Read(6 * kMiB, 2 * kMiB);
    EXPECT_EQ(Read(10 * kMiB, 2 * kMiB), 0u) << "bytes that lie on another disk now were decoded";
  }

 private:
  static SimClusterOptions Options() {
    SimClusterOptions o;
    o.nodes = 7;
    o.disks = 1;
    o.clients = 2;
    o.layout = "raid5:4+1,unit=64K,stripe=512K";
    return o;
  }
  static char ByteAt(uint64_t offset) { return static_cast<char>((offset >> 12) * 7 + offset); }

  Task<void> Write() {
    VfsHandle flags;
    flags.write = true;
    Vfs& vfs = cluster_.vfs(0);
    auto made = co_await vfs.Create(kRoot, kRootInode, "f", 0644, true, false, flags);
    EXPECT_TRUE(made.ok()) << made.error();
    if (!made.ok()) co_return;
    file_ = made->entry.attr.ino;
    for (uint64_t at = 0; at < kFileBytes; at += kMiB) {
      std::string bytes(kMiB, '\0');
      for (uint64_t i = 0; i < kMiB; ++i) bytes[i] = ByteAt(at + i);
      const auto done = co_await vfs.Write(kRoot, made->handle, at, Buffer::FromString(std::move(bytes)));
      EXPECT_TRUE(done.ok()) << done.error();
    }
    const auto synced = co_await vfs.Fsync(kRoot, made->handle);
    EXPECT_TRUE(synced.ok()) << synced.error();
    (void)co_await vfs.Release(kRoot, made->handle);
  }
  Task<void> Open() {
    VfsHandle flags;
    flags.read = true;
    auto opened = co_await cluster_.vfs(1).Open(kRoot, file_, false, flags);
    EXPECT_TRUE(opened.ok()) << opened.error();
    if (opened.ok()) handle_ = opened->handle;
  }
  // How many bytes were decoded for it.
  uint64_t Read(uint64_t offset, uint64_t length) {
    uint64_t decoded = UINT64_MAX;
    EXPECT_TRUE(cluster_.Run(ReadOnce(offset, length, &decoded), 300 * kSecond));
    return decoded;
  }
  Task<void> ReadOnce(uint64_t offset, uint64_t length, uint64_t* decoded) {
    const uint64_t before = co_await Decoded();
    const auto bytes = co_await cluster_.vfs(1).Read(kRoot, handle_, offset, length);
    EXPECT_TRUE(bytes.ok()) << bytes.error();
    if (!bytes.ok()) co_return;
    const Buffer flat = bytes->Flatten();
    EXPECT_EQ(flat.size(), length);
    bool right = true;
    for (uint64_t i = 0; i < flat.size(); ++i) right = right && static_cast<char>(flat.data()[i]) == ByteAt(offset + i);
    EXPECT_TRUE(right);
    *decoded = co_await Decoded() - before;
  }
  Task<uint64_t> Decoded() {
    const auto text = co_await cluster_.vfs(1).GetXattr(kRoot, file_, "user.stria.io");
    EXPECT_TRUE(text.ok()) << text.error();
    const auto tally = ParseReadTally(text.ok() ? *text : "");
    EXPECT_TRUE(tally.ok()) << tally.error();
    co_return tally.ok() ? tally->reconstructed_bytes : 0;
  }
  // Given up by an administrator; until nothing needs it.
  Task<void> Rebuild() {
    AdminRequest r;
    InodeRequest ask;
    ask.header = cluster_.AdminHeader();
    auto map = co_await cluster_.admin().GetMap(ask);
    EXPECT_TRUE(map.ok()) << map.error();
    if (!map.ok()) co_return;
    for (const NodeInfo& n : map->nodes) {
      if (n.name == NodeHost(kLost)) r.node = n.id;
    }
    for (const AdminVerb verb : {AdminVerb::kOut, AdminVerb::kRemove}) {
      while (true) {
        r.header = cluster_.AdminHeader();
        r.verb = verb;
        if ((co_await cluster_.admin().Admin(r)).ok()) break;
        co_await Sleep(2 * kSecond);
      }
    }
  }

  SimCluster cluster_;
  InodeId file_;
  VfsHandlePtr handle_;
};

TEST(Moved, IsFoundWhereItLiesNow) {
  for (uint64_t seed = 1; seed <= 3; ++seed) Moved(seed).Run();
}

}  // namespace
}  // namespace stria
