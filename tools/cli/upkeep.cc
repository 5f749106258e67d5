#include "tools/cli/upkeep.h"

#include <absl/strings/str_join.h>

#include <algorithm>

#include "common/printable.h"
#include "tools/cli/render.h"

namespace stria::cli {
namespace {

// All disks together.
struct ScrubSum {
  size_t running = 0;
  uint64_t done = 0, total = 0, damaged = 0, unfit = 0;
  int64_t oldest_s = 0;  // of the last passes of all disks, 0: one has none
};
ScrubSum Sum(const UpkeepReply& u) {
  ScrubSum out;
  bool never = u.scrubs.empty();
  for (const ScrubProgress& p : u.scrubs) {
    out.running += p.running;
    out.done += p.bytes_done;
    out.total += std::max(p.bytes_total, p.bytes_done);
    out.damaged += p.damaged;
    out.unfit += p.unfit.size();
    never = never || p.finished_s == 0;
    if (out.oldest_s == 0 || p.finished_s < out.oldest_s) out.oldest_s = p.finished_s;
  }
  if (never) out.oldest_s = 0;
  return out;
}

std::string Addresses(const ClusterMap& map) {
  return absl::StrJoin(map.nodes, ",", [](std::string* out, const NodeInfo& n) { *out += n.address; });
}

std::string Ago(int64_t then_s, int64_t now_s) {
  return then_s == 0 ? "never" : HumanDuration(now_s - then_s) + " ago";
}

std::string NameOf(const AffectedFile& f) {
  return FileForPeople(f.path, f.ino) + "  " + std::to_string(f.offset) + "+" + std::to_string(f.length);
}

constexpr int64_t kOldBackupNs = 600 * kSecond;
constexpr int64_t kSettledS = 60;  // nodes that come up are used at once
constexpr int64_t kStaleBackupNs = 3600 * kSecond;  // ArchiverOptions::absent_ns

std::string NamesOf(const std::vector<NodeId>& nodes, const ClusterMap& map) {
  std::string out;
  for (const NodeId id : nodes) {
    const NodeInfo* n = map.FindNode(id);
    out += (out.empty() ? "" : " and ") + (n != nullptr ? Printable(n->name) : "a node that was removed");
  }
  return out;
}

Json BackupJson(const BackupState& b, const ClusterMap& map) {
  Json nodes = Json::array();
  for (const NodeId id : b.nodes) {
    const NodeInfo* n = map.FindNode(id);
    nodes.push_back(n != nullptr ? Json(n->name) : Json());  // null: it was removed
  }
  return {{"on", b.on},
          {"complete", b.complete},
          {"behind_s", b.behind_ns / kSecond},
          {"nodes", nodes},
          {"checkpoint_s", b.checkpoint_s},
          {"checkpoint_bytes", b.checkpoint_bytes},
          {"problem", b.problem},
          {"damage", b.damage},
          {"hold_until_s", b.hold_until_s},
          {"held_shards", b.held_shards}};
}

Json FilesJson(const std::vector<AffectedFile>& files) {
  Json out = Json::array();
  for (const AffectedFile& f : files) {
    out.push_back({{"path", f.path}, {"inode", f.ino.v}, {"offset", f.offset}, {"length", f.length}, {"lost", f.lost}});
  }
  return out;
}

}  // namespace

std::string RenderScrubLine(const UpkeepReply& u, int64_t now_s) {
  const ScrubSum s = Sum(u);
  std::string out = "  scrub: ";
  if (s.running > 0) {
    out += Count(s.running, "disk", "disks") + " of " + std::to_string(u.scrubs.size()) + " being read, " +
           std::to_string(Percent(s.done, s.total)) + " % of " + HumanBytes(s.total) + (u.scrub_paused ? " (paused)" : "");
  } else if (u.scrub_paused) {
    out += "paused; go on:  stria scrub resume";
  } else if (s.oldest_s == 0) {
    out += "not every disk has been read since its server started";
  } else {
    out += "every disk was read, the last time " + Ago(s.oldest_s, now_s);
  }
  if (s.damaged > 0) out += "; " + Count(s.damaged, "damaged shard", "damaged shards") + " found";
  if (s.unfit > 0) out += "; parity does not fit in " + Count(s.unfit, "stripe", "stripes") + ":  stria scrub status";
  return out + "\n";
}

std::string RenderRebalanceLine(const UpkeepReply& u) {
  if (!u.rebalancing) return "";
  return "rebalance: " + HumanBytes(u.rebalance_bytes_done) + " moved, about " + HumanBytes(u.rebalance_bytes_left) +
         " to go\n";
}

std::string RenderFoldLine(const UpkeepReply& u) {
  const FoldState& f = u.folding;
  if (!f.on || f.under_way + f.waiting + f.folded == 0) return "";
  return "folding: " + HumanBytes(f.folded_bytes) + " folded since the metadata server started, " +
         std::to_string(f.under_way) + " folds under way, " + Count(f.waiting, "mirrored stripe waits", "mirrored stripes wait") +
         " for company\n";
}

std::string RenderBackupLine(const UpkeepReply& u, const ClusterMap& map, int64_t now_s) {
  const BackupState& b = u.backup;
  std::string out = " backup: ";
  if (!b.on) {
    out += "of the metadata: switched off";
  } else if (!b.complete) {
    out += "of the metadata: being made, for " + HumanDuration(b.behind_ns / kSecond);
  } else {
    out += "of the metadata on " + NamesOf(b.nodes, map) + ", " +
           (b.behind_ns < kSecond ? "up to date" : HumanDuration(b.behind_ns / kSecond) + " behind") + "; checkpoint of " +
           HumanBytes(b.checkpoint_bytes) + ", " + Ago(b.checkpoint_s, now_s);
  }
  if (b.hold_until_s > 0) {
    out += "\n   held: shards that the restored metadata does not know (" + std::to_string(b.held_shards) +
           " found so far) are kept for " + HumanDuration(b.hold_until_s - now_s) +
           "; end that:  stria meta forget-unknown";
  }
  return out + "\n";
}

std::vector<Finding> DiagnoseBackup(const UpkeepReply& u, const ClusterMap& map, int64_t now_s) {
  const BackupState& b = u.backup;
  std::vector<Finding> out;
  if (!b.damage.empty()) {
    out.push_back({Health::kAtRisk,
                   "The metadata on its disk is damaged: " + Printable(b.damage) + ". Reads of the damaged part give EIO.",
                   "Stop stria-meta, move its directory away, and make it again from the backup:  stria meta restore --from " +
                       Addresses(map)});
  }
  if (!b.on) return out;
  const std::string why = b.problem.empty() ? "" : " Its problem: " + Printable(b.problem) + ".";
  if (b.behind_ns > kOldBackupNs) {
    out.push_back({Health::kDegraded,
                   "The backup of the metadata is " + HumanDuration(b.behind_ns / kSecond) + " behind." + why +
                       (b.behind_ns > kStaleBackupNs ? " Shards are deleted nevertheless, so it may not fit them." : ""),
                   "See to it that two data servers are up and have room."});
  } else if (b.complete && b.nodes.size() < 2 && now_s - b.checkpoint_s > kSettledS) {
    const auto up = std::ranges::count_if(map.nodes, [](const NodeInfo& n) { return n.state == NodeState::kUp; });
    out.push_back({up > 1 ? Health::kDegraded : Health::kHealthy, "The backup of the metadata is on one node only." + why,
                   "Two data servers must be up and have room."});
  }
  return out;
}

std::string RenderScrubs(const UpkeepReply& u, const ClusterMap& map, int64_t now_s) {
  Table t;
  t.header = {"DISK", "STATE", "DONE", "READ", "OF", "DAMAGED", "STRIPES", "UNFIT", "LAST PASS"};
  t.right = {false, false, true, true, true, true, true, true, false};
  std::vector<ScrubProgress> scrubs;
  for (const TargetInfo& d : map.targets) {  // in people's order
    for (const ScrubProgress& p : u.scrubs) {
      if (p.target == d.id) scrubs.push_back(p);
    }
  }
  for (const ScrubProgress& p : scrubs) {
    const char* state = !p.running ? "idle" : u.scrub_paused ? "paused" : "running";
    t.rows.push_back({map.TargetName(p.target), state, p.running ? std::to_string(Percent(p.bytes_done, p.bytes_total)) + " %" : "-",
                      HumanBytes(p.bytes_done), HumanBytes(p.bytes_total), std::to_string(p.damaged), std::to_string(p.stripes),
                      std::to_string(p.unfit.size()), Ago(p.finished_s, now_s)});
  }
  std::string out = RenderTable(t, 0);
  if (u.scrub_bytes_per_s > 0) out += "pace: " + HumanBytes(u.scrub_bytes_per_s) + "/s per disk\n";
  if (u.unfit.empty()) return out;
  out += "\nThe parity of stripes of these files does not fit their data, although both are as they were written.\n"
         "Compare the files with their source; copying one writes new parity:\n";
  for (const AffectedFile& f : u.unfit) out += "    " + NameOf(f) + "\n";
  if (u.unfit.size() == kMaxAffectedFiles) out += "    .. and perhaps more; all of them:  stria scrub status --all\n";
  return out;
}

std::string RenderFsckRepair(const FsckRepairReply& r, bool dry_run) {
  std::string out;
  for (const std::string& what : r.done) out += (dry_run ? "would: " : "") + Printable(what) + "\n";
  for (const std::string& problem : r.problems) out += (dry_run ? "problem: " : "left: ") + Printable(problem) + "\n";
  if (r.problems.size() == kMaxProblems) out += kMoreProblems;
  const std::string repairs = Count(r.done.size(), "repair", "repairs");
  if (r.problems.empty()) return out + repairs + ": clean\n";
  return out + repairs + (dry_run ? " of " : "; ") + Count(r.problems.size(), "problem", "problems") +
         (dry_run ? "\n" : " left\n");
}

int CanRemoveCode(const CanRemoveReply& r) { return r.lost_stripes > 0 ? 2 : r.degraded_stripes > 0 ? 1 : 0; }

std::string RenderCanRemove(const CanRemoveReply& r) {
  std::string out;
  if (r.lost_stripes > 0) {
    out = "NO: " + Count(r.lost_stripes, "stripe", "stripes") + " would be lost";
    if (r.degraded_stripes > 0) out += ", " + std::to_string(r.degraded_stripes) + " more degraded";
    out += ". Drain them first.\n";
  } else if (r.degraded_stripes > 0) {
    out = "nothing would be lost; " + Count(r.degraded_stripes, "stripe", "stripes") +
          " would be degraded until they are rebuilt. Drain them first, to keep full redundancy.\n";
  } else {
    return "yes: nothing that counts is on them\n";
  }
  for (const AffectedFile& f : r.files) {
    out += std::string(f.lost ? "    lost      " : "    degraded  ") + NameOf(f) + "\n";
  }
  if (r.more) out += r.files.empty() ? "    root sees which files\n" : "    .. and more; all of them with --all\n";
  return out;
}

Json UpkeepJson(const UpkeepReply& u, const ClusterMap& map) {
  Json disks = Json::array();
  for (const ScrubProgress& p : u.scrubs) {
    disks.push_back({{"disk", map.TargetName(p.target)},
                     {"running", p.running},
                     {"bytes_done", p.bytes_done},
                     {"bytes_total", p.bytes_total},
                     {"shards", p.shards},
                     {"damaged", p.damaged},
                     {"stripes", p.stripes},
                     {"unfit", p.unfit.size()},
                     {"started_s", p.started_s},
                     {"finished_s", p.finished_s}});
  }
  return {{"message", u.message},
          {"backup", BackupJson(u.backup, map)},
          {"scrub", {{"paused", u.scrub_paused}, {"bytes_per_s", u.scrub_bytes_per_s}, {"disks", disks}, {"unfit", FilesJson(u.unfit)}, {"unfit_cut", u.unfit.size() == kMaxAffectedFiles}}},
          {"rebalance",
           {{"running", u.rebalancing}, {"bytes_done", u.rebalance_bytes_done}, {"bytes_left", u.rebalance_bytes_left}}},
          {"folding",
           {{"on", u.folding.on},
            {"under_way", u.folding.under_way},
            {"waiting", u.folding.waiting},
            {"folded", u.folding.folded},
            {"folded_bytes", u.folding.folded_bytes}}}};
}

Json FsckRepairJson(const FsckRepairReply& r, bool dry_run) {
  return {{"dry_run", dry_run}, {"repairs", r.done}, {"problems", r.problems}};
}

Json CanRemoveJson(const CanRemoveReply& r) {
  return {{"exit_code", CanRemoveCode(r)},
          {"lost_stripes", r.lost_stripes},
          {"degraded_stripes", r.degraded_stripes},
          {"files", FilesJson(r.files)},
          {"more", r.more}};
}

}  // namespace stria::cli
