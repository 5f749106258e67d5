#include "common/io/sim_disk.h"

#include "common/io/disk_conformance.h"

namespace stria {
namespace {

class SimHarness final : public DiskHarness {
 public:
  Disk& disk() override { return *disk_; }
  void Reopen() override {
    media_->Crash(rng_, false);
    disk_ = std::make_unique<SimDisk>(media_);
  }

 private:
  Random rng_{1};
  std::shared_ptr<SimDiskMedia> media_ = std::make_shared<SimDiskMedia>(1);
  std::unique_ptr<SimDisk> disk_ = std::make_unique<SimDisk>(media_);
};

INSTANTIATE_TEST_SUITE_P(Sim, DiskConformance,
                         testing::Values(DiskMaker{"Sim", [] { return std::make_unique<SimHarness>(); }}));

class SimDiskTest : public testing::Test {
 protected:
  explicit SimDiskTest() { New(1); }
  void New(uint64_t seed, SimDiskOptions options = {}) {
    media_ = std::make_shared<SimDiskMedia>(seed, options);
    disk_ = std::make_unique<SimDisk>(media_);
  }
  Result<void> Write(const std::string& name, uint64_t offset, const std::string& data) {
    return RunSim(ex_, disk_->Write(name, offset, BufferChain(Buffer::FromString(data))));
  }
  Result<void> Sync(const std::string& name) { return RunSim(ex_, disk_->SyncFiles({name})); }
  SimExecutor ex_{1};
  std::shared_ptr<SimDiskMedia> media_;
  std::unique_ptr<SimDisk> disk_;
};

TEST_F(SimDiskTest, WhatWasSyncedSurvivesAndTheRestMayNot) {
  int gone = 0, back = 0, torn = 0, kept = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    New(seed);
    Random rng(seed);
    ASSERT_TRUE(Write("synced", 0, std::string(20'000, 's')).ok());
    ASSERT_TRUE(Sync("synced").ok());
    ASSERT_TRUE(Write("removed", 0, "r").ok());
    ASSERT_TRUE(Sync("removed").ok());
    ASSERT_TRUE(RunSim(ex_, disk_->Remove("removed")).ok());
    ASSERT_TRUE(Write("unsynced", 0, "u").ok());
    ASSERT_TRUE(Write("synced", 8192, std::string(12'000, 'n')).ok());
    media_->Crash(rng);
    gone += !media_->Content("unsynced").has_value();
    back += media_->Content("removed").has_value();
    const std::string now = *media_->Content("synced");
    ASSERT_GE(now.size(), 20'000u);
    ASSERT_EQ(now.substr(0, 8192), std::string(8192, 's'));
    for (size_t i = 0; i < 20'000; ++i) ASSERT_TRUE(now[i] == 's' || now[i] == 'n') << i;
    const bool has_old = now.find('s', 8192) != std::string::npos;
    const bool has_new = now.find('n') != std::string::npos;
    torn += has_old && has_new;
    kept += !has_old;
    // The content after a crash is durable.
    const uint64_t digest = media_->Digest();
    media_->Crash(rng);
    ASSERT_EQ(media_->Digest(), digest);
  }
  EXPECT_GT(gone, 60);
  EXPECT_GT(back, 60);
  EXPECT_GT(torn, 60);
  EXPECT_GT(kept, 30);
}

TEST_F(SimDiskTest, ReplaceIsOldOrNewAtEveryMoment) {
  int old_seen = 0, new_seen = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    New(seed);
    Random rng(seed);
    ASSERT_TRUE(RunSim(ex_, disk_->ReplaceFile("a", Buffer::FromString("old"))).ok());
    {
      TaskScope scope;
      scope.Spawn([](Disk& d) -> Task<void> {
        (void)co_await d.ReplaceFile("a", Buffer::FromString(std::string(9000, 'n')));
      }(*disk_));
      ex_.RunFor(static_cast<int64_t>(rng.Below(400)) * kMicrosecond);
    }
    media_->Crash(rng);
    const std::string now = media_->Content("a").value_or("(gone)");
    ASSERT_TRUE(now == "old" || now == std::string(9000, 'n')) << now.size();
    (now == "old" ? old_seen : new_seen)++;
  }
  EXPECT_GT(old_seen, 10);
  EXPECT_GT(new_seen, 10);
}

TEST_F(SimDiskTest, ACancelledWriteHappensLater) {
  {
    TaskScope scope;
    scope.Spawn([](Disk& d) -> Task<void> {
      (void)co_await d.Write("a", 0, BufferChain(Buffer::FromString("late")));
    }(*disk_));
    ex_.RunFor(kMicrosecond);
  }
  EXPECT_FALSE(media_->Content("a").has_value());
  ex_.RunFor(kMillisecond);
  EXPECT_EQ(RunSim(ex_, disk_->Read("a", 0, 9))->view(), "late");
}

TEST_F(SimDiskTest, FailsAsTold) {
  ASSERT_TRUE(Write("a", 0, "x").ok());
  media_->faults.fail_read_in = 2;
  EXPECT_TRUE(RunSim(ex_, disk_->Read("a", 0, 1)).ok());
  EXPECT_EQ(RunSim(ex_, disk_->Read("a", 0, 1)).code(), FsError::kDiskFailed);
  EXPECT_TRUE(RunSim(ex_, disk_->Read("a", 0, 1)).ok());
  media_->faults.fail_write_in = 1;
  EXPECT_EQ(Write("a", 0, "x").code(), FsError::kDiskFailed);
  EXPECT_TRUE(Write("a", 0, "x").ok());
  media_->faults.read_error_percent = 50;
  int failed = 0;
  for (int i = 0; i < 100; ++i) failed += !RunSim(ex_, disk_->Read("a", 0, 1)).ok();
  EXPECT_GT(failed, 25);
  EXPECT_LT(failed, 75);
  media_->faults = {};
  media_->faults.dead = true;
  EXPECT_EQ(Write("a", 0, "x").code(), FsError::kDiskFailed);
  EXPECT_EQ(Sync("a").code(), FsError::kDiskFailed);
  EXPECT_EQ(RunSim(ex_, disk_->Space()).code(), FsError::kDiskFailed);
  EXPECT_EQ(RunSim(ex_, disk_->List("")).code(), FsError::kDiskFailed);
}

TEST_F(SimDiskTest, AFailedSyncPoisonsTheFile) {
  int lost = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    New(seed);
    Random rng(seed);
    ASSERT_TRUE(Write("a", 0, "old").ok());
    ASSERT_TRUE(Sync("a").ok());
    ASSERT_TRUE(Write("a", 0, "new").ok());
    media_->faults.fail_sync_in = 1;
    EXPECT_EQ(Sync("a").code(), FsError::kDiskFailed);
    EXPECT_EQ(Sync("a").code(), FsError::kDiskFailed);
    media_->Crash(rng, false);
    EXPECT_TRUE(Sync("a").ok());
    lost += *media_->Content("a") == "old";
  }
  EXPECT_GT(lost, 5);
  EXPECT_LT(lost, 45);
}

TEST_F(SimDiskTest, GetsFull) {
  SimDiskOptions options;
  options.capacity_bytes = 3 * 4096;
  New(1, options);
  ASSERT_TRUE(Write("a", 0, std::string(8192, 'x')).ok());
  EXPECT_EQ(Write("b", 0, std::string(4097, 'x')).code(), FsError::kNoSpace);
  EXPECT_EQ(RunSim(ex_, disk_->Reserve("a", 20'000)).code(), FsError::kNoSpace);
  ASSERT_TRUE(Write("a", 0, std::string(8192, 'y')).ok());
  EXPECT_EQ(RunSim(ex_, disk_->Space())->free_bytes, 4096u);
  ASSERT_TRUE(RunSim(ex_, disk_->Remove("a")).ok());
  EXPECT_EQ(RunSim(ex_, disk_->Space())->free_bytes, 3 * 4096u);
}

TEST_F(SimDiskTest, SilentDamage) {
  ASSERT_TRUE(Write("a", 0, std::string(9000, 'a')).ok());
  ASSERT_TRUE(Write("b", 0, std::string(9000, 'b')).ok());
  media_->faults.lose_write_in = 1;
  ASSERT_TRUE(Write("a", 0, "LOST").ok());
  EXPECT_EQ(media_->Content("a"), std::string(9000, 'a'));
  media_->faults.misdirect_write_in = 1;
  ASSERT_TRUE(Write("c", 4096, "MISDIRECTED").ok());
  EXPECT_EQ(media_->Content("c")->size(), 4096u + 11);
  const std::string all = *media_->Content("a") + *media_->Content("b") + *media_->Content("c");
  EXPECT_NE(all.find("MIS"), std::string::npos);
  EXPECT_TRUE(media_->FlipBit("a", 8999, 0));
  EXPECT_FALSE(media_->FlipBit("a", 9000, 0));
  EXPECT_EQ(media_->Content("a")->back(), '`');
  const uint64_t before = media_->Digest();
  Random rng(7);
  auto hit = media_->FlipRandomBit(rng, "b");
  ASSERT_TRUE(hit.has_value());
  EXPECT_EQ(hit->name, "b");
  EXPECT_NE(media_->Digest(), before);
}

TEST_F(SimDiskTest, TakesItsTime) {
  const int64_t start = ex_.NowNs();
  ASSERT_TRUE(Write("a", 0, std::string(1'000'000, 'x')).ok());  // 1 ms of transfer
  const int64_t took = ex_.NowNs() - start;
  EXPECT_GT(took, kMillisecond);
  EXPECT_LT(took, 2 * kMillisecond);
  media_->faults.slow_factor = 100;
  ASSERT_TRUE(Write("a", 0, std::string(1'000'000, 'x')).ok());
  EXPECT_GT(ex_.NowNs() - start - took, 90 * kMillisecond);
  media_->faults.slow_factor = 1;
  media_->faults.hung = true;
  auto r = RunSim(ex_, WithTimeout(kSecond, disk_->Read("a", 0, 1)));
  EXPECT_FALSE(r.has_value());
  media_->faults.hung = false;
  EXPECT_TRUE(RunSim(ex_, disk_->Read("a", 0, 1)).ok());
}

TEST_F(SimDiskTest, OneSeedOneHistory) {
  auto run = [this](uint64_t seed) {
    New(seed);
    media_->faults.write_error_percent = 10;
    media_->faults.misdirected_write_percent = 5;
    Random rng(seed);
    for (int i = 0; i < 100; ++i) {
      (void)Write("f" + std::to_string(rng.Below(5)), rng.Below(9000), std::string(rng.Below(9000), 'x'));
      if (rng.OneIn(10)) media_->Crash(rng);
    }
    return media_->Digest();
  };
  const uint64_t one = run(1);
  EXPECT_EQ(run(1), one);
  EXPECT_NE(run(2), one);
}

}  // namespace
}  // namespace stria
