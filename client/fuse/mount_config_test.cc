#include "client/fuse/mount_config.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace stria {
namespace {

ParsedCommand ParseAs(const char* name, std::vector<const char*> args, bool is_root = true) {
  args.insert(args.begin(), name);
  return ParseCommandLine(static_cast<int>(args.size()), args.data(), is_root);
}

ParsedCommand Parse(std::vector<const char*> args, bool is_root = true) {
  return ParseAs("stria-mount", std::move(args), is_root);
}

bool Has(const MountConfig& c, const std::string& option) {
  return std::count(c.fuse_options.begin(), c.fuse_options.end(), option) == 1;
}

TEST(MountConfig, LongForm) {
  auto p = Parse({"--meta", "pc1:7424,pc2:7001", "--node", "n3", "--timeout", "2m", "--memory", "1GiB", "-o",
                  "ro,noatime", "--async-close", "/data"});
  ASSERT_FALSE(p.exit_now) << p.text;
  EXPECT_EQ(p.config.addresses, (std::vector<std::string>{"pc1:7424", "pc2:7001"}));
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
  auto p = Parse({"pc1:7424:/a/b", "/data", "-o",
                  "rw,_netdev,x-systemd.automount,timeout=10s,wake_latency=off,async_close,nosuid"}, false);
  ASSERT_FALSE(p.exit_now) << p.text;
  EXPECT_EQ(p.config.wake_latency, "off");
  EXPECT_EQ(p.config.addresses, std::vector<std::string>{"pc1:7424"});
  EXPECT_EQ(p.config.path, "/a/b");
  EXPECT_EQ(p.config.timeout_ns, 10 * kSecond);
  EXPECT_TRUE(p.config.async_close);
  EXPECT_EQ(p.config.fuse_options, (std::vector<std::string>{"nosuid", "default_permissions"}));
}

TEST(MountConfig, Metrics) {
  MountConfig c;
  EXPECT_TRUE(c.metrics.empty() && c.metrics_file.empty());
  ASSERT_TRUE(ParseMountOptions("metrics=127.0.0.1:9426,metrics_file=/var/lib/prometheus/node-exporter/data.prom,nosuid", &c).ok());
  EXPECT_EQ(c.metrics, "127.0.0.1:9426");
  EXPECT_EQ(c.metrics_file, "/var/lib/prometheus/node-exporter/data.prom");
  EXPECT_EQ(c.fuse_options, std::vector<std::string>{"nosuid"});
  for (const char* bad : {"metrics=", "metrics=9426", "metrics=pc1:9426", "metrics_file=", "metrics_file=/tmp/data.txt"}) {
    EXPECT_EQ(ParseMountOptions(bad, &c).code(), FsError::kInval) << bad;
  }
}

TEST(MountConfig, WaitsForTheMetadataServerAsLongAsItIsTold) {
  MountConfig c;
  EXPECT_FALSE(c.wait_ns);
  ASSERT_TRUE(ParseMountOptions("_netdev,nofail,wait=forever,x-systemd.mount-timeout=infinity", &c).ok());
  EXPECT_EQ(c.wait_ns, INT64_MAX);
  EXPECT_TRUE(c.fuse_options.empty());
  ASSERT_TRUE(ParseMountOptions("wait=5m", &c).ok());
  EXPECT_EQ(c.wait_ns, 300 * kSecond);
  EXPECT_FALSE(ParseMountOptions("wait=soon", &c).ok());
}

TEST(MountConfig, FlagsAndOptionsAreCalledTheSame) {
  EXPECT_EQ(Parse({"pc1", "/d", "--log-file", "/l", "--log-level", "error"}).config.log_file, "/l");
  EXPECT_EQ(Parse({"pc1", "/d", "-o", "log_file=/l,log_level=error"}).config.log_file, "/l");
  EXPECT_EQ(Parse({"pc1", "/d", "-o", "log_level=error"}).config.log_level, LogLevel::kError);
  const auto former = Parse({"pc1", "/d", "--log", "/l", "-o", "loglevel=error"}).config;
  EXPECT_TRUE(former.log_file == "/l" && former.log_level == LogLevel::kError);
}

TEST(MountConfig, LastOfRoAndRwWins) {
  EXPECT_FALSE(Has(Parse({"h:1", "/d", "-o", "ro,rw"}).config, "ro"));
  EXPECT_TRUE(Has(Parse({"h:1", "/d", "-o", "rw,ro"}).config, "ro"));
}

TEST(MountConfig, LastOfSyncAndAsyncWins) {
  EXPECT_TRUE(Parse({"h:1", "/d", "-o", "async,sync"}).config.sync);
  EXPECT_TRUE(Has(Parse({"h:1", "/d", "-o", "sync"}).config, "sync"));
  EXPECT_FALSE(Parse({"h:1", "/d", "-o", "sync,async"}).config.sync);
  EXPECT_FALSE(Has(Parse({"h:1", "/d", "-o", "sync,async"}).config, "sync"));
}

TEST(MountConfig, OptionsUndoEachOther) {  // mount(8) gives what the mount has, and then what a remount wants
  MountConfig c;
  ASSERT_TRUE(ParseMountOptions("noatime,nosuid,noexec,nodev,remount,atime,suid,exec", &c).ok());
  EXPECT_EQ(c.fuse_options, (std::vector<std::string>{"nodev", "suid", "exec"}));
  ASSERT_TRUE(ParseMountOptions("nosuid,noatime,strictatime,noatime,relatime,noexec", &c).ok());
  EXPECT_EQ(c.fuse_options, (std::vector<std::string>{"nodev", "nosuid", "noatime", "noexec"}));
}

TEST(MountConfig, Ipv6) {
  EXPECT_EQ(Parse({"[fe80::1]:7424:/x", "/d"}).config.addresses, std::vector<std::string>{"[fe80::1]:7424"});
  EXPECT_TRUE(Parse({"fe80::1:7424", "/d"}).exit_now);
}

TEST(MountConfig, PortMayBeLeftOut) {
  EXPECT_EQ(Parse({"pc1:/x", "/d"}).config.addresses, std::vector<std::string>{"pc1:7424"});
  EXPECT_EQ(Parse({"pc1:/x", "/d"}).config.path, "/x");
  EXPECT_EQ(Parse({"pc1,pc2:7001", "/d"}).config.addresses, (std::vector<std::string>{"pc1:7424", "pc2:7001"}));
  EXPECT_EQ(Parse({"[fe80::1]:/x", "/d"}).config.addresses, std::vector<std::string>{"[fe80::1]:7424"});
}

TEST(MountConfig, HelperOfMount8) {
  auto p = ParseAs("/sbin/mount.fuse.stria", {"pc1:/a", "/d", "-n", "-o", "rw,relatime,uid=1000,gid=100", "-t", "fuse.stria"});
  ASSERT_FALSE(p.exit_now) << p.text;
  EXPECT_TRUE(p.config.by_mount8 && p.config.verb == MountVerb::kMount);
  EXPECT_EQ(p.config.uid, 1000u);
  EXPECT_EQ(p.config.gid, 100u);
  EXPECT_FALSE(Has(p.config, "relatime") || Has(p.config, "uid=1000"));
  // mount(8) does not pass "-o dev,suid" on.
  EXPECT_TRUE(Has(p.config, "dev") && Has(p.config, "suid"));
  p = ParseAs("mount.fuse.stria", {"pc1:/a", "/d", "-o", "rw,noexec,nosuid,nodev,user"});
  EXPECT_FALSE(Has(p.config, "dev") || Has(p.config, "suid"));
  p = ParseAs("mount.fuse.stria", {"pc1:/a", "/d", "-o", "rw,nosuid"});
  EXPECT_TRUE(Has(p.config, "dev") && !Has(p.config, "suid") && Has(p.config, "nosuid"));
  EXPECT_FALSE(Has(ParseAs("mount.stria", {"pc1:/a", "/d", "-o", "rw"}, false).config, "suid"));
  EXPECT_FALSE(Has(Parse({"pc1:/a", "/d"}).config, "suid"));
  EXPECT_TRUE(Has(Parse({"pc1:/a", "/d", "-o", "dev,suid"}).config, "suid"));
  // -f is "fake" there, "foreground" here.
  EXPECT_EQ(ParseAs("mount.stria", {"pc1:/a", "/d", "-f"}).config.verb, MountVerb::kNothing);
  EXPECT_TRUE(Parse({"pc1:/a", "/d", "-f"}).config.foreground);
  p = ParseAs("mount.stria", {"pc1:/a", "/d", "-o", "remount,ro,nosuid"});
  EXPECT_EQ(p.config.verb, MountVerb::kRemount);
  EXPECT_TRUE(p.config.read_only && Has(p.config, "nosuid") && !Has(p.config, "remount"));
  // mount(8) takes the source from the mount table.
  p = ParseAs("mount.fuse.stria", {"stria:pc1:7424+pc2:7424:/a", "/d", "-o", "ro,remount,rw"});
  ASSERT_FALSE(p.exit_now) << p.text;
  EXPECT_TRUE(p.config.verb == MountVerb::kRemount && !p.config.read_only);
}

// What df(1) shows can be mounted, and is what programs look for that ask whether it is mounted.
TEST(MountConfig, TheSourceStaysAsItWasGiven) {
  EXPECT_EQ(Parse({"pc1:/a", "/d"}).config.source, "pc1:/a");
  EXPECT_EQ(Parse({"pc1:7424+pc2:7424", "/d"}).config.source, "pc1:7424+pc2:7424");
  EXPECT_EQ(Parse({"--meta", "pc1", "/d"}).config.source, "");
  EXPECT_EQ(Parse({"--meta", "pc1", "none", "/d"}).config.source, "");
}

// Every option of mount(8) for any filesystem is taken. Options that libfuse 3.14 knows go on to it.
TEST(MountConfig, OptionsOfAnyFilesystem) {
  for (const char* option :
       {"defaults", "auto", "noauto", "user", "user=joe", "nouser", "users", "nousers", "owner", "noowner", "group", "nogroup",
        "_netdev", "nofail", "comment=x", "helper=x", "uhelper=x", "x-systemd.automount", "x-systemd.requires=network.target",
        "X-mount.mkdir", "silent", "loud", "rw", "async", "nomand", "mand", "atime", "relatime", "norelatime", "strictatime",
        "nostrictatime", "diratime", "nodiratime", "lazytime", "nolazytime", "iversion", "noiversion", "symfollow", "nosymfollow"}) {
    auto p = ParseAs("mount.fuse.stria", {"pc1:/a", "/d", "-o", option});
    ASSERT_FALSE(p.exit_now) << option << ": " << p.text;
    EXPECT_EQ(p.config.fuse_options, (std::vector<std::string>{"default_permissions", "allow_other", "dev", "suid"})) << option;
  }
  for (const char* option : {"noatime", "dev", "nodev", "suid", "nosuid", "exec", "noexec", "sync", "dirsync", "ro",
                             "context=system_u:object_r:nfs_t:s0", "fscontext=a", "defcontext=a", "rootcontext=a"}) {
    EXPECT_TRUE(Has(ParseAs("mount.fuse.stria", {"pc1:/a", "/d", "-o", option}).config, option)) << option;
  }
  EXPECT_TRUE(Parse({"pc1:/a", "/d", "-o", "nosymfollow"}).config.no_symlinks);
  EXPECT_FALSE(Parse({"pc1:/a", "/d", "-o", "nosymfollow,symfollow"}).config.no_symlinks);
  const auto p = Parse({"pc1:/a", "/d", "-o", "ro,context=\"a:b:c0,c1\",nodiratime"});
  EXPECT_TRUE(Has(p.config, "context=\"a:b:c0,c1\"") && Has(p.config, "ro")) << "commas in quotes part nothing";
}

TEST(MountConfig, HelperOfUmount8) {
  auto p = ParseAs("/sbin/umount.fuse.stria", {"/d", "-l", "-v"});
  ASSERT_FALSE(p.exit_now) << p.text;
  EXPECT_EQ(p.config.verb, MountVerb::kUnmount);
  EXPECT_EQ(p.config.mountpoint, "/d");
  EXPECT_TRUE(p.config.lazy && !p.config.force);
}

TEST(MountConfig, MistakesAreExplained) {
  EXPECT_NE(Parse({"/data"}).text.find("--meta"), std::string::npos);
  EXPECT_EQ(Parse({"/data"}).exit_code, 2);
  EXPECT_NE(Parse({"--meta", "pc1:x", "/data"}).text.find("host:port"), std::string::npos);
  EXPECT_NE(Parse({"pc1", "/data", "-o", "uid=joe"}).text.find("uid="), std::string::npos);
  EXPECT_NE(Parse({"pc1", "/data", "-o", "wake_latency=soon"}).text.find("wake_latency"), std::string::npos);
  EXPECT_TRUE(Parse({"--meta", "h:1", "--timeout", "soon", "/data"}).exit_now);
  EXPECT_NE(Parse({"pc1", "/data", "-o", "passthrough"}).text.find("node=NAME"), std::string::npos);
  EXPECT_NE(Parse({"pc1", "/data", "-o", "passthrough,node=n1"}, false).text.find("root"), std::string::npos);
  EXPECT_TRUE(Parse({"pc1", "/data", "-o", "passthrough,node=n1"}).config.passthrough);
  EXPECT_FALSE(Parse({"pc1", "/data", "-o", "passthrough,node=n1,nopassthrough"}).config.passthrough);
  EXPECT_TRUE(Parse({"--meta", "h:1", "--memory", "1MiB", "/data"}).exit_now);
  EXPECT_TRUE(Parse({"--nonsense", "/data"}).exit_now);
  auto help = Parse({"--help"});
  EXPECT_TRUE(help.exit_now);
  EXPECT_EQ(help.exit_code, 0);
}

TEST(MountConfig, NoTerminalObeysMistakes) {
  const std::vector<std::vector<const char*>> lines = {{"--no\033[31mx", "pc1:/", "/d"},
                                                       {"pc1:/", "/d", "-o", "uid=\033[31m"},
                                                       {"pc1:/", "/d", "third\033[31m"},
                                                       {"--meta", "a b\033[31m:x", "/d"}};
  for (const auto& words : lines) {
    const ParsedCommand p = Parse(words);
    EXPECT_TRUE(p.exit_now && p.exit_code != 0);
    EXPECT_FALSE(p.text.empty());
    EXPECT_EQ(p.text.find('\033'), std::string::npos) << p.text;
  }
}

TEST(MountConfig, Trust) {
  const auto plain = Parse({"pc1:/", "/data"});
  EXPECT_EQ(plain.config.trust, "/etc/stria/trust");
  EXPECT_EQ(plain.config.data_security, WireMode::kPrivacy);
  const auto options = Parse({"pc1:/", "/data", "-o", "trust=/t,data_security=auth,noatime"});
  ASSERT_FALSE(options.exit_now) << options.text;
  EXPECT_EQ(options.config.trust, "/t");
  EXPECT_EQ(options.config.data_security, WireMode::kAuth);
  EXPECT_FALSE(Has(options.config, "trust=/t")) << "it is not for the kernel";
  const auto flags = Parse({"pc1:/", "/data", "--trust", "/u", "--data-security", "integrity"});
  EXPECT_EQ(flags.config.trust, "/u");
  EXPECT_EQ(flags.config.data_security, WireMode::kIntegrity);
  EXPECT_EQ(Parse({"pc1:/", "/data", "--insecure"}).config.trust, kTrustOff);
  EXPECT_EQ(Parse({"pc1:/", "/data", "-o", "trust=off"}).config.trust, kTrustOff);
  for (const char* bad : {"trust=", "data_security=some", "data_security="}) EXPECT_TRUE(Parse({"pc1:/", "/data", "-o", bad}).exit_now) << bad;
}

}  // namespace
}  // namespace stria
