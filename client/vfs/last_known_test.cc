#include "client/vfs/last_known.h"

#include <gtest/gtest.h>

#include "common/exec/sim_run.h"

namespace stria {
namespace {

constexpr InodeId kDir{5};

class LastKnownTest : public ::testing::Test {
 protected:
  LastKnownTest() : ex(1), attrs(100), entries(100) {
    Attr dir;
    dir.ino = kDir;
    dir.type = FileType::kDirectory;
    attrs.Remember(dir, 1);
  }

  std::unique_ptr<LastKnown> Room(bool shows) {
    LastKnownNeeds needs;
    needs.lease_left_ns = [this] { return lease_until_ns - ex.NowNs(); };
    needs.generation = [] { return uint64_t{1}; };
    needs.statfs = [this](Caller) -> Task<Result<StatFsReply>> {
      ++asked;
      if (silent) co_await Sleep(3600 * kSecond);
      co_return statfs;
    };
    return std::make_unique<LastKnown>(shows, std::move(needs), attrs, entries);
  }

  static Task<Result<NodeReply>> Silent(FsError with, int64_t after_ns) {
    co_await Sleep(after_ns);
    co_return Error(with);
  }
  static Task<void> Later() { co_await Sleep(kSecond); }
  static ReadDirReply ListingOf(std::vector<std::string> names, bool end) {
    ReadDirReply out;
    out.end = end;
    for (auto& name : names) {
      DirEntry e;
      e.name = std::move(name);
      e.cookie = out.entries.size() + 1;
      out.entries.push_back(std::move(e));
    }
    return out;
  }

  SimExecutor ex;
  int64_t lease_until_ns = 15 * kSecond;
  int asked = 0;
  bool silent = false;
  StatFsReply statfs;
  AttrCache attrs;
  EntryCache entries;
};

TEST_F(LastKnownTest, ADirectoryIsShownOnceTheServersAreGone) {
  const auto room = Room(true);
  const auto shown = RunSim(ex, room->Or(Silent(FsError::kTimedOut, 600 * kSecond), room->Directory(kDir)));
  ASSERT_TRUE(shown.ok());
  EXPECT_EQ(shown->attr.ino, kDir);
  EXPECT_GT(ex.NowNs(), lease_until_ns);
}

TEST_F(LastKnownTest, AServersAnswerCounts) {
  const auto room = Room(true);
  const auto answer = RunSim(ex, room->Or(Silent(FsError::kStale, kSecond), room->Directory(kDir)));
  EXPECT_EQ(answer.code(), FsError::kStale);
}

TEST_F(LastKnownTest, NothingIsShownUnlessAskedFor) {
  const auto room = Room(false);
  EXPECT_FALSE(room->Directory(kDir));
  const auto answer = RunSim(ex, room->Or(Silent(FsError::kTimedOut, 600 * kSecond), room->Directory(kDir)));
  EXPECT_EQ(answer.code(), FsError::kTimedOut);
}

TEST_F(LastKnownTest, OnlyWholeListingsAreKept) {
  const auto room = Room(true);
  room->NoteListing(kDir, 0, ListingOf({"a", "b", "c"}, /*end=*/false));
  EXPECT_FALSE(room->Listing(kDir, 0));
  room->NoteListing(kDir, 0, ListingOf({"a", "b", "c"}, /*end=*/true));
  ASSERT_TRUE(room->Listing(kDir, 0));
  EXPECT_EQ(room->Listing(kDir, 0)->entries.size(), 3u);
  EXPECT_EQ(room->Listing(kDir, 2)->entries.size(), 1u);  // behind the cookie
  room->NoteListing(kDir, 2, ListingOf({"c"}, /*end=*/true));
  EXPECT_TRUE(room->Listing(kDir, 0)) << "a part from the middle says nothing of the whole";
  room->NoteListing(kDir, 0, ListingOf({"a", "b", "c"}, /*end=*/false));
  EXPECT_FALSE(room->Listing(kDir, 0));
  room->NoteListing(kDir, 0, ListingOf({"a", "b", "c"}, /*end=*/true));
  room->Forget();
  EXPECT_FALSE(room->Listing(kDir, 0));
}

TEST_F(LastKnownTest, StatFsOfAMomentAgoIsNotAskedAgain) {
  const auto room = Room(false);
  ASSERT_TRUE(RunSim(ex, room->StatFs(Caller())).ok());
  ASSERT_TRUE(RunSim(ex, room->StatFs(Caller())).ok());
  EXPECT_EQ(asked, 1);
}

TEST_F(LastKnownTest, StatFsDoesNotWaitForSilentServers) {
  const auto room = Room(true);
  statfs.total_bytes = 77;
  ASSERT_TRUE(RunSim(ex, room->StatFs(Caller())).ok());
  RunSim(ex, Later());
  silent = true;
  const auto shown = RunSim(ex, room->StatFs(Caller()));
  ASSERT_TRUE(shown.ok());
  EXPECT_EQ(shown->total_bytes, 77u);
  EXPECT_EQ(asked, 2);
}

}  // namespace
}  // namespace stria
