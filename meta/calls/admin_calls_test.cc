// What admins call, on a cluster and a core, without a metadata server.
#include "meta/calls/admin_calls.h"

#include "meta/core/core_testing.h"

namespace stria {
namespace {

class AdminCallsTest : public CoreTest, public ClusterHost, public CleanerHost {
 protected:
  AdminCallsTest()
      : cleaner(core.get(), this),
        cluster(core.get(), this, ClusterOptions()),
        coherence(core.get(), &cleaner, CoherenceOptions(), [](SessionId) {}),
        calls(core.get(), &cleaner, &coherence, &cluster, &rooms) {
    Start([&](Txn& txn) { return cluster.Load(txn); });
  }
  void MapChanged() override {}
  void Moved(Txn&, const std::set<TargetId>&) override {}
  void Restarted(const std::set<TargetId>&) override {}
  bool IsOpen(InodeId) const override { return false; }
  bool IsWanted(InodeId) const override { return false; }
  void TellTrimmed(const Touched&) override {}

  InodeRequest By(uint32_t uid, InodeId ino = InodeId()) {
    InodeRequest r;
    r.header = Header();
    r.header.uid = uid;
    r.ino = ino;
    return r;
  }

  Cleaner cleaner;
  ClusterKeeper cluster;
  Coherence coherence;
  LoadedRooms rooms;
  AdminCalls calls;
};

TEST_F(AdminCallsTest, TheCheckIsForRootOnly) {
  EXPECT_EQ(RunSim(ex, calls.Fsck(By(1000))).code(), FsError::kPerm);
  EXPECT_TRUE(RunSim(ex, calls.Fsck(By(0))).value().problems.empty());
}

TEST_F(AdminCallsTest, WhoeverAsksIsToldTheNamesThatListingWouldTell) {
  NamesRequest r;
  r.header = Header();
  r.ino = kRootInode;
  const NamesReply names = RunSim(ex, calls.Names(r)).value();
  EXPECT_FALSE(names.hidden);
}

TEST_F(AdminCallsTest, WhatIsNotThereIsRefused) {
  AdminRequest r;
  r.header = Header();
  r.verb = AdminVerb::kDrain;
  r.target = TargetId(7);
  EXPECT_EQ(RunSim(ex, calls.Admin(r)).code(), FsError::kNoEnt);
  r.target = TargetId();
  r.node = NodeId(7);
  EXPECT_EQ(RunSim(ex, calls.Admin(r)).code(), FsError::kNoEnt);
  r.verb = AdminVerb::kAdmit;
  EXPECT_EQ(RunSim(ex, calls.Admin(r)).code(), FsError::kNoEnt);
  r.header.uid = 1000;
  EXPECT_EQ(RunSim(ex, calls.Admin(r)).code(), FsError::kPerm);
}

}  // namespace
}  // namespace stria
