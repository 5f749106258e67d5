#include "meta/replica/replicated_kv.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/kv/kv_conformance.h"
#include "common/kv/mem_kv.h"
#include "meta/backup/archive.h"
#include "meta/backup/batch_tape.h"
#include "meta/store/txn.h"

namespace stria {
namespace {

class SoloHarness final : public KvHarness {
 public:
  KvStore& kv() override { return *kv_; }
  void Reopen() override {
    kv_.reset();
    media_->Crash(rng_, false);
    kv_ = std::make_unique<ReplicatedKv>(std::make_shared<MemKv>(media_));
  }

 private:
  // No families but the store's: a log would have no place.
  std::shared_ptr<MemKvMedia> media_ = std::make_shared<MemKvMedia>(kKvTestFamilies);
  std::unique_ptr<ReplicatedKv> kv_ = std::make_unique<ReplicatedKv>(std::make_shared<MemKv>(media_));
  Random rng_{1};
};

class NobodyElse final : public PrimaryHost {
 public:
  void AskDrop(const std::string&, const std::string&) override {}
  void CaughtUp(const std::string&) override {}
  void Heard(const std::string&, int64_t) override {}
  void Deposed(uint64_t) override { deposed = true; }
  uint64_t RegisterVersion() const override { return 1; }
  int64_t TokenTimeNs() const override { return 0; }
  bool deposed = false;
};

// A primary that is the whole set.
class PrimaryHarness final : public KvHarness {
 public:
  PrimaryHarness() { Open(); }
  KvStore& kv() override { return *kv_; }
  void Reopen() override {
    kv_.reset();
    primary_.reset();
    store_.reset();
    local_.reset();
    media_->Crash(rng_, false);
    Open();
  }
  ReplicaPrimary& primary() { return *primary_; }
  std::unique_ptr<KvStore> Take() { return std::move(kv_); }
  NobodyElse& host() { return host_; }

 private:
  void Open() {
    local_ = std::make_shared<MemKv>(media_);
    store_ = std::move(ReplicaStore::Open(local_)).value();
    if (!store_->begun()) store_->Begin({CommitSeq(0), 0, 99}, 1).value();
    ReplicaPrimaryOptions options;
    options.self = "m0";
    options.term = ++term_;
    primary_ = std::make_unique<ReplicaPrimary>(store_.get(), &host_, options);
    kv_ = std::make_unique<ReplicatedKv>(local_, primary_.get());
  }
  std::shared_ptr<MemKvMedia> media_ = std::make_shared<MemKvMedia>(kReplicatedFamilies);
  NobodyElse host_;
  uint64_t term_ = 0;
  Random rng_{1};
  std::shared_ptr<MemKv> local_;
  std::unique_ptr<ReplicaStore> store_;
  std::unique_ptr<ReplicaPrimary> primary_;
  std::unique_ptr<KvStore> kv_;
};

INSTANTIATE_TEST_SUITE_P(Replicated, KvConformance,
                         testing::Values(KvMaker{"Solo", [] { return std::make_unique<SoloHarness>(); }},
                                         KvMaker{"Primary", [] { return std::make_unique<PrimaryHarness>(); }}),
                         [](const testing::TestParamInfo<KvMaker>& info) { return info.param.name; });

// Solo, what is on the disk is what would be there without it.
TEST(ReplicatedKv, SoloWritesTheSameBytes) {
  SimExecutor ex(1);
  const auto run = [&](const std::shared_ptr<MemKvMedia>& media, std::unique_ptr<KvStore> kv) {
    std::unique_ptr<MetaStore> store = RunSim(ex, MetaStore::Open(std::move(kv))).value();
    for (int i = 0; i < 10; ++i) {
      Txn txn(*store);
      txn.Put(Family::kXattrs, "k" + std::to_string(i % 4), "v" + std::to_string(i));
      EXPECT_TRUE(txn.Commit().ok());
    }
    EXPECT_TRUE(RunSim(ex, store->Sync()).ok());
    EXPECT_EQ(media->syncs(), 2u);
    std::vector<std::vector<KvEntry>> all;
    for (size_t f = 0; f < kFamilies; ++f) all.push_back(store->kv().Scan(static_cast<KvFamily>(f), "", "", 1000).value());
    return all;
  };
  const auto plain = std::make_shared<MemKvMedia>(kFamilies), solo = std::make_shared<MemKvMedia>(kFamilies);
  EXPECT_EQ(run(plain, std::make_unique<MemKv>(plain)), run(solo, std::make_unique<ReplicatedKv>(std::make_shared<MemKv>(solo))));
}

// The store's sequence is the log's, and the archiver's tape can take what is shipped.
TEST(ReplicatedKv, AMetaStoreAboveItCountsAsTheLogDoes) {
  SimExecutor ex(1);
  PrimaryHarness h;
  BatchTape tape;
  tape.Begin(CommitSeq(0));
  std::string shipped;
  h.primary().SetTap([&](CommitSeq seq, const Buffer& encoded) {
    tape.AddEncoded(seq, 7, std::string(encoded.view()));
    shipped += encoded.view();
  });
  const std::unique_ptr<MetaStore> store = RunSim(ex, MetaStore::Open(h.Take())).value();
  EXPECT_EQ(store->last_seq(), h.primary().store().last().seq);
  for (int i = 0; i < 5; ++i) {
    Txn txn(*store);
    txn.Put(Family::kXattrs, "k", std::to_string(i));
    ASSERT_TRUE(txn.Commit().ok());
  }
  EXPECT_EQ(store->last_seq(), h.primary().store().last().seq);
  EXPECT_LT(h.primary().committed(), store->last_seq());
  ASSERT_TRUE(RunSim(ex, store->Sync()).ok());
  EXPECT_EQ(store->durable_seq(), h.primary().committed());
  EXPECT_EQ(tape.last(), store->last_seq());
  EXPECT_EQ(tape.CutAt(store->durable_seq(), SIZE_MAX)->body.substr(4), shipped);
  // Deposed: the store above learns of it by its next write, and by its next sync.
  h.primary().Depose(9);
  EXPECT_TRUE(h.host().deposed);
  Txn txn(*store);
  txn.Put(Family::kXattrs, "k", "late");
  EXPECT_EQ(txn.Commit().code(), FsError::kNotLeader);
  EXPECT_EQ(RunSim(ex, store->Sync()).code(), FsError::kNotLeader);
}

TEST(ReplicatedKv, WhoWaitsIsToldWhenThePrimaryIsDeposed) {
  SimExecutor ex(1);
  PrimaryHarness h;
  h.primary().Require({"m0", "m1"}, {"m0", "m1"}, 1);  // and m1 is not there
  KvBatch b;
  b.Put(0, "a", "1");
  ASSERT_TRUE(h.kv().Write(b).ok());
  std::optional<Result<void>> done;
  TaskScope scope;
  scope.Spawn(h.kv().Sync(), [&done](Result<void> r) { done.emplace(std::move(r)); });
  ex.RunFor(kSecond);
  EXPECT_FALSE(done.has_value());
  EXPECT_EQ(h.primary().AnswerAppend(AppendRequest{})->result, AppendResult::kOldTerm);
  AppendRequest higher;
  higher.term = 50;
  EXPECT_EQ(h.primary().AnswerAppend(higher).code(), FsError::kNotReady);
  ex.RunFor(kSecond);
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->code(), FsError::kNotLeader);
}

}  // namespace
}  // namespace stria
