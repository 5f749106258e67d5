// Nodes that an admin has removed. Their machines may still run: they are refused until an admin lets them in.
// Pure; not thread-safe.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "api/types.h"
#include "common/error.h"
#include "common/units.h"

namespace stria {

inline constexpr size_t kMaxRemovedNodes = 4096;      // more, and the one that joined first is forgotten
inline constexpr int64_t kAsksLatelyNs = 60 * kSecond;  // a node that still runs asks far more often

class RemovedNodes {
 public:
  void Load(NodeInfo node);
  void Add(NodeInfo node);
  // kPerm, with the remedy, for a removed node; notes that it asked, and its address.
  Error Check(const Uuid& uuid, const std::string& address, int64_t wall_ns);
  const NodeInfo* Find(NodeId id) const;
  void Admit(NodeId id);
  // By id; since_ns: when it last asked, 0: not since the server started.
  std::vector<NodeInfo> All() const;
  std::vector<NodeInfo> AskedLately(int64_t wall_ns) const;

  // Changes since the last call, to persist.
  struct Changes {
    std::vector<NodeInfo> added;
    std::vector<NodeId> dropped;
    bool empty() const { return added.empty() && dropped.empty(); }
  };
  Changes TakeChanges();

 private:
  std::map<NodeId, NodeInfo> nodes_;
  std::set<NodeId> added_, dropped_;
};

}  // namespace stria
