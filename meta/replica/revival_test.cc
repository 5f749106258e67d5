// A member's store goes on without those that had more.
#include "meta/replica/revival.h"

#include <gtest/gtest.h>

#include <memory>

#include "common/exec/sim_run.h"
#include "common/kv/mem_kv.h"
#include "meta/replica/replica_log.h"
#include "meta/service/meta_server.h"

namespace stria {
namespace {

class RevivalTest : public testing::Test {
 protected:
  RevivalTest() {
    FormatParams params{Uuid{1, 2}, Uuid{3, 4}, Layout(), 1000};
    EXPECT_TRUE(RunSim(ex_, FormatMetaStore(std::make_unique<MemKv>(media_), params)).ok());
    Open();
    EXPECT_TRUE(store_->Begin({CommitSeq(10), 5, 77}, 1).ok());
    for (int i = 0; i < 600; ++i) {
      KvBatch batch;
      batch.Put(static_cast<KvFamily>(Family::kXattrs), "x", std::to_string(i));
      EXPECT_TRUE(store_->Add(6, 0, batch).ok());
      batch = KvBatch();
      batch.Delete(static_cast<KvFamily>(Family::kXattrs), "x");
      EXPECT_TRUE(store_->Add(6, 0, batch).ok());
    }
  }
  void Open() {
    store_.reset();
    kv_ = std::make_shared<MemKv>(media_);
    store_ = std::move(ReplicaStore::Open(kv_)).value();
  }
  Result<ReviveResult> Revive() { return RunSim(ex_, ReviveReplica(store_.get(), kv_, {.incarnation = 4, .chain = 99, .store = Uuid{8, 8}, .wall_ns = 1})); }
  void ExpectRevived() {
    EXPECT_TRUE(store_->whole());
    EXPECT_FALSE(store_->reviving());
    EXPECT_EQ(store_->incarnation(), 4u);
    EXPECT_EQ(store_->last().chain, 99u);
    EXPECT_GE(store_->last().seq.v, kIdJump);
    EXPECT_GE(store_->last().term, kTermJump);
    EXPECT_EQ(store_->first().v, store_->last().seq.v + 1) << "nobody gets what was before";
  }

  SimExecutor ex_{1};
  Random rng_{1};
  std::shared_ptr<MemKvMedia> media_ = std::make_shared<MemKvMedia>(kReplicatedFamilies);
  std::shared_ptr<MemKv> kv_;
  std::unique_ptr<ReplicaStore> store_;
};

TEST_F(RevivalTest, TheLogBeginsAnewWhereTheStoreIs) {
  const Result<ReviveResult> revived = Revive();
  ASSERT_TRUE(revived.ok()) << revived.error();
  EXPECT_TRUE(revived->fsck.problems.empty());
  ExpectRevived();
  Open();
  ExpectRevived();
  EXPECT_TRUE(kv_->Scan(kReplicaLogFamily, "", "", 1)->empty());
}

TEST_F(RevivalTest, ACrashInTheMiddleIsGoneOnFrom) {
  media_->FailNextSync();
  EXPECT_EQ(Revive().code(), FsError::kIo);
  store_.reset();
  kv_.reset();
  media_->Crash(rng_, false);
  Open();
  EXPECT_FALSE(store_->whole()) << "never a candidate";
  EXPECT_TRUE(store_->reviving());
  const Result<ReviveResult> revived = Revive();
  ASSERT_TRUE(revived.ok()) << revived.error();
  ExpectRevived();
}

TEST_F(RevivalTest, WhatIsBeingCopiedIsNotRevived) {
  ASSERT_TRUE(store_->BeginCopy().ok());
  EXPECT_EQ(Revive().code(), FsError::kConflict);
  // Also where a copy has begun over what was being revived.
  Open();
  EXPECT_FALSE(store_->reviving());
  EXPECT_EQ(Revive().code(), FsError::kConflict);
}

}  // namespace
}  // namespace stria
