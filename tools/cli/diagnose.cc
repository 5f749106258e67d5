// The findings of `stria status`: faults of a cluster and what to do about them, worst first.
#include <algorithm>
#include <set>

#include "common/printable.h"
#include "common/units.h"
#include "tools/cli/render.h"

namespace stria::cli {
namespace {

constexpr uint64_t kSlowReadUs = 500'000;  // the least that counts as slow,
constexpr uint64_t kSlowTimes = 8;         // if it is so much slower than the others
constexpr size_t kSlowOthers = 3;          // that there must be
constexpr size_t kMaxNamedFiles = 10;
constexpr size_t kMaxNamedDisks = 5;
constexpr uint64_t kFullShare = 20;        // less than a twentieth is free

// The node may be forgotten: all its disks are given up or being emptied, and that is done.
bool IsEmptied(const StatusReply& s, NodeId node) {
  const auto disks = DisksOf(s.map, node);
  const bool out = s.map.FindNode(node)->state == NodeState::kOut;
  for (const TargetInfo* d : disks) {
    if (d->state == TargetState::kUp && !out) return false;
    for (const RepairProgress& p : s.repairs) {
      if (p.target == d->id && !IsFinished(p)) return false;
    }
  }
  return s.degraded_stripes == 0;
}

void DiagnoseNodes(const StatusReply& s, int64_t now_ns, std::vector<Finding>* out) {
  for (const NodeInfo& n : s.map.nodes) {
    const std::string since =
        n.since_ns > 0 ? " (for " + HumanDuration((now_ns - n.since_ns) / kSecond) + ")" : "";
    if (n.state == NodeState::kUp) continue;
    if (n.state == NodeState::kSuspect) {
      out->push_back({Health::kDegraded,
                      "Node " + n.name + " has not been heard from for some seconds" + since + ".",
                      "Nothing yet: it comes back, or counts as down soon."});
    } else if (IsEmptied(s, n.id)) {
      out->push_back({Health::kHealthy,
                      "Node " + n.name + " is " + NodeStateName(n.state) + since +
                          "; all that it held is on other disks.",
                      "Forget it:  stria node remove " + n.name});
    } else if (n.state == NodeState::kDown) {
      out->push_back({Health::kDegraded,
                      "Node " + n.name + " is down" + since + "; its data is read through redundancy.",
                      "Start stria-data on " + n.name +
                          " again, or give its place to another node:  stria node replace " + n.name +
                          " NEW"});
    } else {
      out->push_back({Health::kDegraded,
                      "Node " + n.name + " is out" + since + "; its data is made again elsewhere.",
                      "Watch it:  stria rebuild watch   Then forget the node:  stria node remove " + n.name});
    }
  }
}

// Drained by itself, not by an admin.
bool IsRetired(const StatusReply& s, TargetId target) {
  return std::any_of(s.repairs.begin(), s.repairs.end(),
                     [&](const auto& p) { return p.target == target && p.reason == "too many errors"; });
}

// How long the other disks take to read, if this one is slow compared with them; else 0.
uint64_t OthersIfSlow(const ClusterMap& map, const TargetInfo& disk) {
  std::vector<uint64_t> others;
  for (const TargetInfo& t : map.targets) {
    if (t.id != disk.id && t.read_us > 0 && t.state != TargetState::kRemoved) others.push_back(t.read_us);
  }
  if (disk.read_us < kSlowReadUs || others.size() < kSlowOthers) return 0;
  std::sort(others.begin(), others.end());
  const uint64_t usual = others[others.size() / 2];
  return disk.read_us >= kSlowTimes * usual ? usual : 0;
}

void DiagnoseSlowDisks(const StatusReply& s, std::vector<Finding>* out) {
  for (const TargetInfo& t : s.map.targets) {
    const bool used = t.state == TargetState::kUp || t.state == TargetState::kDraining;
    const uint64_t usual = used && t.problem.empty() ? OthersIfSlow(s.map, t) : 0;
    if (usual == 0) continue;
    const std::string name = s.map.TargetName(t.id);
    out->push_back({Health::kDegraded,
                    "Disk " + name + " is slow: its reads take " + Milliseconds(t.read_us) + " lately, those of others " +
                        Milliseconds(usual) + "; readers do without it where they can.",
                    t.state == TargetState::kUp ? "If it stays so, empty it:  stria disk drain " + name : ""});
  }
}

void DiagnoseDisks(const StatusReply& s, std::vector<Finding>* out) {
  for (const TargetInfo& t : s.map.targets) {
    const std::string name = s.map.TargetName(t.id);
    const std::string errors = std::to_string(t.read_errors) + " read, " + std::to_string(t.write_errors) +
                               " write and " + std::to_string(t.checksum_errors) + " checksum errors";
    const bool emptied = s.degraded_stripes == 0 &&
                         std::all_of(s.repairs.begin(), s.repairs.end(),
                                     [&](const auto& p) { return p.target != t.id || IsFinished(p); });
    // In its node's words, which say what to do or what was done.
    const std::string why = t.problem.empty() ? "" : " Its node says: " + Printable(t.problem) + ".";
    if (t.state == TargetState::kUp && !t.problem.empty()) {
      out->push_back({Health::kDegraded, "Disk " + name + " is absent." + why,
                      "If it does not come back by itself, see to it on its node; it counts as failed after the grace "
                      "period, and is used again whenever it returns."});
    } else if (t.state == TargetState::kFailed && t.given_up) {
      out->push_back({Health::kDegraded, "Disk " + name + " has been away too long and is made again elsewhere." + why,
                      "Bring it back, and it is used again; or forget it when it is empty:  stria disk remove " + name});
    } else if (t.state == TargetState::kFailed && emptied) {
      out->push_back({Health::kDegraded,
                      "Disk " + name + " has failed (" + errors + "); all that it held is on other disks." + why,
                      "Take it out, and forget it:  stria disk remove " + name});
    } else if (t.state == TargetState::kFailed) {
      out->push_back({Health::kDegraded, "Disk " + name + " has failed (" + errors + ")." + why,
                      "Put in a new disk: in the very place of the old one it is used after  stria disk out " + name +
                          "   elsewhere after  stria disk replace " + name + " NEW"});
    } else if (t.state == TargetState::kOut) {
      out->push_back({Health::kDegraded,
                      "Disk " + name + " is out; its data is " + (emptied ? "on other disks." : "made again elsewhere.") + why,
                      "Put a new disk in its place, and it is used by itself. Forget the old one:  stria disk remove " + name});
    } else if (t.state == TargetState::kDraining && IsRetired(s, t.id)) {
      out->push_back({Health::kDegraded,
                      "Disk " + name + " returns too many errors (" + errors + ") and is " +
                          (emptied ? "emptied." : "being emptied."),
                      emptied ? "Take it out, and forget it:  stria disk remove " + name
                              : "Watch it:  stria rebuild watch   Then take it out:  stria disk remove " + name});
    } else if (t.state == TargetState::kUp && t.read_errors + t.write_errors + t.checksum_errors > 0) {
      out->push_back({Health::kDegraded,
                      "Disk " + name + " has shown " + errors + "; the bytes came from redundancy.",
                      "If it goes on, empty it while it can still be read:  stria disk drain " + name});
    }
  }
}

void DiagnoseSmart(const StatusReply& s, std::vector<Finding>* out) {
  for (const TargetInfo& t : s.map.targets) {
    if (t.smart.health != SmartHealth::kFailing || t.state == TargetState::kRemoved) continue;
    const std::string name = s.map.TargetName(t.id);
    out->push_back({Health::kDegraded,
                    "Disk " + name + " (serial " + Printable(t.smart.serial) + ") predicts its own failure" +
                        (t.smart.problem.empty() ? "." : ": " + Printable(t.smart.problem) + "."),
                    t.state == TargetState::kUp ? "Empty it while it can be read:  stria disk drain " + name : ""});
  }
}

bool IsNearlyFull(uint64_t free, uint64_t capacity) { return capacity > 0 && free < capacity / kFullShare; }

// Of disks that are written to. One line for any number of disks, another one if all of them are meant.
void DiagnoseRoom(const StatusReply& s, std::vector<Finding>* out) {
  const std::string todo = "Delete files or add a node with disks.";
  uint64_t free = 0, capacity = 0;
  std::vector<const TargetInfo*> full;
  size_t usable = 0;
  for (const TargetInfo& t : s.map.targets) {
    if (t.state != TargetState::kUp || t.capacity_bytes == 0) continue;
    ++usable;
    free += t.free_bytes;
    capacity += t.capacity_bytes;
    if (IsNearlyFull(t.free_bytes, t.capacity_bytes)) full.push_back(&t);
  }
  if (full.empty()) return;
  if (free == 0) return out->push_back({Health::kDegraded, "The filesystem is full: writing fails with \"No space left on device\".", todo});
  if (IsNearlyFull(free, capacity)) {
    out->push_back({Health::kDegraded, "The filesystem is nearly full: " + HumanBytes(free) + " of " + HumanBytes(capacity) + " are free.", todo});
    if (full.size() == usable) return;
  }
  std::string names;
  for (size_t i = 0; i < std::min(full.size(), kMaxNamedDisks); ++i) {
    names += (i == 0 ? "" : ", ") + s.map.TargetName(full[i]->id) + " (" + HumanBytes(full[i]->free_bytes) + " free)";
  }
  if (full.size() > kMaxNamedDisks) names += " and " + std::to_string(full.size() - kMaxNamedDisks) + " more";
  out->push_back({Health::kDegraded,
                  full.size() == 1 ? "Disk " + names + " is nearly full." : std::to_string(full.size()) + " disks are nearly full: " + names + ".",
                  full.size() == usable ? todo : "Spread the data:  stria rebalance start   Or delete files, or add disks."});
}

std::string RepairNames(const StatusReply& s, bool stuck, bool paused) {
  std::string names;
  for (const RepairProgress& p : s.repairs) {
    if ((stuck && p.stuck > 0) || (paused && p.paused))
      names += (names.empty() ? "" : ", ") + s.map.TargetName(p.target);
  }
  return names;
}

void DiagnoseStripes(const StatusReply& s, std::vector<Finding>* out) {
  if (s.degraded_stripes > 0) {
    out->push_back({Health::kDegraded,
                    Count(s.degraded_stripes, "stripe misses", "stripes miss") +
                        " a column and can stand fewer failures than their layout asks for.",
                    s.repairs.empty() ? "" : "It is being made again:  stria rebuild watch"});
  }
  if (const std::string names = RepairNames(s, true, false); !names.empty()) {
    out->push_back({Health::kDegraded,
                    "The rebuild of " + names + " has stripes that find no place or too few survivors.",
                    "Add a node or disk, or bring back those that are down."});
  }
  if (const std::string names = RepairNames(s, false, true); !names.empty()) {
    out->push_back(
        {Health::kDegraded, "The rebuild of " + names + " is paused.", "Go on:  stria rebuild resume"});
  }
  if (s.narrow_stripes > 0) {
    out->push_back({Health::kDegraded,
                    Count(s.narrow_stripes, "stripe is", "stripes are") +
                        " narrower than their layout (written while too few nodes were there).",
                    "They are widened by themselves when there are enough nodes and nothing else is to be rebuilt."});
  }
  if (s.crowded_stripes > 0) {
    out->push_back({Health::kDegraded,
                    Count(s.crowded_stripes, "stripe has", "stripes have") +
                        " two columns in one failure domain, for want of another.",
                    "Add a node, or bring back those that are down; they move by themselves."});
  }
}

// Of the layouts in use: the form of new stripes.
void DiagnosePlaces(const StatusReply& s, std::vector<Finding>* out) {
  for (const LayoutRoom& room : s.layouts) {
    std::string what = room.none ? "Nothing can be written with layout " + room.layout : "New stripes of layout " + room.layout;
    if (!room.none) {
      what += " are " + room.stripes;
      if (room.crowded) what += ", crowded onto disks that fail together";
      what += room.thin ? ", fewer than the layout asks for" : room.crowded ? "" : " (fully protected)";
    }
    if (!room.until.empty()) what += " until " + room.until;
    if (room.none) what += "; writers wait for the mount's timeout, and then get EIO";
    const std::string todo = "Bring back nodes and disks that are down, add a node or disk (stria node add NAME says how), "
                             "or set a layout that fits:  stria layout set DIR LAYOUT   (for files made from then on)";
    out->push_back({room.none || room.thin ? Health::kAtRisk : Health::kDegraded, what + ".", todo});
  }
  if (s.thin_stripes == 0) return;
  std::string names;
  size_t more = 0, told = 0;
  std::set<InodeId> seen;
  for (const LostFile& f : s.thin_files) {
    if (!seen.insert(f.ino).second) continue;
    if (told == kMaxNamedFiles) ++more;
    else names += (told++ ? ", " : "") + FileForPeople(f.path, f.ino);
  }
  if (more > 0 || MayHaveMore(s.thin_files)) names += ", and more (stria status --all)";
  out->push_back({Health::kAtRisk,
                  Count(s.thin_stripes, "stripe has", "stripes have") +
                      " fewer copies than their layout asks for, which it allows (min=): the next disk to fail may lose them" +
                      (names.empty() ? "" : ": " + names) + ".",
                  "Add a node or disk, or bring back those that are down; the copies are made by themselves."});
}

// A hint, not a fault: the layouts may ask for just that.
void DiagnoseNodeLoss(const StatusReply& s, std::vector<Finding>* out) {
  const NodeLoss& loss = s.node_loss;
  if (!loss.counted) {
    const std::string what = "What the loss of a node would cost has not been counted yet.";
    if (s.stripes > 0) out->push_back({Health::kHealthy, what, ""});
    return;
  }
  if (loss.nodes.empty()) return;
  const NodeExposure& worst = *std::max_element(loss.nodes.begin(), loss.nodes.end(), [](const auto& a, const auto& b) {
    return std::make_pair(a.stripes, a.bytes) < std::make_pair(b.stripes, b.bytes);
  });
  const NodeInfo* node = s.map.FindNode(worst.node);
  const std::string name = node == nullptr ? std::to_string(worst.node.v) : node->name;
  std::string what = "The loss of node " + name + " would lose data: it holds more columns of " +
                     std::to_string(worst.stripes) + " of " + Count(s.stripes, "stripe", "stripes") + " (" +
                     HumanBytes(worst.bytes) + ") than they can do without";
  if (worst.unprotected > 0) what += "; " + std::to_string(worst.unprotected) + " of these have no redundancy at all";
  what += ".";
  if (loss.nodes.size() > 1) {
    what += " So would that of " + Count(loss.nodes.size() - 1, "other node", "other nodes") +
            "; this one is the worst.";
  }
  if (loss.age_ns >= kSecond) what += " Counted " + HumanDuration(loss.age_ns / kSecond) + " ago.";
  out->push_back({Health::kHealthy, what,
                  worst.unprotected == worst.stripes
                      ? "Important data needs a layout with redundancy:  stria layout set DIR raid5:2+1   (for writes "
                        "from then on)"
                      : "Have as many nodes as a layout has columns, and domain=node:  stria layout set DIR "
                        "LAYOUT,domain=node   (for writes from then on)"});
}

}  // namespace

std::vector<Finding> Diagnose(const StatusReply& s, int64_t now_ns) {
  std::vector<Finding> out;
  if (s.lost_stripes > 0 || !s.lost_files.empty()) {
    out.push_back({Health::kAtRisk,
                   s.lost_stripes > 0
                       ? Count(s.lost_stripes, "stripe", "stripes") +
                             " cannot be read: more of their columns are away than their layout can stand."
                       : "Some ranges of files cannot be read.",
                   "Bring back the nodes and disks that are down; do not remove any of them."});
  }
  if (s.map.targets.empty()) {
    out.push_back({Health::kDegraded, "The cluster has no disks yet.", "Start stria-data on the nodes."});
  }
  DiagnoseNodes(s, now_ns, &out);
  DiagnoseDisks(s, &out);
  DiagnoseSlowDisks(s, &out);
  DiagnoseSmart(s, &out);
  DiagnoseRoom(s, &out);
  DiagnoseStripes(s, &out);
  DiagnosePlaces(s, &out);
  DiagnoseNodeLoss(s, &out);
  for (const Advice& a : s.advice) {
    out.push_back({a.severity >= 2 ? Health::kAtRisk : a.severity == 1 ? Health::kDegraded : Health::kHealthy, a.what, a.action});
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
  return out;
}

Health HealthOf(const std::vector<Finding>& findings) {
  Health worst = Health::kHealthy;
  for (const Finding& f : findings) worst = std::max(worst, f.severity);
  return worst;
}

}  // namespace stria::cli
