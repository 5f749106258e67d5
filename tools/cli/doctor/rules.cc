#include "tools/cli/doctor/rules.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "common/address.h"
#include "common/printable.h"
#include "common/units.h"
#include "tools/cli/member_render.h"
#include "tools/cli/render.h"

namespace stria::cli::doctor {
namespace {

constexpr int64_t kClockWarningNs = 1 * kSecond;
constexpr int64_t kClockProblemNs = 300 * kSecond;
constexpr uint64_t kFewFiles = 65536;
constexpr int64_t kDay = 24 * 3600;
// Daemons renew certificates of 90 days when 30 are left.
constexpr int64_t kNotRenewedDays = 25;
constexpr int kFreeWarning = 10, kFreeProblem = 2, kInodesWarning = 5;  // percent
constexpr std::pair<int, int> kPassthroughKernel = {6, 9};

class Judgement {
 public:
  void In(std::string area) { area_ = std::move(area); }
  void Ok(std::string sentence) { checks_.push_back({area_, Verdict::kOk, std::move(sentence), ""}); }
  void Warn(std::string sentence, std::string action) { checks_.push_back({area_, Verdict::kWarning, std::move(sentence), std::move(action)}); }
  void Problem(std::string sentence, std::string action) { checks_.push_back({area_, Verdict::kProblem, std::move(sentence), std::move(action)}); }
  size_t size() const { return checks_.size(); }
  std::vector<Check> Take() { return std::move(checks_); }

