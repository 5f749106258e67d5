// What is held after a restore, and what is so without a backup, without a metadata server. Archiving itself: archiver_test.
#include "meta/backup/archive_keeper.h"

#include "meta/core/cluster_keys.h"
#include "meta/core/number_record.h"
#include "meta/upkeep/keeper_testing.h"

namespace stria {
namespace {

class ArchiveKeeperTest : public KeeperTest {
 protected:
  ArchiveKeeperEnv Sees() { return {&ex, store.get(), &cluster, tokens.get(), nullptr}; }
  void Load(ArchiveKeeper* keeper) {
    Txn txn(*store);
    ASSERT_TRUE(keeper->Load(txn).ok());
  }
  static CheckShardsRequest Sweep(std::vector<ShardId> shards) {
    CheckShardsRequest r;
    r.target = TargetId(1);
    r.shards = std::move(shards);
    return r;
  }
};

TEST_F(ArchiveKeeperTest, WithoutABackupNothingIsHeldBack) {
  ArchiveKeeper keeper(Sees());
  Load(&keeper);
  keeper.Start(ArchiverOptions(), {1, 0});
  EXPECT_EQ(keeper.archiver(), nullptr);
  EXPECT_EQ(keeper.DeletableUpTo(), CommitSeq(UINT64_MAX));
  EXPECT_EQ(RunSim(ex, keeper.BackupNow(false, ex.NowNs())).code(), FsError::kInval);
  EXPECT_FALSE(keeper.HoldsUnknown());
  EXPECT_FALSE(keeper.State().on);
}

TEST_F(ArchiveKeeperTest, AfterARestoreUnknownShardsAreHeldAndCountedUntilThenOrUntilAnAdminSays) {
  {
    Txn txn(*store);
    txn.Put(Family::kCluster, UnknownHoldKey(), EncodeNumber(static_cast<uint64_t>(ex.WallNs() + 3600 * kSecond)));
    ASSERT_TRUE(txn.Commit().ok());
  }
  ArchiveKeeper keeper(Sees());
  Load(&keeper);
  ASSERT_TRUE(keeper.HoldsUnknown());
  keeper.NoteHeld(Sweep({ShardId(1), ShardId(5)}), 2);
  keeper.NoteHeld(Sweep({ShardId(6), ShardId(9)}), 1);
  EXPECT_EQ(keeper.State().held_shards, 3u);
  keeper.NoteHeld(Sweep({ShardId(1), ShardId(5)}), 1);  // the next sweep
  EXPECT_EQ(keeper.State().held_shards, 1u);
  ASSERT_TRUE(keeper.ForgetUnknown(true).ok());
  EXPECT_TRUE(keeper.HoldsUnknown());
  ArchiveKeeper other(Sees());
  Load(&other);
  ASSERT_TRUE(keeper.ForgetUnknown(false).ok());
  ArchiveKeeper next(Sees());
  Load(&next);
  EXPECT_FALSE(next.HoldsUnknown());
  EXPECT_EQ(next.State().held_shards, 0u);
  EXPECT_TRUE(other.HoldsUnknown());
  ex.RunFor(3601 * kSecond);
  EXPECT_FALSE(other.HoldsUnknown());
}

}  // namespace
}  // namespace stria
