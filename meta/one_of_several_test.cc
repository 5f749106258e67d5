// Whole metadata servers in virtual time: the second joins with an empty store, takes over when the first is gone, and each keeps the
// register true about itself.
#include "meta/one_of_several.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/exec/sim_run.h"
#include "common/kv/mem_kv.h"
#include "common/temp_dir.h"
#include "meta/authority_follower.h"
#include "meta/enrolment/authority_files.h"
#include "meta/replica/founding.h"
#include "meta/replica/register_text.h"
#include "meta/replica/replica_log.h"
#include "meta/service/meta_server.h"
#include "meta/service/trust_rooms.h"
#include "meta/trust_dir.h"
#include "meta/trust_start.h"
#include "proto/admin_stubs.h"
#include "proto/sim_transport.h"
#include "proto/trust_stubs.h"
#include "test/sim/replica/fake_coordinator.h"
#include "test/sim/replica/register_key.h"
#include "trust/credentials.h"
#include "trust/files.h"
#include "trust/place.h"

namespace stria {
namespace {

constexpr Uuid kTheirCluster{1, 2};

struct KeptAudit final : AuditSink {
  void Note(AuditEntry entry) override { noted.push_back(std::move(entry)); }
  std::vector<AuditEntry> noted;
};

// A PC.
struct Pc {
  std::string name;
  Uuid store;
  std::shared_ptr<MemKvMedia> media = std::make_shared<MemKvMedia>(kReplicatedFamilies);
  std::string address;
  std::string release = "1";
  bool joins = false;
  std::unique_ptr<Coordinator> coordinator;
  std::unique_ptr<TransportFactory> factory;
  std::unique_ptr<TransportDataConnector> data;
  std::unique_ptr<OneOfSeveral> member;  // null: it is off
  Router router;
  std::vector<std::string> told;  // addresses of members
  // With certificates: its directory of trust, and what it proves itself with.
  std::unique_ptr<TempDir> dir;
  std::shared_ptr<const Credentials> own;
  std::unique_ptr<AuthorityFiles> files;
  std::unique_ptr<AuthorityFollower> follower;

  MetaTrust Trust() const {
    MetaTrust t;
    t.authority = LoadAuthority(dir->path()).value();
    t.next = LoadNextAuthority(dir->path()).value();
    t.keeper = files.get();
    t.given = {own->certificate};
    return t;
  }
  // The authorities whose keys it has.
  std::vector<std::string> Holds() const {
    std::vector<std::string> out;
    const MetaTrust t = Trust();
    for (const auto& a : {t.authority, t.next}) {
      if (a) out.push_back(HexOf(a->certificate().hash()));
    }
    return out;
  }
};

class OneOfSeveralTest : public testing::Test {
 protected:
  OneOfSeveralTest() {
    Pc& m0 = Add("m0", Uuid{3, 4});
    CHECK(RunSim(ex_, FormatMetaStore(std::make_unique<MemKv>(m0.media), {kTheirCluster, m0.store, Layout(), 1000})).ok());
    const auto store = ReplicaStore::Open(std::make_shared<MemKv>(m0.media)).value();
    FoundingStore founding;
    CHECK(LookAtStore(store->kv(), &founding).ok());
    founding.name = "m0";
    founding.member = {m0.store, "m0:7424", "1", 0};
    founding.chain = 5;
    RegisterClient client(m0.coordinator.get(), &mac_);
    CHECK(RunSim(ex_, FoundMembers(store.get(), &client, founding, Uuid{1, 1})).ok());
    Start(m0);
  }
  ~OneOfSeveralTest() override {
    for (auto& [name, pc] : pcs_) Stop(pc);
  }

