#include "meta/events/event_teller.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "meta/events/event_record.h"

namespace stria {
namespace {

constexpr int64_t kDayS = 24 * 3600;

// Five nodes with two disks each, all well.
class EventTellerTest : public testing::Test {
 protected:
  EventTellerTest() {
    for (uint32_t n = 1; n <= 5; ++n) AddNode(n);
    seen.wall_ns = wall_ns;
    teller.Load({}, 1);
    Look(true);
  }
  void AddNode(uint32_t n) {
    NodeInfo node;
    node.id = NodeId(n);
    node.name = "n" + std::to_string(n);
    seen.map.nodes.push_back(node);
    for (uint32_t d = 1; d <= 2; ++d) AddDisk(n, n * 10 + d, "d" + std::to_string(d));
  }
  void AddDisk(uint32_t node, uint32_t id, const std::string& label) {
    TargetInfo t;
    t.id = TargetId(id);
    t.node = NodeId(node);
    t.label = label;
    t.capacity_bytes = 1000 * kGiB;
    t.free_bytes = 600 * kGiB;
    seen.map.targets.push_back(t);
  }
  NodeInfo& Node(uint32_t n) { return seen.map.nodes.at(n - 1); }
  TargetInfo& Disk(uint32_t id) { return *std::ranges::find(seen.map.targets, TargetId(id), &TargetInfo::id); }

  // Kinds and subjects of what is told now.
  std::vector<std::string> Look(bool adopt = false) {
    step = teller.Look(Judge(seen, teller.told()), adopt, now_ns, wall_ns);
    std::vector<std::string> out;
    for (const ClusterEvent& e : step.events) {
      out.push_back(e.kind + " " + e.subject);
      EXPECT_FALSE(e.text.empty()) << e.kind;
      EXPECT_EQ(e.text.back(), '.') << e.text;
      all.push_back(e);
    }
    return out;
  }
  // The same after a time: looks each two seconds, as the server does.
  std::vector<std::string> After(int64_t ns) {
    std::vector<std::string> out;
    for (int64_t until = now_ns + ns; now_ns < until;) {
      now_ns += 2 * kSecond;
      wall_ns += 2 * kSecond;
      for (std::string& s : Look()) out.push_back(std::move(s));
    }
    return out;
  }
  using Kinds = std::vector<std::string>;

