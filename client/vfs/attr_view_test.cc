#include "client/vfs/attr_view.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/vfs/inode_testing.h"
#include "common/exec/sim_run.h"

namespace stria {
namespace {

constexpr InodeId kIno{6};
constexpr uint64_t kGeneration = 1;

class AttrViewTest : public ::testing::Test, public KernelCache {
 public:
  AttrViewTest()
      : ex(1), table(InodesNeedsForTest(&released)), nodes(100, ForNodes()), made_ahead(false, MadeAheadNeeds(), counters, scope),
        write_back(WriteBackOptions(), WriteBackNeeds(), counters, scope), kernel_view(*this, KernelViewNeeds(), scope),
        room(table, nodes, made_ahead, kernel_view, [this] { return lease_left_ns; }) {}
  ~AttrViewTest() override { scope.CancelAll(); }

  Task<void> InvalidateInode(InodeId, bool, uint64_t, uint64_t) override {
    ++forgotten;
    co_return;
  }
  Task<void> NameChanged(InodeId, std::string) override { co_return; }

  NodeCacheNeeds ForNodes() {
    NodeCacheNeeds needs;
    needs.generation = [] { return kGeneration; };
    needs.lease_left_ns = [this] { return lease_left_ns; };
    return needs;
  }
  // As an answer says it.
  static Attr File(uint64_t size, uint64_t version) {
    Attr attr;
    attr.ino = kIno;
    attr.type = FileType::kFile;
    attr.nlink = 1;
    attr.size = size;
    attr.mtime_ns = attr.ctime_ns = 1000;
    attr.version = version;
    return attr;
  }
  VfsInodePtr Held() {
    const VfsInodePtr inode = table.Of(kIno);
    GrantForTest(*inode, LeaseMode::kExclusive, true, kGeneration);
    inode->attr = File(10, 1);
    return inode;
  }
  // Ours, not committed: the file is `size` long from here on.
  void Write(const VfsInodePtr& inode, uint64_t size) {
    write_back.Take(WritesOf(inode), 0, Buffer::FromString(std::string(size, 'x')), true, 1 * kMiB);
    inode->attr.size = size;
    inode->attr.mtime_ns = inode->attr.ctime_ns = 5000;
  }
  SimExecutor ex;
  int64_t lease_left_ns = 5 * kSecond;
  int forgotten = 0;
  std::vector<InodeId> released;
  IoCounters counters;
  TaskScope scope;
  Inodes table;
  NodeCache nodes;
  MadeAhead made_ahead;
  WriteBack write_back;
  KernelView kernel_view;
  AttrView room;
};

TEST_F(AttrViewTest, BytesThatAreDirtyWinOverTheServer) {
  const VfsInodePtr file = Held();
  Write(file, 100);
  const EntryOut shown = room.Newest(File(10, 2));
  EXPECT_EQ(shown.attr.size, 100u);
  EXPECT_EQ(shown.attr.mtime_ns, 5000);
  EXPECT_EQ(shown.attr.allocated_bytes, 100u);
  EXPECT_EQ(shown.attr_valid_ns, 0);  // to be used once
  // An answer does not make them less, but what else it says counts.
  Attr seen = File(10, 2);
  seen.mode = 0600;
  room.UpdateInode(seen, true);
  EXPECT_EQ(file->attr.size, 100u);
  EXPECT_EQ(file->attr.mtime_ns, 5000);
  EXPECT_EQ(file->attr.mode, 0600u);
}

TEST_F(AttrViewTest, WithoutAnyTheServerIsRight) {
  const VfsInodePtr file = Held();
  EXPECT_EQ(room.Newest(File(20, 2)).attr.size, 20u);
  room.UpdateInode(File(20, 2), true);
  EXPECT_EQ(file->attr.size, 20u);
  room.UpdateInode(File(15, 1), true);  // an older answer
  EXPECT_EQ(file->attr.size, 20u);
}

// Bytes that were committed meanwhile are in neither: it is used once, and the kernel asks again.
TEST_F(AttrViewTest, OfAnAnswerThatAnotherHasOvertakenNothingIsKept) {
  const VfsInodePtr file = Held();
  file->attr = File(20, 3);
  EXPECT_EQ(room.Remember(File(10, 2), nodes.epoch()).attr_valid_ns, 0);
  EXPECT_EQ(file->attr.size, 20u);
  EXPECT_FALSE(nodes.FindAttr(kIno));
  EXPECT_GT(room.Remember(File(30, 4), nodes.epoch()).attr_valid_ns, 0);
  EXPECT_EQ(nodes.FindAttr(kIno)->size, 30u);
}

TEST_F(AttrViewTest, TheKernelKeepsAttributesAsLongAsTheLeaseAndTenSeconds) {
  EXPECT_EQ(room.Overlay(File(10, 1)).attr_valid_ns, 5 * kSecond);
  lease_left_ns = 60 * kSecond;
  EXPECT_EQ(room.Overlay(File(10, 1)).attr_valid_ns, 10 * kSecond);
  lease_left_ns = -1;
  EXPECT_EQ(room.Overlay(File(10, 1)).attr_valid_ns, 0);
}

// Others may see the change before the call's thread has its answer.
TEST_F(AttrViewTest, WhileItsSizeChangesNobodyKeepsAttributes) {
  const VfsInodePtr file = Held();
  EXPECT_GT(room.Overlay(File(10, 1)).attr_valid_ns, 0);
  {
    AttrView::Resizing resizing(&room, kIno);
    RunSim(ex, resizing.Begin());
    EXPECT_EQ(forgotten, 1);
    EXPECT_EQ(room.Overlay(File(10, 1)).attr_valid_ns, 0);
    EXPECT_TRUE(file->in_kernel.attr_forgotten());
  }
  EXPECT_GT(room.Overlay(File(10, 1)).attr_valid_ns, 0);
  EXPECT_FALSE(file->in_kernel.attr_forgotten());
}

TEST_F(AttrViewTest, OfAFileThatGrowsTheKernelKeepsNone) {
  const VfsInodePtr file = Held();
  ++file->writers;
  file->in_kernel.Grew(ex.NowNs());
  EXPECT_EQ(room.Overlay(File(10, 1)).attr_valid_ns, 0);
  RunSim(ex, []() -> Task<void> { co_await Sleep(3 * kSecond); }());
  EXPECT_GT(room.Overlay(File(10, 1)).attr_valid_ns, 0);
}

// So that it asks before each read of them.
TEST_F(AttrViewTest, OfAFileWithPagesThatIsWrittenTheKernelKeepsNone) {
  const VfsInodePtr file = Held();
  file->attr.data_version = 3;
  (void)file->in_kernel.OpenPages(3);
  EXPECT_FALSE(room.PagesGated(*file));
  EXPECT_GT(room.Overlay(File(10, 1)).attr_valid_ns, 0);
  ++file->writers;
  EXPECT_TRUE(room.PagesGated(*file));
  EXPECT_EQ(room.Overlay(File(10, 1)).attr_valid_ns, 0);
  --file->writers;
  file->in_kernel.WrittenBesidePages();
  EXPECT_TRUE(room.PagesGated(*file));
}

// Stores into a mapping may be all that a file without blocks has: so the kernel asks, and writes them back before it is answered.
TEST_F(AttrViewTest, OfAFileThatMayHaveStoresAloneTheKernelKeepsNone) {
  const VfsInodePtr file = Held();
  EXPECT_GT(room.Overlay(File(10, 1)).attr_valid_ns, 0);
  RunSim(ex, room.GatePages(file));
  EXPECT_EQ(forgotten, 0) << "nobody writes";
  ++file->writers;
  EXPECT_FALSE(AttrView::MayBeStoresAlone(*file)) << "nobody can have mapped it to write";
  ++file->reading;
  EXPECT_TRUE(AttrView::MayBeStoresAlone(*file));
  RunSim(ex, room.GatePages(file));
  EXPECT_EQ(forgotten, 1) << "what it was told before";
  EXPECT_EQ(room.Overlay(File(10, 1)).attr_valid_ns, 0);
  Write(file, 10);
  EXPECT_FALSE(AttrView::MayBeStoresAlone(*file)) << "what is dirty here counts as allocated";
  EXPECT_GT(room.Overlay(File(10, 1)).attr_valid_ns, 0);
}

TEST_F(AttrViewTest, WhatIsStoredMayBeKept) {
  const VfsInodePtr file = Held();
  file->attr.allocated_bytes = 512;
  ++file->writers;
  ++file->reading;
  EXPECT_FALSE(AttrView::MayBeStoresAlone(*file));
  file->attr.allocated_bytes = file->attr.size = 0;
  EXPECT_FALSE(AttrView::MayBeStoresAlone(*file)) << "an empty file has no bytes to store into";
}

TEST_F(AttrViewTest, AnAnswerThatOvertookItsEventMakesTheKernelForget) {
  const VfsInodePtr file = Held();
  (void)room.Overlay(File(10, 4));
  const uint64_t epoch = nodes.epoch();
  RunSim(ex, room.ForgetOlder(File(10, 4)));
  EXPECT_EQ(forgotten, 0);
  RunSim(ex, room.ForgetOlder(File(30, 5)));
  EXPECT_EQ(forgotten, 1);
  EXPECT_NE(nodes.epoch(), epoch);
  RunSim(ex, room.ForgetOlder(File(30, 5)));
  EXPECT_EQ(forgotten, 1);
  EXPECT_EQ(file->in_kernel.shown_version(), 5u);
}

TEST_F(AttrViewTest, WhatHasChangedIsAskedFor) {
  const VfsInodePtr file = Held();
  (void)nodes.Remember(File(10, 1), nodes.epoch());
  room.AttrChanged(kIno);
  EXPECT_FALSE(nodes.FindAttr(kIno));
  EXPECT_TRUE(file->attr_stale);
  EXPECT_TRUE(file->attr_known);  // size and times are ours, under the exclusive lease
  GrantForTest(*file, LeaseMode::kRead, false, kGeneration);
  room.AttrChanged(kIno);
  EXPECT_FALSE(file->attr_known);
}

}  // namespace
}  // namespace stria
