// A client that is confined to a directory: it works there as any does, over restarts, cuts and its own death; and whatever number of an
// inode it makes up, it is given nothing of what lies outside.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "client/vfs/vfs.h"
#include "common/units.h"
#include "locality/told.h"
#include "test/sim/sim_cluster.h"

namespace stria {
namespace {

const Caller kRoot;
constexpr size_t kFree = 0;
constexpr size_t kConfined = 1;
constexpr int kFiles = 24;

class ConfinedTest : public testing::Test {
 protected:
  static SimClusterOptions Options() {
    SimClusterOptions o;
    o.clients = 2;
    o.confined = {kConfined};
    return o;
  }
  void SetUp() override {
    const Result<void> booted = cluster_.Boot();
    ASSERT_TRUE(booted.ok()) << booted.error();
    ASSERT_TRUE(Do(cluster_.client(kConfined).WaitReady()).ok());
    root_ = cluster_.client(kConfined).session().root();
    ASSERT_NE(root_, kRootInode);
  }
  template <class T>
  T Do(Task<T> task) {
    return cluster_.Do(std::move(task), 500 * kSecond);
  }
  Vfs& all() { return cluster_.vfs(kFree); }
  Vfs& part() { return cluster_.vfs(kConfined); }

  InodeId MakeDir(Vfs& vfs, InodeId parent, const std::string& name) {
    const auto made = Do(vfs.MakeNode(kRoot, parent, name, FileType::kDirectory, 0777, 0, ""));
    EXPECT_TRUE(made.ok()) << name << ": " << made.error();
    return made.ok() ? made->attr.ino : InodeId();
  }
  FsError Look(Vfs& vfs, InodeId parent, const std::string& name) { return Do(vfs.Lookup(kRoot, parent, name)).code(); }
  // Closed, and synced if asked.
  InodeId WriteFile(Vfs& vfs, InodeId parent, const std::string& name, const std::string& bytes, bool sync) {
    VfsHandle flags;
    flags.write = true;
    const auto made = Do(vfs.Create(kRoot, parent, name, 0644, true, false, flags));
    EXPECT_TRUE(made.ok()) << name << ": " << made.error();
    if (!made.ok()) return InodeId();
    const auto written = Do(vfs.Write(kRoot, made->handle, 0, Buffer::FromString(bytes)));
    EXPECT_TRUE(written.ok()) << name << ": " << written.error();
    const auto flushed = sync ? Do(vfs.Fsync(kRoot, made->handle)) : Do(vfs.Flush(kRoot, made->handle));
    EXPECT_TRUE(flushed.ok()) << name << ": " << flushed.error();
    EXPECT_TRUE(Do(vfs.Release(kRoot, made->handle)).ok());
    return made->entry.attr.ino;
  }
  std::string ReadFile(Vfs& vfs, InodeId ino, uint64_t length) {
    VfsHandle flags;
    flags.read = true;
    const auto opened = Do(vfs.Open(kRoot, ino, false, flags));
    EXPECT_TRUE(opened.ok()) << opened.error();
    if (!opened.ok()) return "";
    const auto bytes = Do(vfs.Read(kRoot, opened->handle, 0, length));
    EXPECT_TRUE(bytes.ok()) << bytes.error();
    EXPECT_TRUE(Do(vfs.Release(kRoot, opened->handle)).ok());
    return bytes.ok() ? std::string(bytes->Flatten().view()) : "";
  }
  static std::string BytesOf(int i) { return std::string(100 + static_cast<size_t>(i) * 5000, static_cast<char>('a' + i)); }

