#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/trust_api.h"
#include "common/exec/loop_executor.h"
#include "common/temp_dir.h"
#include "tools/cli/dev/dev_etcd.h"
#include "tools/cli/dev/dev_metas.h"
#include "tools/cli/dev/dev_trust.h"
#include "tools/cli/dev/plan.h"
#include "tools/cli/dev/ports.h"
#include "tools/cli/dev/process.h"
#include "trust/credentials.h"
#include "trust/enrolment.h"
#include "trust/files.h"
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
  secured.data_security = "auth";
  EXPECT_EQ(*DecodeDevCluster(EncodeDevCluster(secured), "f"), secured);
  EXPECT_NE(EncodeDevCluster(secured).find("/d/meta/trust/admin"), std::string::npos);
}

// A metadata server as far as joining goes.
struct DevServer {
  DevJoining Joining() {
    DevJoining how;
    how.timeout_ns = kSecond;
    how.make_token = [this](const MakeTokenRequest& r) -> Result<MakeTokenReply> {
      if (!answers) return Error(FsError::kUnavailable, "nobody answers");
      JoinGrant grant;
      std::memcpy(grant.verifier.data(), r.verifier.data(), grant.verifier.size());
      grant.role = r.role;
      grant.name = r.name;
      grant.expires_s = kTestNowS + r.ttl_s;
      grants.push_back(grant);
      MakeTokenReply reply;
      reply.authority = HexOf(cluster.authority.certificate().hash());
      return reply;
    };
    how.ask = [this](const std::string& address, const Sha256Hash& authority, const std::function<std::string(std::string_view)>& make, int64_t) -> Result<std::string> {
      const std::lock_guard<std::mutex> lock(mu);
      if (address != "127.0.0.1:7000") return Error(FsError::kNotLeader, "another one is the primary");
      EXPECT_EQ(authority, cluster.authority.certificate().hash());
      ASSIGN_OR_RETURN(const JoinRequest request, DecodeJoinRequest(make("binding")));
      for (JoinGrant& g : grants) {
        if (g.verifier != request.verifier || g.name == refused) continue;
        ASSIGN_OR_RETURN(const Certificate given, AdmitJoin(request, &g, "binding", "127.0.0.1:9", cluster.authority, kTestNowS));
        return EncodeJoinAnswer({given.ToPem(), cluster.bundle.ToPem()});
      }
      return Error(FsError::kAccess, "this machine may not join");
    };
    return how;
  }
  const TestCluster cluster;
  std::mutex mu;
  bool answers = true;
  std::string refused;
  std::vector<JoinGrant> grants;
};

class DevTrust : public testing::Test {
 protected:
  DevTrust() {
    c_.dir = dir_.path();
    c_.secured = true;
    for (int n = 2; n <= 7; ++n) {
      const std::string name = "n" + std::to_string(n);
      c_.processes.insert(c_.processes.end() - 1, {DevProcess::Kind::kNode, name, 0, 0, "127.0.0.1:" + std::to_string(7000 + n), "/d/log/" + name + ".log", "", 1, ""});
    }
  }
  Result<void> Join(const std::vector<std::string>& names) {
    std::vector<const DevProcess*> members;
    for (const std::string& name : names) members.push_back(c_.Find(name));
    return JoinDevMembers(c_, members, server_.Joining());
  }
  bool HasTo(const std::string& name, int64_t now_s = kTestNowS) { return HasToJoin(c_, *c_.Find(name), now_s).value(); }
  std::shared_ptr<const Credentials> Of(const std::string& name) { return CredentialFiles(c_.TrustOf(*c_.Find(name))).Load().value(); }

  const TempDir dir_;
  DevCluster c_ = Sample();
  DevServer server_;
};

TEST_F(DevTrust, MembersJoinByTokensOfTheirOwn) {
  const std::vector<std::string> all = {"n1", "n2", "n3", "n4", "n5", "n6", "n7", "mount"};
  for (const std::string& name : all) EXPECT_TRUE(HasTo(name)) << name;
  const Result<void> joined = Join(all);
  ASSERT_TRUE(joined.ok()) << joined.error();
  ASSERT_EQ(server_.grants.size(), all.size());
  for (const JoinGrant& g : server_.grants) EXPECT_EQ(g.used.size(), 1u) << g.name;
  for (const std::string& name : all) {
    EXPECT_FALSE(HasTo(name)) << name;
    EXPECT_EQ(Of(name)->identity, (Identity{kTestCluster, name == "mount" ? Role::kClient : Role::kData, name}));
  }
  EXPECT_TRUE(Of("n1")->Judge(Of("mount")->certificate, "x", {Role::kClient}, kTestNowS).ok());
}

