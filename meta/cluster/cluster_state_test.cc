#include "meta/cluster/cluster_state.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

constexpr int64_t kWall = 1'700'000'000 * kSecond;

class ClusterTest : public testing::Test {
 protected:
  static DiskHello Disk(uint64_t n) {
    DiskHello d;
    d.uuid = Uuid{100, n};
    d.label = "d" + std::to_string(n);
    d.capacity_bytes = 1000;
    d.free_bytes = 500;
    return d;
  }
  Result<ClusterState::Registered> Register(uint64_t node, std::vector<DiskHello> disks, const std::string& name = "",
                                            const std::string& address = "") {
    RegisterNodeRequest r;
    r.uuid = Uuid{1, node};
    r.name = name.empty() ? "n" + std::to_string(node) : name;
    r.address = address.empty() ? "host:" + std::to_string(node) : address;
    r.disks = std::move(disks);
    auto out = c_.Register(r, now_, kWall + now_, [&] { return NodeId(next_node_++); },
                           [&] { return TargetId(next_target_++); });
    if (out.ok()) {
      for (size_t i = 0; i < r.disks.size(); ++i) r.disks[i].target = out->targets[i];
      disks_[out->node] = r.disks;
      epochs_[out->node] = out->epoch;
    }
    return out;
  }
  Error Beat(NodeId n) { return c_.Beat(n, epochs_[n], disks_[n], now_, kWall + now_); }
  NodeState State(NodeId n) { return c_.FindNode(n)->state; }
  // Lets time pass in steps of 1 s; `beating` nodes beat.
  void Pass(int seconds, std::vector<NodeId> beating) {
    for (int i = 0; i < seconds; ++i) {
      now_ += kSecond;
      for (NodeId n : beating) EXPECT_TRUE(Beat(n).ok());
      c_.Tick(now_, kWall + now_);
    }
  }

  ClusterState c_{ClusterOptions{}, Uuid{9, 9}, 1};
  int64_t now_ = kSecond;
  uint32_t next_node_ = 1, next_target_ = 1;
  std::map<NodeId, std::vector<DiskHello>> disks_;
  std::map<NodeId, Epoch> epochs_;
};

const NodeId kN1{1}, kN2{2}, kN3{3}, kN4{4};

TEST_F(ClusterTest, RecognisesNodesDisksAndMoves) {
  ASSERT_TRUE(Register(1, {Disk(1), Disk(2)}).ok());
  ASSERT_TRUE(Register(2, {Disk(3)}).ok());
  EXPECT_EQ(Register(3, {}, "n1").code(), FsError::kExist);
  DiskHello nameless = Disk(7);
  nameless.uuid = Uuid();
  EXPECT_EQ(Register(3, {nameless}).code(), FsError::kBadRequest);
  const Epoch before = epochs_[kN1];
  auto again = Register(1, {Disk(2), Disk(1)}, "renamed");
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->node, kN1);
  EXPECT_EQ(again->targets, (std::vector<TargetId>{TargetId(2), TargetId(1)}));
  EXPECT_EQ(c_.Beat(kN1, before, {}, now_, kWall).code, FsError::kFenced);
  // Disk 2 is carried to node 2, whose label d2 is free.
  Pass(10, {kN2});
  auto moved = Register(2, {Disk(3), Disk(2)});
  ASSERT_TRUE(moved.ok());
  EXPECT_EQ(moved->targets[1], TargetId(2));
  EXPECT_EQ(c_.FindTarget(TargetId(2))->node, kN2);
  EXPECT_EQ(c_.TargetName(TargetId(2)), "n2:d2");
}

