#include "tools/cli/render.h"

#include <gtest/gtest.h>

#include "tools/cli/json.h"
#include "tools/cli/rebuild_watch.h"
#include "tools/cli/sample_status.h"
#include "tools/cli/upkeep.h"

namespace stria::cli {
namespace {

TEST(Render, Bytes) {
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(1023), "1023 B");
  EXPECT_EQ(HumanBytes(1024), "1.0 KiB");
  EXPECT_EQ(HumanBytes(1536 * kMiB), "1.5 GiB");
  EXPECT_EQ(HumanBytes(kMiB - 1), "1.0 MiB");
  EXPECT_EQ(HumanBytes(12 * kGiB), "12 GiB");
  EXPECT_EQ(HumanBytes(UINT64_MAX), "16 EiB");
}

TEST(Render, Durations) {
  EXPECT_EQ(HumanDuration(-5), "0 s");
  EXPECT_EQ(HumanDuration(59), "59 s");
  EXPECT_EQ(HumanDuration(125), "2 min 5 s");
  EXPECT_EQ(HumanDuration(7200), "2 h");
  EXPECT_EQ(HumanDuration(86400 + 3600 * 3), "1 d 3 h");
}

// One line, however many disks they are.
TEST(Render, DisksThatAreFull) {
  StatusReply s = SampleStatus();
  const auto said = [&s] {
    std::string all;
    for (const Finding& f : Diagnose(s, kSampleNowNs)) all += f.what + "\n";
    return all;
  };
  s.map.targets[0].free_bytes = kGiB;
  EXPECT_EQ(said(), "Disk n1:d1 (1.0 GiB free) is nearly full.\n");
  s.map.targets[1].free_bytes = kGiB;
  EXPECT_EQ(said(), "2 disks are nearly full: n1:d1 (1.0 GiB free), n1:d2 (1.0 GiB free).\n");
  for (uint32_t i = 0; i < 20; ++i) {
    TargetInfo t = s.map.targets[0];
    t.id = TargetId(100 + i);
    t.label = "x" + std::to_string(i);
    s.map.targets.push_back(t);
  }
  for (TargetInfo& t : s.map.targets) t.free_bytes = t.node == NodeId(1) ? kGiB : t.capacity_bytes;
  EXPECT_EQ(said(), "22 disks are nearly full: n1:d1 (1.0 GiB free), n1:d2 (1.0 GiB free), n1:x0 (1.0 GiB free), n1:x1 (1.0 GiB free), "
                    "n1:x2 (1.0 GiB free) and 17 more.\n");
  for (TargetInfo& t : s.map.targets) t.free_bytes = kGiB;
  EXPECT_EQ(said(), "The filesystem is nearly full: 24 GiB of 2.3 TiB are free.\n");
  for (TargetInfo& t : s.map.targets) t.free_bytes = 0;
  EXPECT_NE(said().find("The filesystem is full: "), std::string::npos) << said();
  EXPECT_EQ(Diagnose(s, kSampleNowNs).size(), 1u);
}

TEST(Render, ListsSayThatTheyAreCut) {
  StatusReply s = SampleStatus();
  s.lost_stripes = 3000;
  for (uint64_t i = 1; i <= 99; ++i) s.lost_files.push_back({InodeId(i), "/f" + std::to_string(i), 0, 1});
  EXPECT_EQ(RenderStatus(s, kSampleNowNs).find("--all"), std::string::npos);
  EXPECT_EQ(StatusJson(s, kSampleNowNs)["lost_files_cut"], false);
  s.lost_files.push_back({InodeId(100), "/f100", 0, 1});
  EXPECT_NE(RenderStatus(s, kSampleNowNs).find("all of them:  stria status --all"), std::string::npos);
  EXPECT_EQ(StatusJson(s, kSampleNowNs)["lost_files_cut"], true);
  UpkeepReply u;
  u.unfit.resize(kMaxAffectedFiles);
  EXPECT_NE(RenderScrubs(u, s.map, 0).find("stria scrub status --all"), std::string::npos);
  FsckRepairReply r;
  r.problems.resize(kMaxProblems);
  EXPECT_NE(RenderFsckRepair(r, true).find("there may be more"), std::string::npos);
}

TEST(Render, ABackupOnANodeThatIsNoMore) {
  UpkeepReply u;
  u.backup.on = u.backup.complete = true;
  u.backup.nodes = {NodeId(1), NodeId(1048585)};
  EXPECT_NE(RenderBackupLine(u, SampleMap(), 100).find("on n1 and a node that was removed"), std::string::npos);
}

TEST(Json, IsLaidOutAsEver) {
  const Json j = {{"a", {1, 2.5, nullptr, true}}, {"b", Json::object()}, {"c", Json::array()}, {"d", {{"e", "x\ny"}}}};
  EXPECT_EQ(Dump(j), j.dump(2) + "\n");
  EXPECT_EQ(DumpLine(j), j.dump() + "\n");
}

TEST(Render, NamesOfAllBytes) {
  StatusReply s = SampleStatus();
  s.lost_stripes = 1;
  s.lost_files = {{InodeId(9), "/\xff\033[2J\nall is well", 0, 10}};
  s.thin_stripes = 1;
  s.thin_files = {{InodeId(9), "/\xff\033[2J", 0, 10}};
  s.sessions[0].client = "mount /mnt/\033]0;x\007 on pc7 (pid 1)";
  s.sessions[0].node_name = "n1\033[31m";
  s.advice.push_back({1, "Disk n1:d9 is not used: cannot open /srv/\033[2J.", "Look at /srv/\033[2J."});
  const std::string text = RenderStatus(s, kSampleNowNs);
  EXPECT_NE(text.find(R"(    $'/\377\033[2J\nall is well'  0+10)"), text.npos) << text;
  EXPECT_NE(text.find(R"(may lose them: $'/\377\033[2J'.)"), text.npos) << text;
  EXPECT_NE(text.find(R"(mount /mnt/\033]0;x\007 on pc7)"), text.npos) << text;
  EXPECT_NE(text.find(R"(cannot open /srv/\033[2J.)"), text.npos) << text;
  EXPECT_EQ(text.find('\033'), text.npos) << "a terminal would obey a file's name";
  const std::string json = Dump(StatusJson(s, kSampleNowNs));
  EXPECT_NE(json.find(R"("path": "/\udcff\u001b[2J\nall is well")"), json.npos) << json;
}

TEST(Render, OneHundredPercentIsAllOfIt) {
  EXPECT_EQ(Percent(0, 0), 100);
  EXPECT_EQ(Percent(999999, 1000000), 99);
  EXPECT_EQ(Percent(UINT64_MAX - 1, UINT64_MAX), 99);
  EXPECT_EQ(Percent(3, 2), 100);
  EXPECT_EQ(ProgressBar(0, 4), "[----]");
  EXPECT_EQ(ProgressBar(99, 4), "[###-]");
  EXPECT_EQ(ProgressBar(100, 4), "[####]");
}

TEST(Render, HealthyStatus) {
  EXPECT_EQ(RenderStatus(SampleStatus(), kSampleNowNs),
            R"(cluster: 01234567-89ab-cdef-8000-000000000001
  state: HEALTHY
   data: 18 GiB in 12 files and 1 directory; 640 stripes (0 degraded, 0 narrow, 0 crowded, 0 lost); 3.0 KiB inline
  disks: 23 GiB used of 400 GiB; 0 shards to be deleted

    NAME  STATE     USED     FREE  READ  WRITE  CKSUM
    n1    up      12 GiB  180 GiB     0      0      0
      d1  up     5.5 GiB   90 GiB     0      0      0
      d2  up     6.0 GiB   90 GiB     0      0      0
    n2    up      12 GiB  180 GiB     0      0      0
      d1  up     5.5 GiB   90 GiB     0      0      0
      d2  up     6.0 GiB   90 GiB     0      0      0

    CLIENT                        OWNER  NODE  LEASE
    mount /data on pc7 (pid 123)  -      n1    14 s

errors: no known data errors
)");
  EXPECT_EQ(HealthOf(Diagnose(SampleStatus(), kSampleNowNs)), Health::kHealthy);
}

TEST(Render, DegradedStatus) {
  StatusReply s = SampleStatus();
  s.sessions.clear();
  s.map.nodes[1].state = NodeState::kOut;
  s.map.targets[0].checksum_errors = 3;
  s.degraded_stripes = 320;
  RepairProgress p;
  p.target = TargetId(21);
  p.reason = "n2 is out";
  p.stripes_total = 320;
  p.stripes_done = 160;
  p.bytes_total = 2 * kGiB;
  p.bytes_done = kGiB;
  p.bytes_per_s = 100.0 * kMiB;
  p.eta_s = 10;
  s.repairs.push_back(p);
  EXPECT_EQ(RenderStatus(s, kSampleNowNs),
            R"(cluster: 01234567-89ab-cdef-8000-000000000001
  state: DEGRADED
 status: Node n2 is out (for 2 min 5 s); its data is made again elsewhere.
 action: Watch it:  stria rebuild watch   Then forget the node:  stria node remove n2
 status: Disk n1:d1 has shown 0 read, 0 write and 3 checksum errors; the bytes came from redundancy.
 action: If it goes on, empty it while it can still be read:  stria disk drain n1:d1
 status: 320 stripes miss a column and can stand fewer failures than their layout asks for.
 action: It is being made again:  stria rebuild watch
rebuild: n2:d1  [##########----------]  50 %  1.0 GiB of 2.0 GiB, 100 MiB/s, 10 s left (n2 is out)
   data: 18 GiB in 12 files and 1 directory; 640 stripes (320 degraded, 0 narrow, 0 crowded, 0 lost); 3.0 KiB inline
  disks: 23 GiB used of 400 GiB; 0 shards to be deleted

    NAME  STATE     USED     FREE  READ  WRITE  CKSUM
    n1    up      12 GiB  180 GiB     0      0      3
      d1  up     5.5 GiB   90 GiB     0      0      3
      d2  up     6.0 GiB   90 GiB     0      0      0
    n2    out     12 GiB  180 GiB     0      0      0
      d1  up     5.5 GiB   90 GiB     0      0      0
      d2  up     6.0 GiB   90 GiB     0      0      0

errors: no known data errors
)");
  EXPECT_EQ(StatusJson(s, kSampleNowNs)["exit_code"], 1);
}

TEST(Render, LostDataIsFirstAndNamed) {
  StatusReply s = SampleStatus();
  s.map.nodes[0].state = NodeState::kDown;
  s.lost_stripes = 1;
  s.lost_files.push_back({InodeId(9), "/run7.root", 4096, 100});
  s.lost_files.push_back({InodeId(10), "", 0, 1});
  const auto findings = Diagnose(s, kSampleNowNs);
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(findings[0].severity, Health::kAtRisk);
  const std::string text = RenderStatus(s, kSampleNowNs);
  EXPECT_NE(text.find("  state: AT RISK\n"), std::string::npos) << text;
  EXPECT_NE(text.find("    /run7.root  4096+100\n    inode 10  0+1\n"), std::string::npos) << text;
  const Json j = StatusJson(s, kSampleNowNs);
  EXPECT_EQ(j["state"], "AT RISK");
  EXPECT_EQ(j["lost_files"][0]["path"], "/run7.root");
}

TEST(Render, WhatNewStripesAreIsTold) {
  const auto finding = [](LayoutRoom room) {
    StatusReply s = SampleStatus();
    s.layouts = {std::move(room)};
    const auto findings = Diagnose(s, kSampleNowNs);
    EXPECT_EQ(findings.size(), 1u);
    return findings.at(0);
  };
  Finding f = finding({.layout = "raid5:4+1", .stripes = "3+1", .until = "another node joins", .narrow = true});
  EXPECT_EQ(f.severity, Health::kDegraded);
  EXPECT_EQ(f.what, "New stripes of layout raid5:4+1 are 3+1 (fully protected) until another node joins.");
  EXPECT_NE(f.action.find("add a node"), std::string::npos);
  f = finding({.layout = "raid1:2", .stripes = "2 copies", .until = "what is down is back", .crowded = true});
  EXPECT_EQ(f.severity, Health::kDegraded);
  EXPECT_EQ(f.what,
            "New stripes of layout raid1:2 are 2 copies, crowded onto disks that fail together until what is down is back.");
  f = finding({.layout = "raid1:2", .stripes = "nothing", .until = "another node joins", .none = true});
  EXPECT_EQ(f.severity, Health::kAtRisk);
  EXPECT_EQ(f.what, "Nothing can be written with layout raid1:2 until another node joins; writers wait for the mount's "
                    "timeout, and then get EIO.");
  f = finding({.layout = "raid1:2,min=1", .stripes = "1 copy", .until = "another node joins", .thin = true});
  EXPECT_EQ(f.severity, Health::kAtRisk);

  StatusReply s = SampleStatus();
  s.thin_stripes = 3;
  s.thin_files = {{InodeId(9), "/a", 0, 1}, {InodeId(9), "/a", 5, 1}, {InodeId(10), "", 0, 1}};
  const auto findings = Diagnose(s, kSampleNowNs);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].severity, Health::kAtRisk);
  EXPECT_NE(findings[0].what.find("3 stripes have fewer copies"), std::string::npos) << findings[0].what;
  EXPECT_NE(findings[0].what.find(": /a, inode 10."), std::string::npos) << findings[0].what;
  const Json j = StatusJson(s, kSampleNowNs);
  EXPECT_EQ(j["stripes_with_fewer_copies"], 3);
  EXPECT_EQ(j["files_with_fewer_copies"][0]["path"], "/a");
}

TEST(Render, EveryStateThatIsNotRightIsFound) {
  const auto found = [](const std::function<void(StatusReply&)>& change) {
    StatusReply s = SampleStatus();
    change(s);
    return HealthOf(Diagnose(s, kSampleNowNs));
  };
  EXPECT_EQ(found([](auto& s) { s.map.nodes[0].state = NodeState::kSuspect; }), Health::kDegraded);
  EXPECT_EQ(found([](auto& s) { s.map.nodes[0].state = NodeState::kDown; }), Health::kDegraded);
  EXPECT_EQ(found([](auto& s) { s.map.targets[0].state = TargetState::kFailed; }), Health::kDegraded);
  EXPECT_EQ(found([](auto& s) { s.map.targets[0].problem = "it has no usable index"; }), Health::kDegraded);
  EXPECT_EQ(found([](auto& s) { s.map.targets[0].write_errors = 1; }), Health::kDegraded);
  EXPECT_EQ(found([](auto& s) { s.map.targets[0].free_bytes = kGiB; }), Health::kDegraded);
  EXPECT_EQ(found([](auto& s) { s.narrow_stripes = 1; }), Health::kDegraded);
  EXPECT_EQ(found([](auto& s) { s.crowded_stripes = 1; }), Health::kDegraded);
  EXPECT_EQ(found([](auto& s) { s.degraded_stripes = 1; }), Health::kDegraded);
  EXPECT_EQ(found([](auto& s) { s.map.targets.clear(); }), Health::kDegraded);
  EXPECT_EQ(found([](auto& s) { s.lost_stripes = 1; }), Health::kAtRisk);
  // An emptied node that is out asks for nothing.
  EXPECT_EQ(found([](auto& s) {
              s.map.nodes[0].state = NodeState::kOut;
              s.map.targets[0].state = s.map.targets[1].state = TargetState::kRemoved;
            }),
            Health::kHealthy);
}

TEST(Render, ADiskThatIsSlowerThanTheOthersIsNamed) {
  StatusReply s = SampleStatus();
  for (TargetInfo& t : s.map.targets) t.read_us = 400'000;
  EXPECT_EQ(HealthOf(Diagnose(s, kSampleNowNs)), Health::kHealthy) << "all are as slow";
  for (TargetInfo& t : s.map.targets) t.read_us = 2'500;
  s.map.targets[1].read_us = 450'000;
  EXPECT_EQ(HealthOf(Diagnose(s, kSampleNowNs)), Health::kHealthy) << "that is still an answer";
  s.map.targets[1].read_us = 1'234'000;
  const std::vector<Finding> found = Diagnose(s, kSampleNowNs);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].what, "Disk n1:d2 is slow: its reads take 1234 ms lately, those of others 2.5 ms; readers do "
                           "without it where they can.");
  EXPECT_EQ(found[0].action, "If it stays so, empty it:  stria disk drain n1:d2");
  s.map.targets[0].read_us = 0;
  EXPECT_EQ(HealthOf(Diagnose(s, kSampleNowNs)), Health::kHealthy) << "too few others to compare with";
}

