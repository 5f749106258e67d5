// Which nodes lately could not reach which data servers: a server that this one hears may be out of reach of others. Pure.
//
// Invariants: of each session, and of each server, there is one report, of nodes that exist, each once; it is forgotten after
// kReportHoldsNs, and with its session. So what is kept is bounded by sessions and nodes, whatever is reported. The sessions of one
// owner count once: what they call themselves is anything.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "common/units.h"

namespace stria {

inline constexpr int64_t kReportHoldsNs = 30 * kSecond;  // a node that still cannot reach it reports again before
inline constexpr size_t kMaxReporters = 65'536;
inline constexpr size_t kMaxReporterTextBytes = 256;

class ReachReports {
 public:
  struct Who {
    SessionId session;  // 0: a server
    std::string owner;  // as it has proved, or as a server is registered; "": nobody knows, and the session is one by itself
    std::string text;   // for people
  };
  // All servers that `who` cannot reach now, of those that exist.
  void Report(Who who, std::vector<NodeId> nodes, int64_t wall_ns) {
    std::erase_if(by_who_, [&](const auto& r) { return IsOver(r.second, wall_ns); });
    const Key key(who.session, who.session ? "" : who.owner);
    if (nodes.empty()) {
      by_who_.erase(key);
      return;
    }
    if (by_who_.size() >= kMaxReporters && !by_who_.contains(key)) return;
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    nodes.shrink_to_fit();
    who.text.resize(std::min(who.text.size(), kMaxReporterTextBytes));
    by_who_[key] = {std::move(who), wall_ns, std::move(nodes)};
  }
  void Drop(SessionId s) { by_who_.erase(Key(s, "")); }
  // Each owner once.
  std::vector<std::string> WhoCannotReach(NodeId node, int64_t wall_ns) const {
    std::vector<std::string> out;
    std::set<std::string> owners;
    for (const auto& [key, r] : by_who_) {
      if (IsOver(r, wall_ns) || !std::binary_search(r.nodes.begin(), r.nodes.end(), node)) continue;
      if (r.who.owner.empty() || owners.insert(r.who.owner).second) out.push_back(r.who.text);
    }
    return out;
  }
  size_t size() const { return by_who_.size(); }
  // Of all reports together.
  size_t nodes() const {
    size_t out = 0;
    for (const auto& [key, r] : by_who_) out += r.nodes.size();
    return out;
  }

 private:
  using Key = std::pair<SessionId, std::string>;
  struct Reported {
    Who who;
    int64_t wall_ns = 0;
    std::vector<NodeId> nodes;  // sorted
  };
  static bool IsOver(const Reported& r, int64_t wall_ns) { return wall_ns - r.wall_ns > kReportHoldsNs; }

  std::map<Key, Reported> by_who_;
};

}  // namespace stria
