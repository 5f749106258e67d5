#include "meta/events/event_room.h"

#include "meta/core/core_testing.h"

namespace stria {
namespace {

class EventRoomTest : public CoreTest {
 protected:
  EventRoomTest() {
    for (uint32_t n = 1; n <= 3; ++n) {
      NodeInfo node;
      node.id = NodeId(n);
      node.name = "n" + std::to_string(n);
      seen.map.nodes.push_back(node);
    }
    Begin();
  }
  void Begin(size_t max_events = 10'000) {
    room.reset();
    Make();
    EventRoomOptions options;
    options.max_events = max_events;
    room = std::make_unique<EventRoom>(core.get(), options);
    Start([&](Txn& txn) { return room->Load(txn); });
    Take();
  }
  void Take() { ASSERT_TRUE(RunSim(ex, room->Take(seen)).ok()); }
  void Flip(uint32_t n) {
    NodeState& state = seen.map.nodes.at(n - 1).state;
    state = state == NodeState::kUp ? NodeState::kDown : NodeState::kUp;
  }
  ReadEventsRequest From(uint64_t after) {
    ReadEventsRequest r;
    r.header = Header();
    r.after = after;
    return r;
  }
  std::vector<std::string> Kinds(const ReadEventsReply& reply) const {
    std::vector<std::string> out;
    for (const ClusterEvent& e : reply.events) out.push_back(e.kind + " " + e.subject);
    return out;
  }
  std::vector<std::string> Read(ReadEventsRequest r, bool certificates = true) {
    last = RunSim(ex, room->Read(std::move(r), certificates)).value();
    return Kinds(last);
  }
  using Names = std::vector<std::string>;

