// Which of the answered changes are lost when the session or the server is, and which are durable.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "client/session/fake_meta.h"
#include "client/session/meta_session.h"
#include "common/exec/sim_run.h"

namespace stria {
namespace {

class SessionLossesTest : public ::testing::Test {
 public:
  SessionLossesTest() : ex(1, 4), meta(2), session(meta, Options()) {
    meta.SyncByItself(false);
    session.Start();
    EXPECT_TRUE(RunSim(ex, session.WaitReady()).ok());
  }
  static MetaSessionOptions Options() {
    MetaSessionOptions o;
    o.addresses = {"a"};
    o.client_uuid = Uuid{1, 2};
    return o;
  }
  // A change of the directory of that number.
  void Change(uint64_t dir) {
    NameRequest r;
    r.parent = InodeId(dir);
    r.name = std::to_string(dir);
    ASSERT_TRUE(RunSim(ex, session.Mutate(&MetaService::Unlink, std::move(r))).ok());
  }
  Result<void> Sync() { return RunSim(ex, session.MakeDurable(InodeId(1))); }
  // Those directories of 1 to 5 whose next sync fails.
  std::vector<uint64_t> Told() {
    std::vector<uint64_t> out;
    LostChanges& lost = session.lost_changes();
    for (uint64_t dir = 1; dir <= 5; ++dir) {
      if (!lost.Tell(InodeId(dir), lost.Mark()).ok()) out.push_back(dir);
    }
    return out;
  }
  // Twice, so that the server does not know what the first restart lost. The session has lapsed meanwhile.
  void RestartTwice() {
    meta.Lapse();
    meta.Restart(false);
    meta.Restart(false);
    meta.Lapse();
    ex.RunFor(20 * kSecond);
  }

  SimExecutor ex;
  FakeMeta meta;
  MetaSession session;
};

using Dirs = std::vector<uint64_t>;

TEST_F(SessionLossesTest, WhatOneSyncHasCoveredIsDurable) {
  Change(1);
  Change(2);
  ASSERT_TRUE(Sync().ok());
  RestartTwice();
  EXPECT_EQ(session.generation(), 1u);  // it has come back
  EXPECT_EQ(Told(), Dirs());
}

TEST_F(SessionLossesTest, WhatCameAfterItIsLost) {
  Change(1);
  ASSERT_TRUE(Sync().ok());
  Change(2);
  RestartTwice();
  EXPECT_EQ(session.generation(), 2u);
  EXPECT_EQ(Told(), Dirs{2});
  EXPECT_EQ(Told(), Dirs());
}

TEST_F(SessionLossesTest, ARefusedReplayIsTold) {
  Change(1);
  Change(2);
  meta.on_change = [](const std::string& name) { return name == "2" ? Error(FsError::kNoEnt, "fake") : Error(); };
  meta.Restart(false);
  ex.RunFor(20 * kSecond);
  EXPECT_EQ(session.generation(), 1u);
  EXPECT_EQ(Told(), Dirs{2});
}

// The same if the sync is under way during that restart.
TEST_F(SessionLossesTest, ASyncThatWasUnderWayIsTold) {
  Change(1);
  const uint64_t mark = session.lost_changes().Mark();
  meta.on_change = [](const std::string&) { return Error(FsError::kNoEnt, "fake"); };
  meta.Restart(false);
  ASSERT_TRUE(Sync().ok());
  EXPECT_FALSE(session.lost_changes().Tell(InodeId(5), mark).ok());
  EXPECT_EQ(Told(), Dirs{1});
}

TEST_F(SessionLossesTest, LostInTheMiddleOfAReplay) {
  for (const bool fenced : {true, false}) {
    SCOPED_TRACE(fenced ? "fenced" : "lapsed");
    const uint64_t generation = session.generation();
    for (uint64_t dir = 1; dir <= 3; ++dir) Change(dir);
    bool done = false;
    meta.on_change = [&](const std::string& name) {
      if (name != "2" || std::exchange(done, true)) return Error();
      if (fenced) meta.Fence();
      else meta.Lapse();
      return Error(fenced ? FsError::kFenced : FsError::kLapsed, "fake");
    };
    meta.Restart(false);
    ex.RunFor(30 * kSecond);
    meta.on_change = nullptr;
    EXPECT_TRUE(done);
    EXPECT_EQ(session.generation(), generation + 1);
    EXPECT_EQ(Told(), (Dirs{2, 3}));  // the first was said again in this life, which has it
    ASSERT_TRUE(Sync().ok());
  }
}

// In a life that has had fewer changes than the one before nothing counts as durable that is not.
TEST_F(SessionLossesTest, NumbersOfAFormerLifeMeanNothing) {
  meta.Advance(1000);
  meta.Sync();
  meta.SyncByItself(true);
  ex.RunFor(10 * kSecond);  // a renewal tells
  meta.SyncByItself(false);
  const CommitSeq before = session.durable_seq();
  EXPECT_GT(before.v, 1000u);
  meta.Restart(false);
  meta.GoBackTo(100);
  ex.RunFor(10 * kSecond);
  Change(1);
  EXPECT_LT(meta.seq(), before);
  RestartTwice();
  EXPECT_EQ(Told(), Dirs{1});
}

}  // namespace
}  // namespace stria
