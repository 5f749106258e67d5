#include "client/vfs/made_ahead.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "common/exec/sim_run.h"

namespace stria {
namespace {

constexpr InodeId kDir{2};
constexpr InodeId kOther{3};

Caller User(uint32_t uid, uint32_t gid, std::vector<uint32_t> groups = {}) {
  Caller who;
  who.uid = uid;
  who.gid = gid;
  who.groups = std::move(groups);
  return who;
}

// A server that answers what it was told to, or takes the file.
class MadeAheadTest : public ::testing::Test {
 public:
  MadeAheadTest() : ex(1), room(true, Needs(), counters, scope) {}
  ~MadeAheadTest() override { scope.CancelAll(); }

  MadeAheadNeeds Needs() {
    MadeAheadNeeds needs;
    needs.now_is = [this] { return now_is; };
    needs.tell = [this](InodeMadePtr of, bool durable) -> Task<void> {
      told.push_back(room.BeginTelling(*of));
      told_durable.push_back(durable);
      ++calls;
      EXPECT_EQ(calls, 1);  // one at a time, of one file
      co_await Sleep(kMillisecond);
      --calls;
      Error error;
      if (!answers.empty()) {
        error = answers.front();
        answers.pop_front();
      }
      outcomes.push_back(room.Answered(of, error, /*bare=*/true));
    };
    needs.lost = [this](const InodeMadePtr&, const MadeFile& file) { lost.push_back(file.name); };
    needs.maybe_unused = [this](const InodeMadePtr&) { ++unused; };
    needs.pause_ended = [this](InodeId dir) { pause_ended.push_back(dir); };
    return needs;
  }

  InodeMadePtr Make(const std::string& name, InodeId dir = kDir) {
    if (!room.NumbersLeft()) room.TakeNumbers(InodeId(100), 64, "proof", /*sets=*/true);
    EXPECT_TRUE(room.MayMakeIn(dir) && room.HasRoom());
    const auto of = std::make_shared<InodeMade>(room.TakeNumber().ino);
    MadeFile file;
    file.parent = dir;
    file.name = name;
    file.made_ns = ex.WallNs();
    room.Add(of, std::move(file), User(1000, 1000));
    return of;
  }
  static Task<void> For(int64_t ns) { co_await Sleep(ns); }

  SimExecutor ex;
  IoCounters counters;
  std::pair<uint64_t, uint64_t> now_is{1, 1};
  std::deque<Error> answers;
  std::vector<MadeFile> told;
  std::vector<bool> told_durable;
  std::vector<MadeAhead::Outcome> outcomes;
  std::vector<std::string> lost;
  std::vector<InodeId> pause_ended;
  int calls = 0, unused = 0;
  TaskScope scope;
  MadeAhead room;
};

TEST_F(MadeAheadTest, TheServerIsToldSoonByItself) {
  const auto file = Make("a");
  ASSERT_NE(room.Unknown(kDir), nullptr);
  EXPECT_EQ(room.Unknown(kDir)->files.size(), 1u);
  RunSim(ex, For(kSecond / 10));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].name, "a");
  EXPECT_FALSE(file->in_use());
  EXPECT_TRUE(room.empty());
  EXPECT_EQ(room.Unknown(kDir), nullptr);
}

// Many may ask for it at once: one call tells, and all wait for that.
TEST_F(MadeAheadTest, OneCallTellsForAllThatWait) {
  const auto file = Make("a");
  scope.Spawn([](MadeAheadTest* t, InodeMadePtr of) -> Task<void> {
    EXPECT_TRUE((co_await t->room.Tell(of, true)).ok());
  }(this, file));
  ASSERT_TRUE(RunSim(ex, room.Tell(file, false)).ok());
  ASSERT_TRUE(RunSim(ex, room.Tell(file, false)).ok());  // it knows
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(told_durable[0]);
}

TEST_F(MadeAheadTest, WhoeverNamesTheFileOrItsDirectoryTellsFirst) {
  const auto a = Make("a");
  const auto b = Make("b", kOther);
  EXPECT_FALSE(room.TellBefore({InodeId(55), InodeId()}));
  auto of_dir = room.TellBefore({kDir, InodeId()});
  ASSERT_TRUE(of_dir);
  ASSERT_TRUE(RunSim(ex, std::move(*of_dir)).ok());
  EXPECT_FALSE(a->file());
  EXPECT_TRUE(b->file());
  auto of_file = room.TellBefore({b->ino(), InodeId()});
  ASSERT_TRUE(of_file);
  ASSERT_TRUE(RunSim(ex, std::move(*of_file)).ok());
  EXPECT_TRUE(room.empty());
}

// An answer that is not the last word leaves the file to be told of again; who waited for that one is told of it.
TEST_F(MadeAheadTest, WhatMayBeTriedAgainIs) {
  const auto file = Make("a");
  answers.push_back(Error(FsError::kTimedOut));
  EXPECT_EQ(RunSim(ex, room.Tell(file, false)).code(), FsError::kTimedOut);
  EXPECT_TRUE(file->file());
  EXPECT_TRUE(file->tried_to_tell());
  RunSim(ex, For(3 * kSecond));
  EXPECT_EQ(told.size(), 2u);
  EXPECT_FALSE(file->file());
  EXPECT_EQ(outcomes, (std::vector{MadeAhead::Outcome::kAgain, MadeAhead::Outcome::kKnown}));
}

