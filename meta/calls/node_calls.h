// What data servers call: they register, are told what to do, report what they did, and compare what they hold.
//
// Owns nothing. Invariants: each call but GetMap, which every caller may ask, first asks whether its caller is one of the cluster
// (CheckNode), and, where that is proved, whether it speaks for its own node and disks (meta/cluster/node_identity.h). A node is
// told to delete a shard only as ClusterKeeper's invariants have it.
//
// Called by MetaServer. Sees the cluster, upkeep, the backup, sessions and the core.
#pragma once

#include "api/admin_api.h"
#include "api/meta_api.h"
#include "common/exec/task.h"
#include "meta/calls/rooms.h"
#include "meta/cluster/cluster_keeper.h"
#include "meta/coherence/coherence.h"
#include "meta/core/meta_core.h"
#include "meta/ops/ops.h"

namespace stria {

class NodeCalls {
 public:
  // All outlive it.
  NodeCalls(MetaCore* core, Sessions* sessions, ClusterKeeper* cluster, const LoadedRooms* rooms)
      : core_(core), sessions_(sessions), cluster_(cluster), rooms_(rooms) {}

  Task<Result<RegisterNodeReply>> RegisterNode(RegisterNodeRequest r);
  Task<Result<HeartbeatReply>> Heartbeat(HeartbeatRequest r);
  Task<Result<Empty>> ReportWork(ReportWorkRequest r);
  Task<Result<CheckShardsReply>> CheckShards(CheckShardsRequest r);
  Task<Result<ClusterMap>> GetMap(InodeRequest r);
  Task<Result<ScrubOrder>> ReportScrub(ReportScrubRequest r);
  Task<Result<CompareShardsReply>> CompareShards(CompareShardsRequest r);
  Task<Result<ListParityReply>> ListParity(ListParityRequest r);

 private:
  Result<void> CheckNode(const OpHeader& h) const;
  GarbageUpTo Deletable() const;

  MetaCore* const core_;
  Sessions* const sessions_;
  ClusterKeeper* const cluster_;
  const LoadedRooms* const rooms_;
};

}  // namespace stria
