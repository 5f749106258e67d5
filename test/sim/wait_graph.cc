#include "test/sim/wait_graph.h"

#include <algorithm>
#include <utility>

namespace stria {

std::set<std::string> WaitGraph::GoingOn() const {
  std::map<std::string, size_t> left;                      // that it waits for; all of any_ is one
  std::map<std::string, std::vector<std::string>> waiters;  // by what they wait for
  std::vector<std::string> going;
  for (const auto& [from, to] : edges_) {
    const auto any = any_.find(from);
    left[from] = to.size() + (any == any_.end() ? 0 : 1);
    for (const std::string& t : to) {
      waiters[t].push_back(from);
      if (!edges_.contains(t)) left.emplace(t, 0);
    }
    if (any == any_.end()) continue;
    for (const std::string& t : any->second) {
      if (!edges_.contains(t)) left.emplace(t, 0);
    }
  }
  std::set<std::string> out, has_one;
  const auto goes = [&](const std::string& node) {
    if (out.insert(node).second) going.push_back(node);
  };
  for (const auto& [node, n] : left) {
    if (n == 0) goes(node);
  }
  while (!going.empty()) {
    const std::string node = std::move(going.back());
    going.pop_back();
    for (const std::string& w : waiters[node]) {
      if (--left[w] == 0) goes(w);
    }
    for (const auto& [from, to] : any_) {
      if (to.contains(node) && has_one.insert(from).second && --left[from] == 0) goes(from);
    }
  }
  return out;
}

// Depth first among what does not go on, with a stack of our own. A node that was left without a circle is on none.
std::vector<std::string> WaitGraph::FindCycle() const {
  const std::set<std::string> going_on = GoingOn();
  std::set<std::string> left;
  for (const auto& [start, unused] : edges_) {
    if (left.contains(start) || going_on.contains(start)) continue;
    std::vector<std::string> path = {start};
    std::vector<std::vector<std::string>> to_try;
    const auto enter = [&](const std::string& node) {
      std::set<std::string> next = edges_.at(node);
      if (const auto any = any_.find(node); any != any_.end()) {
        const bool one_goes = std::ranges::any_of(any->second, [&](const std::string& t) { return going_on.contains(t); });
        if (!one_goes) next.insert(any->second.begin(), any->second.end());
      }
      std::erase_if(next, [&](const std::string& t) { return going_on.contains(t); });
      to_try.emplace_back(next.rbegin(), next.rend());
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
    const auto any = any_.find(from);
    if (any == any_.end()) continue;
    word = to.empty() ? " waits for " : " and ";
    for (const std::string& t : any->second) out += std::exchange(word, " or ") + t;
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
