#include "server/disk_setup.h"

#include <gtest/gtest.h>

#include "server/reindex.h"
#include "server/shard_testing.h"

namespace stria {
namespace {

DiskSetup DiskNamed(const std::string& label, Uuid cluster = {}) {
  return {"/srv/" + label, label, cluster, [] { return Uuid{11, 12}; }, 1000};
}

TEST(DiskSetupTest, AnEmptyDirectoryBecomesADiskOnce) {
  SimExecutor ex(1);
  auto media = std::make_shared<SimDiskMedia>(1);
  SimDisk disk(media);
  media->SetContent("lost+found/x", "");
  Superblock sb = RunSim(ex, OpenSuperblock(&disk, DiskNamed("d1"))).value();
  EXPECT_EQ(sb.own, (Uuid{11, 12}));
  EXPECT_FALSE(sb.cluster);
  ASSERT_TRUE(RunSim(ex, AdoptCluster(&disk, &sb, Uuid{5, 5}, 1, "d1")).ok());
  EXPECT_EQ(RunSim(ex, AdoptCluster(&disk, &sb, Uuid{6, 6}, 1, "d1")).code(), FsError::kWrongCluster);
  Random rng(1);
  media->Crash(rng);
  EXPECT_EQ(RunSim(ex, OpenSuperblock(&disk, DiskNamed("d1"))).value(), sb);
  EXPECT_EQ(RunSim(ex, OpenSuperblock(&disk, DiskNamed("d1", Uuid{5, 5}))).value(), sb);
  EXPECT_EQ(RunSim(ex, OpenSuperblock(&disk, DiskNamed("d1", Uuid{6, 6}))).code(), FsError::kWrongCluster);
  // In another slot.
  EXPECT_EQ(RunSim(ex, OpenSuperblock(&disk, DiskNamed("d2"))).value(), sb);
  ASSERT_TRUE(RunSim(ex, AdoptCluster(&disk, &sb, Uuid{5, 5}, 1, "d2")).ok());
  media->Crash(rng);
  EXPECT_EQ(RunSim(ex, OpenSuperblock(&disk, DiskNamed("d2"))).value().label, "d2");
  media->FlipBit("superblock", 20, 1);
  EXPECT_EQ(RunSim(ex, OpenSuperblock(&disk, DiskNamed("d1"))).code(), FsError::kCorrupt);
}

TEST(DiskSetupTest, IdentityIsKeptAndDamageIsNotBelieved) {
  SimExecutor ex(1);
  auto media = std::make_shared<SimDiskMedia>(1);
  SimDisk disk(media);
  EXPECT_EQ(RunSim(ex, ReadIdentity(&disk)).value(), DiskIdentity());
  const DiskIdentity identity{TargetId(4), 2, Uuid{8, 9}, "n4", std::string("pr\0of", 5)};
  ASSERT_TRUE(RunSim(ex, WriteIdentity(&disk, identity)).ok());
  Random rng(1);
  media->Crash(rng);
  EXPECT_EQ(RunSim(ex, ReadIdentity(&disk)).value(), identity);
  media->FlipBit(kIdentityFile, 8, 1);
  EXPECT_EQ(RunSim(ex, ReadIdentity(&disk)).value(), DiskIdentity());
}

TEST(DiskSetupTest, RefusesADirectoryThatIsSomethingElse) {
  SimExecutor ex(1);
  auto media = std::make_shared<SimDiskMedia>(1);
  SimDisk disk(media);
  media->SetContent("thesis.tex", "x");
  const Result<Superblock> sb = RunSim(ex, OpenSuperblock(&disk, DiskNamed("d1")));
  EXPECT_EQ(sb.code(), FsError::kNotEmpty);
  EXPECT_NE(sb.error().message.find("thesis.tex"), std::string::npos);
}

TEST(DiskSetupTest, DisksMustAgreeOnTheirNode) {
  const auto disk = [](uint64_t node, const std::string& name) {
    return std::make_pair("d" + std::to_string(node), DiskIdentity{TargetId(1), 1, Uuid{0, node}, name, ""});
  };
  EXPECT_FALSE(AgreeOnNode("n1", {disk(0, ""), disk(0, "")}).value());
  EXPECT_EQ(AgreeOnNode("n1", {disk(0, ""), disk(1, "n1"), disk(1, "")}).value(), (Uuid{0, 1}));
  // n1 was set up anew, and has an old disk again.
  EXPECT_EQ(AgreeOnNode("n1", {disk(2, "n1"), disk(1, "n1"), disk(1, "n1")}).value(), (Uuid{0, 1}));
  EXPECT_EQ(AgreeOnNode("n1", {disk(2, "n1"), disk(1, "n1")}).value(), (Uuid{0, 2}));
  EXPECT_FALSE(AgreeOnNode("n1", {disk(2, ""), disk(1, "n1")}).ok());
  // Carried here from n2; to a node without disks of its own as well.
  EXPECT_EQ(AgreeOnNode("n1", {disk(2, "n2"), disk(1, "n1")}).value(), (Uuid{0, 1}));
  EXPECT_FALSE(AgreeOnNode("n7", {disk(2, "n2")}).value());
}

TEST(ReindexTest, FindsEveryWholeShardAgain) {
  SimExecutor ex(1);
  SimStore sim(8);
  sim.Start(ex);
  std::map<uint64_t, uint64_t> lengths;
  Random rng(4);
  for (uint64_t id = 1; id <= 120; ++id) {
    lengths[id] = id % 10 == 0 ? rng.Between(300, 900) * kKiB : rng.Between(1, 200 * kKiB);
    ASSERT_TRUE(RunSim(ex, StoreWhole(sim.store.get(), ShardId(id), lengths[id])).ok());
  }
  ASSERT_TRUE(RunSim(ex, sim.store->Delete({ShardId(10), ShardId(11)})).ok());
  ex.RunFor(60 * kSecond);  // the tables of raw shards are synced lazily
  const ShardRecord damaged = *RunSim(ex, sim.store->index().Get(ShardId(33))).value();
  const ShardRecord headless = *RunSim(ex, sim.store->index().Get(ShardId(44))).value();
  sim.disk_media->FlipBit(SegmentName(damaged.place.segment),
                          SegmentPayloadOffset(damaged.place, damaged.length), 0);
  sim.disk_media->FlipBit(SegmentName(headless.place.segment), headless.place.offset + 9, 0);
  sim.disk_media->FlipBit(RawShardName(ShardId(50)), 5000, 0);
  sim.disk_media->SetContent(RawShardName(ShardId(999)), "an unsealed leftover");
  sim.Crash(rng, true);
  sim.disk_media->EraseFile(RawShardName(ShardId(10)));  // which a crash may have brought back
  sim.kv_media = std::make_shared<MemKvMedia>(kIndexFamilies);
  {
    SimDisk disk(sim.disk_media);
    MemKv kv(sim.kv_media);
    const ReindexResult r = RunSim(ex, Reindex(&disk, &kv, &sim.pool, Uuid{7, 9})).value();
    EXPECT_EQ(r.damaged, 3u);  // 33, 50, and 10, which has no file
    ASSERT_EQ(r.unproved.size(), 1u);
    EXPECT_EQ(r.unproved[0].shard, ShardId(999));
    EXPECT_EQ(RunSim(ex, Reindex(&disk, &kv, &sim.pool, Uuid{7, 9})).code(), FsError::kNotEmpty);
  }
  sim.Start(ex);
  ex.RunFor(kSecond);
  for (const auto& [id, length] : lengths) {
    const Result<ShardBytes> got = RunSim(ex, sim.store->Read(ShardId(id), 0, length));
    if (id == 33 || id == 44 || id == 50 || id == 10) {
      EXPECT_EQ(got.code(), FsError::kNoSuchShard) << id;
    } else {  // 11 is back: its bytes were still in the segment
      ASSERT_TRUE(got.ok()) << id << ": " << got.error();
      EXPECT_TRUE(Flat(got->bytes) == BytesOf(ShardId(id), length));
    }
  }
  EXPECT_FALSE(sim.disk_media->Content(RawShardName(ShardId(999))).has_value());
}

}  // namespace
}  // namespace stria
