#include "client/vfs/come_back.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "client/vfs/floor_testing.h"

namespace stria {
namespace {

constexpr InodeId kDir{2};
constexpr InodeId kIno{6};

class ComeBackTest : public ::testing::Test, public LowerFloorForTest {
 public:
  ComeBackTest()
      : room({table, nodes, last_known, leases, made_ahead, write_back, locks, take_ups, view}, Needs(), scope) {}
  ~ComeBackTest() override { scope.CancelAll(); }

  ComeBackNeeds Needs() {
    ComeBackNeeds needs;
    needs.generation = [this] { return generation; };
    needs.number_call = [this] { return ++numbers; };
    needs.paths = [this](InodeRequest r) -> Task<Result<PathsReply>> {
      names_asked.push_back(r.ino);
      PathsReply reply;
      reply.paths.push_back("/a");
      co_return reply;
    };
    needs.unknown_lost = [this](InodeId ino) { unknown_lost.push_back(ino); };
    needs.all_lost = [this] { ++all_lost; };
    return needs;
  }

  VfsInodePtr OpenFile(InodeId ino = kIno, LeaseMode mode = LeaseMode::kExclusive) {
    return LowerFloorForTest::OpenFile(ino, mode);
  }
  VfsHandle HandleOf(const VfsInodePtr& inode) const {
    VfsHandle h;
    h.inode = inode;
    h.generation = generation;
    h.era = inode->loss.era();
    return h;
  }
  static Task<void> For(int64_t ns) { co_await Sleep(ns); }
  void CameBack(std::vector<NotTaken> not_taken = {}) { RunSim(ex, room.OnCameBack(std::move(not_taken))); }
  static bool Contains(const std::vector<InodeId>& all, InodeId ino) { return std::count(all.begin(), all.end(), ino) > 0; }