TEST(Render, WhatTheLossOfANodeWouldCost) {
  StatusReply s = SampleStatus();
  EXPECT_TRUE(Diagnose(s, kSampleNowNs).empty());
  EXPECT_TRUE(StatusJson(s, kSampleNowNs)["node_loss"]["nodes"].empty());
  s.node_loss.nodes = {{NodeId(1), 100, 3 * kGiB, 0}, {NodeId(2), 123, 4 * kGiB, 0}};
  s.node_loss.age_ns = 90 * kSecond;
  std::vector<Finding> found = Diagnose(s, kSampleNowNs);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].severity, Health::kHealthy) << "the layouts ask for no more";
  EXPECT_EQ(found[0].what,
            "The loss of node n2 would lose data: it holds more columns of 123 of 640 stripes (4.0 GiB) than they can "
            "do without. So would that of 1 other node; this one is the worst. Counted 1 min 30 s ago.");
  EXPECT_NE(found[0].action.find("domain=node"), std::string::npos);
  EXPECT_NE(RenderStatus(s, kSampleNowNs).find("   note: The loss of node n2 would lose data"), std::string::npos);
  const Json j = StatusJson(s, kSampleNowNs);
  EXPECT_EQ(j["exit_code"], 0);
  EXPECT_EQ(j["node_loss"]["nodes"][1]["name"], "n2");
  EXPECT_EQ(j["node_loss"]["nodes"][1]["stripes"], 123);

  s.node_loss.nodes = {{NodeId(1), 5, kGiB, 5}};
  s.node_loss.age_ns = 0;
  found = Diagnose(s, kSampleNowNs);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].what,
            "The loss of node n1 would lose data: it holds more columns of 5 of 640 stripes (1.0 GiB) than they can do "
            "without; 5 of these have no redundancy at all.");
  EXPECT_NE(found[0].action.find("raid5:2+1"), std::string::npos);

  s.node_loss = NodeLoss();
  found = Diagnose(s, kSampleNowNs);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].severity, Health::kHealthy);
  EXPECT_TRUE(StatusJson(s, kSampleNowNs)["node_loss"].is_null());
}

