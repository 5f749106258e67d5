// What waits for what: an edge says that one thing does not go on before another does, or before one of several does. What cannot
// go on, whatever else does, waits in a circle that never ends by itself.
// Nodes are named by the sentences that tell people what they are; the same thing has the same name in each
// look, and nothing else has it. Pure; progress.h fills one from a simulated cluster.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

namespace stria {

class WaitGraph {
 public:
  // `from` does not go on before `to` does.
  void Add(const std::string& from, const std::string& to) { edges_[from].insert(to); }
  // `from` does not go on before one of those does that are added to it like this. (Room for bytes, which anybody may make.)
  void AddAny(const std::string& from, const std::string& to) {
    edges_[from];
    any_[from].insert(to);
  }
  // Something that waits, for whatever.
  void Add(const std::string& node) { edges_[node]; }
  // The nodes of a circle, each of which waits for the next, and the last for the first; from the least name on. Empty if there
  // is none. Of several the same one each time.
  std::vector<std::string> FindCycle() const;
  // What waits, with what it waits for; a line each.
  std::string Text() const;
  // The same of a circle.
  static std::string Text(const std::vector<std::string>& cycle);
  bool empty() const { return edges_.empty(); }

 private:
  using Edges = std::map<std::string, std::set<std::string>>;
  // What goes on, if all that waits for nothing does; the rest never will.
  std::set<std::string> GoingOn() const;

  Edges edges_;
  Edges any_;  // its nodes are in edges_, too
};

}  // namespace stria
