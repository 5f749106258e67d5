// How the doctor finds the cluster of a machine on which nobody names one.
#include "tools/cli/doctor/ways.h"

#include <gtest/gtest.h>

namespace stria::cli::doctor {
namespace {

using Metas = std::vector<std::string>;
constexpr char kFile[] = "/etc/stria/data.toml";

TEST(WaysToCluster, NothingTells) { EXPECT_TRUE(WaysToCluster({}, kFile, "", {}, ParseMountLines("LABEL=d1 /srv/d1 ext4 noatime 0 2\n")).empty()); }

TEST(WaysToCluster, TheDataServerFirst) {
  const std::vector<Way> ways = WaysToCluster({"pc1", "pc2:9"}, kFile, "/t/data", {{"/data", {"pc5:7424"}}}, {});
  ASSERT_EQ(ways.size(), 2u);
  EXPECT_EQ(ways[0], (Way{kFile, {"pc1:7424", "pc2:9"}, "/t/data", ""}));
  EXPECT_EQ(ways[1], (Way{"the mount /data", {"pc5:7424"}, "", "/data"}));
}

TEST(WaysToCluster, OfSeveralMountsTheLastOne) {
  const std::vector<Way> ways = WaysToCluster({}, kFile, "", {{"/old", {"pc9:7424"}}, {"/data", {"pc1:7424"}}}, {});
  ASSERT_EQ(ways.size(), 2u);
  EXPECT_EQ(ways[0].near, "/data");
  EXPECT_EQ(ways[1].near, "/old");
}

TEST(WaysToCluster, OneOfEachCluster) {
  const std::vector<StriaMount> mounts = {{"/a", {"pc1:7424", "pc2:7424"}}, {"/b", {"pc2", "pc1"}}};
  const std::vector<Way> ways = WaysToCluster({}, kFile, "", mounts, ParseMountLines("pc2,pc1:/ /c fuse.stria ro 0 0\n"));
  ASSERT_EQ(ways.size(), 1u);
  EXPECT_EQ(ways[0].near, "/b");
}

TEST(WaysToCluster, CredentialsOfTheMountsLine) {
  const auto fstab = ParseMountLines(
      "pc1:/  /data  fuse.stria  _netdev,trust=/a,nofail,trust=/srv/trust  0 0\npc7:/x /other fuse.stria trust=/b 0 0\n/dev/sdb /data ext4 trust=/c 0 0\n");
  std::vector<Way> ways = WaysToCluster({}, kFile, "", {{"/data", {"pc1:7424"}}}, fstab);
  ASSERT_EQ(ways.size(), 2u);
  EXPECT_EQ(ways[0], (Way{"the mount /data", {"pc1:7424"}, "/srv/trust", "/data"}));
  EXPECT_EQ(ways[1], (Way{"/etc/fstab for /other", {"pc7:7424"}, "/b", ""}));
}

TEST(WaysToCluster, LinesOfMountsThatAreNotThere) {
  const auto fstab = ParseMountLines("stria:pc1,pc2:9:/atlas /data fuse.stria ro 0 0\n[fd00::1]:7000:/ /six stria rw 0 0\n:/ /bad fuse.stria rw 0 0\n");
  const std::vector<Way> ways = WaysToCluster({}, kFile, "", {}, fstab);
  ASSERT_EQ(ways.size(), 2u) << "what names no server is left out";
  EXPECT_EQ(ways[0].metas, (Metas{"pc1:7424", "pc2:9"}));
  EXPECT_EQ(ways[0].by, "/etc/fstab for /data");
  EXPECT_EQ(ways[1].metas, (Metas{"[fd00::1]:7000"}));
}

TEST(TheOnlyOne, NoneAndOne) {
  EXPECT_EQ(TheOnlyOne({}).value(), Way());
  const Way one = {kFile, {"pc1:7424"}, "/t", ""};
  EXPECT_EQ(TheOnlyOne({one}).value(), one);
}

TEST(TheOnlyOne, ServersOfOneCluster) {
  const std::vector<Way> ways = {{kFile, {"pc1:7424"}, "", ""}, {"/etc/fstab for /b", {"pc3:7424"}, "/b", ""}, {"/etc/fstab for /a", {"pc3:7424", "pc2:7424", "pc1:7424"}, "/a", ""}};
  EXPECT_EQ(TheOnlyOne(ways).value(), (Way{kFile, {"pc1:7424", "pc3:7424", "pc2:7424"}, "", ""}));
}

TEST(TheOnlyOne, NoneOfSeveralClusters) {
  const Result<Way> one = TheOnlyOne({{kFile, {"pc1:7424"}, "", ""}, {"/etc/fstab for /b", {"pc9:7424"}, "", ""}});
  EXPECT_EQ(one.code(), FsError::kUnavailable);
  EXPECT_EQ(one.error().message, "which cluster? /etc/stria/data.toml names pc1:7424, and /etc/fstab for /b names pc9:7424: give --meta HOST[:PORT], or set STRIA_META");
}

}  // namespace
}  // namespace stria::cli::doctor
