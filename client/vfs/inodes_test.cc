#include "client/vfs/inodes.h"

#include <gtest/gtest.h>

#include <vector>

#include "client/vfs/inode_testing.h"

namespace stria {
namespace {

class InodesTest : public ::testing::Test {
 public:
  InodesTest() : table(InodesNeedsForTest(&released), /*max_idle=*/2) {}

  VfsInodePtr Held(uint64_t number) {
    const VfsInodePtr inode = table.Of(InodeId(number));
    GrantForTest(*inode, LeaseMode::kExclusive, true, /*generation=*/1);
    return inode;
  }

  std::vector<InodeId> released;
  Inodes table;
};

TEST_F(InodesTest, OfAnInodeThereIsOneObject) {
  EXPECT_EQ(table.Find(InodeId(5)), nullptr);
  EXPECT_EQ(table.Look(InodeId(5)), nullptr);
  const VfsInodePtr inode = table.Of(InodeId(5));
  EXPECT_EQ(table.Of(InodeId(5)), inode);
  EXPECT_EQ(table.Find(InodeId(5)), inode);
  EXPECT_EQ(table.Look(InodeId(5)), inode.get());
}

// A room may still work for an inode that was dropped, and come back for good.
TEST_F(InodesTest, APartLeadsToItsOwnObjectOnly) {
  const VfsInodePtr first = table.Of(InodeId(5));
  EXPECT_EQ(table.With(&VfsInode::lease, &first->lease), first);
  table.DropIfIdle(first);
  EXPECT_EQ(table.With(&VfsInode::lease, &first->lease), nullptr);
  const VfsInodePtr second = table.Of(InodeId(5));
  EXPECT_NE(second, first);
  EXPECT_EQ(table.With(&VfsInode::lease, &first->lease), nullptr);
  EXPECT_EQ(table.With(&VfsInode::lease, &second->lease), second);
  table.DropIfIdle(first);  // it is not the one in the table
  EXPECT_EQ(table.Find(InodeId(5)), second);
}

TEST_F(InodesTest, AnInodeStaysAsLongAsItIsInUse) {
  const VfsInodePtr inode = table.Of(InodeId(5));
  ++inode->readers;
  table.DropIfIdle(inode);
  table.LetGo(inode);
  EXPECT_EQ(table.Find(InodeId(5)), inode);
  --inode->readers;
  table.LetGo(inode);
  EXPECT_EQ(table.Find(InodeId(5)), nullptr);
  EXPECT_TRUE(released.empty());  // there was nothing to give back
}

TEST_F(InodesTest, ALeaseWorthKeepingIsKeptForTheNextOpen) {
  const VfsInodePtr inode = Held(5);
  table.LetGo(inode);
  EXPECT_EQ(table.Find(InodeId(5)), inode);
  EXPECT_TRUE(inode->idle_place.kept());
  EXPECT_TRUE(released.empty());
}

TEST_F(InodesTest, OneThatIsNotIsGivenBack) {
  const VfsInodePtr unlinked = Held(5);
  unlinked->attr.nlink = 0;
  ++unlinked->writers;
  table.LetGo(unlinked);
  EXPECT_TRUE(released.empty());  // somebody uses it
  --unlinked->writers;
  table.LetGo(unlinked);
  EXPECT_EQ(released, std::vector<InodeId>({InodeId(5)}));
  EXPECT_EQ(table.Find(InodeId(5)), unlinked);  // until the server knows

  const VfsInodePtr owed = table.Of(InodeId(6));
  owed->lease.Owe(77);
  table.LetGo(owed);
  EXPECT_EQ(released, std::vector<InodeId>({InodeId(5), InodeId(6)}));
}

TEST_F(InodesTest, OfTooManyIdleOnesTheOldestIsGivenBack) {
  for (uint64_t number = 1; number <= 2; ++number) table.LetGo(Held(number));
  table.LetGo(table.Find(InodeId(1)));  // used again
  EXPECT_TRUE(released.empty());
  table.LetGo(Held(3));
  EXPECT_EQ(released, std::vector<InodeId>({InodeId(2)}));
}

}  // namespace
}  // namespace stria