TEST_F(ClusterTest, ANodeHasAnAddressOfItsOwnThatOthersCanReach) {
  for (uint64_t n : {1, 2, 3}) ASSERT_TRUE(Register(n, {Disk(n)}).ok());
  for (const char* bad : {"host", "host:0", ":7", "unix:/run/stria/n1.sock", "host:7,host:8", "host:7\n"}) {
    EXPECT_EQ(Register(4, {Disk(4)}, "", bad).code(), FsError::kBadRequest) << bad;
    EXPECT_EQ(Register(1, {Disk(1)}, "", bad).code(), FsError::kBadRequest) << bad << ", of a node that is known";
  }
  const auto refused = Register(4, {Disk(4)}, "", "host:1");
  ASSERT_EQ(refused.code(), FsError::kExist);
  EXPECT_NE(refused.error().message.find("is that of node n1"), std::string::npos) << refused.error();
  EXPECT_EQ(c_.FindNodeByName("n4"), nullptr) << "nothing of it was taken";
  EXPECT_EQ(Register(2, {Disk(2)}, "", "host:1").code(), FsError::kExist);
  EXPECT_EQ(c_.FindNode(kN2)->address, "host:2");
  // Its own, and one that nobody has.
  EXPECT_TRUE(Register(1, {Disk(1)}, "", "host:1").ok());
  EXPECT_TRUE(Register(1, {Disk(1)}, "", "host:9").ok());
  EXPECT_TRUE(Register(4, {Disk(4)}, "", "host:1").ok());
  // A node that is away keeps its own: it may be starting. One that was given up does not.
  Pass(30, {kN1, kN3, kN4});
  ASSERT_EQ(State(kN2), NodeState::kDown);
  EXPECT_EQ(Register(5, {Disk(5)}, "", "host:2").code(), FsError::kExist);
  c_.SetNodeOut(kN2, kWall + now_);
  EXPECT_TRUE(Register(5, {Disk(5)}, "", "host:2").ok());
  EXPECT_EQ(Register(2, {Disk(2)}, "", "host:2").code(), FsError::kExist) << "it is another's by now";
}

TEST_F(ClusterTest, AMachineSetUpAnewTakesThePlaceOfADeadNodeOfItsName) {
  for (uint64_t n : {1, 2, 3, 4}) ASSERT_TRUE(Register(n, {Disk(n)}).ok());
  DiskHello fresh = Disk(11);
  fresh.label = "d9";
  Pass(5, {kN2, kN3, kN4});
  const auto refused = Register(8, {fresh}, "n1");
  ASSERT_EQ(refused.code(), FsError::kExist) << "it is not missed for long";
  EXPECT_NE(refused.error().message.find("heard 5 s ago at host:1; if this machine is to replace it, stop stria-data there"),
            std::string::npos) << refused.error();
  EXPECT_EQ(c_.FindNode(kN1)->uuid, (Uuid{1, 1}));
  Pass(6, {kN2, kN3, kN4});
  ASSERT_EQ(State(kN1), NodeState::kDown);
  EXPECT_EQ(Register(2, {Disk(2)}, "n1").code(), FsError::kExist) << "a node does not become another";
  const auto anew = Register(8, {fresh}, "n1");
  ASSERT_TRUE(anew.ok()) << anew.error();
  EXPECT_EQ(anew->node, kN1);
  EXPECT_EQ(c_.FindNode(kN1)->uuid, (Uuid{1, 8}));
  EXPECT_EQ(c_.FindTarget(TargetId(1))->state, TargetState::kUp);
  Pass(10, {kN1, kN2, kN3, kN4});
  EXPECT_EQ(State(kN1), NodeState::kUp);
  EXPECT_EQ(c_.StateOf(TargetId(1)), ColumnState::kSuspect) << "its old disk is missing";
  EXPECT_EQ(c_.StateOf(anew->targets[0]), ColumnState::kOk);
  // The former machine was only cut off.
  EXPECT_EQ(Register(1, {Disk(1)}).code(), FsError::kExist);
  // The grace period of its disk began when it fell silent.
  Pass(578, {kN1, kN2, kN3, kN4});
  EXPECT_EQ(c_.FindTarget(TargetId(1))->state, TargetState::kUp);
  Pass(2, {kN1, kN2, kN3, kN4});
  EXPECT_EQ(c_.FindTarget(TargetId(1))->state, TargetState::kFailed);
  // It is put into the new machine.
  ASSERT_TRUE(Register(8, {fresh, Disk(1)}, "n1").ok());
  EXPECT_EQ(c_.FindTarget(TargetId(1))->state, TargetState::kUp);
}