TEST_F(DevTrust, OnlyWhoHasNoCertificateThatIsGoodJoins) {
  ASSERT_TRUE(Join({"n1"}).ok());
  EXPECT_FALSE(HasTo("n1", kTestNowS + kCertificateDays * kDayS)) << "it renews it by itself, as long as it is good";
  EXPECT_TRUE(HasTo("n1", kTestNowS + kCertificateDays * kDayS + 1));
  const Sha256Hash before = Of("n1")->certificate.key_hash();
  ASSERT_TRUE(Join({"n1"}).ok());
  EXPECT_NE(Of("n1")->certificate.key_hash(), before) << "the former key may be one that was revoked";
  ASSERT_EQ(chmod((c_.TrustOf(*c_.Find("n1")) + "/node.pem").c_str(), 0644), 0);
  const Result<bool> open = HasToJoin(c_, *c_.Find("n1"), kTestNowS);
  EXPECT_EQ(open.code(), FsError::kAccess) << "what others may have read is not passed over";
  EXPECT_NE(open.error().message.find("n1"), std::string::npos) << open.error();
}

TEST_F(DevTrust, ThePrimaryOfSeveralLetsIn) {
  c_.Find("meta")->address = "127.0.0.1:7999";
  DevProcess primary = *c_.Find("meta");
  primary.name = "meta2";
  primary.address = "127.0.0.1:7000";
  c_.processes.insert(c_.processes.begin() + 1, primary);
  const Result<void> joined = Join({"n1"});
  ASSERT_TRUE(joined.ok()) << joined.error();
  EXPECT_FALSE(HasTo("n1"));
}

TEST_F(DevTrust, WhoCannotJoinIsNamed) {
  server_.refused = "n3";
  const Result<void> some = Join({"n1", "n3"});
  EXPECT_EQ(some.code(), FsError::kAccess);
  EXPECT_NE(some.error().message.find("n3"), std::string::npos) << some.error();
  EXPECT_TRUE(HasTo("n3"));
  EXPECT_FALSE(HasTo("n1")) << "what was given is kept";
  server_.answers = false;
  const Result<void> none = Join({"n2"});
  EXPECT_EQ(none.code(), FsError::kUnavailable);
  EXPECT_NE(none.error().message.find("stria dev start meta"), std::string::npos) << none.error();
  EXPECT_TRUE(Join({}).ok());
}

