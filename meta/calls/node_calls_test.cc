// What data servers call, on a cluster and a core, without a metadata server.
#include "meta/calls/node_calls.h"

#include <map>
#include <memory>
#include <string>

#include "meta/core/core_testing.h"

namespace stria {
namespace {

class NodeCallsTest : public CoreTest, public ClusterHost, public CleanerHost {
 protected:
  NodeCallsTest()
      : cleaner(core.get(), this),
        cluster(core.get(), this, ClusterOptions()),
        coherence(core.get(), &cleaner, CoherenceOptions(), [](SessionId) {}),
        calls(core.get(), &coherence.sessions(), &cluster, &rooms) {}
  void MapChanged() override {}
  void Moved(Txn&, const std::set<TargetId>&) override {}
  void Restarted(const std::set<TargetId>&) override {}
  bool IsOpen(InodeId) const override { return false; }
  bool IsWanted(InodeId) const override { return false; }
  void TellTrimmed(const Touched&) override {}

  void Begin() {
    Start([&](Txn& txn) { return cluster.Load(txn); });
  }
  RegisterNodeRequest Hello() {
    RegisterNodeRequest r;
    r.header = Header();
    r.uuid = Uuid{500, 1};
    r.name = "n1";
    r.address = "n1:7001";
    return r;
  }

  static std::shared_ptr<const Peer> PeerOf(Role role, const std::string& name) {
    auto peer = std::make_shared<Peer>();
    peer->role = role;
    peer->name = name;
    peer->address = "10.0.0.7:40112";
    return peer;
  }
  // A node with one disk, whose number is `n`.
  RegisterNodeRequest Of(uint32_t n) {
    RegisterNodeRequest r = Hello();
    r.uuid = Uuid{500, n};
    r.name = "n" + std::to_string(n);
    r.address = r.name + ":7001";
    r.header.peer = PeerOf(Role::kData, r.name);
    DiskHello d;
    d.uuid = Uuid{600, n};
    d.label = "d1";
    r.disks = {d};
    return r;
  }
  // Each with `as` as its caller: what a call of `node` and about `target` is answered.
  std::map<std::string, FsError> CallsAs(const std::shared_ptr<const Peer>& as, const RegisterNodeReply& node, TargetId target) {
    std::map<std::string, FsError> out;
    HeartbeatRequest beat;
    ReportWorkRequest work;
    ReportScrubRequest scrub;
    beat.header = work.header = scrub.header = Header();
    beat.header.peer = work.header.peer = scrub.header.peer = as;
    beat.node = work.node = scrub.node = node.node;
    beat.epoch = work.epoch = scrub.epoch = Epoch(node.epoch.v + 1);  // no room is here that would answer the right one
    out["Heartbeat"] = RunSim(ex, calls.Heartbeat(beat)).code();
    out["ReportWork"] = RunSim(ex, calls.ReportWork(work)).code();
    out["ReportScrub"] = RunSim(ex, calls.ReportScrub(scrub)).code();
    CompareShardsRequest compare;
    ListParityRequest parity;
    compare.header = parity.header = Header();
    compare.header.peer = parity.header.peer = as;
    compare.target = parity.target = target;
    out["CompareShards"] = RunSim(ex, calls.CompareShards(compare)).code();
    out["ListParity"] = RunSim(ex, calls.ListParity(parity)).code();
    return out;
  }

