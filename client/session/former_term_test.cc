// An old copy of the metadata is served beside the right one: the session does not listen to it.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "client/session/fake_meta.h"
#include "client/session/meta_session.h"
#include "common/exec/sim_run.h"
#include "common/sabotage_testing.h"

namespace stria {
namespace {

class FormerTermTest : public testing::Test {
 protected:
  FormerTermTest() : ex(1, 4), meta(3), session(meta, Options()) {
    SessionHandlers h;
    h.on_reclaimed = [this](bool lost) -> Task<void> {
      losses += lost;
      co_return;
    };
    session.SetHandlers(std::move(h));
    session.Start();
  }
  static MetaSessionOptions Options() {
    MetaSessionOptions o;
    o.addresses = {"a", "former"};
    o.client_uuid = Uuid{1, 2};
    o.try_timeout_ns = 2 * kSecond;
    return o;
  }
  Result<NodeReply> Unlink() {
    NameRequest r;
    r.name = "x";
    return RunSim(ex, session.Mutate(&MetaService::Unlink, std::move(r)));
  }
  // The right server has restarted, and the session knows.
  void Begin() {
    ASSERT_TRUE(RunSim(ex, session.WaitReady()).ok());
    meta.Restart(false);
    ASSERT_TRUE(ex.RunUntil([this] { return session.term() == 2; }, ex.NowNs() + 60 * kSecond));
    ASSERT_TRUE(Unlink().ok());
  }

  SimExecutor ex;
  FakeMeta meta;
  int losses = 0;
  MetaSession session;
};

TEST_F(FormerTermTest, IsRefusedAndTheSessionGoesOnAfterwards) {
  Begin();
  meta.faults.down = true;
  ex.RunFor(40 * kSecond);
  EXPECT_GT(meta.former_answers(), 5u);
  EXPECT_EQ(session.term(), 2u);
  EXPECT_LE(session.LeaseLeftNs(), 0);
  EXPECT_EQ(session.generation(), 1u);
  meta.faults.down = false;
  ASSERT_TRUE(Unlink().ok());
  ex.RunFor(10 * kSecond);
  EXPECT_GT(session.LeaseLeftNs(), 0);
  EXPECT_EQ(losses, 0);
  EXPECT_EQ(meta.log().size(), 2u);
}

// Also by a session that has to be opened afresh.
TEST_F(FormerTermTest, OpensNoSession) {
  Begin();
  meta.Fence();
  meta.refuses_opens = Error(FsError::kUnavailable, "not now");
  ex.RunFor(30 * kSecond);
  EXPECT_GT(meta.former_answers(), 0u);
  EXPECT_TRUE(session.fenced());
  EXPECT_EQ(session.term(), 2u);
  meta.refuses_opens = Error();
  ex.RunFor(30 * kSecond);
  EXPECT_TRUE(Unlink().ok());
  EXPECT_EQ(losses, 1);
}

TEST_F(FormerTermTest, RequestsSayWhichLifeWasSeenAndProveIt) {
  Begin();
  ex.RunFor(20 * kSecond);
  EXPECT_EQ(meta.heard(), (SaidTerm{2, 1002}));
}

// The checks above see a session that listens to whoever answers.
TEST_F(FormerTermTest, WouldBeBelievedOtherwise) {
  const ScopedSabotage bug(Sabotage::kIgnoreTerms);
  Begin();
  meta.faults.down = true;
  ex.RunFor(40 * kSecond);
  EXPECT_EQ(session.term(), 1u);
}

}  // namespace
}  // namespace stria