  ClusterSeen seen;
  std::unique_ptr<EventRoom> room;
  ReadEventsReply last;
};

TEST_F(EventRoomTest, WhatWasToldIsKeptAndNotToldAgain) {
  EXPECT_EQ(Read(From(0)), Names{});
  Flip(2);
  Take();
  EXPECT_EQ(Read(From(0)), Names{"node-down n2"});
  EXPECT_EQ(last.next, 1u);
  EXPECT_EQ(last.first, 1u);
  Begin();
  EXPECT_EQ(Read(From(0)), Names{"node-down n2"});
  Flip(2);
  Take();
  EXPECT_EQ(Read(From(1)), Names{"node-up n2"});
  EXPECT_EQ(last.events[0].seq, 2u);
  Begin();
  EXPECT_EQ(Read(From(0)), (Names{"node-down n2", "node-up n2"}));
}

TEST_F(EventRoomTest, GivesWhatIsAskedForInPages) {
  for (uint32_t n = 1; n <= 3; ++n) Flip(n);
  Take();
  Flip(1);
  Take();
  ReadEventsRequest r = From(0);
  r.limit = 2;
  EXPECT_EQ(Read(r), (Names{"node-down n1", "node-down n2"}));
  EXPECT_TRUE(last.more);
  r.after = last.next;
  EXPECT_EQ(Read(r), (Names{"node-down n3", "node-up n1"}));
  EXPECT_FALSE(last.more);
  r = From(0);
  r.least = EventSeverity::kCritical;
  EXPECT_EQ(Read(r), Names{});
  EXPECT_EQ(last.next, 4u) << "all were looked at";
  r.least = EventSeverity::kNote;
  r.since_ns = ex.WallNs() + kSecond;
  EXPECT_EQ(Read(r), Names{});
}

TEST_F(EventRoomTest, IsBoundedAndTheOldestGoFirst) {
  Begin(5);
  for (uint32_t n = 1; n <= 3; ++n) Flip(n);
  Take();
  for (uint32_t n = 1; n <= 3; ++n) Flip(n);
  Take();
  EXPECT_EQ(room->events().size(), 5u);
  EXPECT_EQ(Read(From(0)).size(), 5u);
  EXPECT_EQ(last.first, 2u);
  Begin(5);
  EXPECT_EQ(Read(From(0)).size(), 5u);
  EXPECT_EQ(last.first, 2u);
}

TEST_F(EventRoomTest, WhoWaitsIsToldAtOnceOrWhenHisTimeIsOver) {
  ReadEventsRequest r = From(0);
  r.wait_ns = 5 * kSecond;
  const int64_t began_ns = ex.NowNs();
  EXPECT_EQ(Read(r), Names{});
  EXPECT_GE(ex.NowNs() - began_ns, 5 * kSecond);
  EXPECT_LT(ex.NowNs() - began_ns, 9 * kSecond);
  std::optional<Result<ReadEventsReply>> got;
  TaskScope scope;
  const auto wait = [&]() -> Task<void> {
    ReadEventsRequest asked = From(0);
    asked.wait_ns = 60 * kSecond;
    got = co_await room->Read(std::move(asked), true);
  };
  const auto drive = [&]() -> Task<void> {
    scope.Spawn(wait());
    co_await Sleep(kSecond);
    EXPECT_FALSE(got.has_value());
    Flip(3);
    (void)co_await room->Take(seen);
    co_await Sleep(kMillisecond);
    EXPECT_TRUE(got.has_value());
    scope.CancelAll();
  };
  RunSim(ex, drive());
  ASSERT_TRUE(got.has_value() && got->ok());
  EXPECT_EQ(Kinds(**got), Names{"node-down n3"});
}

TEST_F(EventRoomTest, OfCertificatesOnlySomeAreTold) {
  seen.wall_ns = ex.WallNs();
  seen.certificates = {{"client wn7", ex.WallNs() / kSecond + 3600}};
  Take();
  EXPECT_EQ(Read(From(0)), Names{"certificate-expiring client wn7"});
  EXPECT_EQ(Read(From(0), false), Names{});
  EXPECT_EQ(last.next, 1u);
}

TEST_F(EventRoomTest, OneCallerLeavesPlacesForOthers) {
  TaskScope scope;
  size_t answered = 0;
  const auto wait = [&](std::shared_ptr<const Peer> peer) -> Task<void> {
    ReadEventsRequest asked = From(0);
    asked.wait_ns = 60 * kSecond;
    asked.header.peer = std::move(peer);
    (void)co_await room->Read(std::move(asked), true);
    ++answered;
  };
  const auto named = [](uint8_t key) {
    auto peer = std::make_shared<Peer>();
    peer->key_hash[0] = key;
    return peer;
  };
  const auto drive = [&]() -> Task<void> {
    for (size_t i = 0; i < kMaxWaitingOfOne + 3; ++i) scope.Spawn(wait(named(1)));
    co_await Sleep(kSecond);
    EXPECT_EQ(answered, 3u);
    scope.Spawn(wait(named(2)));
    co_await Sleep(kSecond);
    EXPECT_EQ(answered, 3u) << "another one's waits";
    Flip(3);
    (void)co_await room->Take(seen);
    co_await Sleep(kMillisecond);
    EXPECT_EQ(answered, kMaxWaitingOfOne + 4);
    scope.CancelAll();
  };
  RunSim(ex, drive());
}

TEST_F(EventRoomTest, WhatNodesAndCallersSayIsAnything) {
  for (const int64_t wall_ns : {INT64_MIN, INT64_MIN + 1, INT64_MAX}) {
    room->NoteBeat(NodeId(1), wall_ns, "1.0");
    Take();
    ReadEventsRequest r = From(0);
    r.wait_ns = r.header.timeout_ns = wall_ns == INT64_MAX ? 0 : wall_ns;
    (void)Read(r);
  }
  EXPECT_GT(room->facts().at(NodeId(1)).ahead_ns, 300 * 86'400 * kSecond);
}

TEST_F(EventRoomTest, NodesSayHowTheirClocksAre) {
  room->NoteBeat(NodeId(1), ex.WallNs() + 7 * kSecond, "1.0");
  room->NoteBeat(NodeId(9), 0, "");
  EXPECT_EQ(room->facts().at(NodeId(1)).ahead_ns, 7 * kSecond);
  EXPECT_FALSE(room->facts().at(NodeId(9)).has_clock);
  Take();
  EXPECT_FALSE(room->facts().contains(NodeId(9))) << "it is none of the cluster";
}

}  // namespace
}  // namespace stria
