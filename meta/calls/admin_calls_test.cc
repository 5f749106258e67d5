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

  static std::shared_ptr<const Peer> PeerOf(Role role) {
    auto peer = std::make_shared<Peer>();
    peer->role = role;
    peer->name = "pc1";
    return peer;
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

TEST_F(AdminCallsTest, WhereCallersProveWhoTheyAreTheRoleSaysWhoIsAdmin) {
  InodeRequest fsck = By(1000);
  fsck.header.peer = PeerOf(Role::kAdmin);
  EXPECT_TRUE(RunSim(ex, calls.Fsck(fsck)).ok()) << "whatever its uid is";
  AdminRequest drain;
  drain.verb = AdminVerb::kDrain;
  drain.node = NodeId(7);
  drain.header = fsck.header;
  EXPECT_EQ(RunSim(ex, calls.Admin(drain)).code(), FsError::kNoEnt) << "it is let in, and there is no such node";
  for (const Role role : {Role::kMeta, Role::kData, Role::kClient, Role::kMonitor}) {
    fsck = By(0);
    fsck.header.peer = PeerOf(role);
    EXPECT_EQ(RunSim(ex, calls.Fsck(fsck)).code(), FsError::kAccess) << RoleName(role) << ": no uid makes an admin";
    drain.header = fsck.header;
    for (const bool dry : {false, true}) {
      drain.dry_run = dry;
      EXPECT_EQ(RunSim(ex, calls.Admin(drain)).code(), FsError::kAccess) << RoleName(role) << (dry ? ", dry" : "");
    }
    UpkeepRequest order;
    order.header = fsck.header;
    for (const UpkeepVerb verb : {UpkeepVerb::kScrubStart, UpkeepVerb::kRepairStart, UpkeepVerb::kForgetUnknown, UpkeepVerb::kBackupNow}) {
      order.verb = verb;
      for (const bool dry : {false, true}) {
        order.dry_run = dry;
        EXPECT_EQ(RunSim(ex, calls.Upkeep(order)).code(), FsError::kAccess) << RoleName(role) << (dry ? ", dry" : "");
      }
    }
  }
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
