// A session is lost together with a change: the server forgot the change in a restart, and others went on without it. Calls that
// only read are answered in the next session. Changes that begin when it is lost, and there is no next one yet, are made in that. One
// sync of the inode of a lost change fails, whether it begins before or after there is a next session. If the server has not
// restarted no sync fails.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "test/sim/gaps_testing.h"

namespace stria {
namespace {

constexpr int kCalls = 8;
constexpr uint32_t kChanges = 30;  // a power cut loses the last of them

Task<void> Ask(Vfs* vfs, int call, InodeId file, InodeId link, std::vector<FsError>* answers) {
  VfsHandle flags;
  flags.read = true;
  FsError answer = FsError::kOk;
  switch (call) {
    case 0: answer = (co_await vfs->Lookup(kRoot, kRootInode, "f")).code(); break;
    case 1: answer = (co_await vfs->GetAttr(kRoot, file)).code(); break;
    case 2: answer = (co_await vfs->ReadDir(kRoot, kRootInode, 0, 100, true)).code(); break;
    case 3: answer = (co_await vfs->GetXattr(kRoot, file, "user.x")).code(); break;
    case 4: answer = (co_await vfs->ListXattr(kRoot, file)).code(); break;
    case 5: answer = (co_await vfs->ReadLink(kRoot, link)).code(); break;
    case 6: answer = (co_await vfs->StatFs(kRoot)).code(); break;
    case 7: {
      const auto opened = co_await vfs->Open(kRoot, file, false, flags);
      answer = opened.code();
      if (opened.ok()) (void)co_await vfs->Release(kRoot, opened->handle);
      break;
    }
  }
  answers->push_back(answer);
}

Task<void> Change(Vfs* vfs, InodeId file, uint32_t mode, size_t* done) {
  SetAttrIn set;
  set.mode = mode;
  EXPECT_TRUE((co_await vfs->SetAttr(kRoot, file, set)).ok());
  ++*done;
}

class LostSessionOf : public Gaps, public testing::WithParamInterface<int> {};

TEST_P(LostSessionOf, ACallThatNeedsNothingOfItIsAnswered) {
  const InodeId ino = Create(1, kRootInode, "f", Block('a'));
  const auto link = Do(vfs(1).MakeNode(kRoot, kRootInode, "l", FileType::kSymlink, 0777, 0, "f"));
  ASSERT_TRUE(link.ok()) << link.error();
  ASSERT_EQ(Do(vfs(1).SetXattr(kRoot, ino, "user.x", "v", false, false)).code(), FsError::kOk);
  RunFor(10 * kSecond);  // what was done is known to be durable
  size_t changed = 0;
  for (uint32_t i = 0; i < kChanges; ++i) cluster_.scope(0).Spawn(Change(&vfs(0), ino, 0600 + i, &changed));
  cluster_.executor().RunUntil([&] { return changed == kChanges; }, cluster_.executor().NowNs() + kSecond);
  const uint64_t session = Session(0);
  Cut(0);
  cluster_.CrashMeta(true);
  cluster_.StartMeta();
  RunFor(25 * kSecond);
  std::vector<FsError> answers;
  cluster_.scope(0).Spawn(Ask(&vfs(0), GetParam(), ino, link->attr.ino, &answers));
  RunFor(5 * kSecond);
  ASSERT_TRUE(answers.empty());
  Heal();
  RunFor(20 * kSecond);
  EXPECT_NE(Session(0), session);
  EXPECT_EQ(answers, std::vector<FsError>{FsError::kOk});
}
INSTANTIATE_TEST_SUITE_P(Calls, LostSessionOf, testing::Range(0, kCalls));

Task<void> Begin(Vfs* vfs, int change, InodeId file, std::vector<FsError>* answers) {
  SetAttrIn set;
  set.mode = 0640;
  VfsHandle flags;
  flags.read = flags.write = true;
  FsError answer = FsError::kOk;
  switch (change) {
    case 0: answer = (co_await vfs->Rename(kRoot, kRootInode, "a", kRootInode, "b", true, false)).code(); break;
    case 1: answer = (co_await vfs->Unlink(kRoot, kRootInode, "c")).code(); break;
    case 2: answer = (co_await vfs->MakeNode(kRoot, kRootInode, "d", FileType::kDirectory, 0755, 0, "")).code(); break;
    case 3: answer = (co_await vfs->Link(kRoot, file, kRootInode, "l")).code(); break;
    case 4: answer = (co_await vfs->SetAttr(kRoot, file, set)).code(); break;
    case 5: answer = (co_await vfs->SetXattr(kRoot, file, "user.x", "v", false, false)).code(); break;
    case 6: {
      const auto made = co_await vfs->Create(kRoot, kRootInode, "e", 0644, true, false, flags);
      answer = made.code();
      if (made.ok()) (void)co_await vfs->Release(kRoot, made->handle);
      break;
    }
  }
  answers->push_back(answer);
}

constexpr int kChangesOfNames = 7;

TEST_F(Gaps, AChangeThatBeginsWhenTheSessionIsLostIsMadeInTheNextOne) {
  const InodeId ino = Create(1, kRootInode, "f", Block('a'));
  Create(1, kRootInode, "a", Block('b'));
  Create(1, kRootInode, "c", Block('c'));
  RunFor(10 * kSecond);
  GapOf(0, 3600 * kSecond);  // longer than the server remembers a session that has lapsed
  MetaSession& session = cluster_.client(0).session();
  ASSERT_TRUE(cluster_.executor().RunUntil([&] { return session.fenced(); }, cluster_.executor().NowNs() + 60 * kSecond));
  std::vector<FsError> answers;
  for (int i = 0; i < kChangesOfNames; ++i) cluster_.scope(0).Spawn(Begin(&vfs(0), i, ino, &answers));
  EXPECT_TRUE(session.fenced());
  RunFor(20 * kSecond);
  EXPECT_EQ(answers, std::vector<FsError>(kChangesOfNames, FsError::kOk));
  EXPECT_EQ(Do(vfs(1).Lookup(kRoot, kRootInode, "b")).code(), FsError::kOk);
}

Task<void> MakeOneDir(Vfs* vfs, InodeId parent, std::string name, size_t* done) {
  EXPECT_TRUE((co_await vfs->MakeNode(kRoot, parent, name, FileType::kDirectory, 0755, 0, "")).ok());
  ++*done;
}

Task<void> SyncInto(Vfs* vfs, InodeId dir, std::vector<FsError>* answers) {
  answers->push_back((co_await vfs->SyncDir(kRoot, dir)).code());
}

class LostSession : public Gaps {
 protected:
  // The second restart does not know what the first one lost, so every change that is not known durable is in doubt.
  void RestartTwice() {
    for (int i = 0; i < 2; ++i) {
      cluster_.CrashMeta(true);
      cluster_.StartMeta();
      RunFor(kSecond);
    }
    RunFor(25 * kSecond);
  }
};

class LostChangesOf : public LostSession, public testing::WithParamInterface<bool> {
 protected:
  // Client 0 changes a file, or names of a directory, and is cut off before it is told that they are durable.
  void Change(bool names) {
    dir_ = Do(vfs(0).MakeNode(kRoot, kRootInode, "dir", FileType::kDirectory, 0755, 0, ""))->attr.ino;
    other_ = Do(vfs(0).MakeNode(kRoot, kRootInode, "other", FileType::kDirectory, 0755, 0, ""))->attr.ino;
    file_ = Create(0, kRootInode, "f", Block('a'));
    RunFor(10 * kSecond);
    size_t done = 0;
    for (uint32_t i = 0; i < kChanges; ++i) {
      if (names) cluster_.scope(0).Spawn(MakeOneDir(&vfs(0), dir_, "n" + std::to_string(i), &done));
      else cluster_.scope(0).Spawn(stria::Change(&vfs(0), file_, 0600 + i, &done));
    }
    ASSERT_TRUE(cluster_.executor().RunUntil([&] { return done == kChanges; }, cluster_.executor().NowNs() + kSecond));
    session_ = Session(0);
    Cut(0);
  }
  void LosePower() {
    RestartTwice();
    ASSERT_EQ(Session(0), session_);
  }
  // The answers to two syncs of `dir`. The first one begins as soon as the session is lost, or when there is another session.
  std::vector<FsError> SyncTwice(InodeId dir, bool at_once) {
    MetaSession& session = cluster_.client(0).session();
    Heal();
    EXPECT_TRUE(cluster_.executor().RunUntil([&] { return session.generation() != session_; }, cluster_.executor().NowNs() + 60 * kSecond));
    if (!at_once) RunFor(20 * kSecond);
    EXPECT_EQ(session.fenced(), at_once);
    std::vector<FsError> answers;
    cluster_.scope(0).Spawn(SyncInto(&vfs(0), dir, &answers));
    RunFor(20 * kSecond);
    cluster_.scope(0).Spawn(SyncInto(&vfs(0), dir, &answers));
    RunFor(5 * kSecond);
    return answers;
  }

