// A session is lost together with a change: the server forgot the change in a restart, and others went on without it. Calls that
// only read are answered in the next session. Changes that begin when it is lost, and there is no next one yet, are made in that.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace stria
