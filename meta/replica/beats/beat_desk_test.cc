#include "meta/replica/beats/beat_desk.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/sabotage.h"
#include "common/sabotage_testing.h"

namespace stria {
namespace {

constexpr Uuid kTheirCluster{1, 2};

BeatRequest BeatOf(const std::string& primary, uint64_t term, const std::string& to) {
  BeatRequest r;
  r.header.cluster = kTheirCluster;
  r.term = term;
  r.primary = primary;
  r.to = to;
  return r;
}

BeatReply Promised(uint64_t term) { return {term, true}; }
BeatReply Knows(uint64_t term) { return {term, false}; }

class BeatDeskTest : public testing::Test {
 protected:
  void Follow(uint64_t term) {
    desk.SetListed(true);
    desk.promises()->Open(term);
  }
  // The only beat that is due.
  DueBeat One() {
    std::vector<DueBeat> due = desk.Due(now);
    EXPECT_EQ(due.size(), 1u);
    return due.empty() ? DueBeat() : std::move(due.front());
  }
  void Pass(int64_t ms) { now += ms * kMillisecond; }

  int64_t now = 1000 * kSecond;
  BeatDesk desk{"b", kTheirCluster, BeatOptions(), now};
};

TEST_F(BeatDeskTest, AnswersAsItsElectionAllows) {
  desk.SetListed(true);
  EXPECT_EQ(desk.Answer(BeatOf("a", 5, "b"), now).code(), FsError::kNotReady) << "it has not read the register yet";
  EXPECT_EQ(desk.promises()->Last().to, std::nullopt);
  EXPECT_EQ(desk.TakeHigherTerm(), 5u);
  EXPECT_EQ(desk.TakeHigherTerm(), 0u) << "once";

  desk.promises()->Open(5);
  Pass(100);
  const Result<BeatReply> yes = desk.Answer(BeatOf("a", 5, "b"), now);
  ASSERT_TRUE(yes.ok()) << yes.error();
  EXPECT_TRUE(yes->promised);
  EXPECT_EQ(yes->term, 5u);
  EXPECT_EQ(desk.promises()->Last().at_ns, now);
  EXPECT_EQ(desk.promises()->Last().to, (MetaLife{"a", 5}));

  const Result<BeatReply> lower = desk.Answer(BeatOf("z", 4, "b"), now);
  ASSERT_TRUE(lower.ok()) << lower.error();
  EXPECT_FALSE(lower->promised);
  EXPECT_EQ(lower->term, 5u);

  desk.promises()->Close();
  Pass(100);
  EXPECT_EQ(desk.Answer(BeatOf("a", 5, "b"), now).code(), FsError::kNotReady);
  EXPECT_EQ(desk.promises()->Last().at_ns, now - 100 * kMillisecond);
  EXPECT_EQ(desk.TakeHigherTerm(), 0u);
  EXPECT_EQ(desk.figures().given, 1u);
}

TEST_F(BeatDeskTest, PromisesNothingThatIsNotMeantForIt) {
  Follow(5);
  EXPECT_EQ(desk.Answer(BeatOf("a", 5, "c"), now).code(), FsError::kStale);
  BeatRequest strange = BeatOf("a", 5, "b");
  strange.header.cluster = {7, 7};
  EXPECT_EQ(desk.Answer(strange, now).code(), FsError::kWrongCluster);
  desk.SetListed(false);
  EXPECT_EQ(desk.Answer(BeatOf("a", 5, "b"), now).code(), FsError::kStale);
  EXPECT_EQ(desk.promises()->Last().to, std::nullopt);
}

TEST_F(BeatDeskTest, BeatsWhileItIsPrimary) {
  EXPECT_TRUE(desk.Due(now).empty());
  desk.Connect("a", "a:1");
  EXPECT_TRUE(desk.Due(now).empty()) << "of no life";
  desk.BeginLife({"b", 6});
  desk.Connect("a", "a:1");
  const DueBeat beat = One();
  EXPECT_EQ(beat.member, "a");
  EXPECT_EQ(beat.address, "a:1");
  EXPECT_EQ(beat.request.header.cluster, kTheirCluster);
  EXPECT_EQ(beat.request.term, 6u);
  EXPECT_EQ(beat.request.primary, "b");
  EXPECT_EQ(beat.request.to, "a");
  EXPECT_TRUE(desk.Due(now).empty());
  Pass(249);
  EXPECT_TRUE(desk.Due(now).empty());
  Pass(1);
  One();
  desk.EndLife();
  Pass(250);
  EXPECT_TRUE(desk.Due(now).empty());
}

TEST_F(BeatDeskTest, CountsFromWhenTheBeatWasSent) {
  desk.BeginLife({"b", 6});
  desk.Connect("a", "a:1");
  const DueBeat first = One();
  Pass(400);
  const DueBeat second = One();
  Pass(100);
  desk.Answered(second, Promised(6), now);
  desk.Answered(first, Promised(6), now);
  const std::vector<BeatPromise> promises = desk.TakePromises();
  ASSERT_EQ(promises.size(), 1u);
  EXPECT_EQ(promises[0].member, "a");
  EXPECT_EQ(promises[0].sent_ns, now - 100 * kMillisecond);
  EXPECT_EQ(promises[0].heard_ns, now);
  EXPECT_TRUE(desk.TakePromises().empty()) << "once";
  EXPECT_EQ(desk.figures().promised, 2u);
}

TEST_F(BeatDeskTest, AnswersThatPromiseNothingDoNotCount) {
  desk.BeginLife({"b", 6});
  desk.Connect("a", "a:1");
  desk.Answered(One(), Error(FsError::kNotReady), now);
  Pass(250);
  desk.Answered(One(), Promised(5), now);  // nobody says that in earnest
  Pass(250);
  desk.Answered(One(), Knows(6), now);
  EXPECT_EQ(desk.TakeHigherTerm(), 0u);
  Pass(250);
  desk.Answered(One(), Knows(7), now);
  EXPECT_EQ(desk.TakeHigherTerm(), 7u);
  EXPECT_TRUE(desk.TakePromises().empty());
}

TEST_F(BeatDeskTest, AnswersOfAnEarlierLifeOrDirectoryDoNotCount) {
  desk.BeginLife({"b", 6});
  desk.Connect("a", "a:1");
  const DueBeat early = One();
  desk.Connect("a", "a:1");  // another directory under this name
  desk.Answered(early, Promised(6), now);
  EXPECT_TRUE(desk.TakePromises().empty());
  const DueBeat of_six = One();
  desk.Answered(of_six, Promised(6), now);
  desk.BeginLife({"b", 8});
  EXPECT_TRUE(desk.TakePromises().empty()) << "it was promised to the life before";
  desk.Connect("a", "a:1");
  desk.Answered(of_six, Promised(6), now);
  EXPECT_TRUE(desk.TakePromises().empty());
  desk.Answered(One(), Promised(8), now);
  EXPECT_EQ(desk.TakePromises().size(), 1u);
  Pass(250);
  const DueBeat last = One();
  desk.Disconnect("a");
  desk.Answered(last, Promised(8), now);
  EXPECT_TRUE(desk.TakePromises().empty());
  Pass(250);
  EXPECT_TRUE(desk.Due(now).empty());
}

// Each may wait for as long as an answer is of use; no more are sent to one that does not answer.
TEST_F(BeatDeskTest, WhoDoesNotAnswerIsNotFlooded) {
  desk.BeginLife({"b", 6});
  desk.Connect("a", "a:1");
  std::vector<DueBeat> sent;
  for (int i = 0; i < 100; ++i) {
    for (DueBeat& beat : desk.Due(now)) sent.push_back(std::move(beat));
    Pass(250);
    desk.Tick(now);
  }
  EXPECT_LT(sent.size(), 20u);
  EXPECT_GE(sent.size(), 12u);
  desk.Answered(sent.front(), Error(FsError::kDeadline), now);
  EXPECT_EQ(desk.Due(now).size(), 1u);
}

// ---- The watchdog

TEST_F(BeatDeskTest, AHungLogicNeitherBeatsNorPromises) {
  Follow(5);
  BeatDesk primary("a", kTheirCluster, BeatOptions(), now);
  primary.BeginLife({"a", 5});
  primary.Connect("b", "b:1");
  for (int i = 0; i < 59; ++i) {  // less than 15 s
    const std::vector<DueBeat> due = primary.Due(now);
    ASSERT_EQ(due.size(), 1u) << i;
    primary.Answered(due.front(), desk.Answer(due.front().request, now), now);
    EXPECT_EQ(primary.TakePromises().size(), 1u) << i;
    Pass(250);
  }
  EXPECT_FALSE(desk.Hangs(now));
  Pass(250);
  EXPECT_TRUE(desk.Hangs(now));
  EXPECT_TRUE(primary.Due(now).empty());
  const int64_t last = desk.promises()->Last().at_ns;
  EXPECT_EQ(desk.Answer(BeatOf("a", 5, "b"), now).code(), FsError::kNotReady);
  EXPECT_EQ(desk.promises()->Last().at_ns, last);
  EXPECT_EQ(desk.figures().hangs, 1u);
  EXPECT_EQ(desk.Tick(now), 15 * kSecond);
  primary.Tick(now);
  EXPECT_EQ(primary.Due(now).size(), 1u);
  EXPECT_TRUE(desk.Answer(BeatOf("a", 5, "b"), now).ok());
  EXPECT_EQ(desk.figures().hangs, 1u);
  EXPECT_EQ(desk.figures().longest_step_ns, 15 * kSecond);
}

TEST_F(BeatDeskTest, WithoutAWatchdogAHungLogicBeats) {
  const ScopedSabotage on(Sabotage::kBeatForHung);
  desk.BeginLife({"b", 6});
  desk.Connect("a", "a:1");
  Pass(60'000);
  EXPECT_EQ(desk.Due(now).size(), 1u);
}

TEST_F(BeatDeskTest, WhenItsNodeIsGoneItDoesNothing) {
  Follow(5);
  desk.BeginLife({"b", 6});
  desk.Connect("a", "a:1");
  const DueBeat beat = One();
  desk.Close();
  desk.BeginLife({"b", 7});
  desk.Connect("a", "a:1");
  Pass(250);
  EXPECT_TRUE(desk.Due(now).empty());
  desk.Answered(beat, Promised(6), now);
  EXPECT_TRUE(desk.TakePromises().empty());
  EXPECT_EQ(desk.Answer(BeatOf("a", 5, "b"), now).code(), FsError::kNotReady);
}

TEST(Watchdog, IsNotShorterThanGrace) {
  EXPECT_TRUE(CheckWatchdog(5 * kSecond, 5 * kSecond).ok());
  const Result<void> no = CheckWatchdog(5 * kSecond, 4 * kSecond);
  ASSERT_FALSE(no.ok());
  EXPECT_NE(no.error().message.find("watchdog"), std::string::npos);
}

// ---- What the election does in one step, although beats come from another thread

TEST(Promises, CloseOnlyIfNothingWasPromisedLately) {
  Promises p(100);
  p.Open(5);
  EXPECT_EQ(p.OnBeat({"a", 5}, 200), BeatAnswer::kPromised);
  EXPECT_FALSE(p.CloseIfSilent(249, 50));
  EXPECT_EQ(p.OnBeat({"a", 5}, 200), BeatAnswer::kPromised);
  EXPECT_TRUE(p.CloseIfSilent(250, 50));
  EXPECT_EQ(p.OnBeat({"a", 5}, 260), BeatAnswer::kSilent);
  EXPECT_EQ(p.Last().at_ns, 200);
}

TEST(Promises, CloseOnlyIfTheLastWasToThatLife) {
  Promises p(100);
  p.Open(5);
  EXPECT_FALSE(p.CloseIfLastTo({"a", 5}));
  EXPECT_EQ(p.OnBeat({"a", 5}, 200), BeatAnswer::kPromised);
  EXPECT_FALSE(p.CloseIfLastTo({"a", 6}));
  EXPECT_EQ(p.OnBeat({"c", 7}, 210), BeatAnswer::kPromised);
  EXPECT_FALSE(p.CloseIfLastTo({"a", 5}));
  EXPECT_TRUE(p.CloseIfLastTo({"c", 7}));
  EXPECT_EQ(p.OnBeat({"c", 7}, 220), BeatAnswer::kSilent);
}

// ---- With real threads

constexpr int kRounds = 200;

// Answers beats until it is stopped.
class BeatingThread {
 public:
  explicit BeatingThread(BeatDesk* desk)
      : thread_([this, desk] {
          while (!stop_) {
            (void)desk->Answer(BeatOf("a", 5, "b"), ++clock);
            ++answered;
            std::this_thread::yield();
          }
        }) {}
  ~BeatingThread() {
    stop_ = true;
    thread_.join();
  }
  void WaitForMore(uint64_t more) const {
    for (const uint64_t until = answered + more; answered < until;) std::this_thread::yield();
  }

  std::atomic<int64_t> clock{1000};
  std::atomic<uint64_t> answered{0};

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TEST(BeatDeskThreads, NothingIsPromisedAfterTheElectionHasClosed) {
  for (int i = 0; i < kRounds; ++i) {
    BeatDesk desk("b", kTheirCluster, BeatOptions(), 0);
    desk.SetListed(true);
    desk.promises()->Open(5);
    BeatingThread beats(&desk);
    beats.WaitForMore(3);
    desk.promises()->Close();
    const int64_t last = desk.promises()->Last().at_ns;
    EXPECT_GT(last, 1000);
    beats.WaitForMore(10);
    EXPECT_EQ(desk.promises()->Last().at_ns, last);
  }
}

// As a standby does that becomes a candidate: either a beat was answered lately, or none is from now on.
TEST(BeatDeskThreads, WhoBecomesACandidateHasPromisedNothingLately) {
  constexpr int64_t kSilent = 3;
  int stood = 0;
  for (int i = 0; i < kRounds; ++i) {
    BeatDesk desk("b", kTheirCluster, BeatOptions(), 0);
    desk.SetListed(true);
    desk.promises()->Open(5);
    BeatingThread beats(&desk);
    for (int tries = 0; tries < 1000; ++tries) {
      const int64_t now = beats.clock + kSilent;  // ahead of what is answered meanwhile, or not
      if (!desk.promises()->CloseIfSilent(now, kSilent)) continue;
      ++stood;
      const int64_t last = desk.promises()->Last().at_ns;
      EXPECT_LE(last, now - kSilent);
      beats.WaitForMore(10);
      EXPECT_EQ(desk.promises()->Last().at_ns, last);
      break;
    }
  }
  EXPECT_GT(stood, 0);
}

TEST(BeatDeskThreads, NothingIsPromisedAfterTheDirectoryIsListedNoMore) {
  for (int i = 0; i < kRounds; ++i) {
    BeatDesk desk("b", kTheirCluster, BeatOptions(), 0);
    desk.SetListed(true);
    desk.promises()->Open(5);
    BeatingThread beats(&desk);
    beats.WaitForMore(3);
    desk.SetListed(false);
    const int64_t last = desk.promises()->Last().at_ns;
    beats.WaitForMore(10);
    EXPECT_EQ(desk.promises()->Last().at_ns, last);
  }
}

// What is taken was promised to the life, and to the members, of now.
TEST(BeatDeskThreads, LivesComeAndGoWhileBeatsAreAnswered) {
  BeatDesk desk("b", kTheirCluster, {.beat_ns = 0}, 0);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> answered{0};
  std::thread beats([&] {
    std::vector<DueBeat> late;
    for (int64_t now = 1; !stop; ++now) {
      std::vector<DueBeat> due = desk.Due(now);
      for (const DueBeat& beat : late) {
        desk.Answered(beat, Promised(beat.request.term), now);
        ++answered;
      }
      late = std::move(due);
      std::this_thread::yield();
    }
  });
  uint64_t taken = 0;
  const auto take = [&](const std::string& name) {
    for (const BeatPromise& p : desk.TakePromises()) {
      EXPECT_EQ(p.member, name);
      ++taken;
    }
  };
  for (uint64_t term = 1; term <= 500; ++term) {
    const std::string name = "m" + std::to_string(term);
    desk.BeginLife({"b", term});
    desk.Connect(name, name + ":1");
    for (const uint64_t until = answered + 2; answered < until;) {
      take(name);
      std::this_thread::yield();
    }
    take(name);
    desk.Tick(0);
    if (term % 3 == 0) desk.EndLife();
  }
  stop = true;
  beats.join();
  EXPECT_GT(taken, 0u);
}

}  // namespace
}  // namespace stria