TEST_F(MadeAheadTest, WhatCannotBeMadeSaysWhy) {
  const auto file = Make("a");
  answers.push_back(Error(FsError::kAccess, "no"));
  EXPECT_EQ(RunSim(ex, room.Tell(file, false)).code(), FsError::kIo);
  EXPECT_EQ(lost, std::vector<std::string>{"a"});
  EXPECT_FALSE(file->lost().ok());
  EXPECT_FALSE(file->in_use());
  EXPECT_TRUE(room.empty());
}

// That one cannot be made is its own affair, not of a call that names its directory.
TEST_F(MadeAheadTest, ADirectoryIsToldOfThoseThatCanBeMade) {
  Make("a");
  RunSim(ex, For(0));
  answers.push_back(Error(FsError::kAccess));
  EXPECT_TRUE(RunSim(ex, room.TellIn(kDir)).ok());
  EXPECT_TRUE(room.empty());
}

// A commit that also brings bytes may be refused for the bytes' sake.
TEST_F(MadeAheadTest, ARefusalOfBytesIsNoRefusalOfTheFile) {
  const auto file = Make("a");
  (void)room.BeginTelling(*file);
  EXPECT_EQ(room.Answered(file, Error(FsError::kTooBig), /*bare=*/false), MadeAhead::Outcome::kAgain);
  EXPECT_TRUE(file->file());
  (void)room.BeginTelling(*file);
  EXPECT_EQ(room.Answered(file, Error(FsError::kTooBig), /*bare=*/true), MadeAhead::Outcome::kLost);
}

TEST_F(MadeAheadTest, WithItsSessionItIsLost) {
  const auto file = Make("a");
  scope.Spawn([](MadeAheadTest* t, InodeMadePtr of) -> Task<void> {
    co_await Sleep(kMillisecond / 2);
    t->room.LoseAll(*of, Error(FsError::kIo, "session"));
  }(this, file));
  EXPECT_EQ(RunSim(ex, room.Tell(file, false)).error().message, "session");
  EXPECT_EQ(outcomes, std::vector{MadeAhead::Outcome::kGone});
  EXPECT_TRUE(room.empty());
  EXPECT_FALSE(file->in_use());
}

TEST_F(MadeAheadTest, WhileADirectoryChangesNoneIsMadeThere) {
  {
    const MadeAhead::Pause pause(&room, kDir);
    const MadeAhead::Pause again(&room, kDir);
    EXPECT_FALSE(room.MayMakeIn(kDir));
    EXPECT_TRUE(room.MayMakeIn(kOther));
  }
  EXPECT_TRUE(room.MayMakeIn(kDir));
  {
    const MadeAhead::Pause any(&room, std::nullopt);
    EXPECT_FALSE(room.MayMakeIn(kDir));
    const MadeAhead::Pause none(&room, InodeId());
  }
  EXPECT_TRUE(room.MayMakeIn(kDir));
  EXPECT_EQ(pause_ended, (std::vector{kDir, kDir, InodeId()}));
}

TEST_F(MadeAheadTest, NumbersAreOfOneSessionAndTerm) {
  EXPECT_FALSE(room.HasRoom());
  room.TakeNumbers(InodeId(100), 2, "first", false);
  EXPECT_EQ(room.TakeNumber().ino, InodeId(100));
  now_is = {1, 2};
  EXPECT_FALSE(room.HasRoom());
  room.TakeNumbers(InodeId(200), 1, "second", false);
  const MadeAhead::Number last = room.TakeNumber();
  EXPECT_EQ(last.ino, InodeId(200));
  EXPECT_EQ(last.proof, "second");
  EXPECT_FALSE(room.HasRoom());
}

TEST_F(MadeAheadTest, TheSecondInARowAsks) {
  EXPECT_FALSE(room.Wants(kDir));
  room.NoteMade(kDir);
  EXPECT_TRUE(room.Wants(kDir));
  room.NoteMade(kOther);
  EXPECT_FALSE(room.Wants(kDir));
}

// Mode, owners and times go with the file; what is not sure the server decides.
TEST_F(MadeAheadTest, ItsMakerMayChangeWhatIsTold) {
  const auto file = Make("a");
  Attr attr;
  attr.uid = attr.gid = 1000;
  const Caller maker = User(1000, 1000);
  EXPECT_TRUE(room.MayChange(*file, maker, attr, 0600, {}, {}));
  EXPECT_FALSE(room.MayChange(*file, maker, attr, 04755, {}, {}));
  EXPECT_FALSE(room.MayChange(*file, maker, attr, {}, 0, {}));
  EXPECT_FALSE(room.MayChange(*file, maker, attr, {}, {}, 7));
  EXPECT_FALSE(room.MayChange(*file, User(1001, 1000), attr, 0600, {}, {}));
  room.Change(*file).mode = 0600;
  ASSERT_TRUE(RunSim(ex, room.Tell(file, false)).ok());
  ASSERT_TRUE(told[0].set);
  EXPECT_EQ(told[0].set->mode, 0600u);
}

TEST_F(MadeAheadTest, WhoMayCreate) {
  Attr dir;
  dir.nlink = 2;
  dir.mode = 0730;
  dir.uid = 1;
  dir.gid = 5;
  EXPECT_TRUE(MadeAhead::SurelyMayCreate(User(0, 0), dir));
  EXPECT_TRUE(MadeAhead::SurelyMayCreate(User(1, 1), dir));
  EXPECT_TRUE(MadeAhead::SurelyMayCreate(User(2, 2, {5}), dir));
  EXPECT_FALSE(MadeAhead::SurelyMayCreate(User(2, 2), dir));
  dir.acls = 1;
  EXPECT_FALSE(MadeAhead::SurelyMayCreate(User(0, 0), dir));
}

}  // namespace
}  // namespace stria
