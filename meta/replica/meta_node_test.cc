// Whole members in virtual time: node_world.h.
#include "meta/replica/meta_node.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "common/sabotage.h"
#include "common/sabotage_testing.h"
#include "common/sanitized.h"
#include "meta/replica/meta_node_testing.h"
#include "meta/replica/node_world.h"

namespace stria {
namespace {

// STRIA_SEEDS: how many, for long runs; STRIA_FIRST_SEED: from which on.
uint64_t SettingOf(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST_F(MetaNodeTest, OneServesAndAllHaveEverything) {
  EXPECT_TRUE(GoesOn());
  EXPECT_FALSE(b_.serves());
  EXPECT_EQ(b_.node->role(), MetaRole::kStandby);
  w_.SetWriting(false);
  const auto last = [](const Member& m) { return m.node->store().last(); };
  EXPECT_TRUE(w_.RunUntil([&] { return last(b_) == last(a_) && last(c_) == last(a_); }, 5 * kSecond));
  EXPECT_TRUE(b_.node->store().whole());
}

TEST_F(MetaNodeTest, AnotherTakesOverWithEverythingThatWasAcknowledged) {
  w_.Crash(a_, true);
  ASSERT_TRUE(AnotherServes(a_));  // the world looks whether it has everything
  EXPECT_TRUE(GoesOn());
  w_.Start(a_);
  EXPECT_TRUE(w_.RunUntil([&] { return w_.AllIn(); }, 20 * kSecond));
  EXPECT_FALSE(a_.serves());
}

TEST_F(MetaNodeTest, ARestartedPrimaryIsBackAtOnce) {
  w_.Crash(a_, false);
  w_.Start(a_);
  // Sooner than anybody else may take over.
  ASSERT_TRUE(w_.RunUntil([&] { return a_.serves(); }, 900 * kMillisecond));
  EXPECT_GT(Term(a_), term_);
  EXPECT_TRUE(GoesOn());
}

// As by SIGSTOP: it has not noticed anything when another one serves.
TEST_F(MetaNodeTest, AStoppedPrimaryAnswersNothingWhenAnotherServes) {
  const std::shared_ptr<LifeGate> gate = a_.node->life()->gate();
  EXPECT_TRUE(gate->MayLeave().ok());
  w_.Stop(a_, 6 * kSecond);
  ASSERT_TRUE(AnotherServes(a_));
  EXPECT_FALSE(gate->MayLeave().ok());
  EXPECT_TRUE(GoesOn(4 * kSecond));
  EXPECT_FALSE(gate->MayLeave().ok());
  w_.RunFor(7 * kSecond);
  EXPECT_EQ(gate->MayLeave().code(), FsError::kNotLeader);
  const std::string where = a_.node->WhereSentence();
  EXPECT_NE(where.find(w_.Primary()->name + ":7401"), std::string::npos) << where;
  EXPECT_TRUE(w_.RunUntil([&] { return w_.AllIn(); }, 20 * kSecond));
}

// ---- Steps of the logic that take long: for less than the watchdog's 3 s they cost nothing, though L is 0.6 s and G 1 s

TEST_F(MetaNodeTest, ALongStepOfThePrimaryCostsNeitherAuthorityNorItsPlace) {
  const std::shared_ptr<LifeGate> gate = a_.node->life()->gate();
  w_.settings().max_delay_ns = 30 * kMillisecond;  // there are always acknowledgements on their way
  w_.RunFor(500 * kMillisecond);
  const uint64_t version = w_.in_force().version;
  w_.Hang(a_, 2500 * kMillisecond);
  for (int i = 0; i < 24; ++i) {
    w_.RunFor(100 * kMillisecond);
    EXPECT_TRUE(gate->MayLeave().ok()) << i;
  }
  EXPECT_TRUE(GoesOn());
  EXPECT_TRUE(a_.serves());
  EXPECT_EQ(Term(a_), term_);
  // Nor does it hold against the others what it has not read.
  w_.RunFor(kSecond);
  EXPECT_EQ(w_.in_force().version, version) << "nobody has left the set, not even for a moment";
  EXPECT_EQ(w_.in_force().in_sync.size(), 3u);
  EXPECT_EQ(a_.node->beats()->figures().hangs, 0u);
  EXPECT_GE(a_.node->beats()->figures().longest_step_ns, 2 * kSecond);
}

TEST_F(MetaNodeTest, APrimaryThatHangsForGoodLosesItsPlace) {
  const std::shared_ptr<LifeGate> gate = a_.node->life()->gate();
  w_.Hang(a_, 20 * kSecond);
  w_.RunFor(2500 * kMillisecond);
  EXPECT_EQ(w_.in_force().term, term_);
  ASSERT_TRUE(AnotherServes(a_));
  EXPECT_FALSE(gate->MayLeave().ok());
  EXPECT_EQ(a_.node->beats()->figures().hangs, 1u);
  EXPECT_TRUE(GoesOn());
  EXPECT_FALSE(gate->MayLeave().ok());
  w_.RunFor(20 * kSecond);
  EXPECT_EQ(gate->MayLeave().code(), FsError::kNotLeader);
  EXPECT_TRUE(w_.RunUntil([&] { return w_.AllIn(); }, 20 * kSecond));
}

TEST_F(MetaNodeTest, ALongStepOfAStandbyCostsNothingUnlessSomebodyWaits) {
  const std::shared_ptr<LifeGate> gate = a_.node->life()->gate();
  w_.SetWriting(false);
  w_.RunFor(kSecond);
  w_.Hang(c_, 2500 * kMillisecond);
  for (int i = 0; i < 30; ++i) {
    w_.RunFor(100 * kMillisecond);
    EXPECT_TRUE(gate->MayLeave().ok()) << i;
    EXPECT_EQ(w_.in_force().in_sync.size(), 3u) << i;
  }
  w_.SetWriting(true);
  EXPECT_TRUE(GoesOn());
  // What it owes is waited for no longer than before.
  w_.Hang(c_, 2500 * kMillisecond);
  EXPECT_TRUE(w_.RunUntil([&] { return !w_.in_force().in_sync.contains("m2"); }, 1500 * kMillisecond));
  EXPECT_TRUE(w_.RunUntil([&] { return w_.AllIn(); }, 20 * kSecond));
}

TEST_F(MetaNodeTest, AStandbyThatHangsForGoodLeavesTheSet) {
  w_.SetWriting(false);
  w_.RunFor(kSecond);
  w_.Hang(c_, 10 * kSecond);
  w_.RunFor(2500 * kMillisecond);
  EXPECT_EQ(w_.in_force().in_sync.size(), 3u);
  EXPECT_TRUE(w_.RunUntil([&] { return !w_.in_force().in_sync.contains("m2"); }, 4 * kSecond));
  w_.SetWriting(true);
  EXPECT_TRUE(GoesOn());
  EXPECT_TRUE(w_.RunUntil([&] { return w_.AllIn(); }, 30 * kSecond));
  EXPECT_EQ(Term(a_), term_);
}

// Beats are for who is meant, of this cluster, and by a directory that the register lists.
TEST_F(MetaNodeTest, WhoIsNotMeantPromisesNothing) {
  BeatRequest beat;
  beat.term = term_ + 1;
  beat.primary = "m0";
  beat.to = "m2";
  EXPECT_EQ(w_.Ask(b_, b_.answerer->Beat(beat)).code(), FsError::kStale);
  EXPECT_LE(b_.node->FindPrimary().term, term_);
  w_.Crash(c_, true);
  w_.Wipe(c_);
  w_.Start(c_);
  w_.RunFor(kSecond);
  EXPECT_EQ(w_.Ask(c_, c_.answerer->Beat(beat)).code(), FsError::kStale);
  EXPECT_LE(c_.node->FindPrimary().term, term_);
}

// What waits at the gate goes when authority is back, or hears that the life is over.
TEST_F(MetaNodeTest, AnswersWaitForAuthority) {
  const std::shared_ptr<LifeGate> gate = a_.node->life()->gate();
  std::optional<Result<void>> left;
  w_.coordinator().SetUp(false);  // the set cannot shrink
  for (const Member* m : {&b_, &c_}) {
    w_.Cut(a_.name, m->name, true);
    w_.Cut(m->name, a_.name, true);
  }
  w_.RunFor(1 * kSecond);
  EXPECT_EQ(gate->MayLeave().code(), FsError::kRetryLater);
  TaskScope scope;
  scope.Spawn(gate->Leave(), [&](Result<void> r) { left.emplace(std::move(r)); });
  w_.RunFor(2 * kSecond);
  EXPECT_FALSE(left.has_value());
  EXPECT_EQ(a_.node->OwnState().role, MemberRole::kStalled);
  for (const Member* m : {&b_, &c_}) {
    w_.Cut(a_.name, m->name, false);
    w_.Cut(m->name, a_.name, false);
  }
  w_.coordinator().SetUp(true);
  ASSERT_TRUE(w_.RunUntil([&] { return left.has_value(); }, 10 * kSecond));
  EXPECT_EQ(left->ok(), a_.serves() && Term(a_) == term_);
  EXPECT_TRUE(GoesOn());
}

TEST_F(MetaNodeTest, WithoutItsCoordinatorEverythingGoesOn) {
  w_.coordinator().SetUp(false);
  w_.RunFor(20 * kSecond);
  EXPECT_TRUE(a_.serves());
  EXPECT_EQ(Term(a_), term_);
  EXPECT_TRUE(GoesOn());
  EXPECT_FALSE(a_.node->OwnState().coordinator);
  EXPECT_NE(a_.node->OwnState().coordinator_problem, "");
  EXPECT_EQ(w_.Ask(a_, a_.desk->ChangeMembers(Change(MemberChange::kPromote, "m1"))).code(), FsError::kRetryLater);
  EXPECT_TRUE(a_.serves());
  w_.coordinator().SetUp(true);
  EXPECT_TRUE(GoesOn());
  EXPECT_EQ(Term(a_), term_);
}

TEST_F(MetaNodeTest, AStandbyThatIsGoneLeavesTheSet) {
  w_.Crash(c_, true);
  EXPECT_TRUE(w_.RunUntil([&] { return w_.in_force().in_sync == std::set<std::string>({"m0", "m1"}); }, 10 * kSecond));
  EXPECT_TRUE(GoesOn());
  EXPECT_EQ(Term(a_), term_);
  w_.Start(c_);
  EXPECT_TRUE(w_.RunUntil([&] { return w_.AllIn(); }, 20 * kSecond));
}

// A new disk under the old name is another member: it follows when people have said so, and then copies.
TEST_F(MetaNodeTest, AWipedMemberCopiesAsANewOne) {
  w_.Crash(c_, true);
  w_.Wipe(c_);
  w_.Start(c_);
  ASSERT_TRUE(w_.RunUntil([&] { return !w_.in_force().in_sync.contains("m2"); }, 10 * kSecond));
  w_.RunFor(3 * kSecond);
  EXPECT_NE(c_.node->OwnState().problem.find("not the one"), std::string::npos) << c_.node->OwnState().problem;
  EXPECT_EQ(c_.node->store().last().seq.v, 0u);
  // By way of a standby.
  const Result<ChangeMembersReply> removed = w_.Ask(b_, b_.desk->ChangeMembers(Change(MemberChange::kRemove, "m2")));
  ASSERT_TRUE(removed.ok()) << removed.error();
  EXPECT_FALSE(w_.in_force().members.contains("m2"));
  ChangeMembersRequest add = Change(MemberChange::kAdd, "m2");
  add.uuid = c_.uuid;
  add.address = "m2:7401";
  const Result<ChangeMembersReply> added = w_.Ask(b_, b_.desk->ChangeMembers(add));
  ASSERT_TRUE(added.ok()) << added.error();
  EXPECT_EQ(added->primary, "m0");
  EXPECT_TRUE(w_.RunUntil([&] { return w_.AllIn(); }, 20 * kSecond));
  EXPECT_TRUE(c_.node->store().whole());
  EXPECT_EQ(w_.Ask(b_, b_.desk->ChangeMembers(add)).code(), FsError::kExist);
}

// The other one is dead. Whoever waits for something to be durable does not wait until the new one has copied everything.
TEST_F(MetaNodeTest, AThirdMemberIsWaitedForByNobodyWhileItCopies) {
  w_.Crash(c_, true);
  ASSERT_TRUE(w_.RunUntil([&] { return !w_.in_force().in_sync.contains("m2"); }, 10 * kSecond));
  w_.RunFor(kSecond);
  ASSERT_TRUE(w_.Ask(a_, a_.desk->ChangeMembers(Change(MemberChange::kRemove, "m2"))).ok());
  w_.Crash(b_, true);
  ASSERT_TRUE(w_.RunUntil([&] { return w_.in_force().in_sync == std::set<std::string>{"m0"}; }, 10 * kSecond));
  ASSERT_TRUE(GoesOn());

  w_.Wipe(c_);
  w_.settings().copy_bytes_per_s = 200;  // many seconds, for some hundred keys
  w_.Start(c_);
  ChangeMembersRequest add = Change(MemberChange::kAdd, "m2");
  add.uuid = c_.uuid;
  add.address = "m2:7401";
  ASSERT_TRUE(w_.Ask(a_, a_.desk->ChangeMembers(add)).ok());
  // Nor while it catches up and joins.
  int64_t longest = 0, since = w_.ex().NowNs();
  uint64_t acked = w_.counts().acked, while_it_copied = 0;
  const bool joined = w_.RunUntil(
      [&] {
        if (w_.counts().acked != acked) {
          if (!c_.node->store().begun()) while_it_copied += w_.counts().acked - acked;
          acked = w_.counts().acked;
          since = w_.ex().NowNs();
        }
        longest = std::max(longest, w_.ex().NowNs() - since);
        return w_.in_force().in_sync.contains("m2");
      },
      120 * kSecond);
  ASSERT_TRUE(joined) << c_.node->OwnState().problem;
  EXPECT_GT(while_it_copied, 100u);
  EXPECT_LT(longest, 400 * kMillisecond) << "longer than a member may owe";
  EXPECT_TRUE(GoesOn());
  EXPECT_TRUE(c_.node->store().whole());
  EXPECT_EQ(Term(a_), term_);
}

TEST_F(MetaNodeTest, ThePlaceIsGivenAwayWithoutAWait) {
  const Result<ChangeMembersReply> given = w_.Ask(c_, c_.desk->ChangeMembers(Change(MemberChange::kPromote, "m1")));
  ASSERT_TRUE(given.ok()) << given.error();
  EXPECT_EQ(given->primary, "m1");
  // Sooner than by a failure of the primary.
  ASSERT_TRUE(w_.RunUntil([&] { return b_.serves(); }, 900 * kMillisecond));
  EXPECT_EQ(Term(b_), term_ + 1);
  EXPECT_EQ(w_.in_force().in_sync.size(), 3u);
  EXPECT_TRUE(GoesOn());
  EXPECT_TRUE(w_.RunUntil([&] { return a_.node->role() == MetaRole::kStandby && !a_.serves(); }, 5 * kSecond));
}

TEST_F(MetaNodeTest, WhoIsNotInTheSetIsNotPromoted) {
  w_.Crash(c_, false);
  ASSERT_TRUE(w_.RunUntil([&] { return !w_.in_force().in_sync.contains("m2"); }, 10 * kSecond));
  w_.RunFor(kSecond);  // until the primary has heard the answer of the coordinator, too
  EXPECT_EQ(w_.Ask(a_, a_.desk->ChangeMembers(Change(MemberChange::kPromote, "m2"))).code(), FsError::kConflict);
  EXPECT_EQ(w_.Ask(a_, a_.desk->ChangeMembers(Change(MemberChange::kPromote, "nobody"))).code(), FsError::kNoEnt);
  EXPECT_TRUE(GoesOn());
  EXPECT_EQ(Term(a_), term_);
}

// Also if he says that a member has handed it on: only members are believed that.
TEST_F(MetaNodeTest, WhatAnAdminChangesIsAudited) {
  struct Kept final : AuditSink {
    void Note(AuditEntry entry) override { noted.push_back(std::move(entry)); }
    std::vector<AuditEntry> noted;
  } audit;
  MemberDesk desk(a_.node.get(), nullptr, &audit);
  const auto ask = [&](Role role, bool handed_on) {
    auto peer = std::make_shared<Peer>();
    peer->role = role;
    peer->name = "pc1";
    ChangeMembersRequest r = Change(MemberChange::kMinInSync, "");
    r.header.peer = peer;
    r.handed_on = handed_on;
    r.min_in_sync = 2;
    return w_.Ask(a_, desk.ChangeMembers(std::move(r)));
  };
  ASSERT_TRUE(ask(Role::kAdmin, false).ok());
  ASSERT_TRUE(ask(Role::kAdmin, true).ok());
  ASSERT_TRUE(ask(Role::kMeta, true).ok());
  ASSERT_EQ(audit.noted.size(), 2u);
  for (const AuditEntry& e : audit.noted) {
    EXPECT_EQ(e.peer + ": " + e.verb + " " + e.arguments, "admin pc1: meta min-in-sync 2");
    EXPECT_TRUE(e.outcome.starts_with("done: ")) << e.outcome;
  }
}

// Two of three are lost for good, and the third may acknowledge nothing alone: so it cannot begin to serve, and has to be told all the same.
TEST_F(MetaNodeTest, WhoWaitsForOthersBeforeItServesTakesChangesOfTheMembers) {
  ChangeMembersRequest least = Change(MemberChange::kMinInSync, "");
  least.min_in_sync = 2;
  const Result<ChangeMembersReply> two = w_.Ask(a_, a_.desk->ChangeMembers(least));
  ASSERT_TRUE(two.ok()) << two.error();
  w_.Crash(a_, false);
  w_.Crash(c_, false);
  ASSERT_TRUE(w_.RunUntil([&] { return b_.node->leads(); }, 10 * kSecond));
  w_.RunFor(3 * kSecond);
  EXPECT_FALSE(b_.serves());
  least.min_in_sync = 1;
  const Result<ChangeMembersReply> one = w_.Ask(b_, b_.desk->ChangeMembers(least));
  ASSERT_TRUE(one.ok()) << one.error();
  ASSERT_TRUE(w_.RunUntil([&] { return b_.serves(); }, 10 * kSecond));
  EXPECT_TRUE(GoesOn());
}

TEST_F(MetaNodeTest, WhoLeavesGivesItsPlaceAway) {
  bool left = false;
  a_.answering->Spawn([](MetaNode* node, bool* done) -> Task<void> {
    co_await node->Leave();
    *done = true;
  }(a_.node.get(), &left));
  ASSERT_TRUE(w_.RunUntil([&] { return left; }, 10 * kSecond));
  EXPECT_FALSE(a_.serves());
  // What listens may take seconds to end; it does not seem to be there meanwhile.
  BeatRequest beat;
  beat.term = w_.in_force().term + 1;
  beat.primary = "m1";
  beat.to = "m0";
  EXPECT_EQ(w_.Ask(a_, a_.answerer->Beat(beat)).code(), FsError::kNotReady);
  ASSERT_TRUE(AnotherServes(a_));
  EXPECT_TRUE(GoesOn());
  w_.RunFor(5 * kSecond);
  EXPECT_FALSE(a_.serves());
}

TEST_F(MetaNodeTest, LocateSaysWhoIsPrimaryAndWaitsForTheNext) {
  const Result<LocateReply> now = w_.Ask(c_, c_.desk->Locate({}));
  ASSERT_TRUE(now.ok());
  EXPECT_EQ(now->term, term_);
  EXPECT_EQ(now->primary, "m0");
  EXPECT_EQ(now->address, "m0:7401");
  ASSERT_EQ(now->members.size(), 3u);
  EXPECT_EQ(now->members[2].name, "m2");

  LocateRequest wait;
  wait.known_term = term_;
  wait.wait_ns = 1 * kSecond;
  EXPECT_EQ(w_.Ask(c_, c_.desk->Locate(wait))->term, term_);  // nothing new in that time
  wait.wait_ns = 30 * kSecond;
  std::optional<Result<LocateReply>> next;
  c_.answering->Spawn(c_.desk->Locate(wait), [&](Result<LocateReply> r) { next.emplace(std::move(r)); });
  w_.Crash(a_, false);
  ASSERT_TRUE(w_.RunUntil([&] { return next.has_value(); }, 10 * kSecond));
  ASSERT_TRUE(next->ok());
  EXPECT_GT((*next)->term, term_);
  EXPECT_NE((*next)->primary, "m0");
  EXPECT_EQ((*next)->address, (*next)->primary + ":7401");

  LocateRequest strange;
  strange.header.cluster = {77, 77};
  EXPECT_EQ(w_.Ask(c_, c_.desk->Locate(strange)).code(), FsError::kWrongCluster);
}

TEST_F(MetaNodeTest, StatusOfAllAtAnyMember) {
  w_.RunFor(1 * kSecond);
  for (Member* at : {&a_, &b_}) {
    const Result<MemberStatusReply> status = Status(*at);
    ASSERT_TRUE(status.ok()) << status.error();
    EXPECT_EQ(status->self, at->name);
    EXPECT_EQ(status->primary, "m0");
    EXPECT_EQ(status->term, term_);
    ASSERT_EQ(status->members.size(), 3u);
    for (const MemberState& m : status->members) {
      EXPECT_EQ(m.role, m.name == "m0" ? MemberRole::kPrimary : MemberRole::kStandby) << m.name;
      EXPECT_EQ(m.uuid, w_.member(m.name).uuid);
      EXPECT_EQ(m.address, m.name + ":7401");
      EXPECT_EQ(m.term, term_);
      EXPECT_GT(m.last.v, 0u);
      EXPECT_TRUE(m.in_sync);
      EXPECT_TRUE(m.coordinator) << m.coordinator_problem;
      EXPECT_EQ(m.problem, "");
    }
  }
  w_.Crash(c_, true);
  ASSERT_TRUE(w_.RunUntil([&] { return !w_.in_force().in_sync.contains("m2"); }, 10 * kSecond));
  w_.RunFor(1 * kSecond);
  const Result<MemberStatusReply> status = Status(a_);
  ASSERT_TRUE(status.ok());
  const MemberState& gone = status->members[2];
  EXPECT_EQ(gone.role, MemberRole::kUnreachable);
  EXPECT_FALSE(gone.in_sync);
  EXPECT_GT(gone.lag, 0u);
  EXPECT_NE(gone.problem, "");
}

// An address that leads to another member: that one does not acknowledge in place of who was meant.
TEST_F(MetaNodeTest, WhatIsMeantForAnotherIsRefused) {
  AppendRequest beat;
  beat.term = term_ + 1;
  beat.primary = "m0";
  beat.to = "m2";
  EXPECT_EQ(w_.Ask(b_, b_.node->replica()->Append(beat)).code(), FsError::kStale);
  EXPECT_LE(b_.node->FindPrimary().term, term_);
  EXPECT_TRUE(GoesOn());
}

// ---- By seeds -------------------------------------------------------------------------------------

TEST(MetaNodeRandom, NothingAcknowledgedIsLostAndOneAnswers) {
  const uint64_t first = SettingOf("STRIA_FIRST_SEED", 1), seeds = SettingOf("STRIA_SEEDS", kSanitized ? 100 : 200);
  NodeWorld::Counts all;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    NodeWorld world(seed, seed % 3 == 0 ? 2 : 3);
    ASSERT_EQ(world.Run(), "") << "seed " << seed;
    all.acked += world.counts().acked;
    all.reads += world.counts().reads;
    all.terms += world.counts().terms;
    all.crashes += world.counts().crashes;
    all.stops += world.counts().stops;
    all.hangs += world.counts().hangs;
    all.joins += world.counts().joins;
    all.wipes += world.counts().wipes;
  }
  RecordProperty("acknowledged", static_cast<int>(all.acked));
  RecordProperty("reads", static_cast<int>(all.reads));
  RecordProperty("terms", static_cast<int>(all.terms));
  RecordProperty("joins", static_cast<int>(all.joins));
  if (seeds < 100) return;
  // A world in which nothing happens shows nothing.
  EXPECT_GT(all.acked, 10 * seeds);
  EXPECT_GT(all.reads, 10 * seeds);
  EXPECT_GT(all.terms, 2 * seeds);
  EXPECT_GT(all.crashes, seeds);
  EXPECT_GT(all.stops, 0u);
  EXPECT_GT(all.hangs, 0u);
  EXPECT_GT(all.wipes, 0u);
  EXPECT_GT(all.joins, seeds);
}

// The same seed is the same run: what it finds can be found again.
TEST(MetaNodeRandom, ASeedRepeats) {
  std::string problem[2];
  uint64_t steps[2], acked[2];
  for (int i = 0; i < 2; ++i) {
    NodeWorld world(7, 3);
    problem[i] = world.Run();
    steps[i] = world.ex().steps();
    acked[i] = world.counts().acked;
  }
  EXPECT_EQ(problem[0], problem[1]);
  EXPECT_EQ(steps[0], steps[1]);
  EXPECT_EQ(acked[0], acked[1]);
}

// The world sees a primary that does not ask for authority.
TEST(MetaNodeSabotage, AuthorityIgnoredIsSeen) {
  const ScopedSabotage on(Sabotage::kIgnoreAuthority);
  NodeWorld world(11, 3);
  world.StartAll();
  ASSERT_TRUE(world.RunUntil([&] { return world.AllIn(); }, 30 * kSecond));
  NodeWorld::Member& a = *world.Primary();
  world.Stop(a, 6 * kSecond);
  EXPECT_TRUE(world.RunUntil([&] { return !world.problem().empty(); }, 6 * kSecond));
  EXPECT_NE(world.problem().find("answers although"), std::string::npos) << world.problem();
}

// Without the watchdog nobody takes over from one that hangs: what APrimaryThatHangsForGoodLosesItsPlace would see.
TEST(MetaNodeSabotage, BeatsOfAHungLogicAreSeen) {
  const ScopedSabotage on(Sabotage::kBeatForHung);
  NodeWorld world(11, 3);
  world.StartAll();
  ASSERT_TRUE(world.RunUntil([&] { return world.AllIn(); }, 30 * kSecond));
  const uint64_t term = world.in_force().term;
  world.Hang(*world.Primary(), 60 * kSecond);
  EXPECT_FALSE(world.RunUntil([&] { return world.in_force().term > term; }, 30 * kSecond));
}

// And acknowledgements that do not wait for the disk.
TEST(MetaNodeSabotage, UnsyncedAcknowledgementsAreSeen) {
  const ScopedSabotage on(Sabotage::kFollowUnsynced);
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    NodeWorld world(seed, 3);
    if (!world.Run().empty()) return;
  }
  FAIL() << "300 seeds have not seen it";
}

}  // namespace
}  // namespace stria
