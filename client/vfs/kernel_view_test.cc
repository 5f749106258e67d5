#include "client/vfs/kernel_view.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/exec/sim_run.h"

namespace stria {
namespace {

constexpr InodeId kIno{7};

// A kernel that takes its time and says what it was told.
class FakeKernel : public KernelCache {
 public:
  Task<void> InvalidateInode(InodeId, bool data, uint64_t offset, uint64_t length) override {
    told.push_back(data ? "pages " + std::to_string(offset) + "+" + std::to_string(length) : "attributes");
    co_await Sleep(kMillisecond);
  }
  Task<void> NameChanged(InodeId, std::string) override { co_return; }
  Task<void> SizeGrew(InodeId, uint64_t last, uint8_t byte) override {
    told.push_back("grown to " + std::to_string(last) + " with " + static_cast<char>(byte));
    co_return;
  }

  std::vector<std::string> told;
};

class KernelViewTest : public ::testing::Test {
 public:
  KernelViewTest() : ex(1), file(std::make_shared<InodeInKernel>(kIno)), room(kernel, Needs(), scope) {}
  ~KernelViewTest() override { scope.CancelAll(); }

  KernelViewNeeds Needs() {
    KernelViewNeeds needs;
    needs.may_show_growth = [this](const InodeInKernelPtr&) { return may_show; };
    needs.being_cut = [this](const InodeInKernelPtr&) { return being_cut; };
    needs.look = [this](InodeInKernelPtr of) -> Task<Result<FileGrowth>> {
      co_await Sleep(look_ns);
      FileGrowth found;
      found.seen.size = server_size;
      found.seen.data_version = 9;
      if (server_size > of->size()) found.last = 'z';
      co_return found;
    };
    needs.pages_may_come = [this] { ++pages_may_come; };
    return needs;
  }
  static Task<void> For(int64_t ns) { co_await Sleep(ns); }

