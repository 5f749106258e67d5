#include "common/kv/mem_kv.h"

#include "common/kv/kv_conformance.h"

namespace stria {
namespace {

class MemHarness final : public KvHarness {
 public:
  KvStore& kv() override { return *kv_; }
  void Reopen() override {
    kv_.reset();
    media_->Crash(rng_, false);
    kv_ = std::make_unique<MemKv>(media_);
  }

 private:
  std::shared_ptr<MemKvMedia> media_ = std::make_shared<MemKvMedia>(kKvTestFamilies);
  std::unique_ptr<MemKv> kv_ = std::make_unique<MemKv>(media_);
  Random rng_{1};
};

INSTANTIATE_TEST_SUITE_P(Mem, KvConformance,
                         testing::Values(KvMaker{"Mem", [] { return std::make_unique<MemHarness>(); }}));

KvBatch One(std::string key, std::string value) {
  KvBatch b;
  b.Put(0, std::move(key), std::move(value));
  return b;
}

// Batches are numbered; each puts its number and its own key. After a power cut the store must hold a prefix that contains all
// synced batches.
TEST(MemKv, APowerCutLeavesAPrefixWithAllThatWasSynced) {
  int lost_some = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SimExecutor ex(seed);
    Random rng(seed);
    auto media = std::make_shared<MemKvMedia>(2);
    int written = 0;
    for (int round = 0; round < 4; ++round) {
      MemKv kv(media);
      int synced = 0;
      for (uint64_t i = rng.Below(12); i > 0; --i) {
        KvBatch b = One("count", std::to_string(++written));
        b.Put(1, std::to_string(written), "v");
        if (rng.OneIn(3)) b.Delete(1, std::to_string(rng.Between(1, 20)));
        b.Put(1, std::to_string(written), "v");
        ASSERT_TRUE(kv.Write(b).ok());
        if (rng.OneIn(4)) {
          ASSERT_TRUE(RunSim(ex, kv.Sync()).ok());
          synced = written;
        }
      }
      media->Crash(rng, true);
      const int left = std::stoi((*kv.Get(0, "count")).value_or("0"));
      ASSERT_GE(left, synced);
      ASSERT_LE(left, written);
      if (left < written) ++lost_some;
      if (left > 0) {
        EXPECT_TRUE(kv.Get(1, std::to_string(left))->has_value());
      }
      EXPECT_FALSE(kv.Get(1, std::to_string(left + 1))->has_value());
      EXPECT_EQ(media->unsynced_batches(), 0u);
      written = left;
    }
  }
  EXPECT_GT(lost_some, 50);
}

TEST(MemKv, SyncCoversOnlyWhatWasWrittenBeforeItStarted) {
  SimExecutor ex(1);
  auto media = std::make_shared<MemKvMedia>(1);
  MemKv kv(media);
  ASSERT_TRUE(kv.Write(One("a", "1")).ok());
  TaskScope scope;
  bool done = false;
  scope.Spawn([](KvStore& store, bool* flag) -> Task<void> {
    EXPECT_TRUE((co_await store.Sync()).ok());
    *flag = true;
  }(kv, &done));
  ex.RunFor(100 * kMicrosecond);
  EXPECT_FALSE(done);
  EXPECT_EQ(media->unsynced_batches(), 1u);
  ASSERT_TRUE(kv.Write(One("b", "1")).ok());
  ex.RunFor(kMillisecond);
  EXPECT_TRUE(done);
  EXPECT_EQ(media->unsynced_batches(), 1u);
}

TEST(MemKv, AFailedSyncIsNotForgotten) {
  SimExecutor ex(1);
  auto media = std::make_shared<MemKvMedia>(1);
  MemKv kv(media);
  ASSERT_TRUE(kv.Write(One("a", "1")).ok());
  media->FailNextSync();
  EXPECT_EQ(RunSim(ex, kv.Sync()).code(), FsError::kIo);
  EXPECT_EQ(RunSim(ex, kv.Sync()).code(), FsError::kIo);
  EXPECT_EQ(kv.Write(One("b", "1")).code(), FsError::kIo);
  EXPECT_TRUE(kv.Get(0, "a")->has_value());
  MemKv again(media);
  EXPECT_TRUE(again.Write(One("b", "1")).ok());
}

TEST(MemKv, AFailedWriteMayTurnUpAfterARestart) {
  int there = 0;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Random rng(seed);
    auto media = std::make_shared<MemKvMedia>(1);
    MemKv kv(media);
    media->FailNextWrite();
    EXPECT_EQ(kv.Write(One("a", "1")).code(), FsError::kIo);
    EXPECT_EQ(kv.Write(One("b", "1")).code(), FsError::kIo);
    EXPECT_FALSE(kv.Get(0, "a")->has_value());
    media->Crash(rng, rng.OneIn(2));
    MemKv again(media);
    there += again.Get(0, "a")->has_value();
    EXPECT_FALSE(again.Get(0, "b")->has_value());
  }
  EXPECT_GT(there, 5);
  EXPECT_LT(there, 45);
}

TEST(MemKv, DamageIsSeenOrNot) {
  Random rng(1);
  auto media = std::make_shared<MemKvMedia>(1);
  MemKv kv(media);
  ASSERT_TRUE(kv.Write(One("a", "value")).ok());
  EXPECT_FALSE(media->CorruptValue(0, "b", rng));
  EXPECT_TRUE(media->CorruptValue(0, "a", rng));
  EXPECT_NE(**kv.Get(0, "a"), "value");
  media->DamageKey(0, "a");
  EXPECT_EQ(kv.Get(0, "a").code(), FsError::kCorrupt);
  EXPECT_EQ(kv.Scan(0, "", "", 9).code(), FsError::kCorrupt);
  EXPECT_EQ(kv.Last(0, "", "z").code(), FsError::kCorrupt);
  ASSERT_TRUE(kv.Write(One("a", "2")).ok());
  EXPECT_EQ(**kv.Get(0, "a"), "2");
}

}  // namespace
}  // namespace stria
