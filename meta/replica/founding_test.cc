// The first metadata server of several, and the last one that is alone again.
#include "meta/replica/founding.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "common/exec/sim_run.h"
#include "common/kv/mem_kv.h"
#include "meta/core/cluster_keys.h"
#include "meta/core/number_record.h"
#include "meta/model/families.h"
#include "meta/replica/register_text.h"
#include "meta/replica/replica_log.h"
#include "meta/store/txn.h"
#include "test/sim/replica/fake_coordinator.h"
#include "test/sim/replica/register_key.h"

namespace stria {
namespace {

class FoundingTest : public testing::Test {
 protected:
  FoundingTest() { ServeAlone(7); }

  // As a metadata server that is alone does: it opens the store, which writes, and begins a life.
  void ServeAlone(uint64_t term) {
    const auto store = RunSim(ex_, MetaStore::Open(Open())).value();
    Txn txn(*store);
    txn.Put(Family::kCluster, TermRecordKey(), EncodeNumber(term));
    ASSERT_TRUE(txn.Commit().ok());
    ASSERT_TRUE(RunSim(ex_, store->Sync()).ok());
  }
  std::unique_ptr<MemKv> Open() { return std::make_unique<MemKv>(media_); }
  FoundingStore Here() {
    FoundingStore f;
    f.name = "pc1";
    f.member = {Uuid{3, 4}, "pc1:7424", "1", 0};
    f.chain = 99;
    EXPECT_TRUE(LookAtStore(*Open(), &f).ok());
    return f;
  }
  Result<Register> Found() {
    const auto store = ReplicaStore::Open(Open()).value();
    return RunSim(ex_, FoundMembers(store.get(), &register_, Here(), Uuid{1, ++nonce_}));
  }
  Result<void> Leave() { return RunSim(ex_, LeaveMembers(Open(), &register_, "pc1", Uuid{3, 4})); }
  Register Known() { return **RunSim(ex_, register_.Read()); }
  void Change(const std::function<void(Register*)>& change) {
    const Register old = Known();
    Register next = old;
    ++next.version;
    next.nonce = Uuid{2, ++nonce_};
    change(&next);
    ASSERT_EQ(RunSim(ex_, register_.Swap({old, next})).value(), next);
  }

  SimExecutor ex_{1};
  uint64_t nonce_ = 0;
  PurposeMac mac_{RegisterTestKey(), kRegisterPurpose};
  FakeCoordinator etcd_{&ex_, {}};
  std::unique_ptr<Coordinator> asks_ = etcd_.For("pc1");
  RegisterClient register_{asks_.get(), &mac_};
  std::shared_ptr<MemKvMedia> media_ = std::make_shared<MemKvMedia>(kReplicatedFamilies);
};

TEST_F(FoundingTest, TheLogBeginsWhereTheStoreIs) {
  const FoundingStore here = Here();
  EXPECT_EQ(here.term, 7u);
  EXPECT_GT(here.last.v, 0u);
  const Result<Register> first = Found();
  ASSERT_TRUE(first.ok()) << first.error();
  EXPECT_EQ(first->term, 8u);
  EXPECT_EQ(first->in_sync, std::set<std::string>{"pc1"});
  const auto store = ReplicaStore::Open(Open()).value();
  EXPECT_EQ(store->last().seq, here.last);
  EXPECT_EQ(store->last().term, 7u);
  EXPECT_TRUE(store->whole());
  EXPECT_EQ(Found().value(), *first) << "again is as once";
  EXPECT_EQ(etcd_.changes(), 1u);
}

TEST_F(FoundingTest, AnEmptyDirectoryIsNoStore) {
  media_ = std::make_shared<MemKvMedia>(kReplicatedFamilies);
  FoundingStore f;
  EXPECT_EQ(LookAtStore(*Open(), &f).code(), FsError::kInval);
  EXPECT_EQ(Leave().code(), FsError::kInval);
}

TEST_F(FoundingTest, TheOnlyMemberIsAloneAgainAndFoundsAgain) {
  ASSERT_TRUE(Found().ok());
  {
    const auto store = ReplicaStore::Open(Open()).value();
    for (int i = 0; i < 300; ++i) {
      KvBatch batch;
      batch.Put(1, "k" + std::to_string(i), "v");
      ASSERT_TRUE(store->Add(8, 1, batch).ok());
    }
    EXPECT_EQ(RunSim(ex_, FoundMembers(store.get(), &register_, Here(), Uuid{1, ++nonce_})).value().term, 8u) << "it has served, and founds nothing anew";
  }
  ASSERT_TRUE(Leave().ok());
  for (const KvFamily f : {kReplicaLogFamily, kReplicaStateFamily}) EXPECT_TRUE(Open()->Scan(f, "", "", 1)->empty());
  EXPECT_EQ(*Open()->Get(1, "k299"), "v") << "what it has stays";
  ASSERT_TRUE(Leave().ok()) << "again is as once";
  ServeAlone(20);
  const Result<Register> again = Found();
  ASSERT_TRUE(again.ok()) << again.error();
  EXPECT_EQ(again->term, 21u);
  EXPECT_EQ(again->members.size(), 1u);
  EXPECT_EQ(Found().value(), *again);
}

TEST_F(FoundingTest, NobodyLeavesOthers) {
  ASSERT_TRUE(Found().ok());
  Change([](Register* r) { r->members["pc2"] = {Uuid{5, 6}, "pc2:7424", "1", 0}; });
  const Result<void> busy = Leave();
  EXPECT_EQ(busy.code(), FsError::kBusy);
  EXPECT_NE(busy.error().message.find("stria meta remove"), std::string::npos) << busy.error();
  EXPECT_TRUE(ReplicaStore::Open(Open()).value()->begun());
  // It was removed: the others go on without it.
  Change([](Register* r) {
    r->members.erase("pc1");
    r->primary = "pc2";
    r->in_sync = {"pc2"};
    ++r->term;
  });
  EXPECT_EQ(Leave().code(), FsError::kStale);
  EXPECT_EQ(Found().code(), FsError::kExist);
}

TEST_F(FoundingTest, WithoutTheCoordinatorNothingHappens) {
  ASSERT_TRUE(Found().ok());
  etcd_.SetUp(false);
  EXPECT_EQ(Leave().code(), FsError::kDeadline);
  EXPECT_TRUE(ReplicaStore::Open(Open()).value()->begun());
}

TEST_F(FoundingTest, AStoreThatIsNotWholeStaysAMembers) {
  ASSERT_TRUE(Found().ok());
  {
    const auto store = ReplicaStore::Open(Open()).value();
    ASSERT_TRUE(store->BeginCopy().ok());
  }
  EXPECT_EQ(Leave().code(), FsError::kConflict);
  EXPECT_EQ(Found().code(), FsError::kConflict);
}

}  // namespace
}  // namespace stria