TEST_F(ClusterTest, WhatWasGivenUpWithANodeStaysSoWhenItIsSetUpAnew) {
  for (uint64_t n : {1, 2, 3, 4}) ASSERT_TRUE(Register(n, {Disk(n)}).ok());
  Pass(11, {kN2, kN3, kN4});
  c_.SetNodeOut(kN1, kWall);
  ASSERT_TRUE(Register(8, {Disk(11)}, "n1").ok());
  EXPECT_EQ(c_.StateOf(TargetId(1)), ColumnState::kMissing) << "its rebuild goes on";
  EXPECT_TRUE(c_.FindTarget(TargetId(1))->given_up);
}

TEST_F(ClusterTest, CarriedDisksAreLookedAt) {
  ASSERT_TRUE(Register(1, {Disk(1), Disk(2)}).ok());
  ASSERT_TRUE(Register(2, {Disk(3)}).ok());
  EXPECT_TRUE(c_.TakeMoved().empty()) << "a new disk has nothing on it";
  Pass(10, {kN2});
  ASSERT_TRUE(Register(2, {Disk(3), Disk(2)}).ok());
  EXPECT_EQ(c_.TakeMoved(), std::set<TargetId>{TargetId(2)});
  DiskHello other = Disk(3);
  other.channel = "sata9";
  ASSERT_TRUE(Register(2, {other, Disk(2)}).ok());
  EXPECT_EQ(c_.TakeMoved(), std::set<TargetId>{TargetId(3)});
}

