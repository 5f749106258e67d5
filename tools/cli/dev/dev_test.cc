#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "common/exec/loop_executor.h"
#include "common/temp_dir.h"
#include "tools/cli/dev/dev_trust.h"
#include "tools/cli/dev/plan.h"
#include "tools/cli/dev/ports.h"
#include "tools/cli/dev/process.h"
#include "trust/credentials.h"
#include "trust/files.h"
#include "trust/place.h"
#include "trust/trust_testing.h"

namespace stria::cli {
namespace {

DevCluster Sample() {
  DevCluster c;
  c.dir = "/d";
  c.layout = "raid5:4+1";
  c.disks = 2;
  using K = DevProcess::Kind;
  c.processes = {{K::kMeta, "meta", 100, 1, "127.0.0.1:7000", "/d/log/meta.log", "", 0, ""},
                 {K::kNode, "n1", 101, 2, "127.0.0.1:7001", "/d/log/n1.log", "", 2, ""},
                 {K::kMount, "mount", 0, 0, "/m", "/d/log/mount.log", "n1", 0, "passthrough,noatime"}};
  return c;
}

TEST(DevPlan, JsonRoundTrip) {
  const DevCluster c = Sample();
  const auto back = DecodeDevCluster(EncodeDevCluster(c), "f");
  ASSERT_TRUE(back.ok()) << back.error();
  EXPECT_EQ(*back, c);
  DevCluster secured = c;
  secured.secured = true;
  EXPECT_EQ(*DecodeDevCluster(EncodeDevCluster(secured), "f"), secured);
  EXPECT_NE(EncodeDevCluster(secured).find("/d/meta/trust/admin"), std::string::npos);
}

// As stria-meta leaves it.
void MakeAuthority(const DevCluster& c, const TestCluster& cluster) {
  std::filesystem::create_directories(c.MetaTrust());
  ASSERT_TRUE(ReplaceFile(c.MetaTrust() + kAuthorityFile, cluster.authority.ToPem(), 0600).ok());
  ASSERT_TRUE(CredentialFiles::SaveBundle(c.MetaTrust(), cluster.bundle).ok());
}

TEST(DevTrust, NodesAndMountsGetCertificates) {
  const TempDir dir;
  DevCluster c = Sample();
  c.dir = dir.path();
  c.secured = true;
  const TestCluster cluster;
  EXPECT_EQ(IssueDevCertificate(c, c.processes[1], kTestNowS).code(), FsError::kNoEnt) << "there is no authority yet";
  MakeAuthority(c, cluster);
  const auto issued = [&](size_t process, int64_t now_s) {
    const Result<void> done = IssueDevCertificate(c, c.processes[process], now_s);
    EXPECT_TRUE(done.ok()) << done.error();
    return CredentialFiles(c.TrustOf(c.processes[process])).Load().value();
  };
  const auto node = issued(1, kTestNowS), mount = issued(2, kTestNowS);
  EXPECT_EQ(node->identity, (Identity{kTestCluster, Role::kData, "n1"}));
  EXPECT_EQ(mount->identity, (Identity{kTestCluster, Role::kClient, "mount"}));
  EXPECT_TRUE(node->Judge(mount->certificate, "x", {Role::kClient}, kTestNowS).ok());
  // It stays as long as it is good for a while; then the same key gets another.
  EXPECT_EQ(issued(1, kTestNowS + 50 * kDayS)->certificate.serial(), node->certificate.serial());
  const auto later = issued(1, kTestNowS + 70 * kDayS);
  EXPECT_NE(later->certificate.serial(), node->certificate.serial());
  EXPECT_EQ(later->certificate.key_hash(), node->certificate.key_hash());
}

TEST(DevTrust, IsFoundFromWithin) {
  const TempDir dir;
  DevCluster c = Sample();
  c.dir = "/elsewhere";  // it was moved
  c.secured = true;
  std::filesystem::create_directories(dir.path() + "/mnt/deep");
  const auto write = [&] { std::ofstream(dir.path() + "/cluster.json") << EncodeDevCluster(c); };
  write();
  const std::string admin = dir.path() + "/meta/trust/admin";
  EXPECT_EQ(DevTrustNear(dir.path(), {"127.0.0.1:7000"}), admin);
  EXPECT_EQ(DevTrustNear(dir.path() + "/mnt/deep", {"pc1:7424", "127.0.0.1:7000"}), admin);
  EXPECT_EQ(DevTrustNear(dir.path(), {"127.0.0.1:7009"}), "") << "another cluster is asked";
  EXPECT_EQ(DevTrustNear(dir.path(), {}), "");
  EXPECT_EQ(DevTrustNear("/", {"127.0.0.1:7000"}), "");
  EXPECT_EQ(DevTrustNear("relative", {"127.0.0.1:7000"}), "");
  if (geteuid() == 0) {
    ASSERT_EQ(chown((dir.path() + "/cluster.json").c_str(), 65534, 65534), 0);
    EXPECT_EQ(DevTrustNear(dir.path(), {"127.0.0.1:7000"}), "") << "somebody else's";
    ASSERT_EQ(chown((dir.path() + "/cluster.json").c_str(), 0, 0), 0);
  }
  c.secured = false;
  write();
  EXPECT_EQ(DevTrustNear(dir.path(), {"127.0.0.1:7000"}), "");
}

TEST(DevPlan, DamagedFilesAreRefused) {
  const std::string good = EncodeDevCluster(Sample());
  for (size_t cut = 0; cut < good.size() - 1; cut += 7) {
    EXPECT_EQ(DecodeDevCluster(good.substr(0, cut), "f").code(), FsError::kCorrupt);
  }
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return DecodeDevCluster(text, "f").code();
  };
  EXPECT_EQ(with("\"version\": 1", "\"version\": 2"), FsError::kCorrupt);
  EXPECT_EQ(with("\"pid\": 100", "\"pid\": 1"), FsError::kCorrupt) << "init is not ours";
  EXPECT_EQ(with("\"pid\": 100", "\"pid\": \"x\""), FsError::kCorrupt);
  EXPECT_EQ(with("\"kind\": \"node\"", "\"kind\": \"toad\""), FsError::kCorrupt);
  EXPECT_EQ(with("\"name\": \"n1\"", "\"name\": \"meta\""), FsError::kCorrupt);
}

TEST(DevPlan, LayoutsThatFit) {
  for (int nodes = 1; nodes <= 8; ++nodes) {
    for (int disks = 1; disks <= 8; ++disks) {
      const auto fits = CheckDevLayout(DefaultDevLayout(nodes, disks), nodes, disks);
      EXPECT_TRUE(fits.ok()) << nodes << " " << disks << " " << fits.error();
    }
  }
  EXPECT_EQ(DefaultDevLayout(5, 2), "raid5:4+1");
  EXPECT_EQ(DefaultDevLayout(3, 2), "raid5:2+1");
  const auto refused = CheckDevLayout("raid6:4+2", 5, 2);
  EXPECT_EQ(refused.code(), FsError::kTooFewDomains);
  EXPECT_NE(refused.error().message.find("--nodes 6"), std::string::npos) << refused.error();
  EXPECT_EQ(CheckDevLayout("raid7", 5, 2).code(), FsError::kInval);
}

TEST(DevPlan, Names) {
  EXPECT_TRUE(IsNodeName("n1") && IsNodeName("n64"));
  for (const char* bad : {"", "n", "n0", "n65", "n01", "m1", "n1x", "n100", "../n1"})
    EXPECT_FALSE(IsNodeName(bad)) << bad;
  DevCluster c = Sample();
  EXPECT_EQ(FreeMountName(c), "mount2");
}

TEST(DevPlan, CommandLines) {
  DevCluster c = Sample();
  EXPECT_EQ(CommandLine(c, c.processes[1], "B"),
            (std::vector<std::string>{"B", "--node-name", "n1", "--listen", "127.0.0.1:7001", "--meta",
                                      "127.0.0.1:7000", "--cluster-key", "/d/cluster.key", "--insecure", "--disk",
                                      "/d/n1/d1,label=d1", "--disk", "/d/n1/d2,label=d2"}));
  const auto has = [&](size_t process, const std::vector<std::string>& words) {
    const std::vector<std::string> line = CommandLine(c, c.processes[process], "B");
    return std::search(line.begin(), line.end(), words.begin(), words.end()) != line.end();
  };
  EXPECT_TRUE(has(0, {"--insecure"}) && has(2, {"--insecure"}));
  c.secured = true;
  for (size_t i = 0; i < c.processes.size(); ++i) EXPECT_FALSE(has(i, {"--insecure"})) << i;
  EXPECT_TRUE(has(1, {"--trust", "/d/trust/n1"}));
  EXPECT_TRUE(has(2, {"--trust", "/d/trust/mount"}));
}

TEST(DevPlan, LastErrorOfALog) {
  EXPECT_EQ(LastError(""), "");
  EXPECT_EQ(LastError("a\nb\n"), "b");
  EXPECT_EQ(LastError("2026-01-01T00:00:00.000+00:00 meta[7] E disk is full\n"
                      "2026-01-01T00:00:00.000+00:00 meta[7] I stopped\n"),
            "disk is full");
}

TEST(DevProcessTest, StartSignalAndReusedPids) {
  const TempDir dir;
  const std::string log = dir.path() + "/log";
  const auto started = StartDetached({"/bin/sh", "-c", "echo to-the-log; exec sleep 100"}, log);
  ASSERT_TRUE(started.ok()) << started.error();
  EXPECT_TRUE(IsRunning(started->pid, started->start_time));
  EXPECT_FALSE(IsRunning(started->pid, started->start_time + 1)) << "another process with this pid";
  SendSignal(started->pid, started->start_time + 1, SIGKILL);
  EXPECT_FALSE(WaitGone(started->pid, started->start_time, 50 * kMillisecond));
  EXPECT_TRUE(StopProcess(started->pid, started->start_time, 5 * kSecond));
  EXPECT_FALSE(IsRunning(started->pid, started->start_time));
  EXPECT_EQ(ReadTail(log, 4), "log\n");
}

TEST(DevProcessTest, StubbornOnesAreKilled) {
  const TempDir dir;
  const auto started = StartDetached(
      {"/bin/sh", "-c", "trap '' TERM; echo set; while :; do sleep 0.05; done"}, dir.path() + "/log");
  ASSERT_TRUE(started.ok());
  for (int i = 0; i < 500 && ReadTail(dir.path() + "/log", 10).empty(); ++i) usleep(10000);
  EXPECT_TRUE(StopProcess(started->pid, started->start_time, 200 * kMillisecond));
}

TEST(DevProcessTest, WhatCannotRunIsSaid) {
  const TempDir dir;
  EXPECT_EQ(StartDetached({"/nonexistent/program"}, dir.path() + "/log").code(), FsError::kNoEnt);
  EXPECT_EQ(StartDetached({"/bin/true"}, "/nonexistent/log").code(), FsError::kNoEnt);
  setenv("STRIA_BIN_DIR", dir.path().c_str(), 1);
  const auto missing = FindBinary("stria-meta");
  unsetenv("STRIA_BIN_DIR");
  EXPECT_EQ(missing.code(), FsError::kNoEnt);
  EXPECT_NE(missing.error().message.find(dir.path()), std::string::npos) << missing.error();
}

TEST(DevPorts, TakenOnesAreNotGiven) {
  const auto first = FindFreePort("salt", {});
  ASSERT_TRUE(first.ok());
  const auto second = FindFreePort("salt", {*first});
  ASSERT_TRUE(second.ok());
  EXPECT_NE(*first, *second);
  EXPECT_EQ(PortOf("127.0.0.1:" + std::to_string(*first)), *first);
  EXPECT_EQ(PortOf("nowhere"), 0);
}

}  // namespace
}  // namespace stria::cli
