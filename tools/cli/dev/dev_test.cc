#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>

#include "common/exec/loop_executor.h"
#include "common/temp_dir.h"
#include "tools/cli/dev/plan.h"
#include "tools/cli/dev/ports.h"
#include "tools/cli/dev/process.h"

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
  const DevCluster c = Sample();
  EXPECT_EQ(CommandLine(c, c.processes[1], "B"),
            (std::vector<std::string>{"B", "--node-name", "n1", "--listen", "127.0.0.1:7001", "--meta",
                                      "127.0.0.1:7000", "--cluster-key", "/d/cluster.key", "--disk",
                                      "/d/n1/d1,label=d1", "--disk", "/d/n1/d2,label=d2"}));
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