  Pc& Add(const std::string& name, Uuid store) {
    Pc& pc = pcs_[name];
    pc.name = name;
    pc.store = store;
    pc.address = name + ":7424";
    pc.coordinator = etcd_.For(name);
    pc.factory = net_.MakeFactory(name);
    pc.data = std::make_unique<TransportDataConnector>(pc.factory.get());
    return pc;
  }
  void Start(Pc& pc) {
    OneOfSeveralParams p;
    p.ha.member = pc.name;
    p.ha.address = pc.address;
    p.key = RegisterTestKey();
    p.cluster = kTheirCluster;
    p.store = pc.store;
    p.release = pc.release;
    p.address = pc.address;
    p.joins = pc.joins;
    p.kv = std::make_shared<MemKv>(pc.media);
    p.coordinator = pc.coordinator.get();
    p.transports = pc.factory.get();
    p.served = [&pc] {
      ServedMetaParams s;
      s.keys = {RegisterTestKey()};
      s.cluster = kTheirCluster;
      s.data = pc.data.get();
      s.server.events_ns = kSecond;
      s.admission.proved = pc.own != nullptr;
      if (pc.own) s.trust = pc.Trust();
      return s;
    };
    p.authority = pc.follower.get();
    p.admission.proved = pc.own != nullptr;
    p.audit = &audit_;
    p.members = [&pc](const std::vector<std::string>& addresses) { pc.told = addresses; };
    pc.member = std::make_unique<OneOfSeveral>(std::move(p));
    CHECK(pc.member->Start().ok());
    pc.router = Router();
    pc.member->AddTo(&pc.router);
    net_.Serve(pc.address, &pc.router);
  }
  // As kill -9.
  void Stop(Pc& pc) {
    net_.Stop(pc.address);
    pc.member.reset();
  }
  bool RunUntil(const std::function<bool()>& done) { return ex_.RunUntil(done, ex_.NowNs() + 120 * kSecond); }
  bool Serves(Pc& pc) {
    return RunUntil([&] { return pc.member->server() != nullptr; });
  }
  Pc& m0() { return pcs_.at("m0"); }
  Pc& AddSecond() {
    Pc& m1 = Add("m1", Uuid{5, 6});
    m1.joins = true;
    Start(m1);
    return m1;
  }
  bool InSync(const std::string& name) {
    return RunUntil([&] { return m0().member->node().known() && m0().member->node().known()->in_sync.contains(name); });
  }
  Result<ClusterMap> GetMap(const std::string& address) {
    MetaStub stub(net_.MakeTransport("pc", address));
    InodeRequest r;
    r.header.cluster = kTheirCluster;
    r.header.timeout_ns = 5 * kSecond;
    return RunSim(ex_, stub.GetMap(std::move(r)));
  }

  // "kind subject" of each, as who serves there tells them.
  std::set<std::string> Told(const std::string& address) {
    AdminStub stub(net_.MakeTransport("pc", address));
    ReadEventsRequest r;
    r.header.cluster = kTheirCluster;
    r.header.timeout_ns = 5 * kSecond;
    const Result<ReadEventsReply> reply = RunSim(ex_, stub.ReadEvents(std::move(r)));
    std::set<std::string> out;
    if (reply.ok()) {
      for (const ClusterEvent& e : reply->events) out.insert(e.kind + " " + e.subject);
    }
    return out;
  }
  static MemberState StateIn(const MemberStatusReply& seen, const std::string& name) {
    const auto it = std::ranges::find(seen.members, name, &MemberState::name);
    return it == seen.members.end() ? MemberState() : *it;
  }

