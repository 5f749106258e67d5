// Refused nodes, unused disks, and the sentences of status about them.
#include <gtest/gtest.h>

#include "meta/cluster/cluster_state.h"
#include "meta/cluster/room_advice.h"

namespace stria {
namespace {

constexpr int64_t kWall = 1'700'000'000 * kSecond;
const NodeId kN1{1}, kN2{2};

class RoomTest : public testing::Test {
 protected:
  static DiskHello Disk(uint64_t n, uint64_t filesystem = 0) {
    DiskHello d;
    d.uuid = Uuid{100, n};
    d.label = "d" + std::to_string(n);
    d.capacity_bytes = 1000;
    d.free_bytes = 600;
    d.filesystem = filesystem;
    return d;
  }
  Result<ClusterState::Registered> Register(uint64_t node, std::vector<DiskHello> disks) {
    RegisterNodeRequest r;
    r.uuid = Uuid{1, node};
    r.name = "n" + std::to_string(node);
    r.address = "host:" + std::to_string(node);
    r.disks = std::move(disks);
    auto out = c_.Register(r, now_, kWall + now_, [&] { return NodeId(next_node_++); }, [&] { return TargetId(next_target_++); });
    if (!out.ok()) return out;
    for (size_t i = 0; i < r.disks.size(); ++i) r.disks[i].target = out->targets[i];
    disks_[out->node] = r.disks;
    epochs_[out->node] = out->epoch;
    return out;
  }
  Error Beat(NodeId n) { return c_.Beat(n, epochs_[n], disks_[n], now_, kWall + now_); }
  void Pass(int seconds, std::vector<NodeId> beating) {
    for (int i = 0; i < seconds; ++i) {
      now_ += kSecond;
      for (NodeId n : beating) EXPECT_TRUE(Beat(n).ok());
      c_.Tick(now_, kWall + now_);
    }
  }
  std::string Told() const {
    std::string out;
    for (const Advice& a : RoomAdvice(c_, kWall + now_)) out += std::to_string(a.severity) + " " + a.what + "\n";
    return out;
  }

