// A real metadata server in the house of a member, in virtual time: it serves when the register names it, hears that it does not, and
// serves again in the same process.
#include "meta/meta_house.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/exec/sim_run.h"
#include "common/kv/mem_kv.h"
#include "meta/backup/revive.h"
#include "meta/replica/founding.h"
#include "meta/replica/meta_node.h"
#include "meta/replica/register_text.h"
#include "proto/replica_stubs.h"
#include "proto/sim_transport.h"
#include "test/sim/replica/fake_coordinator.h"
#include "test/sim/replica/register_key.h"

namespace stria {
namespace {

class MetaHouseTest : public testing::Test {
 protected:
  MetaHouseTest()
      : mac_(RegisterTestKey(), kRegisterPurpose),
        coordinator_(&ex_, {}),
        asks_(coordinator_.For("m0")),
        register_(asks_.get(), &mac_),
        media_(std::make_shared<MemKvMedia>(kReplicatedFamilies)) {
    FormatParams params{cluster_, Uuid{3, 4}, Layout(), 1000};
    CHECK(RunSim(ex_, FormatMetaStore(std::make_unique<MemKv>(media_), params)).ok());
    FoundingStore founding;
    founding.name = "m0";
    founding.member = {Uuid{3, 4}, "m0:7401", "1", 0};
    founding.last = RunSim(ex_, MetaStore::Open(std::make_unique<MemKv>(media_))).value()->last_seq();
    founding.chain = 12345;
    {
      const auto store = std::move(ReplicaStore::Open(std::make_shared<MemKv>(media_))).value();
      CHECK(RunSim(ex_, FoundMembers(store.get(), &register_, founding, Nonce())).ok());
      CHECK(RunSim(ex_, FoundMembers(store.get(), &register_, founding, Nonce())).ok(), "again is as once");
    }
    MakeNode();
    net_.Serve("m0:7401", house_->dispatcher());
  }
  ~MetaHouseTest() override {
    net_.Stop("m0:7401");
    node_.reset();
    house_.reset();
  }

  Uuid Nonce() { return {1, ++nonce_}; }

  void MakeNode() {
    MetaHouseEnv house;
    house.params = [this] {
      ++made_;
      ServedMetaParams p;
      p.keys = {RegisterTestKey()};
      p.cluster = cluster_;
      p.data = &data_;
      return p;
    };
    house.away = [this] { return node_->WhyAway(); };
    house.serves = [this](ServedMeta* served) { serves_ = served->server(); };
    house.goes = [this] {
      serves_ = nullptr;
      ++gone_;
    };
    house_ = std::make_unique<MetaHouse>(std::move(house));
    MetaNodeOptions options;
    options.self = "m0";
    options.uuid = Uuid{3, 4};
    options.cluster = cluster_;
    options.nonce = [this] { return Nonce(); };
    options.alarm = [this](const std::string& text) { alarms_.push_back(text); };
    MetaNodeEnv env;
    env.kv = std::make_shared<MemKv>(media_);
    env.coordinator = asks_.get();
    env.mac = &mac_;
    env.replicas = &replicas_;
    env.members = &members_;
    env.house = house_.get();
    node_ = std::make_unique<MetaNode>(std::move(options), env);
    CHECK(node_->Start().ok());
  }
  bool RunUntil(const std::function<bool()>& done) { return ex_.RunUntil(done, ex_.NowNs() + 60 * kSecond); }
  bool Serves() {
    return RunUntil([&] { return node_->serving(); });
  }
  Result<ClusterMap> GetMap() {
    InodeRequest r;
    r.header.cluster = cluster_;
    r.header.timeout_ns = 5 * kSecond;
    return RunSim(ex_, client_.GetMap(std::move(r)));
  }
  // By a person at the coordinator, or by another member.
  void SetRegister(const std::function<void(Register*)>& change) {
    const Register old = DecodeRegister(*coordinator_.value(), mac_).value();
    Register next = old;
    ++next.version;
    next.nonce = Nonce();
    next.handed.reset();
    change(&next);
    ASSERT_TRUE(CheckRegister(next).ok()) << CheckRegister(next).error();
    const Result<Register> there = RunSim(ex_, register_.Swap({old, next}));
    ASSERT_TRUE(there.ok() && *there == next);
  }