TEST(Render, Lists) {
  StatusReply s = SampleStatus();
  s.map.nodes[1].state = NodeState::kDown;
  s.map.targets[1].state = TargetState::kRemoved;
  s.map.targets[0].channel = "pci-3";
  EXPECT_EQ(RenderNodes(s, kSampleNowNs),
            "NODE  STATE      SINCE  ADDRESS         DISKS     USED     FREE\n"
            "n1    up     2 min 5 s  127.0.0.1:7001      1  5.5 GiB   90 GiB\n"
            "n2    down   2 min 5 s  127.0.0.1:7002      2   12 GiB  180 GiB\n");
  EXPECT_EQ(RenderDisks(s),
            "DISK   STATE  CHANNEL  CAPACITY     USED    FREE  READ  WRITE  CKSUM\n"
            "n1:d1  ok     pci-3     100 GiB  5.5 GiB  90 GiB     0      0      0\n"
            "n2:d1  down   -         100 GiB  5.5 GiB  90 GiB     0      0      0\n"
            "n2:d2  down   -         100 GiB  6.0 GiB  90 GiB     0      0      0\n");
  EXPECT_EQ(RenderRepairs(s), "nothing to rebuild\n");
  s.degraded_stripes = 1;
  s.repair_limit_bytes_per_s = 10 * kMiB;
  EXPECT_EQ(RenderRepairs(s), "no rebuild runs; 1 stripe misses a column\nlimit: 10 MiB/s\n");
}

