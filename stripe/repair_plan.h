// The repair planner: which shards are rebuilt or moved next, where to, by which node and from which columns. Pure and
// deterministic: executors carry its tasks out, and ask again when some have ended.
//
//   1. Stripes lost beyond repair, or not repairable until a node returns, are reported, never dropped.
//   2. Order: fewest spare shards first; among equals rebuilds, then drains, then moves of misplaced shards.
//   3. A stripe has one task at a time, so that two tasks never choose the same place for it.
//   4. The new shard's node executes the task. Writers are chosen by free space and load, readers by load, so
//      that every node takes part (declustered).
//   5. A place is crowded only if no disk of a free domain has room at all, never because it is busy:
//      then the task waits for its turn.
//
// Sizes are bytes. One call is O(s log s + t n log n) for s stripes, t of them tried, and n disks; callers
// pass batches of at most some thousands of stripes. Safe from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/ids.h"
#include "stripe/placement.h"
#include "stripe/types.h"

namespace stria {

enum class ColumnState : uint8_t {
  kOk,
  kMissing,    // its bytes are gone: disk out, shard lost or failed its checksum. To be rebuilt
  kSuspect,    // not to be relied on now, may come back: neither read from nor rebuilt
  kDraining,   // fine, but its disk is to be emptied: copy it away
  kMisplaced,  // fine, but crowded. To be moved when a domain is free
};

struct StripeHealth {
  StripeInfo info;
  std::vector<ColumnState> columns;  // one per column; those without a shard (length 0) are never at risk
  Domain domain = Domain::kNode;     // of the layout
  NodeId place_node;                 // of the layout: the node that data columns should be on
  std::vector<NodeId> avoid;         // nodes that are not to make anything of it
};

struct RepairBudget {
  uint32_t max_tasks = 64;           // in flight in the cluster
  uint32_t max_writes_per_node = 4;  // tasks that a node executes at a time
  uint32_t max_reads_per_node = 16;  // shards that are read from a node at a time
};

enum class RepairKind : uint8_t { kRebuild, kDrain, kMove };

struct RepairTask {
  struct Source {
    ColumnIndex column;
    ShardId shard;
    TargetId target;
    NodeId node;
    bool operator==(const Source&) const = default;
  };
  StripeId stripe;
  RepairKind kind = RepairKind::kRebuild;
  ColumnIndex column;
  ShardId old_shard;
  TargetId old_target;
  uint64_t shard_bytes = 0;
  TargetId new_target;
  NodeId executor;  // owns new_target
  // The column itself (copy it), or as many others of its group as decode it; the group's columns of length
  // 0 are known to be zeros and need no source.
  std::vector<Source> sources;
  bool crowded = false;  // the new place shares a failure domain with another column of the group
  int spare = 0;         // SpareShards of the group when planned
  bool copies_itself() const { return sources.size() == 1 && sources[0].column == column; }
  bool operator==(const RepairTask&) const = default;
};

// A group of a stripe that lacks shards to decode from.
struct GroupLoss {
  StripeId stripe;
  uint32_t group = 0;
  uint32_t readable = 0;  // readable columns, those of length 0 included
  uint32_t needed = 0;    // k
  std::vector<ColumnIndex> missing;
  bool operator==(const GroupLoss&) const = default;
};

struct RepairPlan {
  std::vector<RepairTask> tasks;        // in order of priority
  std::vector<GroupLoss> unrepairable;  // fewer than k even if every suspect shard comes back
  std::vector<GroupLoss> waiting;       // fewer than k until suspect shards come back
  std::vector<StripeId> homeless;       // no disk in the cluster can take the shard: add space or disks
  std::vector<StripeId> unmovable;      // nothing is at risk, but no better place has room
  uint64_t deferred = 0;                // stripes planned later
};

// How many more shards the group can lose and still be decoded; negative: it cannot be. Missing and suspect
// shards count as lost.
int SpareShards(const StripeInfo& info, std::span<const ColumnState> states, uint32_t group);

// `in_flight` are the tasks not yet ended; they count against the budget, and their stripes get no other.
// Stripes of `health` appear once each. Shards on disks that are not readable count as suspect.
RepairPlan PlanRepairs(const ClusterView& view, std::span<const StripeHealth> health,
                       const RepairBudget& budget, std::span<const RepairTask> in_flight);

}  // namespace stria
