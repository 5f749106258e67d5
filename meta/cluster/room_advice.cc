#include "meta/cluster/room_advice.h"

#include <set>
#include <string>

namespace stria {
namespace {

constexpr uint8_t kHint = 0, kDegraded = 1;
constexpr size_t kMaxNamedDisks = 8;

void OfRefused(const ClusterState& c, int64_t wall_ns, std::vector<Advice>* out) {
  for (const NodeInfo& n : c.removed().AskedLately(wall_ns)) {
    out->push_back({kHint, "Node " + n.name + " was removed, and its stria-data still runs (at " + n.address + "): it is refused.",
                    "Stop stria-data there, or let the node in again:  stria node add " + n.name});
  }
}

void OfStrangers(const ClusterState& c, const NodeInfo& node, std::vector<Advice>* out) {
  for (const Stranger& s : c.StrangersOf(node.id)) {
    const std::string name = node.name + ":" + s.label;
    if (s.removed) {
      out->push_back({kHint, "Disk " + name + " was removed, and is still in the settings of its node.",
                      "Put a new disk in its place (it is used by itself), or take it out of the settings; to use the old one again:  stria "
                      "disk add " + name});
    } else if (s.unproved) {
      const std::string was = c.TargetName(s.copy_of);
      out->push_back({kDegraded, "Disk " + name + " is not used: it says that it is " + was + ", and does not have what " + was + " has from its node.",
                      "If it was carried there: start stria-data once with it in its former node, then carry it again; or, when nothing is left on "
                      "it that is needed, forget it:  stria disk remove " + was});
    } else if (s.copy_of) {
      const std::string original = c.TargetName(s.copy_of);
      out->push_back({kDegraded,
                      "Disk " + name + " is not used: it says that it is " + original + ", which is in use. One of them is a copy of the other.",
                      "Take the copy out of the settings of its node; as a new disk it can be used after its directory has been emptied."});
    } else {
      out->push_back({kDegraded, "Disk " + name + " is in the settings of its node, and is not used" + (s.problem.empty() ? "." : ": " + s.problem + "."),
                      "See to it on its node, or take it out of the settings there and start stria-data again."});
    }
  }
}

void OfSharedSpace(const ClusterState& c, std::vector<Advice>* out) {
  for (const std::set<TargetId>& disks : c.shared_space().Groups()) {
    std::string names;
    size_t told = 0;
    for (TargetId t : disks) {
      if (told++ < kMaxNamedDisks) names += (names.empty() ? "" : ", ") + c.TargetName(t);
    }
    if (told > kMaxNamedDisks) names += " and " + std::to_string(told - kMaxNamedDisks) + " more";
    out->push_back({kHint, "Disks " + names + " are directories of one filesystem: its space is counted once, and they fail together.",
                    "Give each of them a filesystem, and a disk, of its own."});
  }
}

void OfReach(const ClusterState& c, const NodeInfo& node, int64_t wall_ns, std::vector<Advice>* out) {
  if (node.state != NodeState::kUp) return;  // that is told
  const std::vector<std::string> who = c.reach().WhoCannotReach(node.id, wall_ns);
  if (who.empty()) return;
  const size_t others = who.size() - 1;
  out->push_back({kDegraded,
                  "Node " + node.name + " is heard, but " + who[0] + (others == 0 ? "" : others == 1 ? " and 1 other" : " and " + std::to_string(others) + " others") +
                      " cannot reach it at " + node.address + "; they read and write without it.",
                  "See to names, routes and firewalls between them; the address is what stria-data says (address = in its settings, or --address)."});
}

}  // namespace

std::vector<Advice> RoomAdvice(const ClusterState& cluster, int64_t wall_ns) {
  std::vector<Advice> out;
  const ClusterMap map = cluster.Map();
  for (const NodeInfo& n : map.nodes) {
    OfReach(cluster, n, wall_ns, &out);
    OfStrangers(cluster, n, &out);
  }
  OfRefused(cluster, wall_ns, &out);
  OfSharedSpace(cluster, &out);
  return out;
}

}  // namespace stria