TEST(Render, AReplacedNodeThatIsEmptyIsOnlyANote) {
  StatusReply s = SampleStatus();
  s.map.nodes[1].state = NodeState::kDown;
  s.map.targets[2].state = s.map.targets[3].state = TargetState::kDraining;
  RepairProgress p;
  p.target = TargetId(21);
  p.stripes_total = 4;
  p.stripes_done = 3;
  s.repairs.push_back(p);
  EXPECT_EQ(HealthOf(Diagnose(s, kSampleNowNs)), Health::kDegraded);
  RebuildWatch watch;
  EXPECT_EQ(watch.Update(s, 0).end, RebuildWatch::End::kNotYet);
  s.repairs[0].stripes_done = 4;
  EXPECT_EQ(watch.Update(s, 1).end, RebuildWatch::End::kDone);
  const auto findings = Diagnose(s, kSampleNowNs);
  EXPECT_EQ(HealthOf(findings), Health::kHealthy);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].action, "Forget it:  stria node remove n2");
  const std::string text = RenderStatus(s, kSampleNowNs);
  EXPECT_NE(text.find("  state: HEALTHY\n   note: Node n2 is down"), std::string::npos) << text;
  EXPECT_EQ(text.find("rebuild:"), std::string::npos) << text;
}

TEST(Render, ChannelsAreShown) {
  StatusReply s = SampleStatus();
  s.map.targets[0].channel = s.map.targets[1].channel = "sata0";
  const std::string text = RenderStatus(s, kSampleNowNs, "  scrub: x\n");
  EXPECT_NE(text.find("  scrub: x\n"), std::string::npos);
  EXPECT_NE(text.find("    n1       up      12 GiB  180 GiB     0      0      0\n"
                      "      sata0          12 GiB  180 GiB     0      0      0\n"
                      "        d1   up     5.5 GiB   90 GiB     0      0      0\n"), std::string::npos) << text;
  EXPECT_NE(text.find("      d1     up     5.5 GiB"), std::string::npos) << "of n2, without a channel: " << text;
}

