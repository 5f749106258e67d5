// What people ask of the cluster: status, changes of nodes and disks, upkeep, checks, and which files are meant. Every verb can
// be tried with dry_run; none takes the last recoverable copy of live bytes: force does not change that.
//
// Owns nothing. Invariants: each call that changes something first asks whether its caller is an admin (admin_peer.h), and with
// dry_run it changes nothing. Each verb that changes something, or would, has a line in the audit, whatever became of it.
//
// Called by MetaServer. Sees the cluster, upkeep, survey, the backup, coherence, the core and its cleaner.
#pragma once

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "api/admin_api.h"
#include "api/meta_api.h"
#include "common/exec/pool.h"
#include "common/exec/task.h"
#include "trust/audit/audit_sink.h"
#include "meta/calls/rooms.h"
#include "meta/cluster/cluster_keeper.h"
#include "meta/coherence/coherence.h"
#include "meta/core/cleaner.h"
#include "meta/core/meta_core.h"

namespace stria {

class AdminCalls {
 public:
  // All outlive it.
  AdminCalls(MetaCore* core, Cleaner* cleaner, Coherence* coherence, ClusterKeeper* cluster, const LoadedRooms* rooms)
      : core_(core), cleaner_(cleaner), coherence_(coherence), sessions_(&coherence->sessions()),
        notices_(&coherence->notices()), cluster_(cluster), rooms_(rooms) {}

  ~AdminCalls() { stop_->store(true); }
  // Where the metadata is checked, while calls go on. Null: on the executor's thread. Outlives it, and ends before the executor.
  void UsePool(Pool* pool) { pool_ = pool; }
  void UseAudit(AuditSink* audit) { audit_ = audit; }  // null: nobody is told. Outlives it

  Task<Result<StatusReply>> Status(InodeRequest r);
  Task<Result<AdminReply>> Admin(AdminRequest r);
  Task<Result<FsckReply>> Fsck(InodeRequest r);
  Task<Result<UpkeepReply>> Upkeep(UpkeepRequest r);
  Task<Result<CanRemoveReply>> CanRemove(CanRemoveRequest r);
  Task<Result<FsckRepairReply>> FsckRepair(FsckRepairRequest r);
  Task<Result<NamesReply>> Names(NamesRequest r);
  Task<Result<FilesReply>> Files(FilesRequest r);
  Task<Result<ReadEventsReply>> ReadEvents(ReadEventsRequest r);

 private:
  StatusReply StatusOfCaller(const OpHeader& h) const;
  Task<Result<AdminReply>> DoAdmin(AdminRequest r);
  Task<Result<UpkeepReply>> DoUpkeep(UpkeepRequest r);
  Task<Result<FsckRepairReply>> DoFsckRepair(FsckRepairRequest r);
  Result<std::string> StartRepair(bool dry_run);
  Task<Result<AdminReply>> AdminTargets(AdminRequest r, std::vector<TargetId> targets);
  Result<std::set<StripeId>> OnlyAllocatedOn(TargetId target);
  Task<Result<AdminReply>> AdminRemove(AdminRequest r, std::vector<TargetId> targets);
  Task<Result<AdminReply>> AdminRepair(AdminRequest r);
  Task<Result<AdminReply>> FinishAdmin(AdminReply reply);
  Result<TargetState> NextState(const AdminRequest& r, const TargetInfo& t) const;
  Result<void> CheckReplacement(const AdminRequest& r) const;

  MetaCore* const core_;
  Cleaner* const cleaner_;
  Coherence* const coherence_;
  Sessions* const sessions_;
  Notices* const notices_;
  ClusterKeeper* const cluster_;
  const LoadedRooms* const rooms_;
  AuditSink* audit_ = nullptr;
  Pool* pool_ = nullptr;
  bool checking_ = false;  // on the pool
  const std::shared_ptr<std::atomic<bool>> stop_ = std::make_shared<std::atomic<bool>>(false);  // the check
};

}  // namespace stria