  const Uuid cluster_{1, 2};
  SimExecutor ex_{1};
  uint64_t nonce_ = 0;
  PurposeMac mac_;
  FakeCoordinator coordinator_;
  std::unique_ptr<Coordinator> asks_;
  RegisterClient register_;
  std::shared_ptr<MemKvMedia> media_;
  SimNetwork net_{&ex_, 7};
  std::unique_ptr<TransportFactory> factory_ = net_.MakeFactory("m0");
  TransportReplicaConnector replicas_{factory_.get()};
  TransportMemberConnector members_{factory_.get()};
  TransportDataConnector data_{factory_.get()};
  MetaStub client_{net_.MakeTransport("pc", "m0:7401")};
  int made_ = 0, gone_ = 0;
  std::vector<std::string> alarms_;
  MetaServer* serves_ = nullptr;
  std::unique_ptr<MetaHouse> house_;
  std::unique_ptr<MetaNode> node_;
};

TEST_F(MetaHouseTest, ServesInTheTermOfTheRegister) {
  EXPECT_EQ(GetMap().code(), FsError::kNotLeader);  // it has not read the register yet
  ASSERT_TRUE(RunUntil([&] { return node_->role() == MetaRole::kOpening; }));
  ASSERT_FALSE(node_->serving());
  const Result<ClusterMap> soon = GetMap();
  EXPECT_EQ(soon.code(), FsError::kNotReady) << soon.error() << ": nobody else is to be asked";
  ASSERT_TRUE(Serves());
  ASSERT_NE(serves_, nullptr);
  EXPECT_EQ(house_->server(), serves_);
  EXPECT_NE(house_->served(), nullptr);
  const Result<ClusterMap> map = GetMap();
  ASSERT_TRUE(map.ok()) << map.error();
  EXPECT_EQ(map->term, node_->life()->life().term);
  EXPECT_EQ(serves_->term(), node_->life()->life().term);
  EXPECT_GT(house_->TokenTimeNs(), 0);
  // A check of the metadata reads a snapshot, on another thread: on this one it would stop the beats.
  EXPECT_NE(serves_->store()->kv().Snapshot(), nullptr);
  // The log has what the store has.
  EXPECT_EQ(node_->store().last().seq, serves_->store()->last_seq());
}

TEST_F(MetaHouseTest, ADeposedOneSaysWhereThePrimaryIsAndServesAgain) {
  ASSERT_TRUE(Serves());
  const uint64_t term = serves_->term();
  SetRegister([&](Register* r) {
    r->members["m1"] = {Uuid{9, 9}, "m1:7401", "1", 0};
    r->in_sync = {"m0", "m1"};
    r->primary = "m1";
    ++r->term;
  });
  ASSERT_TRUE(RunUntil([&] { return !node_->serving() && house_->server() == nullptr; }));
  EXPECT_EQ(serves_, nullptr);
  EXPECT_EQ(gone_, 1);
  const Result<ClusterMap> map = GetMap();
  EXPECT_EQ(map.code(), FsError::kNotLeader);
  EXPECT_NE(map.error().message.find("m1 at m1:7401"), std::string::npos) << map.error();
  // The other one gives it back, or has gone: a new life, in a later term, on the same store.
  SetRegister([&](Register* r) {
    r->in_sync = {"m0"};
    r->primary = "m0";
    ++r->term;
  });
  ASSERT_TRUE(Serves());
  EXPECT_EQ(made_, 2);
  EXPECT_GT(serves_->term(), term + 2);
  ASSERT_TRUE(GetMap().ok());
  EXPECT_EQ(GetMap()->term, serves_->term());
}

// Whoever can write at the coordinator changes nothing, and people are told.
TEST_F(MetaHouseTest, AForgedRegisterIsAnAlarmAndNothingElse) {
  ASSERT_TRUE(Serves());
  const uint64_t term = serves_->term();
  EXPECT_TRUE(alarms_.empty());
  std::string forged = *coordinator_.value();
  const size_t at = forged.find("\"primary\"");
  ASSERT_NE(at, std::string::npos);
  forged.replace(at, 9, "\"PRIMARY\"");
  ASSERT_TRUE(RunSim(ex_, asks_->Swap(coordinator_.value(), forged)).ok());
  ASSERT_TRUE(RunUntil([&] { return !alarms_.empty(); }));
  ex_.RunFor(20 * kSecond);
  EXPECT_EQ(alarms_.size(), 1u);
  ASSERT_TRUE(node_->serving());
  EXPECT_EQ(serves_->term(), term);
  EXPECT_TRUE(GetMap().ok());
}

// All that had everything are lost, and a person says so: it goes on from what it has, as from a backup.
TEST_F(MetaHouseTest, AMemberThatLacksSomethingServesOnAPersonsWord) {
  ASSERT_TRUE(Serves());
  SetRegister([&](Register* r) {
    r->members["m1"] = {Uuid{9, 9}, "m1:7401", "1", 0};
    r->in_sync = {"m1"};
    r->primary = "m1";
    ++r->term;
  });
  ASSERT_TRUE(RunUntil([&] { return !node_->serving() && house_->server() == nullptr; }));
  const Register before = DecodeRegister(*coordinator_.value(), mac_).value();
  EXPECT_EQ(RunSim(ex_, node_->PromoteLosing("m1", {})).code(), FsError::kInval) << "the name is given twice";
  EXPECT_EQ(RunSim(ex_, node_->PromoteLosing("m0", {"m1"})).code(), FsError::kConflict) << "that one is alive";
  EXPECT_TRUE(node_->store().whole());
  EXPECT_EQ(DecodeRegister(*coordinator_.value(), mac_).value(), before);
  const CommitSeq last = node_->store().last().seq;

  const Result<Register> now = RunSim(ex_, node_->PromoteLosing("m0", {}));
  ASSERT_TRUE(now.ok()) << now.error();
  EXPECT_EQ(now->primary, "m0");
  EXPECT_EQ(now->in_sync, std::set<std::string>{"m0"});
  EXPECT_EQ(now->incarnation, before.incarnation + 1);
  EXPECT_GE(now->term, before.term + kForcedTermJump);
  ASSERT_TRUE(Serves());
  EXPECT_GT(serves_->term(), now->term);
  EXPECT_TRUE(GetMap().ok());
  EXPECT_GT(node_->store().last().seq.v, last.v + kIdJump / 2) << "no number comes twice";
  EXPECT_GT(node_->store().incarnation(), 1u) << "others copy: what they have is of another history";
  // Again is as once.
  EXPECT_EQ(RunSim(ex_, node_->PromoteLosing("m0", {}))->primary, "m0");
  EXPECT_TRUE(node_->serving());
  // And over a restart.
  node_.reset();
  house_.reset();
  MakeNode();
  EXPECT_TRUE(Serves());
}

// A caller proves that a later life has been: nothing is answered any more, and the store is not marked.
TEST_F(MetaHouseTest, ACallerWhoHasHeardOfALaterLifeEndsThisOne) {
  ASSERT_TRUE(Serves());
  const uint64_t term = serves_->term();
  const SaidTerm later = TermProof({RegisterTestKey()}).Of(cluster_, term + 1);
  InodeRequest r;
  r.header.cluster = cluster_;
  r.header.timeout_ns = 5 * kSecond;
  r.header.seen_term = later.term;
  r.header.seen_proof = later.proof;
  EXPECT_EQ(RunSim(ex_, client_.GetMap(std::move(r))).code(), FsError::kNotLeader);
  // The register still names this member: it begins a life that is later than what that caller has seen.
  ASSERT_TRUE(RunUntil([&] { return node_->serving() && serves_ != nullptr && serves_->term() > term; }));
  EXPECT_TRUE(GetMap().ok());
}

}  // namespace
}  // namespace stria