  ClusterSeen seen;
  EventTeller teller;
  EventTeller::Step step;
  std::vector<ClusterEvent> all;
  int64_t now_ns = 1000 * kSecond;
  int64_t wall_ns = int64_t{1'800'000'000} * kSecond;
};

TEST_F(EventTellerTest, WhoIsThereAtFirstHasNotJoined) {
  EXPECT_TRUE(all.empty());
  EXPECT_EQ(After(600 * kSecond), Kinds{});
  AddNode(6);
  EXPECT_EQ(After(2 * kSecond), Kinds{"node-joined n6"}) << "its disks come with it";
  EXPECT_EQ(all[0].text, "Node n6 has joined with 2 disks.");
  AddDisk(6, 63, "d3");
  EXPECT_EQ(After(2 * kSecond), Kinds{"disk-joined n6:d3"});
  Disk(63).state = TargetState::kRemoved;
  EXPECT_EQ(After(2 * kSecond), Kinds{"disk-removed n6:d3"});
  seen.map.nodes.pop_back();
  EXPECT_EQ(After(2 * kSecond), Kinds{"node-removed n6"}) << "its disks go with it";
  EXPECT_EQ(After(60 * kSecond), Kinds{});
}

TEST_F(EventTellerTest, ANodeThatDiesAndComesBackIsToldOnceEach) {
  Node(3).state = NodeState::kSuspect;
  EXPECT_EQ(After(4 * kSecond), Kinds{});
  Node(3).state = NodeState::kDown;
  seen.degraded_stripes = 40;
  EXPECT_EQ(After(2 * kSecond), Kinds{"node-down n3"});
  EXPECT_EQ(all[0].severity, EventSeverity::kWarning);
  EXPECT_NE(all[0].action.find("stria node replace n3"), std::string::npos);
  EXPECT_EQ(After(10 * kSecond), Kinds{"degraded cluster"});
  seen.degraded_stripes = 7;
  EXPECT_EQ(After(600 * kSecond), Kinds{});
  Node(3).state = NodeState::kSuspect;
  EXPECT_EQ(After(10 * kSecond), Kinds{}) << "half of the way";
  Node(3).state = NodeState::kUp;
  seen.degraded_stripes = 0;
  EXPECT_EQ(After(2 * kSecond), Kinds{"node-up n3"});
  EXPECT_EQ(After(4 * kSecond), Kinds{"rebuilt cluster"});
  EXPECT_EQ(all.back().severity, EventSeverity::kNote);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].seq, i + 1);
  EXPECT_EQ(After(3600 * kSecond), Kinds{});
}

TEST_F(EventTellerTest, WhatWasToldIsNotToldAgainAfterARestart) {
  Node(2).state = NodeState::kDown;
  seen.lost_stripes = 1;
  EXPECT_EQ(After(10 * kSecond), (Kinds{"node-down n2", "at-risk cluster"}));
  EXPECT_EQ(all.back().severity, EventSeverity::kCritical);
  EventTeller next;
  next.Load(teller.told(), teller.next_seq());
  teller = next;
  EXPECT_EQ(After(60 * kSecond), Kinds{});
  Node(2).state = NodeState::kUp;
  seen.lost_stripes = 0;
  EXPECT_EQ(After(10 * kSecond), (Kinds{"node-up n2", "rebuilt cluster"}));
  EXPECT_EQ(all.back().seq, 4u);
}

// The store takes batches of a bounded size.
TEST_F(EventTellerTest, ManyThatFlapAtOnceAreCountedInParts) {
  constexpr uint32_t kNodes = 200;
  for (uint32_t n = 6; n <= kNodes; ++n) AddNode(n);
  for (int i = 0; i < 10; ++i) Look(true);
  const auto all_are = [&](NodeState state) {
    for (uint32_t n = 1; n <= kNodes; ++n) Node(n).state = state;
  };
  for (int i = 0; i < 20; ++i) {
    all_are(NodeState::kDown);
    After(20 * kSecond);
    all_are(NodeState::kUp);
    After(20 * kSecond);
  }
  all_are(NodeState::kDown);
  After(10 * kSecond);
  all_are(NodeState::kUp);
  size_t counted = 0;
  for (int i = 0; i < 10; ++i) {
    now_ns += 2 * kSecond;
    Look();
    EXPECT_LE(step.counted.size(), EventTeller::kMaxCountedAtOnce);
    counted += step.counted.size();
  }
  EXPECT_GT(counted, EventTeller::kMaxCountedAtOnce) << "all of them, one after another";
}

TEST_F(EventTellerTest, WhatFlapsIsCountedAndTheLastEventIsTrue) {
  for (int i = 0; i < 60; ++i) {
    Node(1).state = NodeState::kDown;
    After(20 * kSecond);
    Node(1).state = NodeState::kUp;
    After(20 * kSecond);
  }
  EXPECT_LE(all.size(), 6u) << "of 120 changes";
  ASSERT_GE(all.size(), 2u);
  const size_t told = all.size();
  uint64_t counted = 0;
  Node(1).state = NodeState::kDown;
  After(10 * kSecond);
  Node(1).state = NodeState::kUp;
  now_ns += 2 * kSecond;
  Look();
  for (const uint64_t seq : step.counted) counted = seq;
  EXPECT_EQ(counted, all.back().seq) << "it came and went";
  EXPECT_EQ(all.size(), told);
  // It stays down now: that is told, if late.
  Node(1).state = NodeState::kDown;
  EXPECT_EQ(After(EventTeller::kMostHoldNs + 4 * kSecond), Kinds{"node-down n1"});
  // And after a quiet time at once.
  After(EventTeller::kBurstNs + 4 * kSecond);
  Node(1).state = NodeState::kUp;
  EXPECT_EQ(After(2 * kSecond), Kinds{"node-up n1"});
}

TEST_F(EventTellerTest, DisksAreToldAsTheyFareAndWhenTheyAreReplaced) {
  Disk(31).problem = "nothing is mounted at /srv/d1";
  EXPECT_EQ(After(2 * kSecond), Kinds{"disk-absent n3:d1"});
  EXPECT_NE(all.back().text.find("nothing is mounted at /srv/d1"), std::string::npos);
  Disk(31).state = TargetState::kFailed;
  EXPECT_EQ(After(2 * kSecond), Kinds{"disk-failed n3:d1"});
  AddDisk(3, 33, "d3");
  EXPECT_EQ(After(2 * kSecond), Kinds{"disk-replaced n3:d3"});
  EXPECT_EQ(all.back().text, "Disk n3:d3 has joined in place of n3:d1.");
  Disk(31).state = TargetState::kRemoved;
  EXPECT_EQ(After(2 * kSecond), Kinds{"disk-removed n3:d1"});

  Disk(41).state = TargetState::kDraining;
  seen.emptied[TargetId(41)] = "too many errors";
  EXPECT_EQ(After(2 * kSecond), Kinds{"disk-emptied n4:d1"});
  Disk(42).state = TargetState::kDraining;  // an admin's
  EXPECT_EQ(After(10 * kSecond), Kinds{});
}

TEST_F(EventTellerTest, DisksThatFillAreToldAtTwoMarksWithAMarginAndTogetherIfAllDo) {
  Disk(11).free_bytes = 190 * kGiB;
  EXPECT_EQ(After(20 * kSecond), Kinds{"disk-filling n1:d1"});
  Disk(11).free_bytes = 205 * kGiB;
  EXPECT_EQ(After(60 * kSecond), Kinds{}) << "a little more";
  Disk(11).free_bytes = 190 * kGiB;
  EXPECT_EQ(After(60 * kSecond), Kinds{});
  Disk(11).free_bytes = 40 * kGiB;
  EXPECT_EQ(After(20 * kSecond), Kinds{"disk-full n1:d1"});
  Disk(11).free_bytes = 600 * kGiB;
  EXPECT_EQ(After(60 * kSecond), Kinds{"disk-room n1:d1"});
  for (TargetInfo& t : seen.map.targets) t.free_bytes = 190 * kGiB;
  EXPECT_EQ(After(60 * kSecond), Kinds{"disk-filling cluster"});
  for (TargetInfo& t : seen.map.targets) t.free_bytes = 30 * kGiB;
  EXPECT_EQ(After(60 * kSecond), Kinds{"disk-full cluster"});
  EXPECT_EQ(all.back().severity, EventSeverity::kCritical);
}

TEST_F(EventTellerTest, CertificatesAreToldTwiceBeforeTheyEnd) {
  seen.certificates = {{"client wn7", wall_ns / kSecond + 13 * kDayS}};
  EXPECT_EQ(After(2 * kSecond), Kinds{"certificate-expiring client wn7"});
  EXPECT_NE(all.back().text.find("client wn7 ends in 1"), std::string::npos) << all.back().text;
  EXPECT_EQ(After(60 * kSecond), Kinds{});
  seen.certificates[0].not_after_s = wall_ns / kSecond + 2 * kDayS;
  EXPECT_EQ(After(2 * kSecond), Kinds{"certificate-expiring client wn7"});
  seen.certificates.clear();  // renewed
  EXPECT_EQ(After(2 * kSecond), Kinds{});
  EXPECT_FALSE(teller.told().contains({EventTrack::kCertificate, "client wn7"}));
}

TEST_F(EventTellerTest, ClockAndVersionAndWhatIsNotKnown) {
  seen.version = "1.1 (commit b)";
  NodeFacts f{-90 * kSecond, true, "1.0 (commit a)"};
  seen.facts[NodeId(2)] = f;
  EXPECT_EQ(After(40 * kSecond), Kinds{"clock-off n2"});
  EXPECT_EQ(all.back().text, "The clock of node n2 is 1m behind that of the metadata server.");
  EXPECT_EQ(After(620 * kSecond), Kinds{"version-mixed n2"}) << "only after the time of an upgrade";
  seen.facts.clear();  // this server has started anew
  EXPECT_EQ(After(60 * kSecond), Kinds{});
  seen.facts[NodeId(2)] = {3 * kSecond, true, seen.version};
  EXPECT_EQ(After(40 * kSecond), Kinds{"version-same n2"}) << "the clock is within the margin only";
  seen.facts[NodeId(2)].ahead_ns = kSecond;
  EXPECT_EQ(After(40 * kSecond), Kinds{"clock-right n2"});
}

TEST_F(EventTellerTest, BackupMetadataDiskScrubWritingAndSmart) {
  seen.backup.on = true;
  seen.backup.behind_ns = 700 * kSecond;
  EXPECT_EQ(After(2 * kSecond), Kinds{"backup-behind metadata"});
  seen.backup.behind_ns = 0;
  EXPECT_EQ(After(2 * kSecond), Kinds{"backup-current metadata"});
  seen.room = RoomLevel::kScarce;
  seen.room_told = {{1, "The metadata's disk (/m) is 81 % full.", "Make room there."}};
  EXPECT_EQ(After(2 * kSecond), Kinds{"meta-disk-filling metadata"});
  seen.room = RoomLevel::kFull;
  EXPECT_EQ(After(2 * kSecond), Kinds{"meta-disk-full metadata"});
  seen.room = RoomLevel::kPlenty;
  EXPECT_EQ(After(60 * kSecond), Kinds{"meta-disk-room metadata"});
  ScrubProgress p;
  p.target = TargetId(21);
  p.damaged = 1;
  seen.scrubs = {p};
  EXPECT_EQ(After(2 * kSecond), Kinds{"scrub-errors n2:d1"});
  seen.scrubs[0].damaged = 5;
  EXPECT_EQ(After(60 * kSecond), Kinds{}) << "of the same pass";
  seen.scrubs[0].damaged = 0;
  EXPECT_EQ(After(60 * kSecond), Kinds{});
  seen.scrubs[0].damaged = 1;
  EXPECT_EQ(After(60 * kSecond), Kinds{"scrub-errors n2:d1"});
  LayoutRoom narrow;
  narrow.layout = "raid5:4+1";
  narrow.stripes = "3+1";
  narrow.until = "another node joins";
  narrow.narrow = true;
  seen.layouts = {narrow};
  EXPECT_EQ(After(20 * kSecond), Kinds{"writing-narrow cluster"});
  EXPECT_EQ(all.back().text, "New stripes of layout raid5:4+1 are 3+1 until another node joins.");
  seen.layouts.clear();
  EXPECT_EQ(After(20 * kSecond), Kinds{"writing-whole cluster"});
  Disk(51).smart = {"sda", "MODEL", "S1", 40'000, 31, 12, 3, SmartHealth::kGood, ""};
  EXPECT_EQ(After(20 * kSecond), Kinds{});
  Disk(51).smart.health = SmartHealth::kFailing;
  Disk(51).smart.problem = "its overall self-assessment failed";
  EXPECT_EQ(After(2 * kSecond), Kinds{"disk-failing n5:d1"});
  EXPECT_NE(all.back().text.find("serial S1"), std::string::npos);
}

TEST_F(EventTellerTest, ALargeClusterIsTakenInParts) {
  for (uint32_t n = 6; n <= 100; ++n) AddNode(n);
  EXPECT_EQ(Look().size(), EventTeller::kMaxEventsAtOnce);
  EXPECT_TRUE(step.more);
  EXPECT_EQ(After(10 * kSecond).size(), 95 - EventTeller::kMaxEventsAtOnce);
  EXPECT_FALSE(step.more);
}

TEST(EventRecords, SurviveTheStoreAndRefuseWhatIsDamaged) {
  const ClusterEvent e{7, 123, "node-down", EventSeverity::kWarning, "n3", "Node n3 is down.", "Start it.", 3, 456};
  const std::string record = EncodeEvent(e);
  const ClusterEvent back = DecodeEvent(7, record).value();
  EXPECT_EQ(back.seq, 7u);
  EXPECT_EQ(back.time_ns, 123);
  EXPECT_EQ(back.kind, "node-down");
  EXPECT_EQ(back.severity, EventSeverity::kWarning);
  EXPECT_EQ(back.subject, "n3");
  EXPECT_EQ(back.text, "Node n3 is down.");
  EXPECT_EQ(back.action, "Start it.");
  EXPECT_EQ(back.count, 3u);
  EXPECT_EQ(back.last_ns, 456);
  for (size_t n = 0; n < record.size(); ++n) EXPECT_FALSE(DecodeEvent(7, record.substr(0, n)).ok()) << n;
  EventKey key;
  EXPECT_EQ(DecodeTold(std::string("J\x03n3", 4), EncodeTold({2, 9}), &key).value(), (ToldState{2, 9}));
  EXPECT_EQ(key, (EventKey{EventTrack::kNode, "n3"}));
  EXPECT_FALSE(DecodeTold(std::string("J\x7fn3", 4), EncodeTold({2, 9}), &key).ok());
  EXPECT_EQ(DecodeEventNumbers(EncodeEventNumbers({5, 6})).value().next_seq, 5u);
  EXPECT_FALSE(DecodeEventNumbers(EncodeEventNumbers({0, 6})).ok());
}

}  // namespace
}  // namespace stria
