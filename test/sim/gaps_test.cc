// The network between a client and the metadata server is away for a while, longer than the session's lease or shorter.
// An open file that nobody else has changed meanwhile goes on: reads, writes, fsync, locks. Of one that was changed nothing
// is lost or overwritten that the other wrote, and whoever wrote here and did not sync hears of it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "common/sanitized.h"
#include "test/sim/gaps_testing.h"

namespace stria {
namespace {

struct Outcome {
  std::optional<FsError> wrote, synced, read;
  std::string text;
};

Task<void> UseThrough(Vfs* vfs, VfsHandlePtr h, uint64_t offset, std::string bytes, Outcome* out) {
  out->wrote = (co_await vfs->Write(kRoot, h, offset, Buffer::FromString(bytes))).code();
  out->synced = (co_await vfs->Fsync(kRoot, h)).code();
  const auto back = co_await vfs->Read(kRoot, h, offset, bytes.size());
  out->read = back.code();
  out->text = SmallFiles::Text(back);
}

Task<void> MakeIn(Vfs* vfs, InodeId dir, std::string name, std::optional<Result<EntryOut>>* out) {
  *out = co_await vfs->MakeNode(kRoot, dir, std::move(name), FileType::kDirectory, 0755, 0, "");
}

class GapsOf : public Gaps, public testing::WithParamInterface<int> {};

// Written before the gap, and in it while the lease still lasts, and after that.
TEST_P(GapsOf, AFileThatNobodyElseUsesGoesOn) {
  const InodeId ino = Create(0, kRootInode, "f", Block('a')), read = Create(1, kRootInode, "r", "text");
  VfsHandlePtr h = Open(0, ino), r = Open(0, read, false);
  ASSERT_EQ(Get(0, r, 0, 4), "text");
  ASSERT_EQ(Lock(0, h, 1), FsError::kOk);
  const uint64_t session = Session(0);
  ASSERT_EQ(Put(0, h, kBlockBytes, Block('b')), FsError::kOk);
  Cut(0);
  const int64_t gap_ns = GetParam() * kSecond;
  Outcome early, late;
  RunFor(std::min<int64_t>(gap_ns / 4, 5 * kSecond));
  cluster_.scope(0).Spawn(UseThrough(&vfs(0), h, 2 * kBlockBytes, Block('c'), &early));
  RunFor(gap_ns / 2);
  cluster_.scope(0).Spawn(UseThrough(&vfs(0), h, 3 * kBlockBytes, Block('d'), &late));
  RunFor(gap_ns - std::min<int64_t>(gap_ns / 4, 5 * kSecond) - gap_ns / 2);
  Heal();
  RunFor(30 * kSecond);
  EXPECT_EQ(Session(0), session);
  ASSERT_TRUE(early.read && late.read);
  if (gap_ns <= 50 * kSecond) {
    EXPECT_EQ(early.synced, FsError::kOk);
    EXPECT_EQ(late.synced, FsError::kOk);
    EXPECT_EQ(early.text, Block('c'));
    EXPECT_EQ(late.text, Block('d'));
  }
  EXPECT_EQ(Get(0, r, 0, 4), "text");
  EXPECT_EQ(Get(0, h, 0, 2 * kBlockBytes), Block('a') + Block('b'));
  EXPECT_EQ(Put(0, h, 0, Block('A')), FsError::kOk);
  EXPECT_EQ(Sync(0, h), FsError::kOk);
  VfsHandlePtr other = Open(1, ino);
  EXPECT_EQ(Get(1, other, 0, 2 * kBlockBytes), Block('A') + Block('b'));
  if (early.wrote == FsError::kOk) EXPECT_EQ(Get(1, other, 2 * kBlockBytes, kBlockBytes), Block('c'));
  EXPECT_EQ(Lock(1, other, 2), FsError::kAgain) << "it is still held";
  EXPECT_EQ(Unlock(0, h, 1), FsError::kOk);
  EXPECT_EQ(Lock(1, other, 2), FsError::kOk);
  Close(0, h), Close(0, r), Close(1, other);
}

INSTANTIATE_TEST_SUITE_P(Seconds, GapsOf, testing::Values(1, 5, 13, 16, 20, 30, 50, 90, 300));

TEST_F(Gaps, WhoOnlyReadsSeesWhatOthersWrote) {
  const InodeId ino = Create(1, kRootInode, "f", "old");
  VfsHandlePtr h = Open(0, ino, false);
  ASSERT_EQ(Get(0, h, 0, 3), "old");
  Cut(0);
  RunFor(20 * kSecond);
  Write(1, ino, 0, "new");
  RunFor(10 * kSecond);
  Heal();
  EXPECT_EQ(Get(0, h, 0, 3), "new");
  Close(0, h);
}

TEST_F(Gaps, WhatOthersWroteIsNotOverwritten) {
  const InodeId ino = Create(0, kRootInode, "f", Block('a')), kept = Create(0, kRootInode, "g", Block('a'));
  VfsHandlePtr h = Open(0, ino), other_file = Open(0, kept);
  ASSERT_EQ(Put(0, h, 0, "mine"), FsError::kOk);
  ASSERT_EQ(Put(0, other_file, 0, "mine"), FsError::kOk);
  Cut(0);
  VfsHandlePtr theirs = Open(1, ino);
  ASSERT_EQ(Put(1, theirs, 10, "theirs"), FsError::kOk);
  ASSERT_EQ(Sync(1, theirs), FsError::kOk);
  RunFor(10 * kSecond);
  Heal();
  EXPECT_EQ(Sync(0, h), FsError::kIo);
  EXPECT_EQ(Sync(0, h), FsError::kIo) << "again";
  EXPECT_EQ(Put(0, h, 0, "more"), FsError::kIo);
  EXPECT_EQ(Sync(0, other_file), FsError::kOk);
  EXPECT_EQ(Get(0, other_file, 0, 4), "mine");
  VfsHandlePtr again = Open(0, ino);
  EXPECT_EQ(Get(0, again, 0, 16), "aaaaaaaaaatheirs");
  EXPECT_EQ(Put(0, again, 0, "then"), FsError::kOk);
  EXPECT_EQ(Sync(0, again), FsError::kOk);
  EXPECT_EQ(Get(1, theirs, 0, 16), "thenaaaaaatheirs");
  Close(0, h), Close(0, again), Close(0, other_file), Close(1, theirs);
}

// It has the file to itself meanwhile, with bytes that nobody knows yet.
TEST_F(Gaps, NorWhatTheyHaveYetToCommit) {
  const InodeId ino = Create(0, kRootInode, "f", Block('a'));
  VfsHandlePtr h = Open(0, ino);
  ASSERT_EQ(Put(0, h, 0, "mine"), FsError::kOk);
  Cut(0);
  VfsHandlePtr theirs = Open(1, ino);
  RunFor(10 * kSecond);
  ASSERT_EQ(Put(1, theirs, 10, "theirs"), FsError::kOk);
  Heal();
  EXPECT_EQ(Sync(0, h), FsError::kIo);
  EXPECT_EQ(Sync(1, theirs), FsError::kOk);
  EXPECT_EQ(Get(1, theirs, 0, 16), "aaaaaaaaaatheirs");
  Close(0, h), Close(1, theirs);
}

TEST_F(Gaps, ThatOthersLookedIsNoConflict) {
  const InodeId ino = Create(0, kRootInode, "f", Block('a'));
  VfsHandlePtr h = Open(0, ino);
  ASSERT_EQ(Put(0, h, kBlockBytes, Block('b')), FsError::kOk);
  Cut(0);
  VfsHandlePtr theirs = Open(1, ino, false);
  EXPECT_EQ(Get(1, theirs, 0, 2 * kBlockBytes), Block('a'));
  RunFor(10 * kSecond);
  Heal();
  EXPECT_EQ(Get(0, h, 0, 2 * kBlockBytes), Block('a') + Block('b'));
  EXPECT_EQ(Do(vfs(0).GetAttr(kRoot, ino))->attr.size, 2 * kBlockBytes);
  EXPECT_EQ(Put(0, h, 2 * kBlockBytes, Block('c')), FsError::kOk);
  EXPECT_EQ(Sync(0, h), FsError::kOk);
  EXPECT_EQ(Get(1, theirs, 0, 3 * kBlockBytes), Block('a') + Block('b') + Block('c'));
  Close(0, h), Close(1, theirs);
}

TEST_F(Gaps, NamesAndModesAreNoConflict) {
  const InodeId ino = Create(0, kRootInode, "f", "text");
  VfsHandlePtr h = Open(0, ino);
  ASSERT_EQ(Put(0, h, 4, " and more"), FsError::kOk);
  Cut(0);
  EXPECT_TRUE(Rename(1, kRootInode, "f", "g").ok());
  SetAttrIn mode;
  mode.mode = 0600;
  EXPECT_TRUE(Do(vfs(1).SetAttr(kRoot, ino, mode)).ok());
  RunFor(20 * kSecond);
  Heal();
  EXPECT_EQ(Sync(0, h), FsError::kOk);
  EXPECT_EQ(Read(1, ino), "text and more");
  EXPECT_EQ(Lookup(0, kRootInode, "f"), FsError::kNoEnt);
  Close(0, h);
}

TEST_F(Gaps, AFileThatWasUnlinkedStaysOpen) {
  const InodeId ino = Create(0, kRootInode, "f", "text"), before = Create(0, kRootInode, "g", "text");
  VfsHandlePtr h = Open(0, ino), first = Open(0, before);
  EXPECT_TRUE(Unlink(0, kRootInode, "g").ok());
  Cut(0);
  EXPECT_TRUE(Unlink(1, kRootInode, "f").ok());
  RunFor(120 * kSecond);
  Heal();
  RunFor(10 * kSecond);
  for (VfsHandlePtr* one : {&h, &first}) {
    EXPECT_EQ(Get(0, *one, 0, 4), "text");
    EXPECT_EQ(Put(0, *one, 4, "more"), FsError::kOk);
    EXPECT_EQ(Sync(0, *one), FsError::kOk);
    Close(0, std::move(*one));
  }
  RunFor(10 * kSecond);
  EXPECT_FALSE(cluster_.meta_server()->leases().IsOpen(ino)) << vfs(0).report().Describe(ino);
  EXPECT_EQ(Do(vfs(1).GetAttr(kRoot, ino)).code(), FsError::kStale);
}

TEST_F(Gaps, ALockThatAnotherHadIsLostAndItsFileWithIt) {
  const InodeId ino = Create(0, kRootInode, "f", "text"), kept = Create(0, kRootInode, "g", "text");
  VfsHandlePtr h = Open(0, ino), other_file = Open(0, kept);
  ASSERT_EQ(Lock(0, h, 1), FsError::kOk);
  ASSERT_EQ(Lock(0, other_file, 1), FsError::kOk);
  LockIn beside = WriteLock(3);  // of another process, which nobody else wants
  beside.range.first = 20, beside.range.last = 30;
  ASSERT_TRUE(Do(vfs(0).SetLock(h, beside, nullptr)).ok());
  Cut(0);
  RunFor(20 * kSecond);
  VfsHandlePtr theirs = Open(1, ino), theirs_too = Open(1, kept);
  EXPECT_EQ(Lock(1, theirs, 2), FsError::kOk);
  EXPECT_EQ(Unlock(1, theirs, 2), FsError::kOk);
  Heal();
  RunFor(5 * kSecond);
  EXPECT_EQ(Do(vfs(0).Read(kRoot, h, 0, 4)).code(), FsError::kIo);
  EXPECT_EQ(Lock(0, h, 1), FsError::kIo);
  EXPECT_EQ(Get(0, other_file, 0, 4), "text");
  EXPECT_EQ(Lock(1, theirs, 2), FsError::kOk);
  EXPECT_EQ(Lock(1, theirs_too, 2), FsError::kAgain);
  beside.owner = 2;
  EXPECT_TRUE(Do(vfs(1).SetLock(theirs, beside, nullptr)).ok()) << "who has lost the file has no lock of it";
  Close(0, h), Close(0, other_file), Close(1, theirs), Close(1, theirs_too);
}

Task<void> WaitForLock(Vfs* vfs, VfsHandlePtr h, LockIn lock, std::shared_ptr<LockWait> wait, std::optional<FsError>* out) {
  const Result<void> got = co_await vfs->SetLock(h, lock, std::move(wait));
  *out = got.code();
}

// Who waits for a lock of a file that is lost when its bytes cannot be committed is told so, and nobody stands behind it.
TEST_F(Gaps, WhoStandsInLineForALostFileLeavesTheLine) {
  const InodeId ino = Create(0, kRootInode, "f", Block('a'));
  VfsHandlePtr theirs = Open(1, ino);
  ASSERT_EQ(Lock(1, theirs, 2), FsError::kOk);
  Close(1, theirs);  // one of two descriptors: so it does not write
  VfsHandlePtr h = Open(0, ino);
  std::optional<FsError> waited, behind;
  cluster_.scope(0).Spawn(WaitForLock(&vfs(0), h, WriteLock(1), std::make_shared<LockWait>(), &waited));
  RunFor(kSecond);
  ASSERT_EQ(Put(0, h, 0, Block('c')), FsError::kOk);
  Cut(0);
  RunFor(20 * kSecond);
  theirs = Open(1, ino);
  ASSERT_EQ(Put(1, theirs, 0, Block('d')), FsError::kOk);
  ASSERT_EQ(Sync(1, theirs), FsError::kOk);
  Heal();
  RunFor(10 * kSecond);
  EXPECT_EQ(waited, FsError::kIo);
  cluster_.scope(1).Spawn(WaitForLock(&vfs(1), theirs, WriteLock(4), std::make_shared<LockWait>(), &behind));
  RunFor(kSecond);
  EXPECT_EQ(behind, std::nullopt);
  EXPECT_EQ(Unlock(1, theirs, 2), FsError::kOk);
  RunFor(5 * kSecond);
  EXPECT_EQ(behind, FsError::kOk);
  Close(0, h), Close(1, theirs);
}

// It was done before the gap, and its answer is lost.
TEST_F(Gaps, WhatWasAskedIsDoneOnce) {
  const InodeId dir = MakeDir(0, "d");
  (void)Lookup(0, dir, "sub");
  cluster_.network().Block({"meta"}, {ClientHost(0)});
  std::optional<Result<EntryOut>> made;
  cluster_.scope(0).Spawn(MakeIn(&vfs(0), dir, "sub", &made));
  RunFor(kSecond);
  Cut(0);
  RunFor(29 * kSecond);
  EXPECT_FALSE(made);
  EXPECT_EQ(Lookup(1, dir, "sub"), FsError::kOk);
  Heal();
  RunFor(10 * kSecond);
  ASSERT_TRUE(made);
  EXPECT_TRUE(made->ok()) << made->error();
}

TEST_F(Gaps, FilesThatWereNotToldYetAreTold) {
  const InodeId dir = MakeDir(0, "d");
  for (const char* name : {"1", "2", "3"}) (void)Create(0, dir, name, "text");
  VfsHandle flags;
  flags.read = flags.write = true;
  Cut(0);
  const auto made = Do(vfs(0).Create(kRoot, dir, "4", 0644, true, false, flags));
  const auto clash = Do(vfs(0).Create(kRoot, dir, "5", 0644, true, false, flags));
  ASSERT_TRUE(made.ok() && clash.ok());
  ASSERT_EQ(Put(0, made->handle, 0, "mine"), FsError::kOk);
  ASSERT_EQ(Put(0, clash->handle, 0, "mine"), FsError::kOk);
  RunFor(20 * kSecond);
  const InodeId theirs = Create(1, dir, "5", "theirs");
  RunFor(10 * kSecond);
  Heal();
  EXPECT_EQ(Get(0, made->handle, 0, 4), "mine");
  EXPECT_EQ(Sync(0, made->handle), FsError::kOk);
  EXPECT_EQ(Sync(0, clash->handle), FsError::kIo);
  EXPECT_EQ(Read(1, made->entry.attr.ino), "mine");
  EXPECT_EQ(Read(0, theirs), "theirs");
  EXPECT_EQ(List(1, dir, 100), 5u);
  Close(0, made->handle), Close(0, clash->handle);
}

// Whoever has the file open for writing and shares it has bytes under way.
TEST_F(Gaps, AFileThatBothWriteGoesOn) {
  const InodeId ino = Create(0, kRootInode, "f", Block('a'));
  VfsHandlePtr mine = Open(0, ino), theirs = Open(1, ino);
  ASSERT_EQ(Put(0, mine, 0, "mine"), FsError::kOk);
  ASSERT_EQ(Put(1, theirs, 10, "theirs"), FsError::kOk);
  Cut(0);
  Outcome out;
  RunFor(5 * kSecond);
  cluster_.scope(0).Spawn(UseThrough(&vfs(0), mine, 20, "mine", &out));
  RunFor(10 * kSecond);
  EXPECT_EQ(Put(1, theirs, 30, "theirs"), FsError::kOk);
  RunFor(15 * kSecond);
  Heal();
  RunFor(20 * kSecond);
  EXPECT_EQ(out.synced, FsError::kOk);
  EXPECT_EQ(out.text, "mine");
  EXPECT_EQ(Get(0, mine, 0, 40), "mineaaaaaatheirsaaaamineaaaaaatheirsaaaa");
  EXPECT_EQ(Get(1, theirs, 0, 40), "mineaaaaaatheirsaaaamineaaaaaatheirsaaaa");
  Close(0, mine), Close(1, theirs);
}

TEST_F(Gaps, ARestartInTheGap) {
  const InodeId ino = Create(0, kRootInode, "f", Block('a')), touched = Create(0, kRootInode, "g", Block('a'));
  VfsHandlePtr h = Open(0, ino), lost = Open(0, touched);
  RunFor(10 * kSecond);  // what was done is known to be durable
  ASSERT_EQ(Put(0, h, 0, "mine"), FsError::kOk);
  ASSERT_EQ(Put(0, lost, 0, "mine"), FsError::kOk);
  const uint64_t session = Session(0);
  Cut(0);
  RunFor(kSecond);
  cluster_.CrashMeta(true);
  RunFor(kSecond);
  cluster_.StartMeta();
  RunFor(20 * kSecond);
  Write(1, touched, 10, "theirs");
  RunFor(10 * kSecond);
  Heal();
  RunFor(10 * kSecond);
  EXPECT_EQ(Session(0), session);
  EXPECT_EQ(Get(0, h, 0, 4), "mine");
  EXPECT_EQ(Sync(0, h), FsError::kOk);
  EXPECT_EQ(Sync(0, lost), FsError::kIo);
  EXPECT_EQ(Read(1, touched).substr(0, 16), "aaaaaaaaaatheirs");
  Close(0, h), Close(0, lost);
}

// The server lost a commit and another change of the bytes, both were done again, and then the client is cut off: the file is
// as it knows it.
enum class Change { kTruncate, kOpenTruncated, kClone };
class GapAfterARestart : public Gaps, public testing::WithParamInterface<Change> {};

TEST_P(GapAfterARestart, WhatWasDoneAgainIsNoConflict) {
  const InodeId ino = Create(0, kRootInode, "f", Block('a')), other = Create(0, kRootInode, "g", "GG");
  VfsHandlePtr h = Open(0, ino);
  RunFor(10 * kSecond);  // what was done is known to be durable
  ASSERT_EQ(Put(0, h, 0, "mine"), FsError::kOk);
  std::string want = Block('a').replace(0, 8, "minemore");
  if (GetParam() == Change::kTruncate) {
    SetAttrIn set;
    set.size = 2;
    ASSERT_TRUE(Do(vfs(0).SetAttr(kRoot, ino, set)).ok());
    want = std::string("mi\0\0more", 8);
  } else if (GetParam() == Change::kOpenTruncated) {
    Close(0, Open(0, ino, true, /*truncate=*/true));
    want = std::string("\0\0\0\0more", 8);
  } else {
    VfsHandlePtr from = Open(0, other);
    const auto cloned = Do(vfs(0).CopyRange(kRoot, from, 0, h, 0, 2));
    ASSERT_TRUE(cloned.ok() && *cloned == 2) << cloned.error();
    want.replace(0, 2, "GG");
  }
  cluster_.CrashMeta(true);
  RunFor(kSecond);
  cluster_.StartMeta();
  RunFor(5 * kSecond);
  ASSERT_EQ(Put(0, h, 4, "more"), FsError::kOk);
  GapOf(0, 30 * kSecond);
  RunFor(10 * kSecond);
  EXPECT_EQ(Sync(0, h), FsError::kOk);
  EXPECT_EQ(Read(1, ino), want);
  Close(0, h);
}
INSTANTIATE_TEST_SUITE_P(By, GapAfterARestart, testing::Values(Change::kTruncate, Change::kOpenTruncated, Change::kClone));

// Both are away at once, and one comes back before the other.
TEST_F(Gaps, BothAtOnce) {
  const InodeId ino = Create(0, kRootInode, "f", Block('a')), second = Create(1, kRootInode, "g", Block('a'));
  VfsHandlePtr h = Open(0, ino), theirs = Open(1, second);
  ASSERT_EQ(Put(0, h, 0, "mine"), FsError::kOk);
  ASSERT_EQ(Put(1, theirs, 0, "mine"), FsError::kOk);
  Cut(0), Cut(1);
  RunFor(30 * kSecond);
  cluster_.network().Unblock({"meta"}, {ClientHost(0)});
  cluster_.network().Unblock({ClientHost(0)}, {"meta"});
  EXPECT_EQ(Sync(0, h), FsError::kOk);
  EXPECT_EQ(Read(0, second).substr(0, 4), "aaaa");
  Heal();
  EXPECT_EQ(Sync(1, theirs), FsError::kOk);
  EXPECT_EQ(Read(0, second).substr(0, 4), "mine");
  EXPECT_EQ(Read(1, ino).substr(0, 4), "mine");
  Close(0, h), Close(1, theirs);
}

// Away from all data servers as well, as when a switch is off.
TEST_F(Gaps, ASwitchThatIsOff) {
  const InodeId ino = Create(0, kRootInode, "f", Block('a'));
  VfsHandlePtr h = Open(0, ino);
  ASSERT_EQ(Put(0, h, kBlockBytes, std::string(kMiB, 'b')), FsError::kOk);
  std::set<std::string> all = {"meta"};
  for (size_t n = 0; n < cluster_.nodes(); ++n) all.insert(NodeHost(n));
  cluster_.network().Partition(all, {ClientHost(0)});
  Outcome out;
  cluster_.scope(0).Spawn(UseThrough(&vfs(0), h, 2 * kMiB, std::string(kMiB, 'c'), &out));
  RunFor(30 * kSecond);
  Heal();
  RunFor(30 * kSecond);
  EXPECT_EQ(out.wrote, FsError::kOk);
  EXPECT_EQ(out.synced, FsError::kOk);
  EXPECT_EQ(out.text, std::string(kMiB, 'c'));
  EXPECT_EQ(Get(0, h, kBlockBytes, kMiB), std::string(kMiB, 'b'));
  Close(0, h);
}

// No host reaches another, as when the switch between all of them is off: everybody misses everybody, at once.
TEST_F(Gaps, ASwitchThatIsOffForEverybody) {
  struct Used {
    InodeId ino;
    VfsHandlePtr own, gone, both;
    uint64_t session = 0;
    Outcome of_own, of_gone;
  };
  const std::string large(kMiB, 'b'), later(kMiB, 'c');
  const InodeId both = Create(0, kRootInode, "both", "text");
  std::vector<Used> used(2);
  for (size_t c = 0; c < used.size(); ++c) {
    Used& u = used[c];
    u.session = Session(c);
    u.ino = Create(c, kRootInode, "own" + std::to_string(c), Block('a'));
    u.own = Open(c, u.ino), u.both = Open(c, both, false);
    u.gone = Open(c, Create(c, kRootInode, "gone", "text"));
    ASSERT_TRUE(Unlink(c, kRootInode, "gone").ok());
    ASSERT_EQ(Get(c, u.both, 0, 4), "text");
    ASSERT_EQ(Lock(c, u.own, c + 1), FsError::kOk);
    ASSERT_EQ(Put(c, u.own, kBlockBytes, large), FsError::kOk);
  }
  std::set<std::string> hosts = {"meta"};
  for (size_t c = 0; c < used.size(); ++c) hosts.insert(ClientHost(c));
  for (size_t n = 0; n < cluster_.nodes(); ++n) hosts.insert(NodeHost(n));
  cluster_.network().Block(hosts, hosts);
  for (size_t c = 0; c < used.size(); ++c) {
    cluster_.scope(c).Spawn(UseThrough(&vfs(c), used[c].own, 2 * kMiB, later, &used[c].of_own));
    cluster_.scope(c).Spawn(UseThrough(&vfs(c), used[c].gone, 4, "more", &used[c].of_gone));
  }
  RunFor(30 * kSecond);
  Heal();
  RunFor(30 * kSecond);
  for (size_t c = 0; c < used.size(); ++c) {
    SCOPED_TRACE("client " + std::to_string(c + 1));
    Used& u = used[c];
    EXPECT_EQ(Session(c), u.session);
    for (const Outcome* o : {&u.of_own, &u.of_gone}) {
      EXPECT_EQ(o->wrote, FsError::kOk);
      EXPECT_EQ(o->synced, FsError::kOk);
    }
    EXPECT_TRUE(u.of_own.text == later);
    EXPECT_EQ(u.of_gone.text, "more");
    EXPECT_TRUE(Get(c, u.own, 0, kBlockBytes + kMiB) == Block('a') + large);
    EXPECT_EQ(Get(c, u.gone, 0, 8), "textmore");
    EXPECT_EQ(Get(c, u.both, 0, 4), "text");
    const size_t other = 1 - c;
    VfsHandlePtr theirs = Open(other, u.ino);
    EXPECT_EQ(Lock(other, theirs, 9), FsError::kAgain) << "it is still held";
    EXPECT_TRUE(Get(other, theirs, 0, kBlockBytes + kMiB) == Block('a') + large);
    EXPECT_TRUE(Get(other, theirs, 2 * kMiB, kMiB) == later);
    EXPECT_EQ(Unlock(c, u.own, c + 1), FsError::kOk);
    EXPECT_EQ(Lock(other, theirs, 9), FsError::kOk);
    Close(other, std::move(theirs));
    for (VfsHandlePtr* h : {&u.own, &u.gone, &u.both}) Close(c, std::move(*h));
  }
}

// ---- Any gap, with an oracle that knows what conflicts ----

struct Tracked {
  InodeId ino;
  VfsHandlePtr mine, theirs;
  std::string synced, now;  // as client 1 sees it: what fsync covered, and all of it
  bool dirty = false;       // differs from `synced`, perhaps
  bool changed = false;     // by the other, in the gap
  bool locked = false, lock_wanted = false;
  bool lost = false;  // the handle
};

class GapSeeds : public Gaps, public testing::WithParamInterface<uint64_t> {
 protected:
  static constexpr size_t kFiles = 6;
  static constexpr uint64_t kSlots = 4;
  void Change(size_t c, Tracked& f, Random& rng) {
    const uint64_t slot = rng.Below(kSlots);
    const std::string text = Block(static_cast<char>('b' + rng.Below(20)));
    VfsHandlePtr& h = c == 0 ? f.mine : f.theirs;
    const FsError wrote = Put(c, h, slot * kBlockBytes, text);
    ASSERT_EQ(wrote, FsError::kOk) << vfs(c).report().Describe(f.ino);
    f.now.replace(slot * kBlockBytes, kBlockBytes, text);
    if (c == 0) f.dirty = true;
  }
  void SyncMine(Tracked& f) {
    ASSERT_EQ(Sync(0, f.mine), FsError::kOk);
    f.synced = f.now;
    f.dirty = false;
  }
};

TEST_P(GapSeeds, OnlyWhatConflictsIsLost) {
  Random rng(GetParam());
  std::vector<Tracked> files(kFiles);
  for (size_t i = 0; i < kFiles; ++i) {
    Tracked& f = files[i];
    f.synced = f.now = std::string(kSlots * kBlockBytes, 'a');
    f.ino = Create(0, kRootInode, "f" + std::to_string(i), f.now);
    f.mine = Open(0, f.ino);
  }
  for (int round = 0; round < 6; ++round) {
    for (Tracked& f : files) {
      if (rng.OneIn(2)) Change(0, f, rng);
      if (f.dirty && rng.OneIn(2)) SyncMine(f);
      if (!f.locked && rng.OneIn(4)) {
        ASSERT_EQ(Lock(0, f.mine, 1), FsError::kOk);
        f.locked = true;
      }
      if (HasFatalFailure()) return;
    }
    const int64_t gap_ns = static_cast<int64_t>(rng.Between(1, rng.OneIn(4) ? 300 : 45)) * kSecond;
    const uint64_t session = Session(0);
    Cut(0);
    const int64_t until_ns = cluster_.executor().NowNs() + gap_ns;
    const int64_t lapsed_ns = cluster_.executor().NowNs() + 18 * kSecond;
    for (Tracked& f : files) {
      // The lease still lasts; what is shared would wait.
      if (rng.OneIn(3) && f.mine->inode->buffers_writes()) Change(0, f, rng);
      if (HasFatalFailure()) return;
    }
    // The other has to wait for the lease's end for these.
    for (Tracked& f : files) {
      if (cluster_.executor().NowNs() > until_ns || gap_ns < 20 * kSecond) break;
      if (rng.OneIn(3)) {
        f.theirs = Open(1, f.ino);
        ASSERT_TRUE(f.theirs);
        if (rng.OneIn(2)) {
          f.changed = true;
          f.now = f.synced;
          // What had left by itself before the gap.
          const std::string there = Get(1, f.theirs, 0, kSlots * kBlockBytes);
          if (there != f.synced) f.now = there;
          Change(1, f, rng);
          ASSERT_EQ(Sync(1, f.theirs), FsError::kOk);
        }
        if (f.locked && rng.OneIn(2)) {
          if (cluster_.executor().NowNs() < lapsed_ns) RunFor(lapsed_ns - cluster_.executor().NowNs());
          ASSERT_EQ(Lock(1, f.theirs, 2), FsError::kOk);
          ASSERT_EQ(Unlock(1, f.theirs, 2), FsError::kOk);
          f.lock_wanted = true;
        }
      }
      if (HasFatalFailure()) return;
    }
    if (cluster_.executor().NowNs() < until_ns) RunFor(until_ns - cluster_.executor().NowNs());
    Heal();
    RunFor(static_cast<int64_t>(rng.Below(20)) * kSecond);
    EXPECT_EQ(Session(0), session);
    for (Tracked& f : files) {
      const std::string where = "round " + std::to_string(round) + ", gap of " + std::to_string(gap_ns / kSecond) + " s, inode " +
                                std::to_string(f.ino.v);
      if (f.lock_wanted) RunFor(15 * kSecond);  // one try of a call: then it has heard of that. What is clean is synced without asking
      const FsError synced = Sync(0, f.mine);
      if (f.lock_wanted) {
        EXPECT_EQ(synced, FsError::kIo) << where << ": its lock was another's";
      } else if (!f.changed) {
        EXPECT_EQ(synced, FsError::kOk) << where << ": nobody has changed it";
      } else if (!f.dirty) {
        EXPECT_EQ(synced, FsError::kOk) << where << ": nothing of it was unwritten";
      }
      const bool lost = synced != FsError::kOk;
      EXPECT_TRUE(!lost || synced == FsError::kIo) << where << synced;
      if (lost) {
        EXPECT_EQ(Do(vfs(0).Read(kRoot, f.mine, 0, 1)).code(), FsError::kIo) << where;
        Close(0, std::move(f.mine));
        f.mine = Open(0, f.ino);
        f.locked = false;
      }
      const std::string seen = Get(0, f.mine, 0, kSlots * kBlockBytes);
      // A lock of its own was lost, not bytes of others: then of its bytes any prefix may be there.
      if (!f.lock_wanted || f.changed) EXPECT_TRUE(seen == f.now) << where << (f.changed ? ": the other's bytes" : "");
      VfsHandlePtr other = f.theirs ? f.theirs : Open(1, f.ino);
      EXPECT_TRUE(Get(1, other, 0, kSlots * kBlockBytes) == seen) << where;
      Close(1, std::move(other));
      f.theirs = nullptr;
      f.now = f.synced = seen;
      f.dirty = f.changed = f.lock_wanted = false;
      if (HasFailure()) return;
    }
  }
  for (Tracked& f : files) Close(0, std::move(f.mine));
}

// STRIA_TEST_SEEDS=1000 for more.
uint64_t Seeds() {
  const char* text = std::getenv("STRIA_TEST_SEEDS");
  return text == nullptr ? (kSanitized ? 30 : 60) : std::strtoull(text, nullptr, 10);
}
INSTANTIATE_TEST_SUITE_P(Seeds, GapSeeds, testing::Range<uint64_t>(1, 1 + Seeds()));

}  // namespace
}  // namespace stria