  SimExecutor ex_{1};
  PurposeMac mac_{RegisterTestKey(), kRegisterPurpose};
  FakeCoordinator etcd_{&ex_, {}};
  SimNetwork net_{&ex_, 7};
  KeptAudit audit_;  // of all
  std::map<std::string, Pc> pcs_;
};

TEST_F(OneOfSeveralTest, AnEmptyStoreJoinsAndTakesOver) {
  ASSERT_TRUE(Serves(m0()));
  Pc& m1 = AddSecond();
  ASSERT_TRUE(InSync("m1"));
  EXPECT_EQ(m1.member->server(), nullptr);
  const Result<ClusterMap> wrong = GetMap("m1:7424");
  EXPECT_EQ(wrong.code(), FsError::kNotLeader);
  EXPECT_NE(wrong.error().message.find("m0:7424"), std::string::npos) << wrong.error();
  EXPECT_NE(m1.member->Describe().find("m0 at m0:7424"), std::string::npos) << m1.member->Describe();
  EXPECT_TRUE(RunUntil([&] { return m1.told.size() == 2 && m1.member->Map() != nullptr; })) << "it knows whom the cluster believes";
  EXPECT_EQ(m1.member->Map()->cluster, kTheirCluster);
  const uint64_t term = m0().member->server()->term();
  Stop(m0());
  ASSERT_TRUE(Serves(m1));
  EXPECT_GT(m1.member->server()->term(), term);
  EXPECT_TRUE(GetMap("m1:7424").ok());
  // The first comes back with what it had, and follows.
  Start(m0());
  ASSERT_TRUE(InSync("m0"));
  EXPECT_EQ(m0().member->server(), nullptr);
}

// Three need two that have what is acknowledged; the third one does not have it yet, and the second one never will.
TEST_F(OneOfSeveralTest, AThirdJoinsWhileTheSecondIsDeadAndNobodyWaits) {
  Pc& m1 = AddSecond();
  ASSERT_TRUE(InSync("m1"));
  Stop(m1);
  const auto known = [this]() -> const Register& { return *m0().member->node().known(); };
  ASSERT_TRUE(RunUntil([&] { return known().in_sync == std::set<std::string>{"m0"}; }));
  Pc& m2 = Add("m2", Uuid{5, 7});
  m2.joins = true;
  Start(m2);
  bool waits = false;
  EXPECT_TRUE(RunUntil([&] {
    waits = waits || known().in_sync.size() < known().min_in_sync;
    return known().min_in_sync == 2;
  }));
  EXPECT_FALSE(waits);
  EXPECT_EQ(known().in_sync, (std::set<std::string>{"m0", "m2"}));
}

TEST_F(OneOfSeveralTest, APlannedEndHandsOver) {
  ASSERT_TRUE(Serves(m0()));
  Pc& m1 = AddSecond();
  ASSERT_TRUE(InSync("m1"));
  const int64_t began_ns = ex_.NowNs();
  RunSim(ex_, m0().member->Leave());
  ASSERT_TRUE(Serves(m1));
  EXPECT_LT(ex_.NowNs() - began_ns, 4 * kSecond) << "nobody waits for what a dead one had promised";
  EXPECT_EQ(m0().member->server(), nullptr);
}

TEST_F(OneOfSeveralTest, TheRegisterSaysWhatIsTrueOfEach) {
  ASSERT_TRUE(Serves(m0()));
  Pc& m1 = AddSecond();
  ASSERT_TRUE(InSync("m1"));
  Stop(m1);
  m1.address = "m1:9000";
  m1.release = "2";
  Start(m1);
  EXPECT_TRUE(RunUntil([&] {
    const auto& known = m0().member->node().known();
    return known->members.at("m1") == MetaMember{m1.store, "m1:9000", "2", 0} && known->in_sync.contains("m1");
  }));
}

TEST_F(OneOfSeveralTest, WhoWasRemovedDoesNotComeBackByItself) {
  ASSERT_TRUE(Serves(m0()));
  Pc& m1 = AddSecond();
  ASSERT_TRUE(InSync("m1"));
  Stop(m1);
  ASSERT_TRUE(RunUntil([&] { return !m0().member->node().known()->in_sync.contains("m1"); }));
  MemberStub members(net_.MakeTransport("pc", "m0:7424"));
  ChangeMembersRequest remove;
  remove.header.cluster = kTheirCluster;
  remove.header.timeout_ns = 10 * kSecond;
  remove.change = MemberChange::kRemove;
  remove.name = "m1";
  ASSERT_TRUE(RunSim(ex_, members.ChangeMembers(remove)).ok());
  remove.name = "nobody";
  ASSERT_FALSE(RunSim(ex_, members.ChangeMembers(remove)).ok());
  ASSERT_EQ(audit_.noted.size(), 2u) << "what a member asks for itself is no verb of an admin's";
  EXPECT_EQ(audit_.noted[0].verb + " " + audit_.noted[0].arguments, "meta remove m1");
  EXPECT_TRUE(audit_.noted[0].outcome.starts_with("done: ")) << audit_.noted[0].outcome;
  EXPECT_EQ(audit_.noted[1].verb + " " + audit_.noted[1].arguments, "meta remove nobody");
  EXPECT_TRUE(audit_.noted[1].outcome.starts_with("failed: ")) << audit_.noted[1].outcome;
  Start(m1);
  ex_.RunFor(30 * kSecond);
  EXPECT_FALSE(m0().member->node().known()->members.contains("m1"));
  EXPECT_TRUE(GetMap("m0:7424").ok());
}

TEST_F(OneOfSeveralTest, WhatAStandbyCannotDoItSays) {
  ASSERT_TRUE(Serves(m0()));
  Pc& m1 = AddSecond();
  ASSERT_TRUE(InSync("m1"));
  EXPECT_EQ(RunSim(ex_, m1.member->Join("request", "binding", "pc:1")).code(), FsError::kNotLeader);
  Peer admin;
  admin.role = Role::kAdmin;
  admin.serial = "4abc";
  EXPECT_EQ(RunSim(ex_, m1.member->Renew(admin, "request")).code(), FsError::kAccess) << "the primary was asked, which knows of no such certificate";
  Peer own;
  own.role = Role::kMeta;
  const Result<RenewCertificateReply> at_primary = RunSim(ex_, m1.member->Renew(own, "request"));
  EXPECT_FALSE(at_primary.ok());
  EXPECT_NE(at_primary.code(), FsError::kNotLeader) << "the primary was asked, which has no certificates to give here: " << at_primary.error();
  EXPECT_NE(RunSim(ex_, m0().member->Join("request", "binding", "pc:1")).code(), FsError::kNotLeader) << "it answers itself, if only that it has no authority";
}

TEST_F(OneOfSeveralTest, EachSeesAllOfThem) {
  ASSERT_TRUE(Serves(m0()));
  Pc& m1 = AddSecond();
  ASSERT_TRUE(InSync("m1"));
  const auto sees_both = [&](Pc& pc) {
    const MemberStatusReply seen = pc.member->Members();
    return seen.primary == "m0" && StateIn(seen, "m0").role == MemberRole::kPrimary && StateIn(seen, "m1").role == MemberRole::kStandby &&
           StateIn(seen, "m0").coordinator && StateIn(seen, "m1").coordinator && StateIn(seen, "m1").in_sync;
  };
  EXPECT_TRUE(RunUntil([&] { return sees_both(m0()); }));
  EXPECT_TRUE(RunUntil([&] { return sees_both(m1); }));
  Stop(m1);
  EXPECT_TRUE(RunUntil([&] {
    const MemberState lost = StateIn(m0().member->Members(), "m1");
    return lost.role == MemberRole::kUnreachable && !lost.in_sync && !lost.problem.empty();
  }));
}

TEST_F(OneOfSeveralTest, WhoTakesOverTellsIt) {
  ASSERT_TRUE(Serves(m0()));
  Pc& m1 = AddSecond();
  ASSERT_TRUE(InSync("m1"));
  ex_.RunFor(40 * kSecond);  // it has said who serves
  EXPECT_FALSE(Told("m0:7424").contains("meta-failover m0"));
  Stop(m0());
  ASSERT_TRUE(Serves(m1));
  ex_.RunFor(40 * kSecond);
  EXPECT_TRUE(Told("m1:7424").contains("meta-failover m1"));
  EXPECT_TRUE(Told("m1:7424").contains("meta-copy-lost m0"));
  Start(m0());
  ASSERT_TRUE(RunUntil([&] { return m1.member->node().known()->in_sync.contains("m0"); }));
  RunSim(ex_, m1.member->Leave());
  ASSERT_TRUE(Serves(m0()));
  ex_.RunFor(40 * kSecond);
  const std::set<std::string> told = Told("m0:7424");
  EXPECT_TRUE(told.contains("meta-promoted m0")) << "it was handed over";
  EXPECT_TRUE(told.contains("meta-failover m1")) << "what was told stays";
}

// With certificates; each directory has the authority.
class SecuredSeveralTest : public OneOfSeveralTest {
 protected:
  SecuredSeveralTest() {
    Stop(m0());
    Secure(m0());
    const auto admin = std::make_shared<Peer>();
    admin->role = Role::kAdmin;
    admin->name = "pc";
    net_.SetPeer("pc", admin);
    Start(m0());
  }
  ~SecuredSeveralTest() override {
    for (auto& [name, pc] : pcs_) Stop(pc);
  }
  void Secure(Pc& pc) {
    pc.dir = std::make_unique<TempDir>();
    const std::string dir = pc.dir->path();
    if (&pc != &m0()) CHECK(ReplaceFile(dir + kAuthorityFile, ReadSecretFile(m0().dir->path() + kAuthorityFile).value(), 0600).ok());
    TrustDirParams params;
    params.cluster = kTheirCluster;
    params.host = pc.name;
    params.now_s = ex_.WallNs() / kSecond;
    params.master_key = true;
    CHECK(MakeTrustDir(dir, params).ok());
    pc.own = CredentialFiles(dir).Load().value();
    pc.files = std::make_unique<AuthorityFiles>(&pool_, dir);
    pc.follower = std::make_unique<AuthorityFollower>(&pool_, dir, [&pc] { return pc.own; });
    const auto peer = std::make_shared<Peer>(PeerOfOwn(*pc.own));
    peer->issuer = pc.own->bundle.all().front().hash();
    net_.SetPeer(pc.name, peer);
  }
  Result<ChangeAuthorityReply> Change(const std::string& address, AuthorityVerb verb) {
    TrustStub stub(net_.MakeTransport("pc", address));
    ChangeAuthorityRequest r;
    r.header.cluster = kTheirCluster;
    r.header.timeout_ns = 30 * kSecond;
    r.verb = verb;
    return RunSim(ex_, stub.ChangeAuthority(std::move(r)));
  }
  InlinePool pool_;
};

TEST_F(SecuredSeveralTest, AChangeOfTheAuthorityReachesAll) {
  ASSERT_TRUE(Serves(m0()));
  Pc& m1 = Add("m1", Uuid{5, 6});
  m1.joins = true;
  Secure(m1);
  Start(m1);
  ASSERT_TRUE(InSync("m1"));
  const Result<ChangeAuthorityReply> begun = Change("m0:7424", AuthorityVerb::kRotate);
  ASSERT_TRUE(begun.ok()) << begun.error();
  ASSERT_EQ(begun->authorities.size(), 2u);
  EXPECT_TRUE(begun->authorities[1].signs) << begun->message;
  EXPECT_EQ(m1.Holds(), m0().Holds());
  ASSERT_EQ(m1.Holds().size(), 2u);
  // What is believed comes with the map, at once.
  const std::string bundle = m0().member->server()->trust().enrolment()->Bundle();
  EXPECT_TRUE(RunUntil([&] { return m1.member->Map() != nullptr && m1.member->Map()->bundle == bundle; }));
  EXPECT_TRUE(m0().member->KeepsFormer());
  EXPECT_TRUE(m1.member->KeepsFormer());
  ASSERT_TRUE(CredentialFiles::SaveBundle(m1.dir->path(), Bundle::FromPem(bundle).value()).ok());
  EXPECT_TRUE(RunUntil([&] { return !m0().member->KeepsFormer() && !m1.member->KeepsFormer(); }));
  // The one that has begun is lost: the other goes on with it.
  const std::vector<std::string> both = m1.Holds();
  Stop(m0());
  ASSERT_TRUE(Serves(m1));
  const Result<ChangeAuthorityReply> taken_over = Change("m1:7424", AuthorityVerb::kShow);
  ASSERT_TRUE(taken_over.ok()) << taken_over.error();
  ASSERT_EQ(taken_over->authorities.size(), 2u);
  EXPECT_EQ(taken_over->authorities[1].hash, both[1]);
  EXPECT_EQ(taken_over->authorities[1].lacking, std::vector<std::string>{"m0 has not been heard"});
  EXPECT_EQ(Change("m1:7424", AuthorityVerb::kFinish).code(), FsError::kBusy);
  Start(m0());
  bool heard = false;
  for (int i = 0; i < 60 && !heard; ++i) {
    ex_.RunFor(kSecond);
    const auto show = Change("m1:7424", AuthorityVerb::kShow);
    heard = show.ok() && show->authorities.size() == 2 && show->authorities[1].signs &&
            show->authorities[1].lacking == std::vector<std::string>{"m0 does not believe it yet"};
  }
  EXPECT_TRUE(heard);
  EXPECT_EQ(m0().Holds(), both);
}

TEST(NodeOptionsOf, TakesTheTimesOfTheSettings) {
  HaConfig ha;
  ha.member = "pc1";
  ha.beat_ns = 20 * kMillisecond;
  ha.suspect_ns = 100 * kMillisecond;
  ha.promise_ns = 200 * kMillisecond;
  ha.grace_ns = 400 * kMillisecond;
  ha.ack_timeout_ns = 150 * kMillisecond;
  const MetaNodeOptions o = NodeOptionsOf(ha);
  EXPECT_EQ(o.self, "pc1");
  EXPECT_LE(o.tick_ns, ha.beat_ns);
  EXPECT_EQ(o.election.grace_ns, ha.grace_ns);
  EXPECT_EQ(o.life.in_sync.promise_ns, ha.promise_ns);
  EXPECT_EQ(o.life.in_sync.suspect_ns, ha.suspect_ns);
  EXPECT_EQ(o.life.in_sync.ack_timeout_ns, ha.ack_timeout_ns);
  EXPECT_EQ(o.life.shipper.beat_ns, ha.beat_ns);
  EXPECT_EQ(o.life.shipper.suspect_ns, ha.suspect_ns);
  EXPECT_EQ(o.life.shipper.ack_timeout_ns, ha.ack_timeout_ns);
}

}  // namespace
}  // namespace stria
