#include "meta/membership.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "common/exec/sim_run.h"
#include "common/kv/mem_kv.h"
#include "common/temp_dir.h"
#include "meta/data_dir.h"
#include "meta/replica/founding.h"
#include "meta/replica/register_client.h"
#include "meta/replica/register_text.h"
#include "meta/replica/replica_log.h"
#include "meta/replica/replica_store.h"
#include "meta/service/meta_server.h"
#include "test/sim/replica/fake_coordinator.h"
#include "test/sim/replica/register_key.h"

namespace stria {
namespace {

class MembershipTest : public testing::Test {
 protected:
  MembershipTest() {
    super_.kind = StoreKind::kMetadata;
    super_.cluster = Uuid{1, 2};
    super_.own = Uuid{3, 4};
    super_.label = "metadata";
    EXPECT_TRUE(WriteDataDir(dir_.path(), super_).ok());
    EXPECT_TRUE(RunSim(ex_, FormatMetaStore(std::make_unique<MemKv>(media_), {super_.cluster, super_.own, Layout(), 1000})).ok());
  }
  Membership Here(const std::string& name) {
    Membership m;
    m.data = dir_.path();
    m.super = super_;
    m.ha.member = name;
    m.ha.address = name + ":7424";
    m.release = "1";
    m.key = RegisterTestKey();
    m.coordinator = asks_.get();
    return m;
  }
  // Of the same cluster, with nothing of the former one's log: as one that was restored.
  void ANewStore() {
    super_.own = Uuid{5, 6};
    ASSERT_TRUE(WriteDataDir(dir_.path(), super_).ok());
    media_ = std::make_shared<MemKvMedia>(kReplicatedFamilies);
    ASSERT_TRUE(RunSim(ex_, FormatMetaStore(std::make_unique<MemKv>(media_), {super_.cluster, super_.own, Layout(), 1000})).ok());
  }
  std::shared_ptr<KvStore> Kv() { return std::make_shared<MemKv>(media_); }
  bool IsMarked() { return IsOneOfSeveral(ReadDataDir(dir_.path()).value()); }
  Register Known() { return **RunSim(ex_, register_.Read()); }

