// What stria doctor thinks of facts: a test for each rule. And the pure parts of how it looks.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "common/temp_dir.h"
#include "tools/cli/doctor/gather.h"
#include "tools/cli/doctor/rules.h"

namespace stria::cli::doctor {
namespace {

constexpr int64_t kNow = 1'800'000'000;
constexpr int64_t kDays = 24 * 3600;
constexpr int64_t kSecondNs = 1'000'000'000;

// A data node with which all is well.
Facts Good() {
  Facts f;
  f.now_s = kNow;
  f.root = f.data_node = f.client = true;
  f.cluster = "c-1";
  f.names = {{"this machine", "pc3", "", {"10.0.0.3"}, {"pc3.example.org"}, true}, {"the metadata server", "pc1", "", {"10.0.0.1"}, {}, false}};
  f.clock = {true, 20'000'000, 1'000'000, true};
  PeerFact meta;
  meta.whose = "the metadata server";
  meta.address = "pc1:7424";
  meta.meta = meta.reached = true;
  meta.mtu = MtuIs::kPasses;
  meta.mtu_bytes = 9000;
  PeerFact node = meta;
  node.whose = "node n2";
  node.address = "pc2:7425";
  node.meta = false;
  f.peers = {meta, node};
  DiskFact d;
  d.label = "d1";
  d.path = "/srv/d1";
  d.is_dir = d.superblock = d.in_fstab = true;
  d.filesystem = "ext4";
  d.mount_point = "/srv/d1";
  d.options = {"rw", "noatime"};
  d.fstab_options = {"nofail", "noatime"};
  d.xattrs = true;
  d.total_bytes = d.total_inodes = 1000;
  d.free_bytes = d.free_inodes = 500;
  f.disks = {d};
  f.kernel = {"6.12.1-amd64", true, std::nullopt, true, true};
  f.open_files_hard = 1048576;
  f.own_version = f.server_version = "0.9.0 (commit 0123456789ab)";
  f.certificates = {{"/etc/stria/trust/data", "", "data", "n3", "c-1", kNow - 10 * kDays, kNow + 80 * kDays}};
  return f;
}

// What is not well, as "area: sentence"; empty if it is only that.
struct Found {
  Verdict verdict = Verdict::kOk;
  std::string text;
};
Found In(const std::string& area, const Facts& facts) {
  Found found;
  for (const Check& c : Judge(facts)) {
    if (c.verdict == Verdict::kOk) continue;
    EXPECT_EQ(c.area, area) << c.sentence;
    EXPECT_FALSE(c.action.empty()) << c.sentence << ": what is to be done?";
    found.verdict = std::max(found.verdict, c.verdict);
    found.text += c.sentence + "\n";
  }
  return found;
}
#define EXPECT_FOUND(area, facts, wanted, part)                        \
  do {                                                                 \
    const Found found_ = In(area, facts);                              \
    EXPECT_EQ(found_.verdict, wanted) << found_.text;                  \
    EXPECT_NE(found_.text.find(part), std::string::npos) << found_.text; \
  } while (0)

TEST(Doctor, AllIsWell) {
  const std::vector<Check> checks = Judge(Good());
  EXPECT_EQ(WorstOf(checks), Verdict::kOk) << RenderChecks(checks);
  EXPECT_NE(RenderChecks(checks).find("everything is as it should be\n"), std::string::npos);
  EXPECT_EQ(ChecksJson(checks)["verdict"], "ok");
  for (const char* area : {"cluster", "names", "clock", "network", "disks", "kernel", "limits", "versions", "certificates"}) {
    EXPECT_TRUE(std::any_of(checks.begin(), checks.end(), [&](const Check& c) { return c.area == area; })) << area;
  }
}

TEST(Doctor, TheClusterIsReached) {
  Facts f = Good();
  f.no_cluster = "no answer from pc1\x1b[2J";
  EXPECT_FOUND("cluster", f, Verdict::kProblem, "no answer from pc1\\033[2J");
}

TEST(Doctor, WhatTellsOfTheCluster) {
  Facts f = Good();
  f.cluster_by = "the mount /data";
  f.other_clusters = {"the mount /old, of pc9:7424"};
  const std::string text = RenderChecks(Judge(f));
  EXPECT_NE(text.find("the cluster is reached: c-1 (as told by the mount /data)\n"), std::string::npos) << text;
  EXPECT_NE(text.find("not looked at: the mount /old, of pc9:7424 (say --meta for that)\n"), std::string::npos) << text;
  EXPECT_EQ(WorstOf(Judge(f)), Verdict::kOk);
  f.other_clusters.clear();
  f.no_cluster = "no answer";
  EXPECT_FOUND("cluster", f, Verdict::kProblem, "not reached (as told by the mount /data): no answer");
}

TEST(Doctor, Names) {
  Facts f = Good();
  f.names[1] = {"the metadata server", "pc1", "Name or service not known", {}, {}, false};
  EXPECT_FOUND("names", f, Verdict::kProblem, "has no address here (Name or service not known)");
  f = Good();
  f.names[0].error = "Name or service not known";
  EXPECT_FOUND("names", f, Verdict::kWarning, "this machine is called pc3");
  f = Good();
  f.names[0].addresses = {"127.0.1.1"};
  EXPECT_FOUND("names", f, Verdict::kWarning, "127.0.1.1");
  f.data_address_set = true;
  EXPECT_FOUND("names", f, Verdict::kOk, "");
  f = Good();
  f.names[1].addresses = {"127.0.0.1", "::1"};
  EXPECT_FOUND("names", f, Verdict::kWarning, "only this machine has");
  f = Good();
  f.names[1].back = {"other.example.org"};
  EXPECT_FOUND("names", f, Verdict::kWarning, "other.example.org the other way round");
  f.names[1].back = {"pc1"};
  EXPECT_FOUND("names", f, Verdict::kOk, "");
  f.names[1].back = {"pc10.example.org"};
  EXPECT_FOUND("names", f, Verdict::kWarning, "pc10.example.org");
}

TEST(Doctor, Clocks) {
  Facts f = Good();
  f.clock.offset_ns = -5 * kSecondNs;
  EXPECT_FOUND("clock", f, Verdict::kWarning, "behind the metadata server's");
  f.clock.offset_ns = 400 * kSecondNs;
  EXPECT_FOUND("clock", f, Verdict::kProblem, "ahead of the metadata server's");
  f.clock.round_trip_ns = 800 * kSecondNs;
  EXPECT_FOUND("clock", f, Verdict::kOk, "") ;
  f = Good();
  f.clock.synchronized = false;
  EXPECT_FOUND("clock", f, Verdict::kWarning, "no time service");
  f = Good();
  f.clock = {};
  f.clock.synchronized = true;
  EXPECT_FOUND("clock", f, Verdict::kOk, "");
}

TEST(Doctor, Ports) {
  Facts f = Good();
  f.peers[0].reached = false;
  f.peers[0].error = "Connection refused";
  EXPECT_FOUND("network", f, Verdict::kProblem, "the metadata server at pc1:7424 is not reached from here: Connection refused");
  f = Good();
  f.peers[1].reached = false;
  EXPECT_FOUND("network", f, Verdict::kProblem, "node n2 at pc2:7425 is not reached");
  f.peers[1].up = false;
  EXPECT_FOUND("network", f, Verdict::kWarning, "counts it as down");
  f = Good();
  f.peers[0].reached = f.peers[1].reached = false;
  EXPECT_NE(RenderChecks(Judge(f)).find("its port (TCP 7424)"), std::string::npos);
  f.peers[0].address = "pc1:9000";
  f.peers[1].address = "[fd00::2]:9001";
  const std::string text = RenderChecks(Judge(f));
  EXPECT_NE(text.find("its port (TCP 9000)"), std::string::npos) << text;
  EXPECT_NE(text.find("its port (TCP 9001)"), std::string::npos) << text;
}

TEST(Doctor, LargePackets) {
  Facts f = Good();
  f.peers[1].mtu = MtuIs::kLost;
  EXPECT_FOUND("network", f, Verdict::kProblem, "packets of 9000 bytes");
  f.peers[1].mtu = MtuIs::kUnknown;
  EXPECT_FOUND("network", f, Verdict::kOk, "");
}

TEST(Doctor, Disks) {
  const auto with = [](const std::function<void(DiskFact*)>& change) {
    Facts f = Good();
    change(&f.disks[0]);
    return f;
  };
  EXPECT_FOUND("disks", with([](DiskFact* d) { d->is_dir = false; }), Verdict::kProblem, "disk d1 (/srv/d1) is not there");
  EXPECT_FOUND("disks", with([](DiskFact* d) { d->on_root = true; }), Verdict::kWarning, "filesystem of the system itself");
  EXPECT_FOUND("disks", with([](DiskFact* d) { d->superblock = false; }), Verdict::kWarning, "never used");
  EXPECT_FOUND("disks", with([](DiskFact* d) { d->of_server = false; }), Verdict::kProblem, "does not belong to the user stria");
  EXPECT_FOUND("disks", with([](DiskFact* d) { d->filesystem = "vfat"; }), Verdict::kWarning, "vfat");
  EXPECT_FOUND("disks", with([](DiskFact* d) { d->options = {"ro"}; }), Verdict::kProblem, "read-only");
  EXPECT_FOUND("disks", with([](DiskFact* d) { d->xattrs = false; }), Verdict::kWarning, "extended attributes");
  EXPECT_FOUND("disks", with([](DiskFact* d) { d->xattrs = std::nullopt; }), Verdict::kOk, "");
  EXPECT_FOUND("disks", with([](DiskFact* d) { d->direct = false; }), Verdict::kWarning, "direct I/O");
  EXPECT_FOUND("disks", with([](DiskFact* d) { d->options.push_back("discard"); }), Verdict::kWarning, "discard");
  EXPECT_FOUND("disks", with([](DiskFact* d) { d->options.push_back("strictatime"); }), Verdict::kWarning, "strictatime");
  EXPECT_FOUND("disks", with([](DiskFact* d) { d->in_fstab = false; }), Verdict::kWarning, "not in /etc/fstab");
  EXPECT_FOUND("disks", with([](DiskFact* d) { d->fstab_options = {"noatime"}; }), Verdict::kWarning, "nofail");
  EXPECT_FOUND("disks", with([](DiskFact* d) { d->free_bytes = 99; }), Verdict::kWarning, "(9 %)");
  EXPECT_FOUND("disks", with([](DiskFact* d) { d->free_bytes = 19; }), Verdict::kProblem, "(1 %)");
  EXPECT_FOUND("disks", with([](DiskFact* d) { d->free_inodes = 49; }), Verdict::kWarning, "49 of 1000 inodes");
  EXPECT_FOUND("disks", with([](DiskFact* d) { d->total_inodes = d->free_inodes = 0; }), Verdict::kOk, "");
  Facts f = Good();
  f.settings_error = "data.toml, line 3: no";
  EXPECT_FOUND("disks", f, Verdict::kProblem, "line 3");
}

TEST(Doctor, Kernels) {
  Facts f = Good();
  f.kernel.fuse = false;
  EXPECT_FOUND("kernel", f, Verdict::kProblem, "/dev/fuse");
  f.client = false;
  EXPECT_FOUND("kernel", f, Verdict::kOk, "");
  const auto said = [](const KernelFact& k) {
    Facts facts = Good();
    facts.kernel = k;
    std::string out;
    for (const Check& c : Judge(facts)) out += c.area == "kernel" ? c.sentence + "\n" : "";
    return out;
  };
  EXPECT_EQ(said({"6.12.1", true, std::nullopt, true, true}),
            "Linux 6.12.1, passthrough, io_uring\nmounts of ordinary users may be seen by others (user_allow_other)\n");
  EXPECT_NE(said({"6.1.0-13-amd64", true, std::nullopt, false, false}).find("6.1.0-13-amd64, no passthrough (-o passthrough needs Linux 6.9), no io_uring"), std::string::npos);
  EXPECT_NE(said({"6.12.1", true, false, true, true}).find("no passthrough"), std::string::npos) << "built without it";
  EXPECT_EQ(KernelOf("6.1.0-13-amd64"), (std::pair<int, int>{6, 1}));
  EXPECT_EQ(KernelOf("6.18-rc1"), (std::pair<int, int>{6, 18}));
  EXPECT_EQ(KernelOf("six"), (std::pair<int, int>{0, 0}));
  EXPECT_EQ(KernelOf("6"), (std::pair<int, int>{0, 0}));
}

TEST(Doctor, Limits) {
  Facts f = Good();
  f.open_files_hard = 4096;
  EXPECT_FOUND("limits", f, Verdict::kWarning, "4096 open files");
}

TEST(Doctor, Versions) {
  Facts f = Good();
  f.server_version = "0.9.3 (commit ba9876543210)";
  EXPECT_FOUND("versions", f, Verdict::kOk, "");
  f.server_version = "0.10.0 (commit ba9876543210)";
  EXPECT_FOUND("versions", f, Verdict::kWarning, "0.10.0");
  f.server_version = "";
  EXPECT_FOUND("versions", f, Verdict::kOk, "");
  EXPECT_EQ(ReleaseOf("0.9.0 (commit 0123456789ab)"), "0.9");
  EXPECT_EQ(ReleaseOf("0.10"), "0.10");
  EXPECT_EQ(ReleaseOf("unknown"), "");
}

TEST(Doctor, Certificates) {
  const auto with = [](const std::function<void(CertificateFact*)>& change) {
    Facts f = Good();
    change(&f.certificates[0]);
    return f;
  };
  EXPECT_FOUND("certificates", with([](CertificateFact* c) { c->error = "others may read it"; }), Verdict::kProblem, "others may read it");
  EXPECT_FOUND("certificates", with([](CertificateFact* c) { c->cluster = "c-2"; }), Verdict::kProblem, "c-2");
  EXPECT_FOUND("certificates", with([](CertificateFact* c) { c->not_before_s = kNow + 1; }), Verdict::kProblem, "not valid yet");
  EXPECT_FOUND("certificates", with([](CertificateFact* c) { c->not_after_s = kNow - 3 * kDays; }), Verdict::kProblem, "3 d");
  EXPECT_FOUND("certificates", with([](CertificateFact* c) { c->not_after_s = kNow + 20 * kDays; }), Verdict::kWarning, "was not renewed");
  EXPECT_FOUND("certificates", with([](CertificateFact* c) { c->not_after_s = kNow + 29 * kDays; }), Verdict::kOk, "");
  Facts f = Good();
  f.certificates.clear();
  EXPECT_FOUND("certificates", f, Verdict::kWarning, "no certificate");
  f.root = false;
  EXPECT_FOUND("certificates", f, Verdict::kWarning, "that this user can read");
}

TEST(Doctor, WhatIsPrinted) {
  Facts f = Good();
  f.clock.synchronized = false;
  f.disks[0].is_dir = false;
  const std::vector<Check> checks = Judge(f);
  const std::string text = RenderChecks(checks);
  EXPECT_NE(text.find("warning  clock         no time service leads this machine's clock\n                       -> install chrony"), std::string::npos) << text;
  EXPECT_NE(text.find("problem  disks         disk d1 (/srv/d1) is not there\n"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("1 problem, 1 warning\n")) << text;
  const Json j = ChecksJson(checks);
  EXPECT_EQ(j["verdict"], "problem");
  EXPECT_EQ(j["checks"].size(), checks.size());
}

// ---- How it looks ----------------------------------------------------------------------------------

// One of two metadata servers, with three members of etcd.
Facts GoodMember() {
  Facts f = Good();
  f.ha.there = f.ha.tls = true;
  f.ha.member = "pc1";
  for (const char* address : {"pc1:2379", "pc2:2379", "pc3:2379"}) {
    PeerFact etcd;
    etcd.whose = "etcd";
    etcd.address = address;
    etcd.reached = true;
    f.ha.etcd.push_back(etcd);
  }
  MemberStatusReply members;
  members.version = 1;
  members.primary = "pc1";
  members.min_in_sync = 1;
  members.members.resize(2);
  for (size_t i = 0; i < 2; ++i) {
    MemberState& m = members.members[i];
    m.name = i == 0 ? "pc1" : "pc2";
    m.address = m.name + ":7424";
    m.role = i == 0 ? MemberRole::kPrimary : MemberRole::kStandby;
    m.in_sync = m.coordinator = true;
  }
  f.ha.members = members;
  return f;
}

TEST(Doctor, OneOfSeveralMetadataServers) {
  EXPECT_EQ(WorstOf(Judge(GoodMember())), Verdict::kOk) << RenderChecks(Judge(GoodMember()));
  Facts f = GoodMember();
  f.ha.error = "/etc/stria/meta.toml, ha.etcd: two members of etcd are worse than one";
  EXPECT_FOUND("metadata", f, Verdict::kProblem, "two members of etcd");
  f = GoodMember();
  f.ha.etcd[2].reached = false;
  f.ha.etcd[2].error = "Connection refused";
  EXPECT_FOUND("metadata", f, Verdict::kWarning, "etcd at pc3:2379 is not reached from here: Connection refused");
  f.ha.etcd[1].reached = false;
  EXPECT_FOUND("metadata", f, Verdict::kProblem, "etcd has no majority from here: 1 of 3");
  f = GoodMember();
  f.ha.tls = false;
  EXPECT_FOUND("metadata", f, Verdict::kWarning, "without TLS");
  f = GoodMember();
  f.ha.members.reset();
  EXPECT_FOUND("metadata", f, Verdict::kWarning, "not known here");
  f = GoodMember();
  f.ha.member = "pc9";
  EXPECT_FOUND("metadata", f, Verdict::kProblem, "pc9, is none of those");
  f = GoodMember();
  f.ha.members->members[1].role = MemberRole::kUnreachable;
  f.ha.members->members[1].in_sync = false;
  EXPECT_FOUND("metadata", f, Verdict::kWarning, "only one copy is left");
}

TEST(DoctorGather, LinesOfMounts) {
  const std::vector<MountLine> lines = ParseMountLines("# device  point\nLABEL=d1 /srv/d1/ ext4 nofail,noatime 0 2\n\n/dev/sdb /srv/my\\040disk xfs rw 0 0\nbroken\n");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].point, "/srv/d1");
  EXPECT_EQ(lines[0].options, (std::vector<std::string>{"nofail", "noatime"}));
  EXPECT_EQ(lines[1].point, "/srv/my disk");
  EXPECT_EQ(lines[1].type, "xfs");
}

TEST(DoctorGather, TheMountThatHoldsAPath) {
  const std::vector<MountLine> lines = ParseMountLines("a / ext4 rw\nb /srv ext4 rw\nc /srv/d1 xfs rw\nd /srv/d1 ext4 rw\n");
  EXPECT_EQ(MountHolding(lines, "/srv/d1/x")->source, "d") << "the last one is on top";
  EXPECT_EQ(MountHolding(lines, "/srv/d10")->source, "b");
  EXPECT_EQ(MountHolding(lines, "/etc")->source, "a");
  EXPECT_EQ(MountHolding({}, "/etc"), nullptr);
}

TEST(DoctorGather, Configurations) {
  EXPECT_TRUE(AllowsOthers("# x\n  user_allow_other  \n"));
  EXPECT_FALSE(AllowsOthers("#user_allow_other\nmount_max = 5\n"));
  EXPECT_EQ(HasPassthrough("CONFIG_FUSE_FS=m\nCONFIG_FUSE_PASSTHROUGH=y\n"), true);
  EXPECT_EQ(HasPassthrough("CONFIG_FUSE_FS=m\n# CONFIG_FUSE_PASSTHROUGH is not set\n"), false);
  EXPECT_EQ(HasPassthrough(""), std::nullopt);
}

TEST(DoctorGather, ADiskOfThisMachine) {
  const TempDir dir;
  const DiskFact there = LookAtDisk({dir.path(), "d1", ""});
  EXPECT_TRUE(there.is_dir);
  EXPECT_FALSE(there.superblock);
  EXPECT_FALSE(there.filesystem.empty());
  EXPECT_GT(there.total_bytes, 0u);
  EXPECT_TRUE(std::filesystem::is_empty(dir.path())) << "nothing is left";
  EXPECT_FALSE(LookAtDisk({dir.path() + "/missing", "d1", ""}).is_dir);
}

TEST(DoctorGather, PeersOfThisMachine) {
  const NameFact name = LookUp("this machine", "127.0.0.1", true);
  EXPECT_EQ(name.error, "");
  EXPECT_EQ(name.addresses, std::vector<std::string>{"127.0.0.1"});
  std::vector<PeerFact> peers(1);
  peers[0].address = "127.0.0.1:1";  // where nothing listens
  TryPeers(&peers);
  EXPECT_FALSE(peers[0].reached);
  EXPECT_NE(peers[0].error, "");
}

}  // namespace
}  // namespace stria::cli::doctor