  SimExecutor ex;
  FakeKernel kernel;
  bool may_show = true, being_cut = false;
  int64_t look_ns = kMillisecond;
  uint64_t server_size = 0;
  int pages_may_come = 0;
  InodeInKernelPtr file;
  TaskScope scope;
  KernelView room;
};

using Told = std::vector<std::string>;

TEST_F(KernelViewTest, PagesOfEarlierOpensAreKeptWhileTheFileIsAsItWas) {
  EXPECT_FALSE(file->OpenPages(3));
  EXPECT_TRUE(file->OpenPages(3));
  EXPECT_FALSE(file->OpenPages(4));
  file->KeptPagesAreOld();
  EXPECT_FALSE(file->OpenPages(4));
  for (int i = 0; i < 4; ++i) file->ClosePages();
  EXPECT_FALSE(file->has_pages());
}

// A read that shows a newer version drops the pages first, once.
TEST_F(KernelViewTest, OldPagesGoBeforeANewerVersionIsShown) {
  (void)file->OpenPages(3);
  RunSim(ex, room.DropOldPages(file, 3));
  EXPECT_TRUE(kernel.told.empty());
  RunSim(ex, room.DropOldPages(file, 4));
  RunSim(ex, room.DropOldPages(file, 4));
  EXPECT_EQ(kernel.told, Told{"pages 0+0"});
  EXPECT_EQ(pages_may_come, 1);
  // What a program here writes is newer than that, too.
  file->WrittenBesidePages();
  EXPECT_FALSE(file->PagesAre(file->WantedAt(4)));
  RunSim(ex, room.DropOldPages(file, 4));
  EXPECT_TRUE(file->PagesAre(file->WantedAt(4)));
}

// A write while the kernel forgets pages makes pages that come meanwhile old.
TEST_F(KernelViewTest, PagesAreAsNewAsBeforeTheKernelWasAsked) {
  (void)file->OpenPages(3);
  scope.Spawn(room.DropOldPages(file, 4));
  RunSim(ex, For(kMillisecond / 2));
  EXPECT_TRUE(file->forgetting());
  file->WrittenBesidePages();
  RunSim(ex, scope.Join());
  EXPECT_FALSE(file->forgetting());
  EXPECT_FALSE(file->PagesAre(file->WantedAt(4)));
}

TEST_F(KernelViewTest, WhatIsShownMeanwhileIsNotForgotten) {
  file->AttrShown(5);
  scope.Spawn(room.ForgetShown(kIno, file));
  RunSim(ex, For(kMillisecond / 2));
  file->AttrShown(6);
  RunSim(ex, scope.Join());
  EXPECT_FALSE(file->attr_forgotten());
  EXPECT_EQ(file->shown_version(), 6u);
  RunSim(ex, room.ForgetShown(kIno, file));
  EXPECT_TRUE(file->attr_forgotten());
  RunSim(ex, room.ForgetShown(kIno, file));  // it has nothing: it is not asked
  EXPECT_EQ(kernel.told.size(), 2u);
  RunSim(ex, room.ForgetShown(kIno, nullptr));  // of what is not in use here nobody knows
  EXPECT_EQ(kernel.told.size(), 3u);
}

TEST_F(KernelViewTest, OfAFileThatGrewTheKernelLearnsSizeAndLastByte) {
  file->SizeStored(10);
  server_size = 100;
  RunSim(ex, room.ForgetOldBytes(file));
  EXPECT_EQ(kernel.told, (Told{"pages 0+0", "grown to 99 with z", "pages 99+1"}));
  EXPECT_EQ(file->size(), 100u);
  EXPECT_TRUE(file->PagesAre(file->WantedAt(9)));
}

TEST_F(KernelViewTest, WhatTheKernelKnowsItIsNotTold) {
  file->SizeStored(100);
  file->SizeShown(100);
  server_size = 100;
  RunSim(ex, room.ForgetOldBytes(file));
  EXPECT_EQ(kernel.told, Told{"pages 0+0"});
}

// The kernel drops the answer that says so, if it is told to forget pages before it has taken it.
TEST_F(KernelViewTest, ASizeOfAnAnswerIsNotSurelyKnown) {
  file->SizeStored(10);
  file->SizeShown(100);
  server_size = 100;
  RunSim(ex, room.ForgetOldBytes(file));
  EXPECT_EQ(kernel.told, (Told{"pages 0+0", "grown to 99 with z", "pages 99+1"}));
  kernel.told.clear();
  file->SizeShown(50);  // another one has cut it, and made it longer again
  RunSim(ex, room.ForgetOldBytes(file));
  EXPECT_EQ(kernel.told, (Told{"pages 0+0", "grown to 99 with z", "pages 99+1"}));
}

// Others wait for it: a server that does not answer costs them a moment, and the growth is not told.
TEST_F(KernelViewTest, OthersWaitForASilentServerForAMoment) {
  server_size = 100;
  look_ns = 3600 * kSecond;
  RunSim(ex, room.ForgetOldBytes(file), 10 * kSecond);
  EXPECT_EQ(kernel.told, Told{"pages 0+0"});
}

// While it is cut here the kernel holds back its pages until it has the answer, which may wait for others.
TEST_F(KernelViewTest, NobodyWaitsForPagesOfAFileThatIsBeingCut) {
  being_cut = true;
  may_show = false;
  server_size = 100;
  RunSim(ex, room.ForgetOldBytes(file));
  EXPECT_FALSE(file->PagesAre(file->WantedAt(9)));
  RunSim(ex, scope.Join());
  EXPECT_EQ(kernel.told, Told{"pages 0+0"});
}

TEST_F(KernelViewTest, AFileGrowsForAWhileAfterItGrew) {
  EXPECT_FALSE(file->GrewSince(-kSecond));
  file->Grew(kSecond);
  EXPECT_TRUE(file->GrewSince(0));
  EXPECT_FALSE(file->GrewSince(kSecond));
}

}  // namespace
}  // namespace stria
