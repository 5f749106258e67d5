// The beats of a primary to a standby, in virtual time.
#include "meta/replica/beats/beat_sender.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/exec/sim_run.h"

namespace stria {
namespace {

constexpr Uuid kTheirCluster{1, 2};

// A member's answers, on their way.
class FarService final : public BeatService {
 public:
  explicit FarService(std::shared_ptr<BeatDesk> desk) : there_(std::move(desk)) {}
  Task<Result<BeatReply>> Beat(BeatRequest request) override {
    ++calls;
    if (lost) co_await Sleep(60 * kSecond);
    co_await Sleep(delay_ns);
    Result<BeatReply> reply = co_await there_.Beat(std::move(request));
    co_await Sleep(delay_ns);
    co_return reply;
  }
  int calls = 0;
  bool lost = false;
  int64_t delay_ns = 100 * kMillisecond;

 private:
  BeatAnswerer there_;
};

class FarConnector final : public BeatConnector {
 public:
  std::shared_ptr<BeatService> ConnectBeats(const std::string& address) override { return at.at(address); }
  std::map<std::string, std::shared_ptr<FarService>> at;
};

class BeatSenderTest : public testing::Test {
 protected:
  BeatSenderTest() {
    connector.at["b:1"] = far;
    standby->SetListed(true);
    standby->promises()->Open(5);
    primary->BeginLife({"a", 5});
    primary->Connect("b", "b:1");
    scope.Spawn(sender.Run());
  }
  // The logic of both ticks meanwhile.
  void Live(int64_t ns) {
    for (const int64_t until = ex.NowNs() + ns; ex.NowNs() < until;) {
      primary->Tick(ex.NowNs());
      standby->Tick(ex.NowNs());
      ex.RunFor(50 * kMillisecond);
    }
  }

  SimExecutor ex{1};
  std::shared_ptr<BeatDesk> primary = std::make_shared<BeatDesk>("a", kTheirCluster, BeatOptions(), ex.NowNs());
  std::shared_ptr<BeatDesk> standby = std::make_shared<BeatDesk>("b", kTheirCluster, BeatOptions(), ex.NowNs());
  std::shared_ptr<FarService> far = std::make_shared<FarService>(standby);
  FarConnector connector;
  std::vector<std::string> alarms;
  BeatSender sender{primary, &connector, [this](const std::string& text) { alarms.push_back(text); }};
  TaskScope scope;
};

TEST_F(BeatSenderTest, BeatsAndTakesPromises) {
  Live(2 * kSecond);
  EXPECT_GE(far->calls, 6);
  EXPECT_LE(far->calls, 9);
  const std::vector<BeatPromise> promises = primary->TakePromises();
  ASSERT_EQ(promises.size(), 1u);
  EXPECT_EQ(promises[0].heard_ns - promises[0].sent_ns, 200 * kMillisecond);
  EXPECT_EQ(standby->promises()->Last().to, (MetaLife{"a", 5}));
  EXPECT_TRUE(alarms.empty());
}

TEST_F(BeatSenderTest, AnswersThatDoNotComeAreGivenUp) {
  far->lost = true;
  Live(20 * kSecond);
  EXPECT_GE(far->calls, 60) << "it goes on";
  EXPECT_TRUE(primary->TakePromises().empty());
  far->lost = false;
  Live(kSecond);
  EXPECT_EQ(primary->TakePromises().size(), 1u);
}

TEST_F(BeatSenderTest, WhenTheLogicHangsItSaysSoOnceAndIsSilent) {
  Live(kSecond);
  ex.RunFor(20 * kSecond);  // nobody ticks
  const int calls = far->calls;
  ex.RunFor(5 * kSecond);
  EXPECT_EQ(far->calls, calls);
  ASSERT_EQ(alarms.size(), 1u);
  EXPECT_NE(alarms[0].find("15 s"), std::string::npos) << alarms[0];
  (void)primary->TakePromises();
  Live(kSecond);
  EXPECT_GT(far->calls, calls);
  EXPECT_EQ(primary->TakePromises().size(), 1u);
  EXPECT_EQ(alarms.size(), 1u);
}

}  // namespace
}  // namespace stria
