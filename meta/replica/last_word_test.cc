// Members whose store fails, and what they say of it: in virtual time (node_world.h).
#include "meta/replica/last_word.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "meta/replica/meta_node.h"
#include "meta/replica/meta_node_testing.h"

namespace stria {
namespace {

class LastWordTest : public MetaNodeTest {};

// It says nothing of its disk any more, and its process ends and is started again.
TEST_F(LastWordTest, AStandbyWhoseStoreHasFailedEnds) {
  std::optional<Error> fatal;
  b_.answering->Spawn(b_.node->WaitFatal(), [&](Error e) { fatal.emplace(std::move(e)); });
  w_.RunFor(1 * kSecond);
  EXPECT_FALSE(fatal.has_value());
  b_.media->FailNextWrite();
  ASSERT_TRUE(w_.RunUntil([&] { return fatal.has_value(); }, 5 * kSecond));
  EXPECT_NE(fatal->message.find("store of this metadata server"), std::string::npos) << *fatal;
  // Nor does it become the primary, if that one is lost now.
  w_.Crash(a_, false);
  w_.RunFor(5 * kSecond);
  EXPECT_NE(b_.node->role(), MetaRole::kPrimary);
  w_.Crash(b_, false);
  w_.Start(b_);
  w_.Start(a_);
  EXPECT_TRUE(w_.RunUntil([&] { return w_.AllIn(); }, 20 * kSecond));
  EXPECT_TRUE(GoesOn());
}

// The primary's own store: it says that it serves no more, so nobody waits for what was promised to it.
TEST_F(LastWordTest, WhoseStoreHasFailedTellsTheOthers) {
  w_.ExpectAlarms();
  std::optional<Error> fatal;
  a_.answering->Spawn(a_.node->WaitFatal(), [&](Error e) { fatal.emplace(std::move(e)); });
  a_.media->FailNextSync();
  ASSERT_TRUE(w_.RunUntil([&] { return !a_.serves(); }, 5 * kSecond));
  EXPECT_EQ(w_.Ask(a_, a_.desk->Ask({})).code(), FsError::kNotReady) << "nobody is to wait for its longer log";
  // Another one has the place sooner than by the silence of the former one, which is a second.
  ASSERT_TRUE(w_.RunUntil([&] { return w_.in_force().term > term_; }, 700 * kMillisecond));
  EXPECT_FALSE(w_.in_force().in_sync.contains("m0")) << "nothing durable is to wait for it";
  ASSERT_TRUE(AnotherServes(a_));
  ASSERT_TRUE(w_.RunUntil([&] { return fatal.has_value(); }, 2 * kSecond));
  EXPECT_TRUE(Alarmed("m0: m0 serves no more in term " + std::to_string(term_)));
  EXPECT_TRUE(Alarmed("m1: the primary of the metadata servers, m0, has said that it serves no more"));
  EXPECT_FALSE(a_.serves());
  w_.Crash(a_, true);
  EXPECT_TRUE(GoesOn());
  w_.Start(a_);
  EXPECT_TRUE(w_.RunUntil([&] { return w_.AllIn(); }, 20 * kSecond));
  EXPECT_TRUE(GoesOn());
}

// Both of the others are told at once, and one of them has the place: the other one does not take it away again.
TEST_F(LastWordTest, WhoseStoreHasFailedIsFollowedByOne) {
  w_.ExpectAlarms();
  w_.settings().max_delay_ns = 30 * kMillisecond;
  w_.RunFor(kSecond);
  ASSERT_EQ(w_.in_force().in_sync.size(), 3u);
  a_.media->FailNextSync();
  ASSERT_TRUE(AnotherServes(a_));
  w_.Crash(a_, true);
  const uint64_t next = w_.in_force().term;
  w_.RunFor(3 * kSecond);
  EXPECT_EQ(w_.in_force().term, next);
  EXPECT_TRUE(GoesOn());
}

// What fails in a long step is found when that ends: until then it beats, and keeps its place.
TEST_F(LastWordTest, AStoreThatFailsInALongStepIsToldOfAfterIt) {
  w_.ExpectAlarms();
  w_.FailSync(a_);
  w_.Hang(a_, 2 * kSecond);
  w_.RunFor(1900 * kMillisecond);
  EXPECT_FALSE(a_.node->store().failure().ok());
  EXPECT_TRUE(a_.serves());
  EXPECT_EQ(w_.in_force().term, term_);
  EXPECT_TRUE(w_.alarms().empty()) << w_.alarms().front();
  ASSERT_TRUE(w_.RunUntil([&] { return !a_.serves(); }, 1 * kSecond));
  ASSERT_TRUE(w_.RunUntil([&] { return w_.in_force().term > term_; }, 700 * kMillisecond));
  EXPECT_TRUE(Alarmed("m0: m0 serves no more in term " + std::to_string(term_)));
  ASSERT_TRUE(AnotherServes(a_));
  EXPECT_TRUE(GoesOn());
}

// One that cannot be told waits, as for a primary that is lost.
TEST_F(LastWordTest, WhoIsNotToldWaitsAsForOneThatIsLost) {
  w_.ExpectAlarms();
  std::optional<Error> fatal;
  a_.answering->Spawn(a_.node->WaitFatal(), [&](Error e) { fatal.emplace(std::move(e)); });
  a_.media->FailNextSync();
  for (const char* other : {"m1", "m2"}) {
    w_.Cut("m0", other, true);
    w_.Cut(other, "m0", true);
  }
  ASSERT_TRUE(w_.RunUntil([&] { return fatal.has_value(); }, 5 * kSecond)) << "it does not wait for ever";
  EXPECT_FALSE(a_.serves());
  w_.Crash(a_, true);
  ASSERT_TRUE(AnotherServes(a_));
  EXPECT_TRUE(GoesOn());
}

// The same when it is alone: there is nobody to tell, and nothing is lost.
TEST_F(LastWordTest, TheLastOneWhoseStoreHasFailedIsBackWhenItIsStarted) {
  w_.ExpectAlarms();
  ChangeMembersRequest least = Change(MemberChange::kMinInSync, "");
  least.min_in_sync = 1;
  ASSERT_TRUE(w_.Ask(a_, a_.desk->ChangeMembers(least)).ok() || w_.in_force().min_in_sync == 1);
  w_.Crash(b_, false);
  w_.Crash(c_, false);
  ASSERT_TRUE(w_.RunUntil([&] { return w_.in_force().in_sync.size() == 1; }, 10 * kSecond));
  ASSERT_TRUE(GoesOn());
  std::optional<Error> fatal;
  a_.answering->Spawn(a_.node->WaitFatal(), [&](Error e) { fatal.emplace(std::move(e)); });
  a_.media->FailNextSync();
  ASSERT_TRUE(w_.RunUntil([&] { return fatal.has_value(); }, 5 * kSecond));
  EXPECT_NE(w_.alarms().at(0).find("no other one is in sync"), std::string::npos) << w_.alarms().at(0);
  w_.Crash(a_, true);
  w_.Start(a_);
  ASSERT_TRUE(w_.RunUntil([&] { return a_.serves(); }, 10 * kSecond));
  EXPECT_TRUE(GoesOn());
}

TEST(WhoGoesOn, IsWhoeverOfTheSetHasMost) {
  Register r;
  r.in_sync = {"a", "b", "c"};
  CommitRule rule("a");
  rule.Durable("a", CommitSeq{30});
  rule.Durable("b", CommitSeq{12});
  rule.Durable("c", CommitSeq{20});
  rule.Durable("d", CommitSeq{30});
  EXPECT_EQ(WhoGoesOn(r, "a", rule, CommitSeq{20}), "c has everything, and can take over");
  const std::string lacks = WhoGoesOn(r, "a", rule, CommitSeq{25});
  EXPECT_NE(lacks.find("c has everything that was acknowledged as durable"), std::string::npos) << lacks;
  EXPECT_NE(lacks.find("lacks up to 5 changes"), std::string::npos) << lacks;
  r.in_sync = {"a"};
  EXPECT_EQ(WhoGoesOn(r, "a", rule, CommitSeq{20}), "no other one is in sync: nobody serves until it is back");
}

}  // namespace
}  // namespace stria