TEST(Render, ADiskThatRetiresIsExplained) {
  StatusReply s = SampleStatus();
  s.map.targets[0].state = TargetState::kDraining;
  s.map.targets[0].read_errors = 17;
  RepairProgress p;
  p.target = s.map.targets[0].id;
  p.reason = "too many errors";
  p.stripes_total = 4;
  s.repairs = {p};
  auto findings = Diagnose(s, kSampleNowNs);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].what, "Disk n1:d1 returns too many errors (17 read, 0 write and 0 checksum errors) and is being emptied.");
  s.repairs[0].stripes_done = 4;
  EXPECT_EQ(Diagnose(s, kSampleNowNs)[0].action, "Take it out, and forget it:  stria disk remove n1:d1");
}

TEST(Render, PeoplesOrder) {
  ClusterMap map;
  for (const char* name : {"n10", "pc", "n2", "n1"}) {
    NodeInfo n;
    n.id = NodeId(static_cast<uint32_t>(map.nodes.size() + 1));
    n.name = name;
    map.nodes.push_back(n);
    for (const char* label : {"d10", "d9"}) {
      TargetInfo t;
      t.id = TargetId(static_cast<uint32_t>(map.targets.size() + 1));
      t.node = n.id;
      t.label = label;
      map.targets.push_back(t);
    }
  }
  map = InOrder(map);
  std::string all;
  for (const TargetInfo& t : map.targets) all += map.TargetName(t.id) + " ";
  EXPECT_EQ(all, "n1:d9 n1:d10 n2:d9 n2:d10 n10:d9 n10:d10 pc:d9 pc:d10 ");
}

