#include "client/fuse/mount_config.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace stria {
namespace {

ParsedCommand Parse(std::vector<const char*> args, bool is_root = true) {
  args.insert(args.begin(), "stria-mount");
  return ParseCommandLine(static_cast<int>(args.size()), args.data(), is_root);
}

bool Has(const MountConfig& c, const std::string& option) {
  return std::count(c.fuse_options.begin(), c.fuse_options.end(), option) == 1;
}

TEST(MountConfig, LongForm) {
  auto p = Parse({"--meta", "pc1:7000,pc2:7001", "--node", "n3", "--timeout", "2m", "--memory", "1GiB", "-o",
                  "ro,noatime", "--async-close", "/data"});
  ASSERT_FALSE(p.exit_now) << p.text;
  EXPECT_EQ(p.config.addresses, (std::vector<std::string>{"pc1:7000", "pc2:7001"}));
  EXPECT_EQ(p.config.mountpoint, "/data");
  EXPECT_EQ(p.config.node, "n3");
  EXPECT_EQ(p.config.timeout_ns, 120 * kSecond);
  EXPECT_EQ(p.config.memory_bytes, kGiB);
  EXPECT_LE(p.config.dirty_limit_bytes() + p.config.block_cache_bytes(), kGiB);
  EXPECT_TRUE(p.config.async_close && p.config.read_only);
  EXPECT_TRUE(Has(p.config, "ro") && Has(p.config, "noatime") && Has(p.config, "allow_other") &&
              Has(p.config, "default_permissions"));
}

TEST(MountConfig, FormOfMount8) {
  auto p = Parse({"pc1:7000:/a/b", "/data", "-o", "rw,_netdev,x-systemd.automount,timeout=10s,async_close,nosuid"}, false);
  ASSERT_FALSE(p.exit_now) << p.text;
  EXPECT_EQ(p.config.addresses, std::vector<std::string>{"pc1:7000"});
  EXPECT_EQ(p.config.path, "/a/b");
  EXPECT_EQ(p.config.timeout_ns, 10 * kSecond);
  EXPECT_TRUE(p.config.async_close);
  EXPECT_EQ(p.config.fuse_options, (std::vector<std::string>{"nosuid", "default_permissions"}));
}

TEST(MountConfig, LastOfRoAndRwWins) {
  EXPECT_FALSE(Has(Parse({"h:1", "/d", "-o", "ro,rw"}).config, "ro"));
  EXPECT_TRUE(Has(Parse({"h:1", "/d", "-o", "rw,ro"}).config, "ro"));
}

TEST(MountConfig, Ipv6) {
  EXPECT_EQ(Parse({"[fe80::1]:7000:/x", "/d"}).config.addresses, std::vector<std::string>{"[fe80::1]:7000"});
  EXPECT_TRUE(Parse({"fe80::1:7000", "/d"}).exit_now);
}

TEST(MountConfig, MistakesAreExplained) {
  EXPECT_NE(Parse({"/data"}).text.find("--meta"), std::string::npos);
  EXPECT_EQ(Parse({"/data"}).exit_code, 2);
  EXPECT_NE(Parse({"--meta", "pc1", "/data"}).text.find("host:port"), std::string::npos);
  EXPECT_TRUE(Parse({"--meta", "h:1", "--timeout", "soon", "/data"}).exit_now);
  EXPECT_TRUE(Parse({"--meta", "h:1", "--memory", "1MiB", "/data"}).exit_now);
  EXPECT_TRUE(Parse({"--nonsense", "/data"}).exit_now);
  auto help = Parse({"--help"});
  EXPECT_TRUE(help.exit_now);
  EXPECT_EQ(help.exit_code, 0);
}

}  // namespace
}  // namespace stria
