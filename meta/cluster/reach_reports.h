// Which nodes lately could not reach which data servers: a server that this one hears may be out of reach of others. Pure.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/ids.h"
#include "common/units.h"

namespace stria {

inline constexpr int64_t kReportHoldsNs = 30 * kSecond;  // a node that still cannot reach it reports again before
inline constexpr size_t kMaxReporters = 65'536;

class ReachReports {
 public:
  // All servers that `who` cannot reach now.
  void Report(const std::string& who, std::vector<NodeId> nodes, int64_t wall_ns) {
    if (nodes.empty()) {
      by_who_.erase(who);
      return;
    }
    if (by_who_.size() >= kMaxReporters) {
      std::erase_if(by_who_, [&](const auto& r) { return wall_ns - r.second.first > kReportHoldsNs; });
      if (by_who_.size() >= kMaxReporters) return;
    }
    by_who_[who] = {wall_ns, std::move(nodes)};
  }
  std::vector<std::string> WhoCannotReach(NodeId node, int64_t wall_ns) const {
    std::vector<std::string> out;
    for (const auto& [who, r] : by_who_) {
      if (wall_ns - r.first <= kReportHoldsNs && std::ranges::count(r.second, node)) out.push_back(who);
    }
    return out;
  }

 private:
  std::map<std::string, std::pair<int64_t, std::vector<NodeId>>> by_who_;
};

}  // namespace stria
