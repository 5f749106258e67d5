#include "meta/exports/confined_tree.h"

#include <gtest/gtest.h>

#include <string>

#include "meta/ops/ops.h"
#include "meta/ops/test_store.h"

namespace stria {
namespace {

class ConfinedTreeTest : public testing::Test {
 protected:
  ConfinedTreeTest() { ctx_.touched = &touched_; }
  template <class F>
  auto Do(F fn) {
    Txn txn(store_.store());
    auto result = fn(txn);
    if (result.ok()) EXPECT_TRUE(txn.Commit().ok());
    return result;
  }
  InodeId Make(InodeId parent, const std::string& name, FileType type = FileType::kDirectory) {
    MakeNodeRequest r;
    r.parent = parent;
    r.name = name;
    r.type = type;
    r.mode = 0777;
    return Do([&](Txn& t) { return OpMakeNode(t, ctx_, r); }).value().node.attr.ino;
  }
  FsError Rename(InodeId from, const std::string& a, InodeId to, const std::string& b, bool exchange = false) {
    RenameRequest r{{}, from, a, to, b, false, exchange};
    return Do([&](Txn& t) { return OpRename(t, ctx_, r); }).code();
  }
  FsError Rmdir(InodeId parent, const std::string& name) {
    NameRequest r;
    r.parent = parent;
    r.name = name;
    return Do([&](Txn& t) { return OpRmdir(t, ctx_, r); }).code();
  }

  TestStore store_;
  Touched touched_;
  OpCtx ctx_;
  StoreTree tree_{[this] { return &store_.store(); }};
};

TEST_F(ConfinedTreeTest, KnowsWhatLiesBelowUntilADirectoryIsMoved) {
  const InodeId atlas = Make(kRootInode, "atlas");
  const InodeId a = Make(atlas, "a");
  const InodeId b = Make(a, "b");
  const InodeId out = Make(kRootInode, "out");
  for (const InodeId dir : {atlas, a, b}) EXPECT_TRUE(tree_.LiesBelow(dir, atlas));
  EXPECT_FALSE(tree_.LiesBelow(out, atlas));
  EXPECT_FALSE(tree_.LiesBelow(kRootInode, atlas));
  EXPECT_FALSE(tree_.LiesBelow(atlas, a)) << "above it";
  EXPECT_TRUE(tree_.LiesBelow(b, kRootInode));
  EXPECT_EQ(tree_.known(), 3u) << "a and b below atlas, b below all";
  // With all that is in it.
  ASSERT_EQ(Rename(atlas, "a", out, "a"), FsError::kOk);
  EXPECT_FALSE(tree_.LiesBelow(a, atlas));
  EXPECT_FALSE(tree_.LiesBelow(b, atlas));
  EXPECT_TRUE(tree_.LiesBelow(b, out));
  ASSERT_EQ(Rename(out, "a", atlas, "a"), FsError::kOk);
  EXPECT_TRUE(tree_.LiesBelow(b, atlas));
  // Exchanged with one outside.
  const InodeId other = Make(out, "other");
  EXPECT_FALSE(tree_.LiesBelow(other, atlas));
  ASSERT_EQ(Rename(atlas, "a", out, "other", true), FsError::kOk);
  EXPECT_FALSE(tree_.LiesBelow(b, atlas));
  EXPECT_TRUE(tree_.LiesBelow(other, atlas));
}

TEST_F(ConfinedTreeTest, RemembersWhileNoDirectoryMoves) {
  const InodeId atlas = Make(kRootInode, "atlas");
  const InodeId a = Make(atlas, "a");
  const InodeId b = Make(atlas, "b");
  Make(atlas, "file", FileType::kFile);
  EXPECT_TRUE(tree_.LiesBelow(a, atlas));
  const uint64_t moves = store_.store().dir_moves();
  ASSERT_EQ(Rename(atlas, "file", b, "file"), FsError::kOk);  // no directory
  ASSERT_EQ(Rename(atlas, "a", atlas, "c"), FsError::kOk);    // it stays there
  EXPECT_EQ(Rename(atlas, "none", b, "none"), FsError::kNoEnt);
  EXPECT_EQ(store_.store().dir_moves(), moves);
  EXPECT_TRUE(tree_.LiesBelow(b, atlas));
  EXPECT_EQ(tree_.known(), 2u);
  ASSERT_EQ(Rename(atlas, "c", b, "c"), FsError::kOk);
  EXPECT_GT(store_.store().dir_moves(), moves);
  EXPECT_TRUE(tree_.LiesBelow(a, atlas));
  EXPECT_EQ(tree_.known(), 1u) << "what was found before is forgotten";
}

// Such a call is answered by the inner service, which may have to wait until others have repeated what a restart lost.
TEST_F(ConfinedTreeTest, WhatIsNotThereIsNotOutside) {
  const InodeId atlas = Make(kRootInode, "atlas");
  EXPECT_TRUE(tree_.LiesBelow(InodeId(123'456'789), atlas));
  EXPECT_TRUE(tree_.LiesBelow(Make(kRootInode, "file", FileType::kFile), atlas)) << "no directory";
  const InodeId gone = Make(kRootInode, "gone");
  EXPECT_FALSE(tree_.LiesBelow(gone, atlas));
  ASSERT_EQ(Rmdir(kRootInode, "gone"), FsError::kOk);
  EXPECT_TRUE(tree_.LiesBelow(gone, atlas));
  EXPECT_EQ(tree_.known(), 0u) << "nothing of it is remembered";
}

TEST_F(ConfinedTreeTest, TellsPaths) {
  const InodeId atlas = Make(kRootInode, "atlas");
  const InodeId a = Make(atlas, "a");
  EXPECT_EQ(tree_.PathOf(kRootInode), "/");
  EXPECT_EQ(tree_.PathOf(a), "/atlas/a");
  ASSERT_EQ(Rename(kRootInode, "atlas", kRootInode, "new"), FsError::kOk);
  EXPECT_EQ(tree_.PathOf(a), "/new/a");
  EXPECT_EQ(tree_.PathOf(InodeId(123'456'789)), std::nullopt);
}

}  // namespace
}  // namespace stria