  ClusterState c_{ClusterOptions{}, Uuid{9, 9}, 1};
  int64_t now_ = kSecond;
  uint32_t next_node_ = 1, next_target_ = 1;
  std::map<NodeId, std::vector<DiskHello>> disks_;
  std::map<NodeId, Epoch> epochs_;
};

TEST_F(RoomTest, ARemovedNodeIsRefusedUntilItIsLetIn) {
  ASSERT_TRUE(Register(1, {Disk(1)}).ok());
  ASSERT_TRUE(Register(2, {Disk(2)}).ok());
  c_.RemoveNode(kN2);
  EXPECT_EQ(Beat(kN2).code, FsError::kNoEnt);
  const auto refused = Register(2, {Disk(2)});
  ASSERT_EQ(refused.code(), FsError::kPerm);
  EXPECT_NE(refused.error().message.find("stria node add n2"), std::string::npos) << refused.error();
  EXPECT_EQ(Register(2, {Disk(7)}).code(), FsError::kPerm) << "with other disks, too";
  EXPECT_EQ(Told(), "0 Node n2 was removed, and its stria-data still runs (at host:2): it is refused.\n");
  now_ += 90 * kSecond;
  EXPECT_EQ(Told(), "") << "it is switched off";
  // That is so after a restart as well.
  const ClusterState::Changes changes = c_.TakeChanges();
  ASSERT_EQ(changes.refused.added.size(), 1u);
  ClusterState d(ClusterOptions{}, Uuid{9, 9}, 1);
  d.LoadRemoved(changes.refused.added[0]);
  RegisterNodeRequest r;
  r.uuid = Uuid{1, 2};
  r.name = "n2";
  EXPECT_EQ(d.Register(r, now_, kWall, [] { return NodeId(8); }, [] { return TargetId(8); }).code(), FsError::kPerm);
  c_.AdmitNode(kN2);
  EXPECT_EQ(c_.TakeChanges().refused.dropped, std::vector<NodeId>{kN2});
  const auto again = Register(2, {Disk(2)});
  ASSERT_TRUE(again.ok()) << again.error();
  EXPECT_NE(again->node, kN2) << "it is a new one";
}

TEST_F(RoomTest, ARemovedDiskIsNotUsedUntilItIsLetIn) {
  ASSERT_TRUE(Register(1, {Disk(1), Disk(2)}).ok());
  c_.SetTargetState(TargetId(2), TargetState::kRemoved);
  DiskHello other = Disk(3);
  other.label = "d2";
  ASSERT_TRUE(Register(1, {Disk(1), Disk(2), other}).ok());
  EXPECT_EQ(c_.FindTarget(TargetId(2))->state, TargetState::kRemoved);
  ASSERT_TRUE(Beat(kN1).ok());
  EXPECT_EQ(c_.StateOf(TargetId(2)), ColumnState::kMissing);
  EXPECT_EQ(Told(), "0 Disk n1:d2 was removed, and is still in the settings of its node.\n");
  c_.AdmitTarget(TargetId(2));
  EXPECT_EQ(c_.StateOf(TargetId(2)), ColumnState::kOk);
  EXPECT_NE(c_.FindTarget(TargetId(2))->label, c_.FindTarget(TargetId(3))->label);
}

TEST_F(RoomTest, AFailedDiskThatIsOutMakesRoomWhenItIsTakenOut) {
  ASSERT_TRUE(Register(1, {Disk(1), Disk(2)}).ok());
  disks_[kN1][1].failed = true;
  Pass(1, {kN1});
  ASSERT_TRUE(c_.IsLastResort(TargetId(2)));
  c_.SetTargetState(TargetId(2), TargetState::kOut);
  EXPECT_EQ(c_.FindTarget(TargetId(2))->state, TargetState::kFailed) << "it still gives bytes";
  disks_[kN1][1].absent = true;
  Pass(1, {kN1});
  EXPECT_EQ(c_.FindTarget(TargetId(2))->state, TargetState::kOut);
}

TEST_F(RoomTest, ADiskAndACopyOfItInOneNode) {
  DiskHello copy = Disk(1);
  copy.label = "d9";
  const auto done = Register(1, {Disk(1), copy, Disk(2)});
  ASSERT_TRUE(done.ok()) << done.error();
  EXPECT_EQ(done->targets, (std::vector<TargetId>{TargetId(1), TargetId(), TargetId(2)}));
  EXPECT_EQ(Told(), "1 Disk n1:d9 is not used: it says that it is n1:d1, which is in use. One of them is a copy of the other.\n");
  Pass(3, {kN1});
  EXPECT_EQ(c_.StateOf(TargetId(2)), ColumnState::kOk);
  EXPECT_NE(Told(), "");
}

TEST_F(RoomTest, ADiskAndACopyOfItInTwoNodes) {
  ASSERT_TRUE(Register(1, {Disk(1), Disk(2)}).ok());
  DiskHello copy = Disk(1);
  copy.label = "d9";
  const auto done = Register(2, {copy, Disk(3)});
  ASSERT_TRUE(done.ok()) << done.error();
  EXPECT_EQ(done->targets[0], TargetId());
  EXPECT_EQ(c_.FindTarget(TargetId(1))->node, kN1);
  Pass(20, {kN1, kN2});
  EXPECT_EQ(c_.StateOf(TargetId(1)), ColumnState::kOk);
  EXPECT_EQ(Told(), "1 Disk n2:d9 is not used: it says that it is n1:d1, which is in use. One of them is a copy of the other.\n");
  // It was carried there after all: n1 does not have it any more.
  disks_[kN1][0].absent = true;
  now_ += kSecond;
  ASSERT_TRUE(Beat(kN1).ok());
  EXPECT_EQ(Beat(kN2).code, FsError::kNoEnt) << "it is to register again";
  ASSERT_TRUE(Register(2, {copy, Disk(3)}).ok());
  EXPECT_EQ(c_.FindTarget(TargetId(1))->node, kN2);
}

TEST_F(RoomTest, ACarriedDiskIsUsedWhenItsFormerNodeIsDown) {
  ASSERT_TRUE(Register(1, {Disk(1)}).ok());
  ASSERT_TRUE(Register(2, {Disk(2)}).ok());
  EXPECT_EQ(Register(2, {Disk(2), Disk(1)})->targets[1], TargetId());
  Pass(9, {kN2});
  now_ += 2 * kSecond;
  c_.Tick(now_, kWall + now_);
  EXPECT_EQ(Beat(kN2).code, FsError::kNoEnt);
  EXPECT_EQ(Register(2, {Disk(2), Disk(1)})->targets[1], TargetId(1));
}

TEST_F(RoomTest, TheSpaceOfAFilesystemIsCountedOnce) {
  ASSERT_TRUE(Register(1, {Disk(1, 7), Disk(2, 7), Disk(3, 8)}).ok());
  EXPECT_EQ(RawOf(c_).total, 2000u);
  EXPECT_EQ(c_.FindTarget(TargetId(2))->free_bytes, 300u);
  EXPECT_EQ(Told(), "0 Disks n1:d1, n1:d2 are directories of one filesystem: its space is counted once, and they fail together.\n");
  // Several servers on one machine.
  ASSERT_TRUE(Register(2, {Disk(4, 8)}).ok());
  EXPECT_EQ(c_.FindTarget(TargetId(3))->capacity_bytes, 500u) << "at once, not with its next heartbeat";
  EXPECT_EQ(c_.FindTarget(TargetId(3))->free_bytes, c_.FindTarget(TargetId(4))->free_bytes);
  EXPECT_EQ(RawOf(c_).total, 2000u);
  EXPECT_EQ(c_.FindTarget(TargetId(3))->capacity_bytes, 500u);
  // One of them is not there any more.
  disks_[kN1][0].absent = true;
  Pass(1, {kN1, kN2});
  Pass(1, {kN1, kN2});
  EXPECT_EQ(c_.FindTarget(TargetId(2))->capacity_bytes, 1000u);
  c_.SetTargetState(TargetId(4), TargetState::kRemoved);
  Pass(1, {kN1, kN2});
  EXPECT_EQ(c_.FindTarget(TargetId(3))->capacity_bytes, 1000u);
}

TEST_F(RoomTest, ANodeThatOthersCannotReachIsTold) {
  ASSERT_TRUE(Register(1, {Disk(1)}).ok());
  ASSERT_TRUE(Register(2, {Disk(2)}).ok());
  EXPECT_EQ(Told(), "");
  const ReachReports::Who mount{SessionId(7), "client pc9", "mount /data on pc9"}, node{SessionId(), "node n1", "node n1"};
  c_.reach().Report(mount, {kN2}, kWall + now_);
  EXPECT_EQ(Told(), "1 Node n2 is heard, but mount /data on pc9 cannot reach it at host:2; they read and write without it.\n");
  c_.reach().Report(node, {kN2}, kWall + now_);
  EXPECT_NE(Told().find("node n1 and 1 other cannot"), std::string::npos) << Told();
  c_.reach().Report(mount, {}, kWall + now_);
  EXPECT_NE(Told().find("but node n1 cannot"), std::string::npos) << Told();
  Pass(31, {kN1, kN2});
  EXPECT_EQ(Told(), "") << "nobody says so any more";
  c_.reach().Report(node, {kN2}, kWall + now_);
  Pass(4, {kN1});
  EXPECT_EQ(Told(), "") << "it is not heard here either, which is told anyway";
}

TEST_F(RoomTest, ADiskOfTheSettingsThatNobodyKnowsIsTold) {
  DiskHello lost;
  lost.label = "d7";
  lost.absent = true;
  lost.problem = "disk /srv/d7: no such directory";
  ASSERT_TRUE(Register(1, {Disk(1), lost}).ok());
  EXPECT_EQ(Told(), "1 Disk n1:d7 is in the settings of its node, and is not used: disk /srv/d7: no such directory.\n");
  Pass(1, {kN1});
  EXPECT_NE(Told(), "");
}

}  // namespace
}  // namespace stria
