#include "test/sim/wait_graph.h"

#include <algorithm>
#include <utility>

namespace stria {

// Depth first, with a stack of our own. A node that was left without a circle is on none.
std::vector<std::string> WaitGraph::FindCycle() const {
  std::set<std::string> left;
  for (const auto& [start, unused] : edges_) {
    if (left.contains(start)) continue;
    std::vector<std::string> path = {start};
    std::vector<std::vector<std::string>> to_try;
    const auto enter = [&](const std::string& node) {
      const auto it = edges_.find(node);
      to_try.emplace_back();
      if (it != edges_.end()) to_try.back().assign(it->second.rbegin(), it->second.rend());
    };
    enter(start);
    while (!path.empty()) {
      if (to_try.back().empty()) {
        left.insert(path.back());
        path.pop_back();
        to_try.pop_back();
        continue;
      }
      const std::string next = std::move(to_try.back().back());
      to_try.back().pop_back();
      if (left.contains(next)) continue;
      if (const auto seen = std::find(path.begin(), path.end(), next); seen != path.end()) {
        std::vector<std::string> cycle(seen, path.end());
        std::rotate(cycle.begin(), std::min_element(cycle.begin(), cycle.end()), cycle.end());
        return cycle;
      }
      path.push_back(next);
      enter(next);
    }
  }
  return {};
}

std::string WaitGraph::Text() const {
  std::string out;
  for (const auto& [from, to] : edges_) {
    out += "\n  " + from;
    const char* word = " waits for ";
    for (const std::string& t : to) out += std::exchange(word, " and ") + t;
  }
  return out;
}

std::string WaitGraph::Text(const std::vector<std::string>& cycle) {
  std::string out;
  for (const std::string& node : cycle) out += "\n  " + node + " waits for";
  if (!cycle.empty()) out += "\n  " + cycle.front();
  return out;
}

}  // namespace stria