  int all_lost = 0;
  std::vector<InodeId> unknown_lost;
  std::vector<InodeId> names_asked;
  ComeBack room;
};

// ---- After a lapse.
TEST_F(ComeBackTest, NoLeaseOfBeforeIsOneButWhatIsOpenStaysOpen) {
  const VfsInodePtr file = OpenFile();
  const VfsHandle h = HandleOf(file);
  const uint64_t mapping = file->mapping.epoch();
  CameBack();
  EXPECT_TRUE(file->lease.none());
  EXPECT_FALSE(file->attr_known);
  EXPECT_NE(file->mapping.epoch(), mapping);
  EXPECT_EQ(file->attr.version, 0u);  // whatever the server says next is newer
  EXPECT_TRUE(room.CheckHandle(h).ok());
  EXPECT_EQ(take_ups_tried, 0);
}

TEST_F(ComeBackTest, UncommittedBytesMayBeCommittedOverTheirVersionOnly) {
  const VfsInodePtr file = OpenFile();
  Write(file);
  CameBack();
  RunSim(ex, For(kMillisecond));
  EXPECT_EQ(file->take_up.base(), kDataVersion);
  EXPECT_TRUE(file->attr_known);  // they are shown over what the server says
  EXPECT_FALSE(file->writes.clean());
  EXPECT_GT(take_ups_tried, 0);
}

TEST_F(ComeBackTest, WhatWasClaimedIsOwedToTheServer) {
  const VfsInodePtr file = OpenFile();
  const VfsInodePtr idle = table.Of(InodeId(7));
  GrantForTest(*idle, LeaseMode::kRead, false, generation);
  const std::vector<HeldInode> held = room.Held();
  ASSERT_EQ(held.size(), 2u);
  EXPECT_FALSE(held[0].idle);
  EXPECT_TRUE(held[1].idle);
  CameBack();
  EXPECT_GT(file->lease.owes(), 0u);  // the server has it open: nobody else may forget that
  EXPECT_EQ(table.Find(InodeId(7)), nullptr);
}

TEST_F(ComeBackTest, TheKernelForgetsNamesAndAttributesThatItMayHave) {
  Attr attr;
  attr.ino = kDir;
  (void)nodes.Remember(attr, nodes.epoch());
  const VfsInodePtr file = OpenFile();
  (void)file->in_kernel.OpenPages(kDataVersion);
  CameBack();
  RunSim(ex, For(kMillisecond));
  EXPECT_EQ(names_forgotten, 1);
  EXPECT_TRUE(Contains(attrs_forgotten, kDir));
  EXPECT_TRUE(Contains(pages_forgotten, kIno));
  EXPECT_TRUE(nodes.attrs().All().empty());
}

// ---- What is lost.
TEST_F(ComeBackTest, AFileThatIsGoneIsLostWithItsBytesAndHandles) {
  const VfsInodePtr file = OpenFile();
  const VfsInodePtr other = OpenFile(InodeId(7));
  Write(file);
  const VfsHandle before = HandleOf(file), of_other = HandleOf(other);
  (void)room.Held();
  CameBack({{kIno, /*lock=*/false}});
  RunSim(ex, For(kMillisecond));
  const Result<void> checked = room.CheckHandle(before);
  ASSERT_FALSE(checked.ok());
  EXPECT_EQ(checked.code(), FsError::kIo);
  EXPECT_NE(checked.error().message.find("it is not there any more"), std::string::npos) << checked.error().message;
  EXPECT_TRUE(file->writes.clean());
  EXPECT_FALSE(file->take_up.any());
  EXPECT_EQ(file->lease.owes(), 0u);
  EXPECT_EQ(names_asked, std::vector<InodeId>({kIno}));  // for the log
  EXPECT_TRUE(Contains(pages_forgotten, kIno));
  EXPECT_TRUE(room.CheckHandle(of_other).ok());
  EXPECT_TRUE(room.CheckHandle(HandleOf(file)).ok());  // opened after it
}

TEST_F(ComeBackTest, ALockThatAnotherClientHasHadLosesTheFile) {
  const VfsInodePtr file = OpenFile();
  file->locks.Of({LockKind::kFlock, 3}).more = true;
  const VfsHandle before = HandleOf(file);
  (void)room.Held();
  CameBack({{kIno, /*lock=*/true}});
  RunSim(ex, For(kMillisecond));
  EXPECT_FALSE(room.CheckHandle(before).ok());
  EXPECT_GT(file->lease.owes(), 0u);  // the server has it open
  EXPECT_GT(lock_requests, 0);        // and is told that none of its locks is held
}

// The server would refuse the whole claim, and all that is open here would be lost.
TEST_F(ComeBackTest, WhatIsOpenByAFormerSessionOnlyIsNotClaimed) {
  const VfsInodePtr file = OpenFile(), lost = table.Of(InodeId(7));
  ++lost->readers;
  lost->lease.BelongsTo(generation);
  const std::vector<HeldInode> held = room.Held();
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].ino, kIno);
  EXPECT_FALSE(lost->lease.claimed());
}

TEST_F(ComeBackTest, WhatTheServerNeverHadIsNotLostThere) {
  const VfsInodePtr file = OpenFile();
  MadeFile made;
  made.parent = kDir;
  made.name = "new";
  made.made_ns = 1;
  made_ahead.Add(MadeOf(file), std::move(made), Caller());
  EXPECT_TRUE(room.Leased().empty());
  EXPECT_TRUE(room.Held().at(0).idle);  // not claimed
  const VfsHandle h = HandleOf(file);
  CameBack({{kIno, false}});
  EXPECT_TRUE(room.CheckHandle(h).ok());
}

