// The keys by which data servers judge tokens change every day. Days pass under a small workload, servers restart, and nobody
// notices: what is written, read again, read through a file that has been open since the first day, or deleted is as ever.
#include <gtest/gtest.h>

#include <string>

#include "common/bound_token.h"
#include "test/sim/small_files_testing.h"

namespace stria {
namespace {

constexpr int64_t kHour = 3600 * kSecond;
constexpr int kSteps = 17;  // of six hours
constexpr uint64_t kOldBytes = 36 * kMiB;  // much more than a client caches

std::string TextOf(int i) { return std::string(200 * kKiB, static_cast<char>('a' + i)); }
char ByteAt(uint64_t offset) { return static_cast<char>((offset >> 12) * 7 + offset); }

class Keys : public SmallFiles {
 public:
  Keys() : SmallFiles(Slow()) {}
  // Beats and leases are rare, so that days are soon over.
  static SimClusterOptions Slow() {
    SimClusterOptions o = Options();
    o.meta.cluster.beat_ns = 30 * kSecond;
    o.meta.cluster.suspect_ns = 90 * kSecond;
    o.meta.cluster.down_ns = 300 * kSecond;
    o.meta.cluster.out_ns = 3600 * kSecond;
    o.meta.sessions.lease_ns = 60 * kSecond;
    o.meta.tick_ns = 2 * kSecond;
    return o;
  }
  uint32_t Today() { return KeyGeneration(cluster_.executor().WallNs() / kSecond); }
  void WriteOld(InodeId ino) {
    VfsHandle flags;
    flags.write = true;
    auto opened = Do(vfs(0).Open(Caller(), ino, false, flags));
    ASSERT_TRUE(opened.ok()) << opened.error();
    for (uint64_t at = 0; at < kOldBytes; at += kMiB) {
      std::string bytes(kMiB, '\0');
      for (uint64_t i = 0; i < kMiB; ++i) bytes[i] = ByteAt(at + i);
      EXPECT_TRUE(Do(vfs(0).Write(Caller(), opened->handle, at, Buffer::FromString(std::move(bytes)))).ok());
    }
    EXPECT_TRUE(Do(vfs(0).Fsync(Caller(), opened->handle)).ok());
    EXPECT_TRUE(Do(vfs(0).Release(Caller(), opened->handle)).ok());
  }
  void ReadOld(const VfsHandlePtr& h, uint64_t offset) {
    const auto bytes = Do(vfs(1).Read(Caller(), h, offset, 64 * kKiB));
    ASSERT_TRUE(bytes.ok()) << bytes.error();
    const Buffer flat = bytes->Flatten();
    ASSERT_EQ(flat.size(), 64 * kKiB);
    bool right = true;
    for (uint64_t i = 0; i < flat.size(); ++i) right = right && static_cast<char>(flat.data()[i]) == ByteAt(offset + i);
    EXPECT_TRUE(right) << "at " << offset;
  }
  uint64_t Garbage() { return static_cast<uint64_t>(cluster_.meta_server()->store()->Count(Counter::kGarbageShards)); }
};

TEST_F(Keys, DaysPassAndNothingFails) {
  SimExecutor& ex = cluster_.executor();
  const uint32_t first = Today();
  const InodeId dir = MakeDir(0, "d");
  const InodeId old = Create(0, dir, "old", "");
  ASSERT_TRUE(old);
  WriteOld(old);
  VfsHandle flags;
  flags.read = flags.noatime = true;
  auto opened = Do(vfs(1).Open(Caller(), old, false, flags));
  ASSERT_TRUE(opened.ok()) << opened.error();
  ReadOld(opened->handle, 0);

  InodeId before;
  for (int i = 0; i < kSteps; ++i) {
    ex.RunFor(6 * kHour);
    if (i % 4 == 1) {
      // A data server has its keys in memory only.
      const size_t node = static_cast<size_t>(i) % cluster_.nodes();
      cluster_.CrashNode(node, false);
      ex.RunFor(30 * kSecond);
      cluster_.StartNode(node);
      ex.RunFor(200 * kSecond);
    }
    if (i == 10) {
      cluster_.CrashMeta(false);
      cluster_.StartMeta();
      ex.RunFor(200 * kSecond);
    }
    const std::string name = "f" + std::to_string(i);
    const InodeId ino = Create(0, dir, name, TextOf(i));
    ASSERT_TRUE(ino) << "step " << i;
    EXPECT_EQ(Read(1, ino), TextOf(i)) << "step " << i;
    if (before) EXPECT_EQ(Read(1, before), TextOf(i - 1)) << "step " << i;
    before = ino;
    // Nowhere near what was read before: from the disks, by a mapping that it was given days ago.
    ReadOld(opened->handle, static_cast<uint64_t>(i * 7 % kSteps + 1) * 2 * kMiB);
  }
  EXPECT_TRUE(Do(vfs(1).Release(Caller(), opened->handle)).ok());
  EXPECT_GE(Today(), first + 4) << "all keys of the first day are gone";

  for (int i = 0; i < kSteps; ++i) {
    const auto gone = Unlink(0, dir, "f" + std::to_string(i));
    EXPECT_TRUE(gone.ok()) << gone.error();
  }
  EXPECT_TRUE(ex.RunUntil([&] { return Garbage() > 0; }, ex.NowNs() + 600 * kSecond)) << "nothing was deleted";
  EXPECT_TRUE(ex.RunUntil([&] { return Garbage() == 0; }, ex.NowNs() + 4 * kHour)) << "nodes delete with tokens of their own";
}

}  // namespace
}  // namespace stria