// They are in keys of the store, in events and in metrics.
TEST_F(ClusterTest, LabelsAndChannelsAreNames) {
  for (const std::string& label : {std::string("a b"), std::string("a:b"), std::string("d\xff"), std::string(65, 'd'), std::string(65'000, 'd')}) {
    DiskHello d = Disk(1);
    d.label = label;
    EXPECT_EQ(Register(1, {d}).code(), FsError::kBadRequest) << label.substr(0, 80);
  }
  for (const std::string& channel : {std::string("a b"), std::string("a\n"), std::string(65, 'c')}) {
    DiskHello d = Disk(1);
    d.channel = channel;
    EXPECT_EQ(Register(1, {d}).code(), FsError::kBadRequest) << channel;
  }
  DiskHello d = Disk(1);
  d.label = std::string(61, 'd') + ".-_";
  d.channel = "pci-0000:00:1f.2-ata-1";
  EXPECT_TRUE(Register(1, {d}).ok());
}

TEST_F(ClusterTest, TwoDisksOfANodeChangePlaces) {
  DiskHello a = Disk(1), b = Disk(2);
  ASSERT_TRUE(Register(1, {a, b}).ok());
  std::swap(a.label, b.label);
  ASSERT_TRUE(Register(1, {a, b}).ok());
  EXPECT_EQ(c_.TargetName(TargetId(1)), "n1:d2");
  EXPECT_EQ(c_.TargetName(TargetId(2)), "n1:d1");
}

TEST_F(ClusterTest, WhoHasLostADiskDoesNotTakeItBack) {
  ASSERT_TRUE(Register(1, {Disk(1), Disk(2)}).ok());
  Pass(10, {});
  ASSERT_TRUE(Register(2, {Disk(3), Disk(2)}).ok());
  DiskHello gone = Disk(2);
  gone.failed = true;
  auto again = Register(1, {Disk(1), gone});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->targets[1], TargetId());
  EXPECT_EQ(c_.FindTarget(TargetId(2))->node, kN2);
  EXPECT_EQ(c_.FindTarget(TargetId(2))->state, TargetState::kUp);
}

TEST_F(ClusterTest, ADiskThatCannotBeUsedIsNamedByItsLabel) {
  ASSERT_TRUE(Register(1, {Disk(1), Disk(2)}).ok());
  DiskHello slow = Disk(2);
  slow.read_us = 4711;
  ASSERT_TRUE(Register(1, {Disk(1), slow}).ok());
  EXPECT_EQ(c_.FindTarget(TargetId(2))->read_us, 4711u);
  DiskHello lost;
  lost.label = "d2";
  lost.absent = true;
  lost.problem = "its directory is not there";
  auto again = Register(1, {Disk(1), lost});
  ASSERT_TRUE(again.ok()) << again.error();
  EXPECT_EQ(again->targets[1], TargetId(2));
  EXPECT_EQ(c_.FindTarget(TargetId(2))->problem, "its directory is not there");
  EXPECT_EQ(c_.FindTarget(TargetId(2))->capacity_bytes, Disk(2).capacity_bytes) << "what it was";
  EXPECT_EQ(c_.StateOf(TargetId(2)), ColumnState::kSuspect);
  lost.failed = true;  // and is not expected back
  ASSERT_TRUE(Register(1, {Disk(1), lost}).ok());
  EXPECT_EQ(c_.FindTarget(TargetId(2))->state, TargetState::kFailed);
  EXPECT_FALSE(c_.IsLastResort(TargetId(2)));
  lost.label = "d7";  // unknown to every node
  EXPECT_EQ(Register(1, {Disk(1), Disk(2), lost})->targets[2], TargetId());
  EXPECT_EQ(c_.FindTarget(TargetId(2))->problem, "");
  EXPECT_EQ(c_.FindTarget(TargetId(2))->state, TargetState::kFailed) << "it said itself that it had failed";
}

TEST_F(ClusterTest, ADiskThatWasOnlyAwayIsUsedAgain) {
  ASSERT_TRUE(Register(1, {Disk(1), Disk(2), Disk(3)}).ok());
  c_.SetTargetState(TargetId(3), TargetState::kDraining);
  disks_[kN1].resize(1);
  Pass(602, {kN1});
  EXPECT_EQ(c_.FindTarget(TargetId(2))->state, TargetState::kFailed);
  EXPECT_TRUE(c_.FindTarget(TargetId(2))->given_up);
  EXPECT_EQ(DecodeTargetRecord(EncodeTargetRecord(*c_.FindTarget(TargetId(2))))->given_up, true);
  ASSERT_TRUE(Register(1, {Disk(1), Disk(2), Disk(3)}).ok());
  EXPECT_EQ(c_.FindTarget(TargetId(2))->state, TargetState::kUp);
  EXPECT_FALSE(c_.FindTarget(TargetId(2))->given_up);
  EXPECT_EQ(c_.FindTarget(TargetId(3))->state, TargetState::kFailed) << "it was to be emptied anyway";
  // One that really failed, and was away afterwards.
  disks_[kN1][1].failed = true;
  ASSERT_TRUE(Beat(kN1).ok());
  disks_[kN1].resize(1);
  Pass(602, {kN1});
  ASSERT_TRUE(Register(1, {Disk(1), Disk(2)}).ok());
  EXPECT_EQ(c_.FindTarget(TargetId(2))->state, TargetState::kFailed);
}

TEST_F(ClusterTest, DrainingOnADeadNodeIsRebuiltWithoutGracePeriod) {
  ASSERT_TRUE(Register(1, {Disk(1), Disk(2)}).ok());
  ASSERT_TRUE(Register(2, {Disk(3)}).ok());
  ASSERT_TRUE(Register(3, {Disk(4)}).ok());
  c_.SetTargetState(TargetId(1), TargetState::kDraining);
  EXPECT_EQ(c_.StateOf(TargetId(1)), ColumnState::kDraining);
  Pass(5, {kN2, kN3});
  EXPECT_EQ(c_.StateOf(TargetId(1)), ColumnState::kSuspect) << "it may be back in seconds";
  Pass(10, {kN2, kN3});
  ASSERT_EQ(State(kN1), NodeState::kDown);
  EXPECT_EQ(c_.StateOf(TargetId(1)), ColumnState::kMissing);
  EXPECT_EQ(c_.StateOf(TargetId(2)), ColumnState::kSuspect) << "nobody has given this one up";
}

TEST_F(ClusterTest, LabelsAreUniqueInANode) {
  DiskHello a = Disk(1), b = Disk(2);
  b.label = a.label;
  ASSERT_TRUE(Register(1, {a, b}).ok());
  EXPECT_EQ(c_.TargetName(TargetId(1)), "n1:d1");
  EXPECT_EQ(c_.TargetName(TargetId(2)), "n1:d1-2");
}

TEST_F(ClusterTest, SilenceLeadsToSuspectDownOut) {
  for (uint64_t n : {1, 2, 3, 4}) ASSERT_TRUE(Register(n, {Disk(n)}).ok());
  const std::vector<NodeId> rest = {kN2, kN3, kN4};
  Pass(2, rest);
  EXPECT_EQ(State(kN1), NodeState::kUp);
  const uint64_t version = c_.version();
  Pass(1, rest);
  EXPECT_EQ(State(kN1), NodeState::kSuspect);
  EXPECT_GT(c_.version(), version);
  EXPECT_EQ(c_.StateOf(TargetId(1)), ColumnState::kSuspect);
  Pass(7, rest);
  EXPECT_EQ(State(kN1), NodeState::kDown);
  EXPECT_FALSE(c_.IsBeingEmptied(TargetId(1)));
  Pass(599, rest);
  EXPECT_EQ(State(kN1), NodeState::kDown);
  Pass(1, rest);
  EXPECT_EQ(State(kN1), NodeState::kOut);
  EXPECT_TRUE(c_.IsBeingEmptied(TargetId(1)));
  EXPECT_EQ(c_.EmptyingReason(TargetId(1)), "n1 is out");
  EXPECT_EQ(c_.StateOf(TargetId(1)), ColumnState::kMissing);
  EXPECT_EQ(Beat(kN1).code, FsError::kNoEnt) << "it must register again";
  ASSERT_TRUE(Register(1, {Disk(1)}).ok());
  EXPECT_EQ(State(kN1), NodeState::kSuspect);
  Pass(6, {kN1, kN2, kN3, kN4});
  EXPECT_EQ(State(kN1), NodeState::kUp);
}

TEST_F(ClusterTest, ShortSilenceEndsAtOnceALongOneAfterSettling) {
  for (uint64_t n : {1, 2, 3}) ASSERT_TRUE(Register(n, {Disk(n)}).ok());
  Pass(5, {kN2, kN3});
  EXPECT_EQ(State(kN1), NodeState::kSuspect);
  Pass(1, {kN1, kN2, kN3});
  EXPECT_EQ(State(kN1), NodeState::kUp);
  Pass(11, {kN2, kN3});
  EXPECT_EQ(State(kN1), NodeState::kDown);
  Pass(1, {kN1, kN2, kN3});
  EXPECT_EQ(State(kN1), NodeState::kSuspect);
  Pass(4, {kN1, kN2, kN3});
  EXPECT_EQ(State(kN1), NodeState::kSuspect);
  Pass(1, {kN1, kN2, kN3});
  EXPECT_EQ(State(kN1), NodeState::kUp);
}

TEST_F(ClusterTest, FlappingDoesNotResetTheGracePeriod) {
  for (uint64_t n : {1, 2, 3}) ASSERT_TRUE(Register(n, {Disk(n)}).ok());
  for (int i = 0; i < 50; ++i) {
    Pass(11, {kN2, kN3});
    if (State(kN1) == NodeState::kOut) break;
    ASSERT_EQ(State(kN1), NodeState::kDown);
    Pass(2, {kN1, kN2, kN3});
    ASSERT_NE(State(kN1), NodeState::kUp);
  }
  EXPECT_EQ(State(kN1), NodeState::kOut);
}

TEST_F(ClusterTest, NoAutomaticOutWhenHalfTheClusterIsSilent) {
  for (uint64_t n : {1, 2, 3, 4}) ASSERT_TRUE(Register(n, {Disk(n)}).ok());
  Pass(2000, {kN1, kN2});
  EXPECT_EQ(State(kN3), NodeState::kDown);
  EXPECT_EQ(State(kN4), NodeState::kDown);
  Pass(20, {kN1, kN2});
  c_.SetNodeOut(kN3, kWall);  // an admin may
  EXPECT_EQ(State(kN3), NodeState::kOut);
}

TEST_F(ClusterTest, OwnPausesAreNobodysFault) {
  for (uint64_t n : {1, 2, 3}) ASSERT_TRUE(Register(n, {Disk(n)}).ok());
  now_ += 100 * kSecond;
  c_.Excuse(100 * kSecond);
  c_.Tick(now_, kWall);
  EXPECT_EQ(State(kN1), NodeState::kUp);
  Pass(3, {kN2, kN3});
  EXPECT_EQ(State(kN1), NodeState::kSuspect);
}

TEST_F(ClusterTest, DisksFail) {
  ASSERT_TRUE(Register(1, {Disk(1), Disk(2), Disk(3), Disk(4)}).ok());
  disks_[kN1][0].failed = true;
  disks_[kN1][1].read_errors = 17;
  disks_[kN1][2].checksum_errors = 10;
  ASSERT_TRUE(Beat(kN1).ok());
  EXPECT_EQ(c_.FindTarget(TargetId(1))->state, TargetState::kFailed);
  EXPECT_TRUE(c_.IsLastResort(TargetId(1)));
  EXPECT_EQ(c_.FindTarget(TargetId(2))->state, TargetState::kDraining) << "what it still gives is copied away";
  EXPECT_EQ(c_.EmptyingReason(TargetId(2)), "too many errors");
  EXPECT_FALSE(c_.IsLastResort(TargetId(2)));
  EXPECT_EQ(c_.FindTarget(TargetId(3))->state, TargetState::kUp);
  disks_[kN1].pop_back();  // pulled out
  ASSERT_TRUE(Beat(kN1).ok());
  EXPECT_EQ(c_.StateOf(TargetId(4)), ColumnState::kSuspect);
  Pass(601, {kN1});
  EXPECT_EQ(c_.FindTarget(TargetId(4))->state, TargetState::kFailed);
  EXPECT_EQ(c_.EmptyingReason(TargetId(4)), "n1:d4 failed");
  EXPECT_FALSE(c_.IsLastResort(TargetId(4))) << "it is not there";
}

TEST_F(ClusterTest, AnAdminForgivesErrors) {
  ASSERT_TRUE(Register(1, {Disk(1)}).ok());
  const auto state_after = [&](uint64_t errors) {
    disks_[kN1][0].read_errors = errors;
    EXPECT_TRUE(Beat(kN1).ok());
    return c_.FindTarget(TargetId(1))->state;
  };
  EXPECT_EQ(state_after(16), TargetState::kUp);
  EXPECT_EQ(state_after(17), TargetState::kDraining);
  c_.SetTargetState(TargetId(1), TargetState::kUp);
  EXPECT_EQ(state_after(33), TargetState::kUp);
  EXPECT_EQ(state_after(34), TargetState::kDraining);
  c_.SetTargetState(TargetId(1), TargetState::kUp);
  EXPECT_EQ(state_after(3), TargetState::kUp) << "its server counts anew";
  EXPECT_EQ(state_after(20), TargetState::kDraining);
}

TEST_F(ClusterTest, ADiskThatPredictsItsFailureIsEmptiedIfThatIsSet) {
  ASSERT_TRUE(Register(1, {Disk(1), Disk(2)}).ok());
  DiskHello& failing = disks_[kN1][0];
  failing.smart.device = "sda";
  failing.smart.health = SmartHealth::kFailing;
  ASSERT_TRUE(Beat(kN1).ok());
  EXPECT_EQ(c_.FindTarget(TargetId(1))->smart.device, "sda");
  EXPECT_EQ(c_.FindTarget(TargetId(1))->state, TargetState::kUp) << "it is only told";
  ClusterOptions drains;
  drains.drain_failing_disks = true;
  c_.SetTimes(drains);
  ASSERT_TRUE(Beat(kN1).ok());
  EXPECT_EQ(c_.FindTarget(TargetId(1))->state, TargetState::kDraining);
  EXPECT_EQ(c_.EmptyingReason(TargetId(1)), kPredictsFailure);
  EXPECT_EQ(c_.FindTarget(TargetId(2))->state, TargetState::kUp);
  // An admin's word counts, until it is well and predicts it again.
  c_.SetTargetState(TargetId(1), TargetState::kUp);
  ASSERT_TRUE(Beat(kN1).ok());
  EXPECT_EQ(c_.FindTarget(TargetId(1))->state, TargetState::kUp);
  failing.smart.health = SmartHealth::kGood;
  ASSERT_TRUE(Beat(kN1).ok());
  failing.smart.health = SmartHealth::kFailing;
  ASSERT_TRUE(Beat(kN1).ok());
  EXPECT_EQ(c_.FindTarget(TargetId(1))->state, TargetState::kDraining);
}

TEST_F(ClusterTest, ViewKeepsTheReserve) {
  DiskHello d = Disk(1), e = Disk(2);
  e.free_bytes = 20;
  d.channel = e.channel = "sas0";
  ASSERT_TRUE(Register(1, {d, e, Disk(3)}).ok());
  const ClusterView v = c_.View();
  ASSERT_EQ(v.targets.size(), 3u);
  EXPECT_EQ(v.targets[0].free_bytes, 500u);
  EXPECT_EQ(v.targets[0].repair_reserve_bytes, 40u);
  EXPECT_EQ(v.targets[1].free_bytes, 20u);
  EXPECT_EQ(v.targets[0].channel, v.targets[1].channel);
  EXPECT_NE(v.targets[0].channel, v.targets[2].channel);
  EXPECT_TRUE(v.targets[0].usable_for_new);
  c_.SetTargetState(TargetId(1), TargetState::kDraining);
  EXPECT_FALSE(c_.View().targets[0].usable_for_new);
  EXPECT_TRUE(c_.View().targets[0].readable);
}

TEST_F(ClusterTest, SurvivesARestart) {
  ASSERT_TRUE(Register(1, {Disk(1)}).ok());
  ASSERT_TRUE(Register(2, {Disk(2)}).ok());
  c_.SetTargetState(TargetId(2), TargetState::kDraining);
  c_.SetNodeOut(kN2, kWall);
  auto changes = c_.TakeChanges();
  EXPECT_TRUE(c_.TakeChanges().empty());
  ASSERT_EQ(changes.nodes.size(), 2u);
  ClusterState d(ClusterOptions{}, Uuid{9, 9}, 1);
  for (const auto& n : changes.nodes) {
    const std::string bytes = EncodeNodeRecord(n);
    ASSERT_TRUE(DecodeNodeRecord(bytes).ok());
    EXPECT_FALSE(DecodeNodeRecord(bytes.substr(0, bytes.size() - 1)).ok());
    d.LoadNode(*DecodeNodeRecord(bytes), now_);
  }
  for (const auto& t : changes.targets) ASSERT_TRUE(d.LoadTarget(*DecodeTargetRecord(EncodeTargetRecord(t))).ok());
  d.LoadVersion(c_.version(), {});
  EXPECT_GT(d.version(), c_.version());
  EXPECT_EQ(d.FindNode(kN1)->state, NodeState::kSuspect);
  EXPECT_EQ(d.FindNode(kN2)->state, NodeState::kOut);
  EXPECT_EQ(d.FindTarget(TargetId(2))->state, TargetState::kDraining);
  EXPECT_TRUE(d.AwaitsFirstBeats());
  ASSERT_TRUE(d.Beat(kN1, epochs_[kN1], disks_[kN1], now_, kWall).ok());
  EXPECT_FALSE(d.AwaitsFirstBeats());
  EXPECT_EQ(d.FindNode(kN1)->state, NodeState::kUp);
  d.RemoveNode(kN2);
  EXPECT_EQ(d.FindTarget(TargetId(2)), nullptr);
  changes = d.TakeChanges();
  EXPECT_EQ(changes.nodes_removed, std::vector<NodeId>{kN2});
  EXPECT_EQ(changes.targets_removed, std::vector<TargetId>{TargetId(2)});
}

}  // namespace
}  // namespace stria
