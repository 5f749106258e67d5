#include "client/fuse/fuse_times.h"

#include <gtest/gtest.h>
#include <linux/fuse.h>

#include <set>
#include <string>

namespace stria {
namespace {

TEST(FuseTimes, ByKind) {
  FuseTimes times;
  times.Add(FUSE_MKDIR, 1 * kMillisecond);
  times.Add(FUSE_CREATE, 2 * kMillisecond);
  times.Add(FUSE_RENAME2, 3 * kMillisecond);
  times.Add(60000, 4 * kMillisecond);
  EXPECT_EQ(times.of(FuseKind::kCreate).count(), 2u);
  EXPECT_EQ(times.of(FuseKind::kCreate).sum_ns(), static_cast<uint64_t>(3 * kMillisecond));
  EXPECT_EQ(times.of(FuseKind::kRename).count(), 1u);
  EXPECT_EQ(times.of(FuseKind::kOther).count(), 1u);
  EXPECT_EQ(times.of(FuseKind::kRead).count(), 0u);
}

TEST(FuseTimes, NamesAreAllDifferent) {
  EXPECT_EQ(std::set<std::string>(kFuseKindNames.begin(), kFuseKindNames.end()).size(), kFuseKindNames.size());
  EXPECT_STREQ(kFuseKindNames[static_cast<size_t>(FuseKind::kXattr)], "xattr");
  EXPECT_STREQ(kFuseKindNames[static_cast<size_t>(FuseKind::kOther)], "other");
  EXPECT_STREQ(kFuseKindNames[static_cast<size_t>(FuseKind::kRead)], "read");
}

}  // namespace
}  // namespace stria