  Cleaner cleaner;
  ClusterKeeper cluster;
  Coherence coherence;
  LoadedRooms rooms;
  NodeCalls calls;
};

TEST_F(NodeCallsTest, NothingIsAnsweredBeforeTheStoreIsLoaded) {
  HeartbeatRequest beat;
  beat.header = Header();
  EXPECT_EQ(RunSim(ex, calls.Heartbeat(beat)).code(), FsError::kNotReady);
  CheckShardsRequest check;
  check.header = Header();
  EXPECT_EQ(RunSim(ex, calls.CheckShards(check)).code(), FsError::kNotReady);
}

TEST_F(NodeCallsTest, ANodeProvesThatItHasTheKeyOfTheCluster) {
  Begin();
  RegisterNodeRequest r = Hello();
  EXPECT_FALSE(RunSim(ex, calls.RegisterNode(r)).ok());
  r.proof = core->signer().ProveNode(r.uuid, r.name);
  EXPECT_TRUE(RunSim(ex, calls.RegisterNode(r)).ok());
  EXPECT_EQ(RunSim(ex, calls.GetMap({Header()})).value().nodes.size(), 1u);
}

TEST_F(NodeCallsTest, WhoAsksForTheMapIsToldTheVersionAndTheTime) {
  Begin();
  const ClusterMap map = RunSim(ex, calls.GetMap({Header()})).value();
  EXPECT_EQ(map.server_version, "1.2 (commit c)");
  EXPECT_EQ(map.wall_ns, core->Wall());
  EXPECT_NE(map.wall_ns, 0);
}

TEST_F(NodeCallsTest, OrdinaryUsersReportNothing) {
  Begin();
  ReportWorkRequest work;
  work.header = Header();
  work.header.uid = 1000;
  EXPECT_EQ(RunSim(ex, calls.ReportWork(work)).code(), FsError::kPerm);
  work.header.uid = 0;
  EXPECT_FALSE(RunSim(ex, calls.ReportWork(work)).ok());  // no such node
}

TEST_F(NodeCallsTest, ANodeRegistersUnderTheNameOfItsCertificate) {
  Begin();
  RegisterNodeRequest r = Of(1);
  EXPECT_TRUE(r.proof.empty()) << "the certificate is the proof";
  r.name = "n2";
  const auto refused = RunSim(ex, calls.RegisterNode(r));
  ASSERT_EQ(refused.code(), FsError::kAccess);
  EXPECT_TRUE(refused.error().denies);
  EXPECT_NE(refused.error().message.find("data n1 at 10.0.0.7:40112"), std::string::npos) << refused.error();
  EXPECT_NE(refused.error().message.find("node n2"), std::string::npos) << refused.error();
  r.proof = core->signer().ProveNode(r.uuid, r.name);
  EXPECT_EQ(RunSim(ex, calls.RegisterNode(r)).code(), FsError::kAccess) << "the cluster's key is no other name";
  r = Of(1);
  r.header.peer = PeerOf(Role::kClient, "n1");
  EXPECT_EQ(RunSim(ex, calls.RegisterNode(r)).code(), FsError::kAccess);
  EXPECT_TRUE(RunSim(ex, calls.RegisterNode(Of(1))).ok());
  // The uuid of n1 is in the map: who says it under another name would be n1 from then on.
  r = Of(2);
  r.uuid = Uuid{500, 1};
  EXPECT_EQ(RunSim(ex, calls.RegisterNode(r)).code(), FsError::kAccess);
  EXPECT_NE(cluster.state().FindNodeByName("n1"), nullptr);
  EXPECT_EQ(cluster.state().FindNodeByName("n2"), nullptr);
  EXPECT_TRUE(RunSim(ex, calls.RegisterNode(Of(1))).ok()) << "again";
}

TEST_F(NodeCallsTest, ANodeSpeaksForItselfAndItsDisksOnly) {
  Begin();
  const RegisterNodeReply one = RunSim(ex, calls.RegisterNode(Of(1))).value();
  const RegisterNodeReply two = RunSim(ex, calls.RegisterNode(Of(2))).value();
  for (const auto& [call, code] : CallsAs(PeerOf(Role::kData, "n2"), one, one.targets[0])) EXPECT_EQ(code, FsError::kAccess) << call;
  for (const auto& [call, code] : CallsAs(PeerOf(Role::kData, "n3"), one, one.targets[0])) {
    EXPECT_EQ(code, FsError::kAccess) << call << ", not registered";
  }
  for (const auto& [call, code] : CallsAs(PeerOf(Role::kClient, "n1"), one, one.targets[0])) {
    EXPECT_EQ(code, FsError::kAccess) << call << ", another role";
  }
  for (const auto& [call, code] : CallsAs(PeerOf(Role::kData, "n1"), one, one.targets[0])) EXPECT_NE(code, FsError::kAccess) << call;
  for (const auto& [call, code] : CallsAs(PeerOf(Role::kData, "n2"), two, two.targets[0])) EXPECT_NE(code, FsError::kAccess) << call;
  // Its own node, another's disk.
  ReportScrubRequest scrub;
  scrub.header = Header();
  scrub.header.peer = PeerOf(Role::kData, "n1");
  scrub.node = one.node;
  scrub.epoch = one.epoch;
  scrub.disks.emplace_back().target = two.targets[0];
  EXPECT_EQ(RunSim(ex, calls.ReportScrub(scrub)).code(), FsError::kAccess);
  CheckShardsRequest check;
  check.header = Header();
  check.header.peer = PeerOf(Role::kData, "n1");
  check.target = two.targets[0];
  const auto refused = RunSim(ex, calls.CheckShards(check));
  ASSERT_EQ(refused.code(), FsError::kAccess);
  EXPECT_NE(refused.error().message.find("disk n2:d1"), std::string::npos) << refused.error();
  check.target = TargetId(99);
  EXPECT_EQ(RunSim(ex, calls.CheckShards(check)).code(), FsError::kAccess) << "nobody's";
}

// The uuids of disks are in the map: naming one is nothing. Also while its node is down, or is up and lacks it.
TEST_F(NodeCallsTest, ADiskOfAnotherNodeComesWithWhatThatLeftOnIt) {
  Begin();
  const auto node_of = [&](TargetId t) { return cluster.state().FindNode(cluster.state().FindTarget(t)->node)->name; };
  RegisterNodeRequest one = Of(1), two = Of(2);
  const RegisterNodeReply first = RunSim(ex, calls.RegisterNode(one)).value();
  ASSERT_EQ(first.disk_proofs.size(), 1u);
  ASSERT_FALSE(first.disk_proofs[0].empty());
  const TargetId disk = first.targets[0];
  ex.RunFor(ClusterOptions().down_ns + kSecond);
  cluster.Tick();
  ASSERT_EQ(cluster.state().FindNode(first.node)->state, NodeState::kDown);
  two.disks.push_back(one.disks[0]);
  two.disks[1].label = "d2";
  const auto may_not = [&](const std::string& proof) {
    two.disks[1].proof = proof;
    const RegisterNodeReply reply = RunSim(ex, calls.RegisterNode(two)).value();
    EXPECT_TRUE(reply.targets[0]) << "its own disk is in use";
    EXPECT_FALSE(reply.targets[1]);
    EXPECT_EQ(reply.disk_proofs.at(1), "") << "nor is it told the proof";
    EXPECT_EQ(node_of(disk), "n1");
    const auto& strangers = cluster.state().StrangersOf(reply.node);
    EXPECT_EQ(strangers.size(), 1u);
    if (!strangers.empty()) {
      EXPECT_TRUE(strangers[0].unproved);
      EXPECT_EQ(strangers[0].copy_of, disk);
    }
    return reply;
  };
  may_not("");
  may_not("nonsense");
  const RegisterNodeReply second = may_not(RunSim(ex, calls.RegisterNode(Of(2))).value().disk_proofs[0]);
  // It stays so, and does not register again and again.
  HeartbeatRequest beat;
  beat.node = second.node;
  beat.epoch = second.epoch;
  beat.disks = two.disks;
  beat.disks[0].target = second.targets[0];
  HeartbeatReply answer;
  ASSERT_TRUE(cluster.TakeBeat(beat, &answer).ok());
  EXPECT_FALSE(answer.register_again);
  // Absent, it is not theirs either.
  two.disks[1].absent = true;
  EXPECT_FALSE(RunSim(ex, calls.RegisterNode(two)).value().targets[1]);
  two.disks[1].absent = false;

  two.disks[1].proof = first.disk_proofs[0];
  const RegisterNodeReply moved = RunSim(ex, calls.RegisterNode(two)).value();
  EXPECT_EQ(moved.targets[1], disk) << "it keeps its number";
  EXPECT_EQ(node_of(disk), "n2");
  EXPECT_NE(moved.disk_proofs.at(1), first.disk_proofs[0]);
  // Its former node has nothing to take it back by, once n2 is down.
  ex.RunFor(ClusterOptions().down_ns + kSecond);
  cluster.Tick();
  one.disks[0].proof = first.disk_proofs[0];
  EXPECT_FALSE(RunSim(ex, calls.RegisterNode(one)).value().targets[0]);
  EXPECT_EQ(node_of(disk), "n2");
  one.disks[0].proof = moved.disk_proofs[1];
  EXPECT_EQ(RunSim(ex, calls.RegisterNode(one)).value().targets[0], disk);
}

TEST_F(NodeCallsTest, ANodeThatIsNotKnownIsToldToRegister) {
  Begin();
  HeartbeatRequest beat;
  beat.header = Header();
  beat.header.peer = PeerOf(Role::kData, "n1");
  beat.node = NodeId(9);
  EXPECT_TRUE(RunSim(ex, calls.Heartbeat(beat)).value().register_again);
}

}  // namespace
}  // namespace stria
