// What a client does not use any more the metadata server must not take for open: an unlinked file would stay with all its
// bytes until the client's session ends.
#include <gtest/gtest.h>

#include "test/sim/small_files_testing.h"

namespace stria {
namespace {

const Caller kRoot;

Task<void> OpenFor(Vfs* vfs, InodeId ino, bool for_write, std::optional<Result<Vfs::Opened>>* out) {
  VfsHandle flags;
  flags.read = true;
  flags.write = for_write;
  *out = co_await vfs->Open(kRoot, ino, false, flags);
}

Task<void> ReadFrom(Vfs* vfs, VfsHandlePtr h, std::optional<Result<BufferChain>>* out) {
  *out = co_await vfs->Read(kRoot, std::move(h), 0, kMiB);
}

Task<void> Release(Vfs* vfs, VfsHandlePtr h) { (void)co_await vfs->Release(kRoot, std::move(h)); }

Task<void> OpenAndClose(Vfs* vfs, InodeId ino, FsError* out) {
  VfsHandle flags;
  flags.write = true;
  auto opened = co_await vfs->Open(kRoot, ino, false, flags);
  *out = opened.code();
  if (opened.ok()) (void)co_await vfs->Release(kRoot, opened->handle);
}

class GivenBack : public SmallFiles {
 public:
  explicit GivenBack(SimClusterOptions options = Options()) : SmallFiles(options) {}
  bool IsOpen(InodeId ino) { return cluster_.meta_server()->leases().IsOpen(ino); }
  bool IsOpenBy(size_t c, InodeId ino) {
    return cluster_.meta_server()->leases().IsOpenBy(cluster_.client(c).session().id(), ino);
  }
  VfsHandlePtr Open(size_t c, InodeId ino) {
    VfsHandle flags;
    flags.read = true;
    auto opened = Do(vfs(c).Open(kRoot, ino, false, flags));
    EXPECT_TRUE(opened.ok()) << opened.error();
    return opened.ok() ? opened->handle : nullptr;
  }
  uint64_t Session(size_t c) { return cluster_.client(c).session().generation(); }
  void RunFor(int64_t ns) { cluster_.executor().RunFor(ns); }
};

// Both read it and want to write to it; one of them dies of it. So the other one's open is granted more than the recall
// that came meanwhile would have left, and that recall is carried out after the grant.
TEST_F(GivenBack, WhenARecallIsOlderThanTheGrant) {
  const InodeId ino = Create(0, kRootInode, "f", "text");
  ASSERT_TRUE(Do(vfs(0).SyncDir(kRoot, kRootInode)).ok());
  for (const size_t c : {1, 0}) EXPECT_EQ(Read(c, ino), "text");
  cluster_.network().Block({"meta"}, {ClientHost(1)});
  FsError first = FsError::kBusy, second = FsError::kBusy;
  cluster_.scope(0).Spawn(OpenAndClose(&vfs(0), ino, &first));
  RunFor(100 * kMillisecond);
  cluster_.scope(1).Spawn(OpenAndClose(&vfs(1), ino, &second));
  RunFor(100 * kMillisecond);
  EXPECT_EQ(first, FsError::kBusy);
  cluster_.CrashClient(1);
  cluster_.network().Heal();
  cluster_.StartClient(1);
  RunFor(20 * kSecond);
  EXPECT_EQ(first, FsError::kOk);
  EXPECT_TRUE(Unlink(1, kRootInode, "f").ok());
  RunFor(2 * kSecond);
  EXPECT_FALSE(IsOpen(ino));
}

// What is open stays open. A recall takes as long as the kernel needs to forget pages; meanwhile the last program closes the
// file, which gives it back, and another one opens it: that is another grant.
TEST_F(GivenBack, NotWhatWasOpenedSinceTheRecall) {
  const InodeId ino = Create(0, kRootInode, "f", "text");
  ASSERT_TRUE(Do(vfs(0).SyncDir(kRoot, kRootInode)).ok());
  VfsHandlePtr first = Open(0, ino);
  std::optional<Result<Vfs::Opened>> other;
  VfsHandlePtr second;
  {
    const SimPages::Locked reading(&cluster_.kernel(0).pages(), ino, 0, 0);
    cluster_.scope(1).Spawn(OpenFor(&vfs(1), ino, false, &other));
    RunFor(kSecond);
    EXPECT_FALSE(other) << "the recall waits for the kernel";
    EXPECT_TRUE(Do(vfs(0).Release(kRoot, std::move(first))).ok());
    second = Open(0, ino);
    RunFor(kSecond);
    EXPECT_TRUE(other && other->ok());
  }
  RunFor(5 * kSecond);
  EXPECT_TRUE(IsOpenBy(0, ino));
  EXPECT_TRUE(Unlink(1, kRootInode, "f").ok());
  EXPECT_TRUE(Do(vfs(1).Release(kRoot, (*other)->handle)).ok());
  RunFor(5 * kSecond);
  EXPECT_EQ(Text(Do(vfs(0).Read(kRoot, second, 0, kMiB))), "text");
  EXPECT_TRUE(Do(vfs(0).Release(kRoot, std::move(second))).ok());
  RunFor(5 * kSecond);
  EXPECT_FALSE(IsOpen(ino));
}

// The reader got a signal while he waited for the metadata server.
TEST_F(GivenBack, AfterAReadThatWasInterrupted) {
  const InodeId ino = Create(1, kRootInode, "f", "text");
  VfsHandlePtr h = Open(0, ino);
  const uint64_t session = Session(0);
  cluster_.CrashMeta(false);
  RunFor(30 * kSecond);
  {
    TaskScope reader;
    std::optional<Result<BufferChain>> bytes;
    reader.Spawn(ReadFrom(&vfs(0), h, &bytes));
    RunFor(kSecond);
    EXPECT_FALSE(bytes);
  }
  cluster_.StartMeta();
  RunFor(60 * kSecond);
  EXPECT_EQ(Session(0), session);
  EXPECT_TRUE(Do(vfs(0).Release(kRoot, std::move(h))).ok());
  EXPECT_TRUE(Unlink(1, kRootInode, "f").ok());
  RunFor(5 * kSecond);
  EXPECT_FALSE(IsOpen(ino)) << vfs(0).report().Describe(ino);
}

// A change of it that will be refused waits for its bytes when it loses its name.
TEST_F(GivenBack, WhenAChangeWasRefused) {
  const InodeId ino = Create(0, kRootInode, "f", "text");
  ASSERT_TRUE(Do(vfs(0).SyncDir(kRoot, kRootInode)).ok());
  for (size_t n = 0; n < cluster_.nodes(); ++n) cluster_.disks().media(n, 0).faults.hung = true;
  VfsHandle flags;
  flags.write = true;
  const auto opened = Do(vfs(0).Open(kRoot, ino, false, flags));
  ASSERT_TRUE(opened.ok()) << opened.error();
  ASSERT_TRUE(Do(vfs(0).Write(kRoot, opened->handle, 0, Buffer::FromString(std::string(kMiB, 'x')))).ok());
  ASSERT_TRUE(Do(vfs(0).Release(kRoot, opened->handle)).ok());
  Caller other;
  other.uid = other.gid = 1000;
  std::optional<Result<EntryOut>> done;
  cluster_.scope(0).Spawn([](Vfs* fs, Caller who, InodeId of, std::optional<Result<EntryOut>>* out) -> Task<void> {
    SetAttrIn set;
    set.mode = 0777;
    *out = co_await fs->SetAttr(who, of, set);
  }(&vfs(0), other, ino, &done));
  RunFor(kMillisecond);
  EXPECT_TRUE(Do(vfs(1).Unlink(kRoot, kRootInode, "f")).ok());
  RunFor(kSecond);
  EXPECT_FALSE(done);
  for (size_t n = 0; n < cluster_.nodes(); ++n) cluster_.disks().media(n, 0).faults.hung = false;
  RunFor(30 * kSecond);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->code(), FsError::kPerm);
  EXPECT_FALSE(IsOpen(ino)) << vfs(0).report().Describe(ino);
}

// Whose calls end before the session does.
class GivenBackInDoubt : public GivenBack {
 public:
  GivenBackInDoubt() : GivenBack(WithTimeout()) {}
  static SimClusterOptions WithTimeout() {
    SimClusterOptions o = Options();
    o.client_timeout_ns = 3 * kSecond;
    return o;
  }
};

TEST_F(GivenBackInDoubt, WhenTheReleaseIsNotAnswered) {
  const InodeId ino = Create(1, kRootInode, "f", "text");
  VfsHandle flags;
  flags.read = true;
  const auto opened = Do(vfs(0).Open(kRoot, ino, false, flags));
  ASSERT_TRUE(opened.ok());
  EXPECT_TRUE(Unlink(1, kRootInode, "f").ok());
  RunFor(kSecond);
  EXPECT_TRUE(IsOpen(ino));
  cluster_.network().Block({ClientHost(0)}, {"meta"});
  const uint64_t session = Session(0);
  EXPECT_TRUE(Do(vfs(0).Release(kRoot, opened->handle)).ok());
  RunFor(4 * kSecond);
  cluster_.network().Heal();
  RunFor(4 * kSecond);
  EXPECT_EQ(Session(0), session);
  EXPECT_FALSE(IsOpen(ino));
}

TEST_F(GivenBackInDoubt, WhenTheOpenIsNotAnswered) {
  const InodeId ino = Create(1, kRootInode, "f", "text");
  const uint64_t session = Session(0);
  EXPECT_TRUE(Do(vfs(0).Lookup(kRoot, kRootInode, "f")).ok());
  cluster_.network().Block({"meta"}, {ClientHost(0)});
  VfsHandle flags;
  flags.read = true;
  EXPECT_EQ(Do(vfs(0).Open(kRoot, ino, false, flags)).code(), FsError::kTimedOut);
  cluster_.network().Heal();
  RunFor(4 * kSecond);
  EXPECT_TRUE(Unlink(1, kRootInode, "f").ok());
  RunFor(kSecond);
  EXPECT_EQ(Session(0), session);
  EXPECT_FALSE(IsOpen(ino));
}

// An open for writing keeps both the close of the last reader and a recall waiting, and fails.
TEST_F(GivenBackInDoubt, AndNotHadAgainByARecallBehindIt) {
  const InodeId ino = Create(1, kRootInode, "f", "text");
  VfsHandlePtr first = Open(0, ino);
  RunFor(kSecond);
  // Something of it has changed: the last one to close it gives it back.
  SetAttrIn mode;
  mode.mode = 0600;
  EXPECT_TRUE(Do(vfs(1).SetAttr(kRoot, ino, mode)).ok());
  RunFor(kSecond);
  std::optional<Result<Vfs::Opened>> writer;
  cluster_.network().Block({ClientHost(0)}, {"meta"});
  cluster_.scope(0).Spawn(OpenFor(&vfs(0), ino, true, &writer));
  RunFor(kMillisecond);
  cluster_.scope(0).Spawn(Release(&vfs(0), std::move(first)));
  std::optional<Result<Vfs::Opened>> other;
  cluster_.scope(1).Spawn(OpenFor(&vfs(1), ino, true, &other));
  RunFor(2 * kSecond);
  EXPECT_FALSE(writer);
  EXPECT_FALSE(other);
  VfsHandlePtr second;
  {
    const SimPages::Locked reading(&cluster_.kernel(0).pages(), ino, 0, 0);
    RunFor(3 * kSecond);
    EXPECT_TRUE(writer && !writer->ok());
    cluster_.network().Heal();
    RunFor(3 * kSecond);
    second = Open(0, ino);
  }
  RunFor(5 * kSecond);
  EXPECT_TRUE(IsOpenBy(0, ino)) << vfs(0).report().Describe(ino);
}

// The server has made it, and its client is not told before the caller has waited long enough: it is made for nobody.
TEST_F(GivenBackInDoubt, WhenTheCreateIsAnsweredTooLate) {
  const uint64_t session = Session(0);
  EXPECT_EQ(Do(vfs(0).Lookup(kRoot, kRootInode, "f")).code(), FsError::kNoEnt);
  cluster_.network().Block({"meta"}, {ClientHost(0)});
  std::optional<Result<Vfs::Opened>> made;
  cluster_.scope(0).Spawn([](Vfs* fs, std::optional<Result<Vfs::Opened>>* out) -> Task<void> {
    VfsHandle flags;
    flags.write = true;
    *out = co_await fs->Create(kRoot, kRootInode, "f", 0644, true, false, flags);
  }(&vfs(0), &made));
  RunFor(kSecond);
  EXPECT_FALSE(vfs(0).kernel_side().overdue());
  RunFor(3 * kSecond);
  EXPECT_TRUE(vfs(0).kernel_side().overdue());
  EXPECT_FALSE(made);
  cluster_.network().Heal();
  RunFor(6 * kSecond);
  ASSERT_TRUE(made && made->ok());  // although it was late
  EXPECT_FALSE(vfs(0).kernel_side().overdue());
  EXPECT_TRUE(Do(vfs(0).Release(kRoot, (*made)->handle)).ok());
  EXPECT_TRUE(Unlink(1, kRootInode, "f").ok());
  RunFor(kSecond);
  EXPECT_EQ(Session(0), session);
  EXPECT_FALSE(IsOpen((*made)->entry.attr.ino));
}

// The server has not heard of it: it is refused as soon as it does, and not done late.
TEST_F(GivenBackInDoubt, AChangeIsNotMadeTooLate) {
  const InodeId dir = MakeDir(0, "d");
  cluster_.network().Block({ClientHost(0)}, {"meta"});
  std::optional<Result<EntryOut>> made;
  cluster_.scope(0).Spawn([](Vfs* fs, InodeId in, std::optional<Result<EntryOut>>* out) -> Task<void> {
    *out = co_await fs->MakeNode(kRoot, in, "sub", FileType::kDirectory, 0755, 0, "");
  }(&vfs(0), dir, &made));
  RunFor(4 * kSecond);
  EXPECT_TRUE(vfs(0).kernel_side().overdue());
  cluster_.network().Heal();
  RunFor(6 * kSecond);
  ASSERT_TRUE(made);
  EXPECT_EQ(made->code(), FsError::kTimedOut);
  for (const size_t c : {0, 1}) EXPECT_EQ(Do(vfs(c).Lookup(kRoot, dir, "sub")).code(), FsError::kNoEnt);
}

TEST_F(GivenBackInDoubt, LocksOfWhoIsGone) {
  const InodeId ino = Create(0, kRootInode, "f", "text");
  VfsHandle flags;
  flags.read = flags.write = true;
  VfsHandlePtr handles[2];
  for (const size_t c : {0, 1}) {
    const auto opened = Do(vfs(c).Open(kRoot, ino, false, flags));
    ASSERT_TRUE(opened.ok());
    handles[c] = opened->handle;
  }
  const auto lock = [](uint64_t owner) {
    LockIn in;
    in.owner = owner;
    in.range = {0, 10, LockType::kWrite, 1};
    return in;
  };
  ASSERT_TRUE(Do(vfs(0).SetLock(handles[0], lock(1), nullptr)).ok());
  EXPECT_EQ(Do(vfs(1).SetLock(handles[1], lock(2), nullptr)).code(), FsError::kAgain);
  const uint64_t session = Session(0);
  cluster_.network().Block({ClientHost(0)}, {"meta"});
  cluster_.scope(0).Spawn(vfs(0).DropLocks(handles[0]->inode, LockKind::kPosix, 1));
  RunFor(4 * kSecond);
  cluster_.network().Heal();
  RunFor(6 * kSecond);
  EXPECT_EQ(Session(0), session);
  EXPECT_TRUE(Do(vfs(1).SetLock(handles[1], lock(2), nullptr)).ok());
}

}  // namespace
}  // namespace stria
