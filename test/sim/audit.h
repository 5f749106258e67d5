// Compares what lies on the disks with what the metadata says, from outside: no process is asked, nothing
// changes, time stands still. What it finds on a node that had no disk fault is a bug at any moment,
// whatever else goes on: a stripe is committed after its shards are durable, and shards are deleted after
// nothing names them.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "test/sim/sim_cluster.h"

namespace stria {

struct NodeAudit {
  size_t named = 0;  // columns of live stripes that are on this node
  std::vector<size_t> named_on;  // of those, on each disk
  // Of those: not in the index with that length and digest, or their bytes do not have their checksums.
  size_t damaged = 0;
  size_t rotten = 0;   // any sealed shard whose bytes do not have their checksums
  size_t unknown = 0;  // sealed shards that the metadata knows nothing of
  size_t strays = 0;   // raw files without an index record
  std::string first_damaged, first_unknown, first_stray;
};

struct ClusterAudit {
  std::vector<NodeAudit> nodes;
  size_t homeless = 0;  // columns of live stripes on targets that no node has
  std::vector<InodeId> orphans;  // have no name and are not freed
  // Shards of live stripes, twice on one disk or under two stripes.
  std::vector<std::string> problems;
};

// Shards whose bytes were looked at and found right: nothing but a disk fault or a power cut changes them.
class AuditMemory {
 public:
  void Forget(size_t node) { good_[node].clear(); }

 private:
  friend class DiskView;
  std::map<size_t, std::set<std::pair<TargetId, ShardId>>> good_;
};

ClusterAudit AuditCluster(SimCluster& cluster, AuditMemory* memory);

// Without the nodes (their numbers) every stripe, also one that is being written, can still be decoded. Not so if one
// is crowded and they hold more than m columns of a group of it. By the metadata's records alone.
bool DecodesWithout(SimCluster& cluster, const std::set<size_t>& nodes);

// Gathered stripes of which files use one column only, and that take clearly more (stripe/fold_plan.h) than this column
// mirrored would: one sentence each. Counted from the metadata's records alone.
std::vector<std::string> LonelyColumns(SimCluster& cluster);

}  // namespace stria