TEST(DevTrustNear, IsFoundFromWithin) {
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

DevCluster WithEtcd() {
  DevCluster c = Sample();
  for (int i = kDevEtcdMembers; i >= 1; --i) {
    DevProcess p;
    p.kind = DevProcess::Kind::kEtcd;
    p.name = "etcd" + std::to_string(i);
    p.address = "127.0.0.1:" + std::to_string(7100 + i);
    p.peer = "127.0.0.1:" + std::to_string(7200 + i);
    p.log = "/d/log/" + p.name + ".log";
    c.processes.insert(c.processes.begin(), p);
  }
  return c;
}

TEST(DevEtcd, IsKeptInTheFile) {
  DevCluster c = WithEtcd();
  EXPECT_EQ(DecodeDevCluster(EncodeDevCluster(c), "f").value(), c);
  c.processes.resize(kDevEtcdMembers);
  EXPECT_EQ(DecodeDevCluster(EncodeDevCluster(c), "f").value(), c) << "etcd alone";
  c.processes.clear();
  EXPECT_EQ(DecodeDevCluster(EncodeDevCluster(c), "f").code(), FsError::kCorrupt);
  EXPECT_TRUE(IsEtcdName("etcd1") && IsEtcdName("etcd3"));
  for (const char* bad : {"etcd", "etcd0", "etcd4", "etcd11", "n1"}) EXPECT_FALSE(IsEtcdName(bad)) << bad;
}

TEST(DevEtcd, MembersKnowEachOtherAndServeThisMachineOnly) {
  DevCluster c = WithEtcd();
  const std::vector<std::string> args = CommandLine(c, *c.Find("etcd2"), "/usr/bin/etcd");
  const auto value = [&](const std::string& flag) {
    const auto at = std::find(args.begin(), args.end(), flag);
    return at == args.end() || at + 1 == args.end() ? "" : *(at + 1);
  };
  EXPECT_EQ(args[0], "/usr/bin/etcd");
  EXPECT_EQ(value("--name"), "etcd2");
  EXPECT_EQ(value("--data-dir"), "/d/etcd2");
  EXPECT_EQ(value("--listen-client-urls"), "http://127.0.0.1:7102");
  EXPECT_EQ(value("--listen-peer-urls"), "http://127.0.0.1:7202");
  EXPECT_EQ(value("--initial-cluster"), "etcd1=http://127.0.0.1:7201,etcd2=http://127.0.0.1:7202,etcd3=http://127.0.0.1:7203");
  // etcd refuses an election that is less than five beats away.
  EXPECT_GE(std::stoi(value("--election-timeout")), 5 * std::stoi(value("--heartbeat-interval")));
  for (const std::string& a : args) EXPECT_EQ(a.find("unsafe"), a.npos) << "it syncs what it has promised";
}

// As --metas 2 makes it.
DevCluster WithMetas() {
  DevCluster c = WithEtcd();
  DevProcess* const first = c.Find("meta");
  first->name = "meta1";
  DevProcess second = *first;
  second.name = "meta2";
  second.address = "127.0.0.1:7301";
  c.processes.insert(c.processes.begin() + kDevEtcdMembers + 1, second);
  return c;
}

TEST(DevMetas, AreKeptInTheFile) {
  DevCluster c = WithMetas();
  c.cluster = "01234567-89ab-cdef-0123-456789abcdef";
  const DevCluster back = DecodeDevCluster(EncodeDevCluster(c), "f").value();
  EXPECT_EQ(back, c);
  EXPECT_EQ(back.MetaAddress(), "127.0.0.1:7000,127.0.0.1:7301");
  EXPECT_EQ(back.MetaAddresses(), (std::vector<std::string>{"127.0.0.1:7000", "127.0.0.1:7301"}));
  EXPECT_EQ(back.AdminTrust(), "/d/meta1/trust/admin");
  EXPECT_EQ(Sample().AdminTrust(), "/d/meta/trust/admin");
  EXPECT_EQ(DevMetaNames(1), std::vector<std::string>{"meta"});
  EXPECT_EQ(DevMetaNames(3), (std::vector<std::string>{"meta1", "meta2", "meta3"}));
}

TEST(DevMetas, TheFirstFoundsAndTheOthersJoin) {
  DevCluster c = WithMetas();
  c.secured = true;
  using Line = std::vector<std::string>;
  EXPECT_EQ(CommandLine(c, *c.Find("meta1"), "B"),
            (Line{"B", "--data", "/d/meta1", "--listen", "127.0.0.1:7000", "--cluster-key", "/d/cluster.key", "--format", "--layout", "raid5:4+1",
                  "--config", "/d/meta1.toml", "--ha-init", "--trusted-root", "*"}));
  EXPECT_EQ(CommandLine(c, *c.Find("meta2"), "B"),
            (Line{"B", "--data", "/d/meta2", "--listen", "127.0.0.1:7301", "--cluster-key", "/d/cluster.key", "--config", "/d/meta2.toml", "--join",
                  "--trusted-root", "*"}));
  c.secured = false;
  c.cluster = "01234567-89ab-cdef-0123-456789abcdef";
  const Line second = CommandLine(c, *c.Find("meta2"), "B");
  const Line cluster = {"--cluster", c.cluster};
  EXPECT_NE(std::search(second.begin(), second.end(), cluster.begin(), cluster.end()), second.end()) << "no certificate says it";
  const std::string settings = DevMetaSettings(c, *c.Find("meta2"));
  for (const char* line : {"\n[ha]\n", "\nmember = \"meta2\"\n", "\naddress = \"127.0.0.1:7301\"\n",
                           "\netcd = [\"127.0.0.1:7101\", \"127.0.0.1:7102\", \"127.0.0.1:7103\"]\n"}) {
    EXPECT_NE(settings.find(line), std::string::npos) << settings;
  }
  for (const char* who : {"n1", "mount"}) {
    const Line args = CommandLine(c, *c.Find(who), "B");
    const Line all = {"--meta", "127.0.0.1:7000,127.0.0.1:7301"};
    EXPECT_NE(std::search(args.begin(), args.end(), all.begin(), all.end()), args.end()) << who;
  }
}

TEST(DevMetas, OneMoreGetsTheAuthority) {
  const TempDir dir;
  DevCluster c = WithMetas();
  c.dir = dir.path();
  c.secured = true;
  EXPECT_EQ(PrepareDevMeta(c, *c.Find("meta2")).code(), FsError::kNoEnt) << "the first one has not made it";
  std::filesystem::create_directories(c.MetaTrust());
  ASSERT_TRUE(ReplaceFile(c.MetaTrust() + "/authority.pem", "the authority", 0600).ok());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(PrepareDevMeta(c, *c.Find("meta2")).ok());
  EXPECT_EQ(ReadSecretFile(dir.path() + "/meta2/trust/authority.pem").value(), "the authority");
  EXPECT_FALSE(IsDevMetaMade(c, *c.Find("meta2")));
  { std::ofstream(dir.path() + "/meta2/superblock") << "x"; }
  EXPECT_TRUE(IsDevMetaMade(c, *c.Find("meta2")));
}

TEST(DevEtcd, HealthIsWhatItSays) {
  const std::string head = "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n";
  EXPECT_TRUE(SaysHealthy(head + "{\"health\":\"true\"}"));
  EXPECT_TRUE(SaysHealthy(head + "{\"health\":true,\"reason\":\"\"}"));
  EXPECT_FALSE(SaysHealthy("HTTP/1.0 503 Service Unavailable\r\n\r\n{\"health\":\"false\"}"));
  for (const char* bad : {"", "{\"health\":\"true\"}", "x\r\n\r\n", "x\r\n\r\n[1]", "x\r\n\r\n{\"health\":", "x\r\n\r\n{\"health\":[]}"}) {
    EXPECT_FALSE(SaysHealthy(bad)) << bad;
  }
  EXPECT_FALSE(EtcdHasMajority("127.0.0.1:1", kSecond)) << "nobody is there";
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