TEST(RebuildWatch, ToOneHundredPercent) {
  StatusReply s = SampleStatus();
  RebuildWatch watch;
  s.degraded_stripes = 4;
  auto view = watch.Update(s, 0);
  EXPECT_EQ(view.end, RebuildWatch::End::kNotYet) << "it may not be listed yet";
  RepairProgress p;
  p.target = TargetId(11);
  p.stripes_total = 4;
  p.stripes_done = 1;
  s.repairs = {p};
  view = watch.Update(s, kSecond);
  EXPECT_EQ(view.end, RebuildWatch::End::kNotYet);
  ASSERT_EQ(view.lines.size(), 1u);
  EXPECT_EQ(view.lines[0], "n1:d1  [#####---------------]  25 %  1 of 4 stripes, 0 B/s");
  s.repairs.clear();
  s.degraded_stripes = 0;
  view = watch.Update(s, 2 * kSecond);
  EXPECT_EQ(view.end, RebuildWatch::End::kDone);
  EXPECT_EQ(view.lines[0], "n1:d1  [####################] 100 %  4 of 4 stripes");
  EXPECT_EQ(view.sentence, "rebuilt: 100 %, every stripe has all its columns again");
}

TEST(RebuildWatch, EndsWhenNothingGoesOn) {
  StatusReply s = SampleStatus();
  s.degraded_stripes = 4;
  s.map.nodes[1].state = NodeState::kDown;
  RebuildWatch quiet;
  EXPECT_EQ(quiet.Update(s, 0).end, RebuildWatch::End::kNotYet);
  const auto view = quiet.Update(s, RebuildWatch::kQuietNs);
  EXPECT_EQ(view.end, RebuildWatch::End::kQuiet);
  EXPECT_NE(view.sentence.find("stria node out n2"), std::string::npos) << view.sentence;

  RepairProgress p;
  p.target = TargetId(11);
  p.stripes_total = 4;
  p.stripes_done = 3;
  p.stuck = 1;
  s.repairs = {p};
  RebuildWatch stuck;
  EXPECT_EQ(stuck.Update(s, 0).end, RebuildWatch::End::kNotYet);
  EXPECT_EQ(stuck.Update(s, RebuildWatch::kQuietNs).end, RebuildWatch::End::kStuck);
  s.repairs[0].stuck = 0;
  EXPECT_EQ(stuck.Update(s, 2 * RebuildWatch::kQuietNs).end, RebuildWatch::End::kNotYet) << "it moves again";
  s.repairs[0].paused = true;
  EXPECT_EQ(stuck.Update(s, 2 * RebuildWatch::kQuietNs).end, RebuildWatch::End::kNotYet);
  EXPECT_NE(stuck.Update(s, 3 * RebuildWatch::kQuietNs).sentence.find("stria rebuild resume"),
            std::string::npos);
}

TEST(Disks, WhatTheySayOfThemselvesIsShown) {
  StatusReply s = SampleStatus();
  EXPECT_EQ(RenderDisks(s).find("SMART"), std::string::npos) << "none says anything";
  s.map.targets[0].smart = {"sda", "MODEL", "S3RIAL", 48, 31, 2, 3, SmartHealth::kFailing, "it says so"};
  EXPECT_NE(RenderDisks(s).find("failing  2 d    5  S3RIAL\n"), std::string::npos) << RenderDisks(s);
  const std::vector<Finding> findings = Diagnose(s, kSampleNowNs);
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].what, "Disk n1:d1 (serial S3RIAL) predicts its own failure: it says so.");
  EXPECT_EQ(DisksJson(s.map)[0]["smart"]["pending"], 3);
  EXPECT_TRUE(DisksJson(s.map)[1]["smart"].is_null());
}

}  // namespace
}  // namespace stria::cli
