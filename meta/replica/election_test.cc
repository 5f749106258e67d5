#include "meta/replica/election.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/sabotage_testing.h"

namespace stria {
namespace {

using Kind = ElectionAction::Kind;
constexpr int64_t kG = 5 * kSecond;
Uuid IdOf(const std::string& name) { return {1, static_cast<uint64_t>(name[0])}; }

Register Named(const std::string& primary, std::set<std::string> in_sync, uint64_t term, uint64_t version) {
  Register r;
  r.version = version;
  r.nonce = {5, version};
  r.incarnation = 1;
  r.term = term;
  r.primary = primary;
  r.in_sync = std::move(in_sync);
  for (const char* name : {"a", "b", "c"}) r.members[name] = {IdOf(name), std::string(name) + ":1", "", 0};
  return r;
}

// Member "b", since 1000 s.
struct B {
  B() {
    own.whole = true;
    for (int i = 0; i < 10; ++i) own.shape.Append(4);
    own.store_term = 4;
  }
  Election::Actions Tick(int64_t ms = 0) {
    now += ms * kMillisecond;
    return last = e.Tick(now, own);
  }
  Election::Actions See(const Register& r) { return last = e.OnRegister(now, r, own); }
  BeatAnswer Beat(const std::string& from, uint64_t term) { return promises.OnBeat({from, term}, now); }
  bool Did(Kind kind) const {
    return std::any_of(last.begin(), last.end(), [&](const ElectionAction& a) { return a.kind == kind; });
  }
  const ElectionAction& The(Kind kind) const {
    return *std::find_if(last.begin(), last.end(), [&](const ElectionAction& a) { return a.kind == kind; });
  }
  // A standby of a's term 4 that has heard of it last, and has been silent for G since.
  void FallSilent() {
    See(Named("a", {"a", "b"}, 4, 10));
    EXPECT_EQ(Beat("a", 4), BeatAnswer::kPromised);
    Tick(5000);
  }
  // Asks for the place.
  RegisterSwap Stand() {
    FallSilent();
    EXPECT_EQ(e.role(), MetaRole::kCandidate);
    See(Named("a", {"a", "b"}, 4, 10));
    Tick(200);
    EXPECT_TRUE(Did(Kind::kSwap));
    return The(Kind::kSwap).swap;
  }