  SimCluster cluster_{5, Options()};
  InodeId root_;
};

TEST_F(ConfinedTest, WorksAsAnyClientDoes) {
  EXPECT_EQ(Do(part().GetAttr(kRoot, root_)).value().attr.ino, root_);
  EXPECT_EQ(Do(part().Lookup(kRoot, root_, "..")).value().attr.ino, root_);
  const InodeId dir = MakeDir(part(), root_, "d");
  // Many in one directory: the server hears of some with their first bytes.
  InodeId files[kFiles];
  for (int i = 0; i < kFiles; ++i) files[i] = WriteFile(part(), dir, "f" + std::to_string(i), BytesOf(i), i % 3 == 0);
  EXPECT_EQ(Do(part().Lookup(kRoot, dir, "..")).value().attr.ino, root_);
  const auto list = Do(part().ReadDir(kRoot, dir, 0, 1000, true));
  ASSERT_TRUE(list.ok()) << list.error();
  EXPECT_EQ(list->entries.size(), size_t{kFiles});

  EXPECT_TRUE(Do(part().Rename(kRoot, dir, "f1", root_, "g1", false, false)).ok());
  EXPECT_TRUE(Do(part().Link(kRoot, files[2], root_, "l2")).ok());
  const auto link = Do(part().MakeNode(kRoot, root_, "s", FileType::kSymlink, 0777, 0, "d/f3"));
  ASSERT_TRUE(link.ok()) << link.error();
  EXPECT_EQ(Do(part().ReadLink(kRoot, link->attr.ino)).value(), "d/f3");
  EXPECT_TRUE(Do(part().SetXattr(kRoot, dir, "user.a", "b", false, false)).ok());
  EXPECT_EQ(Do(part().GetXattr(kRoot, dir, "user.a")).value(), "b");
  SetAttrIn cut;
  cut.size = 10;
  EXPECT_TRUE(Do(part().SetAttr(kRoot, files[4], cut)).ok());
  EXPECT_TRUE(Do(part().Unlink(kRoot, root_, "g1")).ok());
  const InodeId empty = MakeDir(part(), root_, "empty");
  EXPECT_EQ(Look(part(), empty, "none"), FsError::kNoEnt);
  EXPECT_TRUE(Do(part().Rmdir(kRoot, root_, "empty")).ok());
  const auto space = Do(part().StatFs(kRoot)), of_all = Do(all().StatFs(kRoot));
  ASSERT_TRUE(space.ok() && of_all.ok());
  EXPECT_EQ(space->total_bytes, of_all->total_bytes) << "they have one layout";
  EXPECT_EQ(space->files, 0u) << "that of the whole tree would tell of others";
  EXPECT_GT(of_all->files, 0u);

  // Others see it, and it sees what they change.
  EXPECT_EQ(Do(all().Lookup(kRoot, kRootInode, "atlas")).value().attr.ino, root_);
  EXPECT_EQ(ReadFile(all(), files[3], 1 * kMiB), BytesOf(3));
  EXPECT_EQ(ReadFile(all(), files[4], 1 * kMiB), BytesOf(4).substr(0, 10));
  const InodeId theirs = WriteFile(all(), dir, "theirs", "hello", true);
  EXPECT_EQ(Do(part().Lookup(kRoot, dir, "theirs")).value().attr.ino, theirs);
  EXPECT_EQ(ReadFile(part(), theirs, 100), "hello");
  EXPECT_EQ(ReadFile(part(), files[5], 1 * kMiB), BytesOf(5));
}

TEST_F(ConfinedTest, GetsNothingByNumber) {
  const InodeId secret = MakeDir(all(), kRootInode, "secret");
  const InodeId file = WriteFile(all(), secret, "f", "hidden", true);
  VfsHandle flags;
  flags.read = true;
  for (const InodeId ino : {kRootInode, secret, file}) {
    SCOPED_TRACE(ino);
    EXPECT_EQ(Do(part().GetAttr(kRoot, ino)).code(), FsError::kStale);
    EXPECT_EQ(Look(part(), ino, "f"), FsError::kStale);
    EXPECT_EQ(Look(part(), ino, ".."), FsError::kStale);
    EXPECT_EQ(Do(part().ReadDir(kRoot, ino, 0, 100, false)).code(), FsError::kStale);
    EXPECT_EQ(Do(part().Open(kRoot, ino, false, flags)).code(), FsError::kStale);
    EXPECT_EQ(Do(part().MakeNode(kRoot, ino, "x", FileType::kDirectory, 0777, 0, "")).code(), FsError::kStale);
    EXPECT_EQ(Do(part().Link(kRoot, ino, root_, "x")).code(), FsError::kStale);
    EXPECT_FALSE(Do(part().GetXattr(kRoot, ino, "user.a")).ok());
  }
  const InodeId own = MakeDir(part(), root_, "own");
  EXPECT_EQ(Do(part().Rename(kRoot, root_, "own", secret, "own", false, false)).code(), FsError::kStale);
  EXPECT_EQ(Do(part().Rename(kRoot, secret, "f", own, "f", false, false)).code(), FsError::kStale);
  EXPECT_EQ(ReadFile(all(), file, 100), "hidden");
  EXPECT_EQ(Do(all().ReadDir(kRoot, own, 0, 100, false)).value().entries.size(), 0u);
}

// As any user of the mount may: it is no attempt of the client's machine.
TEST_F(ConfinedTest, IsToldTheNamesOfWhatItWasShownOnly) {
  const InodeId outside = WriteFile(all(), kRootInode, "outside", "x", true);
  const InodeId dir = MakeDir(part(), root_, "d");
  const InodeId file = WriteFile(part(), dir, "f", "x", true);
  const auto ask = [&](InodeId ino) { return Do(part().GetXattr(kRoot, root_, PathsName({ino.v, 0}))); };
  const Result<std::string> told = ask(file);
  ASSERT_TRUE(told.ok()) << told.error();
  EXPECT_EQ(ParsePaths(ParsePathsPart(*told).value().bytes).value(), std::vector<std::string>{"/d/f"});
  const uint64_t before = cluster_.denials();
  EXPECT_EQ(ask(outside).code(), FsError::kStale);
  EXPECT_EQ(ask(InodeId(uint64_t{1} << 50)).code(), FsError::kStale);
  EXPECT_EQ(cluster_.denials(), before);
}

TEST_F(ConfinedTest, GoesOnAfterRestartsCutsAndItsOwnDeath) {
  const InodeId dir = MakeDir(part(), root_, "d");
  const InodeId file = WriteFile(part(), dir, "f", BytesOf(7), true);
  VfsHandle flags;
  flags.write = flags.read = true;
  auto opened = Do(part().Open(kRoot, file, false, flags));
  ASSERT_TRUE(opened.ok()) << opened.error();
  VfsHandlePtr handle = std::move(opened->handle);
  // What the server has not synced is repeated by its client.
  const InodeId late = MakeDir(part(), dir, "late");
  const InodeId later = MakeDir(part(), late, "later");
  EXPECT_TRUE(Do(part().Write(kRoot, handle, 0, Buffer::FromString("new"))).ok());
  cluster_.CrashMeta(true);
  cluster_.StartMeta();
  EXPECT_TRUE(Do(part().Fsync(kRoot, handle)).ok());
  EXPECT_EQ(Do(part().Lookup(kRoot, late, "later")).value().attr.ino, later);
  EXPECT_EQ(Do(all().Lookup(kRoot, late, "later")).value().attr.ino, later);
  EXPECT_EQ(ReadFile(all(), file, 3), "new");

  // Away for longer than a lease.
  cluster_.network().Partition({"meta"}, {ClientHost(kConfined)});
  cluster_.executor().RunFor(40 * kSecond);
  cluster_.network().Heal();
  EXPECT_TRUE(Do(part().Write(kRoot, handle, 0, Buffer::FromString("two"))).ok());
  EXPECT_TRUE(Do(part().Fsync(kRoot, handle)).ok());
  EXPECT_EQ(ReadFile(all(), file, 3), "two");
  MakeDir(part(), later, "deep");
  EXPECT_TRUE(Do(part().Release(kRoot, std::move(handle))).ok());

  // A new mount begins with the root, and knows no number of before.
  cluster_.CrashClient(kConfined);
  cluster_.StartClient(kConfined);
  ASSERT_TRUE(Do(cluster_.client(kConfined).WaitReady()).ok());
  EXPECT_EQ(cluster_.client(kConfined).session().root(), root_);
  EXPECT_EQ(Do(part().GetAttr(kRoot, file)).code(), FsError::kStale);
  EXPECT_EQ(Do(part().Lookup(kRoot, root_, "d")).value().attr.ino, dir);
  EXPECT_EQ(Do(part().Lookup(kRoot, dir, "f")).value().attr.ino, file);
  EXPECT_EQ(ReadFile(part(), file, 3), "two");
}

TEST_F(ConfinedTest, ADirectoryThatIsMovedOutIsNoDoor) {
  const InodeId secret = MakeDir(all(), kRootInode, "secret");
  const InodeId dir = MakeDir(part(), root_, "d");
  const InodeId deep = MakeDir(part(), dir, "deep");
  const InodeId file = WriteFile(part(), dir, "f", "mine", true);
  ASSERT_TRUE(Do(all().Rename(kRoot, root_, "d", secret, "d", false, false)).ok());
  MakeDir(all(), dir, "new");
  MakeDir(all(), deep, "new");
  for (const InodeId moved : {dir, deep}) {
    SCOPED_TRACE(moved);
    EXPECT_EQ(Look(part(), moved, "new"), FsError::kStale);
    EXPECT_EQ(Do(part().MakeNode(kRoot, moved, "x", FileType::kDirectory, 0777, 0, "")).code(), FsError::kStale);
    EXPECT_EQ(Do(part().Rename(kRoot, moved, "new", root_, "x", false, false)).code(), FsError::kStale);
    EXPECT_EQ(Do(part().Rmdir(kRoot, moved, "new")).code(), FsError::kStale);
  }
  EXPECT_EQ(ReadFile(part(), file, 100), "mine") << "what it was shown once";
  ASSERT_TRUE(Do(all().Rename(kRoot, secret, "d", root_, "d", false, false)).ok());
  EXPECT_EQ(Look(part(), dir, "new"), FsError::kOk);
  EXPECT_EQ(Look(part(), deep, "new"), FsError::kOk);
  EXPECT_EQ(Look(part(), root_, "d"), FsError::kOk);
}

}  // namespace
}  // namespace stria