  const TempDir dir_;
  SimExecutor ex_{1};
  Superblock super_;
  PurposeMac mac_{RegisterTestKey(), kRegisterPurpose};
  FakeCoordinator etcd_{&ex_, {}};
  std::unique_ptr<Coordinator> asks_ = etcd_.For("pc1");
  RegisterClient register_{asks_.get(), &mac_};
  std::shared_ptr<MemKvMedia> media_ = std::make_shared<MemKvMedia>(kReplicatedFamilies);
};

TEST_F(MembershipTest, TheFirstIsMarkedAndMayBeAloneAgain) {
  EXPECT_FALSE(IsMarked());
  for (int i = 0; i < 2; ++i) {
    const Result<void> first = RunSim(ex_, BecomeFirst(Here("pc1"), Kv()));
    ASSERT_TRUE(first.ok()) << first.error();
    EXPECT_TRUE(IsMarked());
    EXPECT_EQ(Known().members.at("pc1"), (MetaMember{super_.own, "pc1:7424", "1", 0}));
    EXPECT_EQ(Known().version, 1u) << "again is as once";
  }
  ASSERT_TRUE(RunSim(ex_, BecomeAlone(Here("pc1"), Kv())).ok());
  EXPECT_FALSE(IsMarked());
  EXPECT_TRUE(Kv()->Scan(kReplicaStateFamily, "", "", 1)->empty());
}

// It may have been asked for already, so it is not served alone meanwhile, and nothing is given up.
TEST_F(MembershipTest, ACoordinatorThatDoesNotAnswerIsWaitedFor) {
  etcd_.SetUp(false);
  std::optional<Result<void>> done;
  TaskScope scope;
  scope.Spawn(BecomeFirst(Here("pc1"), Kv()), [&](Result<void> r) { done = std::move(r); });
  ex_.RunFor(60 * kSecond);
  EXPECT_FALSE(done.has_value());
  EXPECT_FALSE(IsMarked()) << "nobody has been asked to change anything yet";
  etcd_.SetUp(true);
  ex_.RunFor(60 * kSecond);
  ASSERT_TRUE(done.has_value());
  EXPECT_TRUE(done->ok()) << done->error();
  EXPECT_TRUE(IsMarked());
}

TEST_F(MembershipTest, WhoComesSecondDoesNotFound) {
  ASSERT_TRUE(RunSim(ex_, BecomeFirst(Here("pc1"), Kv())).ok());
  // A copy of the directory of before, under another name.
  super_.own = Uuid{5, 6};
  ASSERT_TRUE(WriteDataDir(dir_.path(), super_).ok());
  media_ = std::make_shared<MemKvMedia>(kReplicatedFamilies);
  ASSERT_TRUE(RunSim(ex_, FormatMetaStore(std::make_unique<MemKv>(media_), {super_.cluster, super_.own, Layout(), 1000})).ok());
  const Result<void> second = RunSim(ex_, BecomeFirst(Here("pc2"), Kv()));
  EXPECT_EQ(second.code(), FsError::kExist);
  EXPECT_NE(second.error().message.find("--join"), std::string::npos) << second.error();
  EXPECT_FALSE(IsMarked());
  EXPECT_TRUE(Kv()->Scan(kReplicaStateFamily, "", "", 1)->empty());
  EXPECT_EQ(RunSim(ex_, BecomeAlone(Here("pc2"), Kv())).code(), FsError::kStale);
}

// Its store is what a backup had; etcd still names those that are lost, one of them by its own name.
TEST_F(MembershipTest, WhoIsRestoredTakesThePlaceOfThoseThatAreLost) {
  ASSERT_TRUE(RunSim(ex_, BecomeFirst(Here("pc1"), Kv())).ok());
  const Register lost = Known();
  Membership back = Here("pc1");
  back.super = ReadDataDir(dir_.path()).value();
  const std::shared_ptr<KvStore> back_store = Kv();
  ANewStore();
  const Result<void> refused = RunSim(ex_, BecomeFirst(Here("pc1"), Kv()));
  EXPECT_EQ(refused.code(), FsError::kExist);
  EXPECT_NE(refused.error().message.find("--adopt"), std::string::npos) << refused.error();
  EXPECT_EQ(Known(), lost);

  for (int i = 0; i < 2; ++i) {  // again is as once
    Membership m = Here("pc1");
    m.adopt = true;
    m.super = ReadDataDir(dir_.path()).value();
    const Result<void> adopted = RunSim(ex_, BecomeFirst(m, Kv()));
    ASSERT_TRUE(adopted.ok()) << adopted.error();
    const Register now = Known();
    EXPECT_EQ(now.version, lost.version + 1);
    EXPECT_EQ(now.incarnation, lost.incarnation + 1);
    EXPECT_GT(now.term, lost.term);
    EXPECT_EQ(now.primary, "pc1");
    EXPECT_EQ(now.in_sync, std::set<std::string>{"pc1"});
    ASSERT_EQ(now.members.size(), 1u);
    EXPECT_EQ(now.members.at("pc1").uuid, super_.own);
    EXPECT_EQ(ReplicaStore::Open(Kv()).value()->incarnation(), now.incarnation);
  }
  // The lost one comes back, with the same word.
  back.adopt = true;
  EXPECT_EQ(RunSim(ex_, BecomeFirst(back, back_store)).code(), FsError::kExist);
  EXPECT_EQ(Known().members.at("pc1").uuid, super_.own);
}

// The register is swapped last: a crash before that leaves a log that has begun, above what the register knows.
TEST_F(MembershipTest, WhoTakesTheirPlaceMayBeStoppedInTheMiddle) {
  ASSERT_TRUE(RunSim(ex_, BecomeFirst(Here("pc1"), Kv())).ok());
  ANewStore();
  ASSERT_TRUE(NoteOneOfSeveral(dir_.path(), true).ok());
  {
    FoundingStore half;
    ASSERT_TRUE(LookAtStore(*Kv(), &half).ok());
    const std::unique_ptr<ReplicaStore> store = ReplicaStore::Open(Kv()).value();
    ASSERT_TRUE(store->Begin({half.last, half.term, 77}, Known().incarnation + 1).ok());
    ASSERT_TRUE(RunSim(ex_, store->Sync()).ok());
  }
  Membership m = Here("pc2");
  m.super = ReadDataDir(dir_.path()).value();
  EXPECT_EQ(RunSim(ex_, BecomeFirst(m, Kv())).code(), FsError::kExist) << "without the word nothing is given up";
  m.adopt = true;
  const Result<void> again = RunSim(ex_, BecomeFirst(m, Kv()));
  ASSERT_TRUE(again.ok()) << again.error();
  EXPECT_EQ(Known().primary, "pc2");
  EXPECT_EQ(Known().members.size(), 1u);
}

// As a service that is started again and again with the same flags.
TEST_F(MembershipTest, TheFlagMayStay) {
  ASSERT_TRUE(RunSim(ex_, BecomeFirst(Here("pc1"), Kv())).ok());
  super_ = ReadDataDir(dir_.path()).value();
  { const auto served = RunSim(ex_, MetaStore::Open(std::make_unique<MemKv>(media_))).value(); }
  EXPECT_TRUE(RunSim(ex_, BecomeFirst(Here("pc1"), Kv())).ok());
  // Others came, it was away, and is in the middle of a copy now.
  const Register old = Known();
  Register next = old;
  ++next.version;
  next.nonce = Uuid{8, 8};
  next.members["pc2"] = {Uuid{9, 9}, "pc2:7424", "1", 0};
  next.primary = "pc2";
  next.in_sync = {"pc2"};
  ++next.term;
  ASSERT_EQ(RunSim(ex_, register_.Swap({old, next})).value(), next);
  ASSERT_TRUE(ReplicaStore::Open(Kv()).value()->BeginCopy().ok());
  const Result<void> again = RunSim(ex_, BecomeFirst(Here("pc1"), Kv()));
  EXPECT_TRUE(again.ok()) << again.error();
  EXPECT_EQ(Known(), next);
  EXPECT_TRUE(ReplicaStore::Open(Kv()).value()->marker().has_value());
}

// The flag may stay in its start: then a coordinator that has lost everything would have whoever starts first begin anew, also one that
// had left the set.
TEST_F(MembershipTest, ALostRegisterIsNotFoundedAnewByItself) {
  ASSERT_TRUE(RunSim(ex_, BecomeFirst(Here("pc1"), Kv())).ok());
  super_ = ReadDataDir(dir_.path()).value();
  {
    const std::unique_ptr<ReplicaStore> store = ReplicaStore::Open(Kv()).value();
    KvBatch batch;
    batch.Put(0, "k", "v");
    ASSERT_TRUE(store->Add(7, 0, batch).ok());
  }
  FakeCoordinator empty(&ex_, {});
  const std::unique_ptr<Coordinator> asks = empty.For("pc1");
  Membership m = Here("pc1");
  m.coordinator = asks.get();
  const Result<void> refused = RunSim(ex_, BecomeFirst(m, Kv()));
  EXPECT_EQ(refused.code(), FsError::kConflict);
  EXPECT_NE(refused.error().message.find("--adopt"), std::string::npos) << refused.error();
  EXPECT_NE(refused.error().message.find("term 7"), std::string::npos) << refused.error();
  EXPECT_FALSE(empty.value().has_value());
  // A person has looked at the others' stores.
  m.adopt = true;
  const Result<void> adopted = RunSim(ex_, BecomeFirst(m, Kv()));
  ASSERT_TRUE(adopted.ok()) << adopted.error();
  RegisterClient there(asks.get(), &mac_);
  EXPECT_EQ((**RunSim(ex_, there.Read())).term, 8u);
}

TEST_F(MembershipTest, AStoreThatWasChangedWithoutItsLogIsRefused) {
  ASSERT_TRUE(RunSim(ex_, BecomeFirst(Here("pc1"), Kv())).ok());
  { const auto alone = RunSim(ex_, MetaStore::Open(std::make_unique<MemKv>(media_))).value(); }
  EXPECT_EQ(RunSim(ex_, BecomeFirst(Here("pc1"), Kv())).code(), FsError::kConflict);
}

}  // namespace
}  // namespace stria