  int64_t now = 1000 * kSecond;
  uint64_t nonce = 0;
  Promises promises{now};
  Election e{{.self = "b", .uuid = IdOf("b")}, &promises, now, [this] { return Uuid{9, ++nonce}; }};
  OwnLog own;
  Election::Actions last;
};

TEST(Promises, OneThatIsOverBindsNobody) {
  Promises p(0);
  p.Open(4);
  EXPECT_FALSE(p.Over({"a", 4})) << "nothing was promised to it";
  EXPECT_EQ(p.OnBeat({"a", 5}, 100), BeatAnswer::kPromised);
  EXPECT_FALSE(p.Over({"a", 4})) << "another life";
  EXPECT_FALSE(p.Over({"c", 5}));
  EXPECT_FALSE(p.Last().over);
  EXPECT_TRUE(p.Over({"a", 5}));
  EXPECT_FALSE(p.Over({"a", 5})) << "that was said before";
  EXPECT_TRUE(p.Last().over);
  EXPECT_EQ(p.OnBeat({"a", 5}, 200), BeatAnswer::kSilent) << "a beat that came late";
  EXPECT_EQ(p.Last().at_ns, 100);
  EXPECT_EQ(p.OnBeat({"c", 6}, 300), BeatAnswer::kPromised);
  EXPECT_FALSE(p.Last().over);
}

// Beats have connections of their own: the first one may come after the last word.
TEST(Promises, NoneFollowsToALifeThatIsOver) {
  Promises p(0);
  p.Open(4);
  EXPECT_EQ(p.OnBeat({"c", 4}, 100), BeatAnswer::kPromised);
  EXPECT_FALSE(p.Over({"a", 5})) << "the last promise is to another";
  EXPECT_EQ(p.OnBeat({"a", 5}, 200), BeatAnswer::kSilent);
  EXPECT_EQ(p.Last().to, (MetaLife{"c", 4}));
  EXPECT_EQ(p.Last().at_ns, 100);
  EXPECT_FALSE(p.Last().over) << "that one may still count on it";
  EXPECT_EQ(p.OnBeat({"a", 6}, 300), BeatAnswer::kPromised);
}

// In one step with the look, as beats come from another thread.
TEST(Promises, CloseAtOnceIfTheLastIsOver) {
  Promises p(0);
  p.Open(5);
  EXPECT_EQ(p.OnBeat({"a", 5}, 100), BeatAnswer::kPromised);
  EXPECT_FALSE(p.CloseIfSilent(110, 50));
  EXPECT_TRUE(p.Over({"a", 5}));
  EXPECT_EQ(p.OnBeat({"c", 6}, 115), BeatAnswer::kPromised);
  EXPECT_FALSE(p.CloseIfSilent(120, 50)) << "another one has been promised since";
  EXPECT_TRUE(p.Over({"c", 6}));
  EXPECT_TRUE(p.CloseIfSilent(120, 50));
  EXPECT_EQ(p.OnBeat({"c", 7}, 130), BeatAnswer::kHigherTerm);
}

TEST(Election, WhoHasSaidThatItIsOverIsNotWaitedFor) {
  B b;
  b.See(Named("a", {"a", "b"}, 4, 10));
  EXPECT_EQ(b.Beat("a", 4), BeatAnswer::kPromised);
  b.Tick(100);
  EXPECT_EQ(b.e.role(), MetaRole::kStandby);
  EXPECT_FALSE(b.promises.Over({"a", 3}));
  b.Tick(100);
  EXPECT_EQ(b.e.role(), MetaRole::kStandby);
  ASSERT_TRUE(b.promises.Over({"a", 4}));
  b.Tick(100);
  EXPECT_EQ(b.e.role(), MetaRole::kCandidate);
  b.See(Named("a", {"a", "b"}, 4, 10));
  b.Tick(300);
  ASSERT_TRUE(b.Did(Kind::kSwap));
  const RegisterSwap swap = b.The(Kind::kSwap).swap;
  EXPECT_EQ(swap.value.primary, "b");
  b.See(swap.value);
  EXPECT_EQ(b.e.role(), MetaRole::kPrimary) << "it opens at once";
}

// Two are told that the primary is over, and one of them has its place: the other one does not take it away again before it is heard.
TEST(Election, AnotherThatHasThePlaceOfOneThatIsOverIsWaitedFor) {
  B b;
  b.See(Named("a", {"a", "b", "c"}, 4, 10));
  EXPECT_EQ(b.Beat("a", 4), BeatAnswer::kPromised);
  ASSERT_TRUE(b.promises.Over({"a", 4}));
  b.Tick(100);
  ASSERT_EQ(b.e.role(), MetaRole::kCandidate);
  b.See(Named("a", {"a", "b", "c"}, 4, 10));
  b.Tick(300);
  ASSERT_TRUE(b.Did(Kind::kSwap));
  b.See(Named("c", {"b", "c"}, 5, 11));  // its own comes too late
  EXPECT_EQ(b.e.role(), MetaRole::kStandby);
  b.Tick(100);
  EXPECT_EQ(b.e.role(), MetaRole::kStandby);
  EXPECT_EQ(b.Beat("c", 5), BeatAnswer::kPromised);
  b.Tick(4999);
  EXPECT_EQ(b.e.role(), MetaRole::kStandby);
  b.Tick(1);
  EXPECT_EQ(b.e.role(), MetaRole::kCandidate) << "as of any other";
}

// Two find that the primary is silent. The one that loses hears the other one in time, and lets it be.
TEST(Election, WhoLosesAgainstAnotherWaitsForIt) {
  for (const bool asked : {true, false}) {
    B b;
    b.See(Named("a", {"a", "b", "c"}, 4, 10));
    EXPECT_EQ(b.Beat("a", 4), BeatAnswer::kPromised);
    b.Tick(5000);
    ASSERT_EQ(b.e.role(), MetaRole::kCandidate);
    if (asked) {
      b.See(Named("a", {"a", "b", "c"}, 4, 10));
      b.Tick(300);
      ASSERT_TRUE(b.Did(Kind::kSwap));
    }
    b.See(Named("c", {"b", "c"}, 5, 11));
    EXPECT_EQ(b.e.role(), MetaRole::kStandby) << asked;
    EXPECT_FALSE(b.e.SwapPending());
    b.Tick(100);
    EXPECT_EQ(b.e.role(), MetaRole::kStandby) << asked;
    b.Tick(4899);
    EXPECT_EQ(b.e.role(), MetaRole::kStandby) << asked;
    b.See(Named("c", {"b", "c"}, 5, 11));
    b.Tick(1);
    EXPECT_EQ(b.e.role(), MetaRole::kCandidate) << "it has never been heard";
  }
}

TEST(Election, AnswersNobodyBeforeItHasReadTheRegister) {
  B b;
  EXPECT_EQ(b.Beat("a", 4), BeatAnswer::kHigherTerm);
  b.Tick();
  EXPECT_TRUE(b.Did(Kind::kRead));
  b.See(Named("a", {"a", "b"}, 4, 10));
  EXPECT_EQ(b.e.role(), MetaRole::kStandby);
  EXPECT_EQ(b.Beat("a", 4), BeatAnswer::kPromised);
  EXPECT_EQ(b.Beat("c", 3), BeatAnswer::kLowerTerm);
  EXPECT_EQ(b.promises.term(), 4u);
}

TEST(Election, StandsWhenThePrimaryIsSilentForG) {
  B b;
  b.See(Named("a", {"a", "b"}, 4, 10));
  b.Tick(4000);
  EXPECT_EQ(b.Beat("a", 4), BeatAnswer::kPromised);
  b.Tick(4999);
  EXPECT_EQ(b.e.role(), MetaRole::kStandby);
  b.Tick(1);
  EXPECT_EQ(b.e.role(), MetaRole::kCandidate);
  EXPECT_TRUE(b.Did(Kind::kAsk));
  EXPECT_TRUE(b.Did(Kind::kRead));
}

TEST(Election, ARestartCountsAsAPromise) {
  B b;
  b.See(Named("a", {"a", "b"}, 4, 10));
  b.Tick(4999);
  EXPECT_EQ(b.e.role(), MetaRole::kStandby);
  b.Tick(1);
  EXPECT_EQ(b.e.role(), MetaRole::kCandidate);
}

TEST(Election, DoesNotStandOutsideTheSetOrUnlessWhole) {
  B outside;
  outside.See(Named("a", {"a", "c"}, 4, 10));
  outside.Tick(60'000);
  EXPECT_EQ(outside.e.role(), MetaRole::kStandby);
  B torn;
  torn.own.whole = false;
  torn.See(Named("a", {"a", "b"}, 4, 10));
  torn.Tick(60'000);
  EXPECT_EQ(torn.e.role(), MetaRole::kStandby);
}

TEST(Election, ACandidatePromisesNothingUntilItsSwapIsDecided) {
  B b;
  const RegisterSwap swap = b.Stand();
  EXPECT_EQ(b.Beat("a", 4), BeatAnswer::kSilent);
  b.Tick(60'000);  // no answer: it waits, and reads
  EXPECT_TRUE(b.Did(Kind::kRead));
  EXPECT_EQ(b.e.role(), MetaRole::kCandidate);
  EXPECT_EQ(b.Beat("a", 4), BeatAnswer::kSilent);
  b.See(swap.old);  // not carried out so far: the same again
  ASSERT_TRUE(b.Did(Kind::kSwap));
  EXPECT_EQ(b.The(Kind::kSwap).swap, swap);
  b.See(Named("a", {"a"}, 4, 11));  // never
  EXPECT_EQ(b.e.role(), MetaRole::kStandby);
  EXPECT_FALSE(b.e.SwapPending());
  EXPECT_EQ(b.Beat("a", 4), BeatAnswer::kPromised);
}

TEST(Election, OpensWhenItHasThePlace) {
  B b;
  const RegisterSwap swap = b.Stand();
  EXPECT_EQ(swap.value.primary, "b");
  EXPECT_EQ(swap.value.term, 5u);
  b.See(swap.value);
  EXPECT_EQ(b.e.role(), MetaRole::kPrimary);  // silent for G already
  ASSERT_TRUE(b.Did(Kind::kOpen));
  EXPECT_EQ(b.The(Kind::kOpen).life, (MetaLife{"b", 5}));
  EXPECT_EQ(b.Beat("a", 4), BeatAnswer::kSilent);
  EXPECT_EQ(b.Beat("c", 6), BeatAnswer::kHigherTerm);
}

// The swap of an earlier life of this process comes through when it has promised again: a new life, which waits.
TEST(Election, ALateSwapOpensOnlyWhenPromisesAreOver) {
  for (const Sabotage bug : {Sabotage::kNone, Sabotage::kPromiseAsCandidate}) {
    const ScopedSabotage on(bug);
    B b;
    b.See(Named("a", {"a", "b"}, 4, 10));
    b.Tick(100);
    EXPECT_EQ(b.Beat("a", 4), BeatAnswer::kPromised);
    b.See(Named("b", {"b"}, 5, 11));
    EXPECT_EQ(b.e.role(), MetaRole::kCandidate);
    b.See(Named("b", {"b"}, 5, 11));
    b.Tick(200);
    ASSERT_TRUE(b.Did(Kind::kSwap));
    EXPECT_EQ(b.The(Kind::kSwap).swap.value.term, 6u);  // a life has a term of its own
    b.See(b.The(Kind::kSwap).swap.value);
    if (bug != Sabotage::kNone) {  // what the rule is for: a still counts on the promise
      EXPECT_EQ(b.e.role(), MetaRole::kPrimary);
      continue;
    }
    EXPECT_EQ(b.e.role(), MetaRole::kOpening);
    b.Tick(4799);
    EXPECT_EQ(b.e.role(), MetaRole::kOpening);
    b.Tick(1);
    EXPECT_EQ(b.e.role(), MetaRole::kPrimary);
  }
}

TEST(Election, ARestartedPrimaryIsBackAtOnceIfItPromisedNothing) {
  for (const uint64_t opened : {5u, 4u}) {
    B b;
    b.own.opened_term = opened;
    b.See(Named("b", {"a", "b"}, 5, 11));
    EXPECT_EQ(b.e.role(), MetaRole::kCandidate);
    AskedMember a{b.own.shape, true, 0};
    b.e.OnAsked(b.The(Kind::kAsk).attempt, "a", a);
    b.See(Named("b", {"a", "b"}, 5, 11));
    b.Tick(200);
    ASSERT_TRUE(b.Did(Kind::kSwap));
    const RegisterSwap swap = b.The(Kind::kSwap).swap;
    EXPECT_EQ(swap.value.in_sync, (std::set<std::string>{"a", "b"}));  // a has the same log
    b.See(swap.value);
    EXPECT_EQ(b.e.role(), opened == 5 ? MetaRole::kPrimary : MetaRole::kOpening);
  }
}

TEST(Election, TakesWhatIsHandedOverAtOnce) {
  for (const uint64_t promised_to : {4u, 3u}) {
    B b;
    b.own.store_term = 3;
    b.See(Named("a", {"a", "b"}, promised_to, 10));
    EXPECT_EQ(b.Beat("a", promised_to), BeatAnswer::kPromised);
    Register r = Named("b", {"a", "b"}, 5, 12);
    r.handed = MetaLife{"a", 4};
    b.See(r);
    EXPECT_EQ(b.e.role(), promised_to == 4 ? MetaRole::kPrimary : MetaRole::kCandidate);
  }
}

// It was primary of the life that was handed to it, and has ended: a read that comes late does not begin that life again.
TEST(Election, ALifeThatWasHandedOverBeginsOnce) {
  B b;
  b.own.store_term = 3;
  b.See(Named("a", {"a", "b"}, 4, 10));
  EXPECT_EQ(b.Beat("a", 4), BeatAnswer::kPromised);
  Register r = Named("b", {"a", "b"}, 5, 12);
  r.handed = MetaLife{"a", 4};
  b.See(r);
  ASSERT_EQ(b.e.role(), MetaRole::kPrimary);
  b.own.opened_term = b.own.store_term = 5;
  b.last = b.e.OnTerm(b.now, 6);
  ASSERT_TRUE(b.Did(Kind::kStop));
  b.See(r);
  EXPECT_FALSE(b.Did(Kind::kOpen));
  EXPECT_EQ(b.e.role(), MetaRole::kCandidate);  // a new life needs a new term
}

TEST(Election, LetsALongerLogGoFirst) {
  B b;
  b.FallSilent();
  AskedMember a{b.own.shape, true, 60 * kSecond};
  a.shape.Append(4);
  const uint64_t attempt = b.The(Kind::kAsk).attempt;
  b.e.OnAsked(attempt + 1, "a", a);  // of another attempt
  b.e.OnAsked(attempt, "a", a);
  b.See(Named("a", {"a", "b"}, 4, 10));
  b.Tick(200);
  EXPECT_FALSE(b.Did(Kind::kSwap));
  b.Tick(500);  // a courtesy, no rule
  ASSERT_TRUE(b.Did(Kind::kSwap));
  EXPECT_EQ(b.The(Kind::kSwap).swap.value.in_sync, std::set<std::string>{"b"});
}

TEST(Election, AHigherTermEndsIt) {
  B b;
  b.See(b.Stand().value);
  ASSERT_EQ(b.e.role(), MetaRole::kPrimary);
  EXPECT_TRUE(b.e.OnTerm(b.now, 5).empty());
  b.last = b.e.OnTerm(b.now, 6);
  ASSERT_TRUE(b.Did(Kind::kStop));
  EXPECT_EQ(b.The(Kind::kStop).life.term, 5u);
  EXPECT_TRUE(b.Did(Kind::kRead));
  EXPECT_EQ(b.e.role(), MetaRole::kStandby);
}

TEST(Election, TheRegisterEndsIt) {
  B b;
  const RegisterSwap swap = b.Stand();
  b.See(swap.value);
  b.See(swap.old);  // a read that came late
  EXPECT_EQ(b.e.role(), MetaRole::kPrimary);
  b.See(Named("a", {"a"}, 6, 12));
  EXPECT_TRUE(b.Did(Kind::kStop));
  EXPECT_EQ(b.e.role(), MetaRole::kStandby);
  b.Tick(4999);
  EXPECT_EQ(b.e.role(), MetaRole::kStandby);
}

TEST(Election, TwoHistoriesAreAnAlarm) {
  B b;
  b.See(b.Stand().value);
  b.See(Named("b", {"b"}, 5, 11));
  EXPECT_TRUE(b.Did(Kind::kStop));
  EXPECT_TRUE(b.Did(Kind::kAlarm));
}

TEST(Election, AnOldCoordinatorIsAnAlarm) {
  B b;
  b.own.store_term = 9;
  b.See(Named("a", {"a", "b"}, 4, 10));
  EXPECT_FALSE(b.Did(Kind::kAlarm));  // a read may be late
  b.Tick(5000);
  b.See(Named("a", {"a", "b"}, 4, 10));
  EXPECT_TRUE(b.Did(Kind::kAlarm));
  b.Tick(200);
  EXPECT_FALSE(b.Did(Kind::kSwap));
}

// Seen by those that have run since: the terms may be the same, and only the set another.
TEST(Election, ARegisterThatGoesBackIsAnAlarm) {
  B b;
  const Register now = Named("a", {"a", "b"}, 4, 10), old = Named("a", {"a", "b", "c"}, 4, 9);
  b.See(now);
  b.See(old);
  EXPECT_FALSE(b.Did(Kind::kAlarm)) << "a read may be late";
  b.Tick(6000);
  b.See(now);
  b.See(old);
  EXPECT_FALSE(b.Did(Kind::kAlarm)) << "another one may be";
  b.Tick(5000);
  b.See(old);
  EXPECT_TRUE(b.Did(Kind::kAlarm));
  EXPECT_EQ(*b.e.known(), now);
}

TEST(Election, WhoStepsBackLetsOthersTakeOver) {
  B b;
  b.See(b.Stand().value);
  ASSERT_EQ(b.e.role(), MetaRole::kPrimary);
  b.last = b.e.StepBack(b.now, 4 * kG);
  EXPECT_TRUE(b.Did(Kind::kStop));
  for (int i = 0; i < 19; ++i) b.Tick(1000);
  EXPECT_EQ(b.e.role(), MetaRole::kStandby);
  EXPECT_EQ(b.Beat("a", 6), BeatAnswer::kPromised);
  b.Tick(2000);
  EXPECT_EQ(b.e.role(), MetaRole::kCandidate) << "the register names it still: nobody has taken over";
  EXPECT_TRUE(b.e.StepBack(b.now, kG).empty()) << "it serves nothing";
}

TEST(Election, WhoResignsDoesNotStandAgain) {
  B b;
  b.See(b.Stand().value);
  b.last = b.e.Resign(b.now);
  EXPECT_TRUE(b.Did(Kind::kStop));
  b.Tick(60'000);
  EXPECT_EQ(b.e.role(), MetaRole::kStandby);
}

TEST(Election, ACandidateThatResignsDoesNotOpen) {
  B b;
  const RegisterSwap swap = b.Stand();
  b.last = b.e.Resign(b.now);
  EXPECT_EQ(b.Beat("a", 4), BeatAnswer::kSilent) << "its swap may be carried out still";
  b.now += 60 * kSecond;
  b.See(swap.old);
  EXPECT_FALSE(b.Did(Kind::kSwap)) << "not asked for again";
  b.See(swap.value);
  EXPECT_EQ(b.e.role(), MetaRole::kStandby);
  for (int i = 0; i < 100; ++i) {
    b.Tick(1000);
    EXPECT_EQ(b.e.role(), MetaRole::kStandby);
  }
  EXPECT_EQ(b.Beat("a", 6), BeatAnswer::kPromised) << "another may go on from there";
}

TEST(Election, ACandidateThatResignsBeforeItAsksFollowsAgain) {
  B b;
  b.FallSilent();
  ASSERT_EQ(b.e.role(), MetaRole::kCandidate);
  b.last = b.e.Resign(b.now);
  EXPECT_EQ(b.e.role(), MetaRole::kStandby);
  b.See(Named("a", {"a", "b"}, 4, 10));
  b.Tick(60'000);
  EXPECT_EQ(b.e.role(), MetaRole::kStandby);
}

TEST(Election, WhoHasResignedTakesNoPlaceThatIsHandedOver) {
  B b;
  b.See(Named("a", {"a", "b"}, 4, 10));
  EXPECT_EQ(b.Beat("a", 4), BeatAnswer::kPromised);
  b.last = b.e.Resign(b.now);
  Register handed = Named("b", {"a", "b"}, 5, 11);
  handed.handed = MetaLife{"a", 4};
  b.See(handed);
  EXPECT_EQ(b.e.role(), MetaRole::kStandby);
  EXPECT_FALSE(b.Did(Kind::kOpen));
}

TEST(Election, TimesAreChecked) {
  EXPECT_TRUE(CheckElectionTimes(kSecond / 4, 3 * kSecond / 2, 3 * kSecond, kG).ok());
  EXPECT_FALSE(CheckElectionTimes(0, 3 * kSecond / 2, 3 * kSecond, kG).ok());
  EXPECT_FALSE(CheckElectionTimes(kSecond / 2, 3 * kSecond / 2, 3 * kSecond, kG).ok());
  EXPECT_FALSE(CheckElectionTimes(kSecond / 4, 3 * kSecond, 3 * kSecond, kG).ok());
  EXPECT_FALSE(CheckElectionTimes(kSecond / 4, 3 * kSecond / 2, 3 * kSecond, 4 * kSecond).ok());
}

}  // namespace
}  // namespace stria
