// What data servers call, on a cluster and a core, without a metadata server.
#include "meta/calls/node_calls.h"

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

TEST_F(NodeCallsTest, OrdinaryUsersReportNothing) {
  Begin();
  ReportWorkRequest work;
  work.header = Header();
  work.header.uid = 1000;
  EXPECT_EQ(RunSim(ex, calls.ReportWork(work)).code(), FsError::kPerm);
  work.header.uid = 0;
  EXPECT_FALSE(RunSim(ex, calls.ReportWork(work)).ok());  // no such node
}

}  // namespace
}  // namespace stria