TEST_F(ComeBackTest, AFileThatHasChangedIsLost) {
  const VfsInodePtr file = OpenFile();
  Write(file);
  const VfsHandle before = HandleOf(file);
  room.Lose(file, "it has changed");
  EXPECT_EQ(file->loss.era(), 1u);
  EXPECT_NE(room.CheckHandle(before).error().message.find("it has changed"), std::string::npos);
  EXPECT_TRUE(file->writes.clean());
  EXPECT_EQ(write_back.dirty_bytes(), 0u);
  EXPECT_TRUE(file->lease.none());
  EXPECT_GT(file->lease.owes(), 0u);
}

// ---- After a restart of the server, or another session.
TEST_F(ComeBackTest, ARestartKeepsWhatOnlyThisClientKnows) {
  const VfsInodePtr written = OpenFile();
  Write(written);
  const VfsInodePtr read = OpenFile(InodeId(7), LeaseMode::kRead);
  const VfsHandle h = HandleOf(written);
  RunSim(ex, room.OnReclaimed(/*lost=*/false));
  EXPECT_EQ(written->lease.mode(), LeaseMode::kExclusive);
  EXPECT_TRUE(written->attr_known);
  EXPECT_FALSE(written->writes.clean());
  EXPECT_EQ(read->lease.mode(), LeaseMode::kRead);
  EXPECT_FALSE(read->attr_known);  // others may have changed it, and died with the server
  EXPECT_TRUE(room.CheckHandle(h).ok());
  EXPECT_EQ(all_lost, 0);
}

TEST_F(ComeBackTest, WithTheSessionAllIsLost) {
  const VfsInodePtr file = OpenFile();
  Write(file);
  (void)file->in_kernel.OpenPages(kDataVersion);
  const VfsHandle before = HandleOf(file);
  ++generation;
  EXPECT_TRUE(room.Held().empty());
  RunSim(ex, room.OnReclaimed(/*lost=*/true));
  RunSim(ex, For(kMillisecond));
  EXPECT_EQ(all_lost, 1);
  EXPECT_NE(room.CheckHandle(before).error().message.find("lost its session"), std::string::npos);
  EXPECT_TRUE(file->writes.clean());
  EXPECT_TRUE(file->lease.none());
  EXPECT_EQ(file->lease.generation(), generation);
  EXPECT_TRUE(Contains(pages_forgotten, kIno));
}

// No handle gives the error of a new name that the server never heard of, or of the bytes of a closed file. So the room reports these.
TEST_F(ComeBackTest, WhatTheServerNeverHeardOfIsLostWithTheSession) {
  const VfsInodePtr closed = OpenFile();
  Write(closed);
  --closed->writers;
  const VfsInodePtr open = OpenFile(InodeId(7));
  Write(open);
  const VfsInodePtr made = OpenFile(InodeId(8));
  MadeFile file;
  file.parent = kDir;
  file.name = "new";
  file.made_ns = 1;
  made_ahead.Add(MadeOf(made), std::move(file), Caller());
  ++generation;
  RunSim(ex, room.OnReclaimed(/*lost=*/true));
  std::sort(unknown_lost.begin(), unknown_lost.end());
  EXPECT_EQ(unknown_lost, (std::vector<InodeId>{kDir, kIno}));
}

TEST_F(ComeBackTest, ARepeatedMutationGivesTheFileAnotherVersion) {
  const VfsInodePtr file = OpenFile();
  room.OnRepeated(kIno, kDataVersion - 1, 90);  // others of ours came after it
  EXPECT_EQ(file->attr.data_version, kDataVersion);
  room.OnRepeated(kIno, kDataVersion, 91);
  EXPECT_EQ(file->attr.data_version, 91u);
  room.OnRepeated(InodeId(99), 1, 2);  // not in use here
}

// What it was granted meanwhile it made less of: the next use asks again.
TEST_F(ComeBackTest, ATakenUpFileAsksAgain) {
  const VfsInodePtr file = OpenFile();
  room.TookUp(*file);
  EXPECT_TRUE(file->lease.none());
  EXPECT_FALSE(file->attr_known);
  EXPECT_GT(file->lease.owes(), 0u);
}

}  // namespace
}  // namespace stria