  InodeId dir_, other_, file_;
  uint64_t session_ = 0;
};

TEST_P(LostChangesOf, ASyncOfTheirDirectoryTellsOnce) {
  Change(true);
  LosePower();
  EXPECT_EQ(SyncTwice(dir_, GetParam()), (std::vector<FsError>{FsError::kIo, FsError::kOk}));
  EXPECT_EQ(Do(vfs(0).SyncDir(kRoot, other_)).code(), FsError::kOk);  // nothing of it was lost
}

TEST_P(LostChangesOf, ASyncOfTheirFileTellsOnce) {
  Change(false);
  LosePower();
  EXPECT_EQ(SyncTwice(other_, GetParam()), (std::vector<FsError>{FsError::kOk, FsError::kOk}));
  const VfsHandlePtr file = Open(0, file_);
  EXPECT_EQ(Sync(0, file), FsError::kIo);
  EXPECT_EQ(Sync(0, file), FsError::kOk);
  Close(0, file);
}

TEST_P(LostChangesOf, ASyncSaysOkIfTheServerHasNotRestarted) {
  Change(true);
  RunFor(3600 * kSecond);  // longer than the server remembers a session that has lapsed
  EXPECT_EQ(SyncTwice(dir_, GetParam()), (std::vector<FsError>{FsError::kOk, FsError::kOk}));
  EXPECT_EQ(Do(vfs(1).Lookup(kRoot, dir_, "n" + std::to_string(kChanges - 1))).code(), FsError::kOk);
}
INSTANTIATE_TEST_SUITE_P(AtOnceOrLater, LostChangesOf, testing::Bool());

// A change that was answered before a sync is durable. The client knows that at once, and not with its next renewal.
TEST_F(LostSession, NothingIsLostThatWasSynced) {
  const InodeId dir = Do(vfs(0).MakeNode(kRoot, kRootInode, "dir", FileType::kDirectory, 0755, 0, ""))->attr.ino;
  ASSERT_EQ(Do(vfs(0).SyncDir(kRoot, kRootInode)).code(), FsError::kOk);
  const uint64_t session = Session(0);
  Cut(0);
  RestartTwice();
  Heal();
  RunFor(20 * kSecond);
  EXPECT_EQ(Session(0), session);  // it has come back: nothing of it is in doubt
  EXPECT_EQ(Do(vfs(0).SyncDir(kRoot, kRootInode)).code(), FsError::kOk);
  EXPECT_EQ(Do(vfs(0).SyncDir(kRoot, dir)).code(), FsError::kOk);
}

}  // namespace
}  // namespace stria