 private:
  std::string area_;
  std::vector<Check> checks_;
};

bool Has(const std::vector<std::string>& all, std::string_view one) { return std::find(all.begin(), all.end(), one) != all.end(); }

bool IsLoopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

// "pc3" and "pc3.example.org" are one.
bool SameHost(const std::string& a, const std::string& b) {
  return a == b || (a.starts_with(b) && a[b.size()] == '.') || (b.starts_with(a) && b[a.size()] == '.');
}

void JudgeName(const Facts& facts, const NameFact& n, Judgement* j) {
  const std::string named = n.whose + " is called " + Printable(n.name);
  if (!n.error.empty() || n.addresses.empty()) {
    const std::string why = named + ", and that name has no address here" + (n.error.empty() ? "" : " (" + Printable(n.error) + ")");
    if (n.own) return j->Warn(why, "put the name into /etc/hosts of all machines, or into the DNS, or set address in the servers' settings");
    return j->Problem(why, "put the name into /etc/hosts of this machine, or into the DNS; getent hosts " + BashQuoted(n.name) + " shows it then");
  }
  if (std::all_of(n.addresses.begin(), n.addresses.end(), IsLoopback)) {
    const std::string only = named + ", which is " + n.addresses.front() + " here: an address that only this machine has";
    if (n.own && (!facts.data_node || facts.data_address_set)) return j->Ok(only);
    return j->Warn(only, n.own ? "set address in /etc/stria/data.toml to what others reach this machine at, and look that others find it"
                               : "give it its own address in /etc/hosts, unless it is this machine");
  }
  const bool known_back = n.back.empty() || std::any_of(n.back.begin(), n.back.end(), [&](const std::string& b) { return SameHost(b, n.name); });
  if (!known_back) {
    return j->Warn(named + " at " + PrintableList(n.addresses) + ", which is called " + PrintableList(n.back) + " the other way round",
                   "let names and addresses agree in /etc/hosts or the DNS");
  }
  j->Ok(named + ", at " + PrintableList(n.addresses) + (n.back.empty() ? " (no name the other way round)" : ""));
}

void JudgeClock(const ClockFact& c, Judgement* j) {
  const std::string cure = "install chrony (or systemd-timesyncd) on all machines; timedatectl shows whether it works";
  if (c.known) {
    const int64_t off = std::max<int64_t>(0, std::abs(c.offset_ns) - c.round_trip_ns / 2);  // what is sure
    const std::string by = HumanDuration(off / kSecond) + (c.offset_ns < 0 ? " behind" : " ahead of") + " the metadata server's";
    if (off >= kClockProblemNs) j->Problem("this machine's clock is " + by, cure);
    else if (off >= kClockWarningNs) j->Warn("this machine's clock is " + by, cure);
    else j->Ok("this machine's clock agrees with the metadata server's");
  }
  if (c.synchronized) j->Ok("a time service leads this machine's clock");
  else j->Warn("no time service leads this machine's clock", cure);
}

void JudgePeer(const PeerFact& p, Judgement* j) {
  const std::string at = p.whose + " at " + Printable(p.address);
  if (!p.reached) {
    const std::string said = at + " is not reached from here" + (p.error.empty() ? "" : ": " + Printable(p.error));
    if (!p.up && !p.meta) return j->Warn(said + "; the cluster counts it as down", "see to that node: systemctl status stria-data there");
    const std::string port = "its port (TCP " + PortOfAddress(p.address) + ")";
    return j->Problem(said, p.meta ? "look whether stria-meta runs there, and at firewalls for " + port
                                   : "look at routes and firewalls between the two for " + port + ", and at its address setting");
  }
  if (p.mtu == MtuIs::kLost) {
    return j->Problem(at + " is reached, but packets of " + std::to_string(p.mtu_bytes) + " bytes, this interface's MTU, do not arrive there",
                      "give all interfaces and switches on the way one MTU (ip link shows it), as large transfers would hang");
  }
  j->Ok(at + " is reached" + (p.mtu == MtuIs::kPasses ? ", also by packets of " + std::to_string(p.mtu_bytes) + " bytes" : ""));
}

bool IsHere(const std::string& address) { return address.starts_with("127.") || address.starts_with("localhost:") || address.starts_with("[::1]"); }

void JudgeEtcd(const HaFact& ha, Judgement* j) {
  const auto reached = static_cast<size_t>(std::ranges::count_if(ha.etcd, &PeerFact::reached));
  for (const PeerFact& p : ha.etcd) {
    const std::string at = "etcd at " + Printable(p.address);
    if (p.reached) j->Ok(at + " is reached");
    else j->Warn(at + " is not reached from here" + (p.error.empty() ? "" : ": " + Printable(p.error)), "look whether etcd runs there (systemctl status etcd), and at firewalls for its port");
  }
  if (reached * 2 <= ha.etcd.size()) {
    j->Problem("etcd has no majority from here: " + std::to_string(reached) + " of " + std::to_string(ha.etcd.size()) + " are reached, so this metadata server could not take over",
               "start etcd on more than half of its PCs");
  }
  if (!ha.tls && !std::ranges::all_of(ha.etcd, IsHere, &PeerFact::address)) {
    j->Warn("etcd is asked without TLS: whoever reaches it can keep the metadata servers from changing roles",
            "let only the metadata servers reach its port, or set ha.ca, ha.cert and ha.key in /etc/stria/meta.toml");
  }
}

void JudgeMembers(const Facts& facts, Judgement* j) {
  const HaFact& ha = facts.ha;
  if (!ha.error.empty()) return j->Problem(Printable(ha.error), "mend [ha] in /etc/stria/meta.toml; stria-meta does not start with it");
  if (!ha.there) return;
  JudgeEtcd(ha, j);
  if (!facts.clock.synchronized) {
    j->Warn("no time service leads the clock of this metadata server: the one that takes over would give its clients another time",
            "install chrony (or systemd-timesyncd) on all metadata servers");
  }
  if (!ha.members) {
    return j->Warn("what the metadata servers say of each other is not known here", "stria meta status says it to an admin; look whether stria-meta runs here");
  }
  if (FindMember(*ha.members, ha.member) == nullptr) {
    j->Problem("this metadata server, " + Printable(ha.member) + ", is none of those of the cluster", "stria meta join NAME --address HOST, with its name and address");
  }
  const std::vector<Finding> found = DiagnoseMembers(*ha.members);
  for (const Finding& f : found) {
    const std::string action = f.action.empty() ? "stria meta status shows all of them" : f.action;
    if (f.severity == Health::kAtRisk) j->Problem(f.what, action);
    else if (f.severity == Health::kDegraded) j->Warn(f.what, action);
  }
  if (HealthOf(found) == Health::kHealthy) j->Ok("the metadata servers are well: " + Printable(ha.members->primary) + " serves, and all others are in sync");
}

void JudgeFilesystem(const DiskFact& d, const std::string& disk, Judgement* j) {
  static const char* const kGood[] = {"ext4", "xfs", "btrfs", "zfs", "f2fs"};
  const bool good = std::any_of(std::begin(kGood), std::end(kGood), [&](const char* g) { return d.filesystem == g; });
  if (!d.filesystem.empty() && !good) {
    j->Warn(disk + " has a filesystem of type " + Printable(d.filesystem) + ", with which Stria is not tested", "use ext4 or XFS");
  }
  if (Has(d.options, "ro")) j->Problem(disk + " is mounted read-only", "look at the kernel's log (dmesg) for errors of the disk, and mount it anew");
  if (d.xattrs == false) j->Warn(disk + " takes no extended attributes", "use ext4 or XFS, and no option nouser_xattr");
  if (!d.direct) j->Warn(disk + " takes no direct I/O: large writes go through the page cache", "use ext4 or XFS");
  if (Has(d.options, "discard")) {
    j->Warn(disk + " is mounted with discard, which can make removing slow", "take discard out of /etc/fstab, and use systemctl enable --now fstrim.timer");
  }
  if (Has(d.options, "strictatime")) j->Warn(disk + " is mounted with strictatime: each read writes", "mount it with noatime");
  if (d.on_root) return;
  if (!d.in_fstab) {
    j->Warn(disk + " is not in /etc/fstab, so it is not there after the machine has started", "docs/operations.md, \"Installing\", has the line");
  } else if (!Has(d.fstab_options, "nofail")) {
    j->Warn(disk + " has no nofail in /etc/fstab: without the disk this machine does not start", "add nofail,x-systemd.device-timeout=15s to its line");
  }
}

void JudgeSpace(const DiskFact& d, const std::string& disk, Judgement* j) {
  if (d.total_bytes > 0) {
    const int free = static_cast<int>(static_cast<double>(d.free_bytes) / static_cast<double>(d.total_bytes) * 100);
    const std::string said = disk + " has " + HumanBytes(d.free_bytes) + " of " + HumanBytes(d.total_bytes) + " free (" + std::to_string(free) + " %)";
    if (free < kFreeProblem) j->Problem(said, "remove files, add disks, or stria rebalance");
    else if (free < kFreeWarning) j->Warn(said, "remove files, add disks, or stria rebalance");
    else j->Ok(said);
  }
  if (d.total_inodes > 0 && d.free_inodes * 100 < d.total_inodes * kInodesWarning) {
    j->Warn(disk + " has " + std::to_string(d.free_inodes) + " of " + std::to_string(d.total_inodes) + " inodes left",
            "drain it, make its filesystem anew with more inodes (mkfs.ext4 -i 65536), and add it again");
  }
}

void JudgeDisk(const DiskFact& d, Judgement* j) {
  const std::string disk = "disk " + Printable(d.label) + " (" + Printable(d.path) + ")";
  if (!d.is_dir) return j->Problem(disk + " is not there", "mount it; a disk that is broken is replaced with  stria disk replace");
  if (d.on_root) {
    j->Warn(disk + " is in the filesystem of the system itself" + (d.superblock ? "" : "; is the disk not mounted?"), "mount a disk of its own there");
  }
  if (!d.of_server) j->Problem(disk + " does not belong to the user stria, who cannot write there", "chown stria:stria " + ShellQuoted(d.path));
  if (!d.superblock) j->Warn(disk + " was never used", "look whether the right disk is mounted; stria-data uses it when it starts");
  JudgeFilesystem(d, disk, j);
  JudgeSpace(d, disk, j);
}

void JudgeKernel(const Facts& f, Judgement* j) {
  const KernelFact& k = f.kernel;
  std::string said = "Linux " + Printable(k.release);
  const bool can = k.fuse_passthrough.value_or(KernelOf(k.release) >= kPassthroughKernel);
  said += can ? ", passthrough" : ", no passthrough (-o passthrough needs Linux 6.9)";
  j->Ok(said + (k.io_uring ? ", io_uring" : ", no io_uring (nothing of Stria needs it)"));
  if (!f.client) return;
  if (!k.fuse) j->Problem("there is no /dev/fuse, so nothing can be mounted", "modprobe fuse; in a container give it the device");
  else j->Ok(k.user_allow_other ? "mounts of ordinary users may be seen by others (user_allow_other)"
                                : "mounts of ordinary users are seen by themselves only (no user_allow_other in /etc/fuse.conf); root's by everybody");
}

void JudgeLimits(const Facts& f, Judgement* j) {
  const std::string said = "a process may have " + std::to_string(f.open_files_hard) + " open files";
  if (f.open_files_hard >= kFewFiles) j->Ok(said);
  else j->Warn(said + " (services of packages set their own limit)", "for servers and mounts that are started by hand: raise nofile in /etc/security/limits.conf to 1048576");
}

void JudgeVersions(const Facts& f, Judgement* j) {
  if (f.server_version.empty()) return j->Ok("this is " + Printable(f.own_version) + "; the metadata server's version is not known");
  if (f.own_version == f.server_version) return j->Ok("this machine and the metadata server have version " + Printable(f.own_version));
  const std::string both = "this machine has version " + Printable(f.own_version) + ", the metadata server " + Printable(f.server_version);
  if (ReleaseOf(f.own_version) == ReleaseOf(f.server_version)) return j->Ok(both + ": one release");
  j->Warn(both, "bring all to one release: the metadata server first, then data servers, then mounts (docs/operations.md, \"Versions\")");
}

void JudgeCertificates(const Facts& f, Judgement* j) {
  if (f.certificates.empty()) {
    return j->Warn("this machine has no certificate" + std::string(f.root ? "" : " that this user can read"),
                   f.root ? "let it join: stria token make on the metadata server's machine, then stria join - here" : "give this command as root");
  }
  for (const CertificateFact& c : f.certificates) {
    const std::string where = PrintableName(c.directory);
    if (!c.error.empty()) {
      j->Problem("the certificate in " + where + " is not good: " + Printable(c.error), "give its files the right owner and mode, or join again (stria join --again)");
      continue;
    }
    const std::string whose = "the certificate of " + c.role + " " + Printable(c.name) + " in " + where;
    const int64_t left = c.not_after_s - f.now_s;
    if (!f.cluster.empty() && c.cluster != f.cluster) {
      j->Problem(whose + " is of cluster " + c.cluster + ", and this is " + f.cluster, "join this cluster (stria join --again), or name the other with --meta");
    } else if (f.now_s < c.not_before_s) {
      j->Problem(whose + " is not valid yet", "set the clock of this machine");
    } else if (left <= 0) {
      j->Problem(whose + " was good until " + HumanDuration(-left) + " ago", "let this machine join again: stria token make there, stria join - --again here");
    } else if (left < kNotRenewedDays * kDay) {
      j->Warn(whose + " is good for " + HumanDuration(left) + " only, and was not renewed",
              "programs that run renew it: look whether they run and reach the metadata server; or let this machine join again");
    } else {
      j->Ok(whose + " is good for " + HumanDuration(left));
    }
  }
}

}  // namespace

const char* VerdictName(Verdict v) {
  switch (v) {
    case Verdict::kOk: return "ok";
    case Verdict::kWarning: return "warning";
    case Verdict::kProblem: return "problem";
  }
  return "";
}

std::vector<Check> Judge(const Facts& facts) {
  Judgement j;
  j.In("cluster");
  const std::string by = facts.cluster_by.empty() ? "" : " (as told by " + Printable(facts.cluster_by) + ")";
  if (facts.no_cluster.empty()) j.Ok("the cluster is reached: " + facts.cluster + by);
  else j.Problem("the cluster is not reached" + by + ": " + Printable(facts.no_cluster), "say  --meta HOST, and see below");
  for (const std::string& other : facts.other_clusters) j.Ok("not looked at: " + Printable(other) + " (say --meta for that)");
  j.In("names");
  for (const NameFact& n : facts.names) JudgeName(facts, n, &j);
  j.In("clock");
  JudgeClock(facts.clock, &j);
  j.In("network");
  for (const PeerFact& p : facts.peers) JudgePeer(p, &j);
  j.In("metadata");
  JudgeMembers(facts, &j);
  j.In("disks");
  if (!facts.settings_error.empty()) j.Problem(Printable(facts.settings_error), "mend the settings; stria-data does not start with them");
  for (const DiskFact& d : facts.disks) JudgeDisk(d, &j);
  j.In("kernel");
  JudgeKernel(facts, &j);
  j.In("limits");
  JudgeLimits(facts, &j);
  j.In("versions");
  JudgeVersions(facts, &j);
  j.In("certificates");
  JudgeCertificates(facts, &j);
  return j.Take();
}

Verdict WorstOf(const std::vector<Check>& checks) {
  Verdict worst = Verdict::kOk;
  for (const Check& c : checks) worst = std::max(worst, c.verdict);
  return worst;
}

std::string RenderChecks(const std::vector<Check>& checks) {
  std::string out;
  size_t warnings = 0, problems = 0;
  for (const Check& c : checks) {
    warnings += c.verdict == Verdict::kWarning;
    problems += c.verdict == Verdict::kProblem;
    std::string head = std::string(VerdictName(c.verdict));
    head.resize(9, ' ');
    std::string area = c.area;
    area.resize(14, ' ');
    out += head + area + Printable(c.sentence) + "\n";
    if (!c.action.empty()) out += std::string(23, ' ') + "-> " + Printable(c.action) + "\n";
  }
  if (warnings + problems == 0) return out + "everything is as it should be\n";
  return out + Count(problems, "problem", "problems") + ", " + Count(warnings, "warning", "warnings") + "\n";
}

Json ChecksJson(const std::vector<Check>& checks) {
  Json list = Json::array();
  for (const Check& c : checks) list.push_back({{"area", c.area}, {"verdict", VerdictName(c.verdict)}, {"sentence", c.sentence}, {"action", c.action}});
  return {{"verdict", VerdictName(WorstOf(checks))}, {"checks", list}};
}

std::pair<int, int> KernelOf(const std::string& release) {
  int major = 0, minor = 0;
  const char* const end = release.data() + release.size();
  const auto first = std::from_chars(release.data(), end, major);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '.') return {0, 0};
  if (std::from_chars(first.ptr + 1, end, minor).ec != std::errc()) return {0, 0};
  return {major, minor};
}

std::string ReleaseOf(const std::string& version) {
  const std::string number = version.substr(0, version.find(' '));
  const size_t first = number.find('.');
  if (first == number.npos) return "";
  return number.substr(0, number.find('.', first + 1));
}

}  // namespace stria::cli::doctor
