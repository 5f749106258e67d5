#include "client/vfs/turns.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "common/exec/sim_run.h"

namespace stria {
namespace {

constexpr int64_t kTimeoutNs = 10 * kSecond;

class TurnsTest : public ::testing::Test {
 public:
  TurnsTest() : ex(1), file(std::make_shared<InodeTurns>(InodeId(3))), room(kTimeoutNs, [this] { return answer; }) {}
  ~TurnsTest() override { scope.CancelAll(); }

  Task<void> Hold(const char* what, int64_t ns) {
    const auto held = co_await room.Take(file, &InodeTurns::open_mu, what);
    got.push_back(held.ok() ? what : "nothing");
    if (held.ok()) co_await Sleep(ns);
  }
  static Task<void> For(int64_t ns) { co_await Sleep(ns); }

  SimExecutor ex;
  bool answer = true;
  std::vector<std::string> got;
  InodeTurnsPtr file;
  TaskScope scope;
  Turns room;
};

TEST_F(TurnsTest, OneAfterAnother) {
  scope.Spawn(Hold("open", kSecond));
  scope.Spawn(Hold("clone", kSecond));
  RunSim(ex, For(kMillisecond));
  EXPECT_STREQ(file->open_mu.held_for(), "open");
  EXPECT_TRUE(file->waited_for());
  RunSim(ex, For(kSecond + kSecond / 2));
  EXPECT_STREQ(file->open_mu.held_for(), "clone");
  EXPECT_TRUE(file->in_use());
  RunSim(ex, scope.Join());
  EXPECT_FALSE(file->in_use());
  EXPECT_EQ(got, (std::vector<std::string>{"open", "clone"}));
}

// A recall ends when its bytes are written, however long that takes.
TEST_F(TurnsTest, WhileServersAnswerItIsWaitedFor) {
  scope.Spawn(Hold("recall", 10 * kTimeoutNs));
  scope.Spawn(Hold("open", 0));
  RunSim(ex, scope.Join());
  EXPECT_EQ(got, (std::vector<std::string>{"recall", "open"}));
}

TEST_F(TurnsTest, WhileServersAreSilentNobodyWaitsForLonger) {
  scope.Spawn(Hold("recall", 10 * kTimeoutNs));
  RunSim(ex, For(kMillisecond));
  answer = false;
  EXPECT_EQ(RunSim(ex, room.Take(file, &InodeTurns::open_mu, "open")).code(), FsError::kTimedOut);
  EXPECT_FALSE(file->waited_for());
}

TEST_F(TurnsTest, NoWriteStartsDuringACut) {
  ASSERT_TRUE(RunSim(ex, room.WritesMayStart(file)).ok());
  std::optional<NoWrites> first(file), second(file);
  scope.Spawn([](TurnsTest* t) -> Task<void> {
    if ((co_await t->room.WritesMayStart(t->file)).ok()) t->got.push_back("write");
  }(this));
  RunSim(ex, For(kMillisecond));
  first.reset();
  RunSim(ex, For(3 * kTimeoutNs));
  EXPECT_TRUE(got.empty());
  EXPECT_TRUE(file->being_cut());
  second.reset();
  RunSim(ex, scope.Join());
  EXPECT_EQ(got, std::vector<std::string>{"write"});
  EXPECT_FALSE(file->in_use());
}

TEST_F(TurnsTest, NorForEver) {
  const NoWrites cut(file);
  answer = false;
  EXPECT_EQ(RunSim(ex, room.WritesMayStart(file)).code(), FsError::kTimedOut);
}

TEST_F(TurnsTest, ARecallSaysWhatItIsAt) {
  {
    const InodeTurns::Recalling recalling(file.get());
    DemandStep step = file->BeginDemand();
    EXPECT_EQ(file->demand_at(), DemandAt::kLeaseMu);
    step.At(DemandAt::kKernel);
    EXPECT_EQ(file->demand_at(), DemandAt::kKernel);
    EXPECT_TRUE(file->in_use());
  }
  EXPECT_EQ(file->demand_at(), DemandAt::kNowhere);
  EXPECT_FALSE(file->in_use());
}

}  // namespace
}  // namespace stria
