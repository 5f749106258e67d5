#include "tools/cli/mounts.h"

#include <gtest/gtest.h>

namespace stria::cli {
namespace {

constexpr char kText[] =
    "22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
    "80 22 0:50 / /data rw,nosuid shared:40 master:3 - fuse.stria stria:10.0.0.1:7000+10.0.0.2:7000 "
    "rw,user_id=0\n"
    "81 80 0:51 / /data/my\\040files rw - fuse.stria stria:[::1]:9:/sub/dir rw\n"
    "84 22 0:54 / /plain rw - fuse.stria pc1:/atlas rw\n"
    "82 22 0:52 / /other rw - fuse.sshfs pc:/ rw\n"
    "83 22 0:53 / /cut rw -\n"
    "rubbish\n";

TEST(Mounts, Parse) {
  const auto mounts = ParseMountInfo(kText);
  ASSERT_EQ(mounts.size(), 3u);
  EXPECT_EQ(mounts[0], (StriaMount{"/data", {"10.0.0.1:7000", "10.0.0.2:7000"}}));
  EXPECT_EQ(mounts[1], (StriaMount{"/data/my files", {"[::1]:9"}}));
  EXPECT_EQ(mounts[2], (StriaMount{"/plain", {"pc1"}}));
}

TEST(Mounts, InnermostCounts) {
  const auto mounts = ParseMountInfo(kText);
  EXPECT_EQ(MountOf(mounts, "/data"), &mounts[0]);
  EXPECT_EQ(MountOf(mounts, "/data/x"), &mounts[0]);
  EXPECT_EQ(MountOf(mounts, "/data/my files/x"), &mounts[1]);
  EXPECT_EQ(MountOf(mounts, "/database"), nullptr);
  EXPECT_EQ(MountOf(mounts, "/"), nullptr);
}

TEST(Mounts, Addresses) {
  EXPECT_EQ(SplitAddresses("a:1,,b:2,"), (std::vector<std::string>{"a:1", "b:2"}));
  EXPECT_TRUE(SplitAddresses("").empty());
}

TEST(Mounts, UnmountingNothingIsFine) { EXPECT_TRUE(Unmount("/nonexistent-mount-point", false).ok()); }

}  // namespace
}  // namespace stria::cli
