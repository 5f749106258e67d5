#include "meta/data_dir.h"

#include <gtest/gtest.h>

#include <fstream>

#include "common/temp_dir.h"

namespace stria {
namespace {

TEST(DataDir, FormatOnceThenRead) {
  TempDir tmp;
  const std::string dir = tmp.path() + "/meta";
  EXPECT_EQ(*LookAtDataDir(dir), DataDirState::kEmpty);
  ASSERT_TRUE(PrepareDataDir(dir).ok());
  EXPECT_EQ(*LookAtDataDir(dir), DataDirState::kEmpty);
  Superblock super;
  super.kind = StoreKind::kMetadata;
  super.cluster = Uuid{1, 2};
  super.own = Uuid{3, 4};
  ASSERT_TRUE(WriteDataDir(dir, super).ok());
  EXPECT_EQ(*LookAtDataDir(dir), DataDirState::kStore);
  ASSERT_TRUE(ReadDataDir(dir).ok());
  EXPECT_EQ(*ReadDataDir(dir), super);
}

TEST(DataDir, OneOfSeveralIsNotServedAlone) {
  TempDir tmp;
  Superblock super;
  super.kind = StoreKind::kMetadata;
  super.cluster = Uuid{1, 2};
  super.own = Uuid{3, 4};
  super.label = "metadata";
  ASSERT_TRUE(WriteDataDir(tmp.path(), super).ok());
  EXPECT_TRUE(CheckServedAs(*ReadDataDir(tmp.path()), false, tmp.path()).ok());
  EXPECT_TRUE(CheckServedAs(*ReadDataDir(tmp.path()), true, tmp.path()).ok());
  ASSERT_TRUE(NoteOneOfSeveral(tmp.path(), true).ok());
  ASSERT_TRUE(NoteOneOfSeveral(tmp.path(), true).ok());
  const Result<void> alone = CheckServedAs(*ReadDataDir(tmp.path()), false, tmp.path());
  EXPECT_EQ(alone.code(), FsError::kAccess);
  EXPECT_TRUE(IsOneOfSeveral(*ReadDataDir(tmp.path())));
  EXPECT_NE(alone.error().message.find("[ha]"), std::string::npos) << alone.error();
  EXPECT_TRUE(CheckServedAs(*ReadDataDir(tmp.path()), true, tmp.path()).ok());
  ASSERT_TRUE(NoteOneOfSeveral(tmp.path(), false).ok());
  EXPECT_EQ(*ReadDataDir(tmp.path()), super) << "all else is as it was";
  EXPECT_FALSE(IsOneOfSeveral(super));
}

TEST(DataDir, TrustAloneIsNoStore) {
  TempDir tmp;
  ASSERT_TRUE(PrepareDataDir(TrustDirOf(tmp.path())).ok());
  EXPECT_EQ(*LookAtDataDir(tmp.path()), DataDirState::kEmpty) << "to be restored";
  EXPECT_EQ(*LookAtDataDir(tmp.path() + "/"), DataDirState::kEmpty);
  { std::ofstream(tmp.path() + "/more") << "x"; }
  EXPECT_EQ(LookAtDataDir(tmp.path()).code(), FsError::kNotEmpty);
}

TEST(DataDir, RefusesWhatIsNotAStore) {
  TempDir tmp;
  { std::ofstream(tmp.path() + "/holiday.jpg") << "x"; }
  EXPECT_EQ(LookAtDataDir(tmp.path()).code(), FsError::kNotEmpty);
  EXPECT_EQ(LookAtDataDir(tmp.path() + "/holiday.jpg").code(), FsError::kNotDir);
  Superblock disk;
  disk.cluster = Uuid{1, 2};
  ASSERT_TRUE(WriteDataDir(tmp.path(), disk).ok());
  EXPECT_EQ(ReadDataDir(tmp.path()).code(), FsError::kInval) << "a data disk";
  { std::ofstream(tmp.path() + "/superblock") << "junk"; }
  EXPECT_EQ(ReadDataDir(tmp.path()).code(), FsError::kCorrupt);
}

}  // namespace
}  // namespace stria
