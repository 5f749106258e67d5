#include "meta/store/txn.h"

#include <gtest/gtest.h>

#include "common/exec/sim_run.h"
#include "common/kv/mem_kv.h"
#include "common/random.h"

namespace stria {
namespace {

constexpr Family kF = Family::kXattrs;

class TxnTest : public testing::Test {
 protected:
  TxnTest() : ex_(1), media_(std::make_shared<MemKvMedia>(kFamilies)) { Open(); }
  void Open() { store_ = RunSim(ex_, MetaStore::Open(std::make_unique<MemKv>(media_))).value(); }
  void Crash(bool lose_unsynced, uint64_t seed = 1) {
    store_.reset();
    Random rng(seed);
    media_->Crash(rng, lose_unsynced);
    Open();
  }
  void Sync() { ASSERT_TRUE(RunSim(ex_, store_->Sync()).ok()); }

  SimExecutor ex_;
  std::shared_ptr<MemKvMedia> media_;
  std::unique_ptr<MetaStore> store_;
};

TEST_F(TxnTest, SequenceIsDenseAndDroppedTransactionsLeaveNothing) {
  const CommitSeq first = store_->last_seq();
  {
    Txn txn(*store_);
    txn.Put(kF, "k", "v");
    ASSERT_TRUE(txn.NewInode().ok());
    txn.AddCount(Counter::kFiles, 5);
  }
  EXPECT_EQ(store_->last_seq(), first);
  EXPECT_EQ(store_->Count(Counter::kFiles), 0u);
  InodeId ino;
  {
    Txn txn(*store_);
    EXPECT_FALSE(txn.Get(kF, "k").value());
    ino = txn.NewInode().value();
    txn.Put(kF, "k", "v");
    txn.AddCount(Counter::kFiles, 2);
    EXPECT_EQ(txn.Count(Counter::kFiles), 2u);
    EXPECT_EQ(txn.seq().v, first.v + 1);
    EXPECT_EQ(txn.Commit().value(), txn.seq());
  }
  EXPECT_EQ(store_->last_seq().v, first.v + 1);
  EXPECT_GT(store_->last_seq(), store_->durable_seq());
  Txn txn(*store_);
  EXPECT_EQ(txn.Get(kF, "k").value(), "v");
  EXPECT_EQ(txn.NewInode().value().v, ino.v + 1);
  Txn nothing(*store_);
  EXPECT_EQ(nothing.Commit().value(), store_->last_seq());
}

TEST_F(TxnTest, IdsNeverComeTwiceWhateverTheCrash) {
  std::set<uint64_t> seen;
  std::set<uint64_t> stamps;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    for (int i = 0; i < 5; ++i) {
      Txn txn(*store_);
      EXPECT_TRUE(seen.insert(txn.NewShard().value().v).second);
      EXPECT_TRUE(stamps.insert(txn.Stamp().value()).second);
      EXPECT_EQ(txn.Stamp().value(), *stamps.rbegin());
      txn.Put(kF, "k", "v");
      ASSERT_TRUE(txn.Commit().ok());
      if (seed % 3 == 0 && i == 2) Sync();
    }
    Crash(true, seed);
  }
}

TEST_F(TxnTest, ARangeIsUsedOnlyWhenItIsDurable) {
  uint64_t taken = 0;
  FsError last = FsError::kOk;
  while (last == FsError::kOk) {
    Txn txn(*store_);
    for (int i = 0; i < 100000 && last == FsError::kOk; ++i, ++taken) last = txn.NewStripe().code();
    txn.Put(kF, "k", "v");
    ASSERT_TRUE(txn.Commit().ok());
    ASSERT_LE(taken, kIdRange + 1);
  }
  EXPECT_EQ(last, FsError::kRetryLater);
  Sync();
  Txn txn(*store_);
  EXPECT_TRUE(txn.NewStripe().ok());
}

TEST_F(TxnTest, BoundsOfABatch) {
  Txn many(*store_);
  for (size_t i = 0; i < kMaxBatchRecords; ++i) many.Put(kF, std::to_string(i), "");
  EXPECT_FALSE(many.Fits(0, 0));
  EXPECT_EQ(many.Commit().code(), FsError::kTooBig);
  Txn large(*store_);
  large.Put(kF, "k", std::string(kMaxBatchBytes, 'x'));
  EXPECT_EQ(large.Commit().code(), FsError::kTooBig);
  Txn exact(*store_);
  for (size_t i = 0; i + 1 < kMaxBatchRecords; ++i) exact.Put(kF, std::to_string(i), "");
  exact.Put(kF, "0", "twice the same key is one record");
  EXPECT_EQ(exact.records(), kMaxBatchRecords - 1);
  EXPECT_TRUE(exact.Commit().ok());
}

TEST_F(TxnTest, AFailedWriteEndsTheStore) {
  media_->FailNextWrite();
  Txn txn(*store_);
  txn.Put(kF, "k", "v");
  EXPECT_EQ(txn.Commit().code(), FsError::kIo);
  Txn next(*store_);
  next.Put(kF, "k", "v");
  EXPECT_FALSE(next.Commit().ok());
}

TEST_F(TxnTest, DurableSeqFollowsSync) {
  Txn txn(*store_);
  txn.Put(kF, "k", "v");
  const CommitSeq seq = txn.Commit().value();
  ASSERT_TRUE(RunSim(ex_, store_->WaitDurable(seq)).ok());
  EXPECT_EQ(store_->durable_seq(), seq);
  Crash(true);
  Txn after(*store_);
  EXPECT_EQ(after.Get(kF, "k").value(), "v");
}

TEST_F(TxnTest, UnknownFeaturesAreRefused) {
  SuperRecord super;
  super.cluster = Uuid{1, 1};
  super.incompat = 1;
  Txn txn(*store_);
  txn.Write(SuperKey(), super);
  ASSERT_TRUE(txn.Commit().ok());
  EXPECT_EQ(store_->super()->cluster, super.cluster);
  store_.reset();
  EXPECT_EQ(RunSim(ex_, MetaStore::Open(std::make_unique<MemKv>(media_))).code(), FsError::kVersion);
}

// Reads through the overlay against a map that the writes were applied to.
TEST_F(TxnTest, OverlayMatchesAMap) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random rng(seed);
    std::map<std::string, std::string> model;
    auto key = [&] {
      std::string k;
      for (uint64_t n = rng.Between(1, 3); n > 0; --n)
        k += static_cast<char>(rng.OneIn(3) ? 0 : rng.Below(4) + 253);
      return k;
    };
    {
      Txn wipe(*store_);
      const std::vector<KvEntry> all = wipe.Scan(kF, {}, {}, 10000).value();
      for (const KvEntry& e : all) wipe.Delete(kF, e.first);
      ASSERT_TRUE(wipe.Commit().ok());
    }
    for (int round = 0; round < 20; ++round) {
      Txn txn(*store_);
      auto changed = model;
      for (int i = 0; i < 30; ++i) {
        const std::string k = key();
        if (rng.OneIn(2)) {
          txn.Put(kF, k, std::to_string(i));
          changed[k] = std::to_string(i);
        } else {
          txn.Delete(kF, k);
          changed.erase(k);
        }
        const std::string a = key();
        const std::string b = rng.OneIn(4) ? "" : key();
        const size_t limit = rng.Between(1, 12);
        std::vector<KvEntry> expected;
        for (auto it = changed.lower_bound(a); it != changed.end() && (b.empty() || it->first < b); ++it) {
          if (expected.size() < limit) expected.push_back(*it);
        }
        if (b.empty() || a < b) ASSERT_EQ(txn.Scan(kF, a, b, limit).value(), expected);
        const std::string at = key();
        auto it = changed.upper_bound(at);
        std::optional<KvEntry> last;
        if (it != changed.begin() && std::prev(it)->first >= a) last = *std::prev(it);
        ASSERT_EQ(txn.Last(kF, a, at).value(), last);
        auto found = changed.find(at);
        ASSERT_EQ(txn.Get(kF, at).value(),
                  found == changed.end() ? std::nullopt : std::optional(found->second));
      }
      if (rng.OneIn(3)) continue;  // aborted
      ASSERT_TRUE(txn.Commit().ok());
      model = changed;
    }
  }
}

}  // namespace
}  // namespace stria
