#include "meta/disk_room.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "common/exec/sim_run.h"
#include "common/temp_dir.h"

namespace stria {
namespace {

TEST(DiskRoomTest, HoldsAReserveOnAnOrdinaryDisk) {
  SimExecutor ex(1);
  TempDir dir;
  DiskRoom room(dir.path());
  ASSERT_TRUE(RunSim(ex, [](DiskRoom* r) -> Task<Result<void>> { co_return r->Open(); }(&room)).ok());
  if (!room.held()) GTEST_SKIP() << "this machine's own disk is full";
  EXPECT_EQ(std::filesystem::file_size(dir.path() + "/reserve/bytes"), ReserveBytes(room.total_bytes()));
  EXPECT_FALSE(std::filesystem::exists(dir.path() + "/reserve.try"));
  EXPECT_EQ(std::filesystem::file_size(dir.path() + "/reserve.start/bytes"), 4 * MarginBytes(room.total_bytes()));
  // It is there at the next start, and so is what it keeps.
  DiskRoom again(dir.path());
  ASSERT_TRUE(RunSim(ex, [](DiskRoom* r) -> Task<Result<void>> { co_return r->Open(); }(&again)).ok());
  EXPECT_TRUE(again.held());
}

}  // namespace
}  // namespace stria
