#include "tools/cli/rebuild_watch.h"

#include <algorithm>
#include <set>

#include "common/printable.h"
#include "tools/cli/render.h"

namespace stria::cli {
namespace {

bool Moves(const RepairProgress& p) {
  return !p.paused && (p.stripes_total == 0 || p.stripes_done + p.stuck < p.stripes_total);
}

std::string WhoIsAway(const ClusterMap& map) {
  std::string names;
  for (const NodeInfo& n : map.nodes) {
    if (n.state == NodeState::kDown || n.state == NodeState::kSuspect)
      names += (names.empty() ? "" : ", ") + Printable(n.name);
  }
  return names;
}

}  // namespace

RebuildWatch::View RebuildWatch::Update(const StatusReply& s, int64_t now_ns) {
  std::set<TargetId> listed;
  for (const RepairProgress& p : s.repairs) {
    seen_[p.target] = p;
    listed.insert(p.target);
  }
  View view;
  for (auto& [target, p] : seen_) {
    if (!listed.contains(target)) {  // it left the list: nothing of it is left to do
      p.bytes_done = p.bytes_total;
      p.stripes_done = p.stripes_total;
      p.stuck = 0;
      p.paused = false;
    }
    view.lines.push_back(RenderRepairLine(p, s.map));
  }
  if (s.degraded_stripes == 0 && std::all_of(s.repairs.begin(), s.repairs.end(), IsFinished)) {
    view.end = End::kDone;
    view.sentence = seen_.empty() ? "nothing to rebuild: every stripe has all its columns"
                                  : "rebuilt: 100 %, every stripe has all its columns again";
    return view;
  }
  if (!s.repairs.empty()) {
    quiet_since_ns_ = -1;
    if (std::any_of(s.repairs.begin(), s.repairs.end(), Moves)) {
      stuck_since_ns_ = -1;
      return view;
    }
    if (stuck_since_ns_ < 0) stuck_since_ns_ = now_ns;
    if (now_ns - stuck_since_ns_ < kQuietNs) return view;
    const bool paused =
        std::any_of(s.repairs.begin(), s.repairs.end(), [](const auto& p) { return p.paused; });
    view.end = End::kStuck;
    view.sentence =
        paused ? "paused; go on with:  stria rebuild resume"
               : "the rest finds no place or too few survivors: add a node or disk, or bring back "
                 "those that are down";
    return view;
  }
  if (quiet_since_ns_ < 0) quiet_since_ns_ = now_ns;
  if (now_ns - quiet_since_ns_ < kQuietNs) return view;
  view.end = End::kQuiet;
  const std::string away = WhoIsAway(s.map);
  view.sentence =
      Count(s.degraded_stripes, "stripe misses", "stripes miss") + " a column and no rebuild runs" +
      (away.empty() ? ""
                    : ": " + away + " is away and not given up yet; do it now with:  stria node out " + away);
  return view;
}

}  // namespace stria::cli
