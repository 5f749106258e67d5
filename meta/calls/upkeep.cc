// Upkeep (api/admin_api.h): scrubbing, what removing disks would cost, repairs begun at once.
#include <algorithm>

#include "common/log.h"
#include "meta/calls/admin_calls.h"
#include "meta/calls/admin_peer.h"
#include "meta/ops/fsck.h"

namespace stria {

// Does not wait for grace periods any more, nor for those that were parked.
Result<std::string> AdminCalls::StartRepair(bool dry_run) {
  std::string names;
  std::vector<NodeId> down;
  for (const NodeInfo& n : cluster_->state().Map().nodes) {
    if (n.state != NodeState::kDown) continue;
    down.push_back(n.id);
    names += (names.empty() ? "" : ", ") + n.name;
  }
  if (!dry_run) {
    for (NodeId n : down) cluster_->SetNodeOut(n);
    rooms_->upkeep->Hurry();
    RETURN_IF_ERROR(cluster_->Publish());
  }
  if (down.empty()) return std::string("no node is down; what waited is tried again");
  return names + " given up: what was there is made again elsewhere, and counts again if it returns before that";
}

Task<Result<UpkeepReply>> AdminCalls::DoUpkeep(UpkeepRequest r) {
  CO_RETURN_IF_ERROR(sessions_->CheckCaller(r.header));
  if (r.header.peer && r.verb != UpkeepVerb::kStatus) CO_RETURN_IF_ERROR(CheckAdminCall(sessions_, r.header, "gives orders, also to try them"));
  const bool changes = r.verb != UpkeepVerb::kStatus && !r.dry_run;
  if (changes) CO_RETURN_IF_ERROR(CheckAdminCall(sessions_, r.header, "changes the cluster"));
  Result<std::string> message = std::string();
  switch (r.verb) {
    case UpkeepVerb::kStatus: break;
    case UpkeepVerb::kScrubStart:
    case UpkeepVerb::kScrubPause:
    case UpkeepVerb::kScrubResume: message = rooms_->upkeep->OrderScrub(r); break;
    case UpkeepVerb::kRebalanceStart:
    case UpkeepVerb::kRebalanceStop: message = co_await rooms_->upkeep->OrderRebalance(r); break;
    case UpkeepVerb::kRepairStart: message = StartRepair(r.dry_run); break;
    case UpkeepVerb::kForgetUnknown: message = rooms_->archives->ForgetUnknown(r.dry_run); break;
    case UpkeepVerb::kBackupNow:
      CO_RETURN_IF_ERROR(co_await rooms_->archives->BackupNow(r.dry_run, core_->DeadlineOf(r.header)));
      message = std::string("everything that is committed is in the backup");
      break;
  }
  if (!message.ok()) {
    core_->Fail(message.error());
    co_return message.error();
  }
  if (changes) {
    CO_RETURN_IF_ERROR(co_await core_->Sync());
  }
  UpkeepReply reply;
  reply.message = *std::move(message);
  rooms_->upkeep->Tell(&reply);
  reply.backup = rooms_->archives->State();
  std::set<StripeId> unfit;
  for (const ScrubProgress& p : reply.scrubs) unfit.insert(p.unfit.begin(), p.unfit.end());
  if (!IsAdminCall(*sessions_, r.header)) co_return std::move(reply);  // files are named to admins only
  CO_ASSIGN_OR_RETURN(const auto files, ListFilesOf(core_->store(), unfit, kMaxAffectedFiles));
  for (const LostFile& f : files) reply.unfit.push_back({f.ino, f.path, f.offset, f.length, false});
  co_return std::move(reply);
}

Task<Result<CanRemoveReply>> AdminCalls::CanRemove(CanRemoveRequest r) {
  CO_RETURN_IF_ERROR(sessions_->CheckCaller(r.header));
  for (TargetId t : r.targets) {
    const TargetInfo* info = cluster_->state().FindTarget(t);
    if (info == nullptr || info->state == TargetState::kRemoved) co_return Error(FsError::kNoEnt, "no such disk");
  }
  CO_ASSIGN_OR_RETURN(CanRemoveReply reply, co_await rooms_->survey->CanRemove(r.targets));
  if (!IsAdminCall(*sessions_, r.header)) {
    reply.more = !reply.files.empty();
    reply.files.clear();
  }
  co_return std::move(reply);
}

// On this thread: what it repairs must not change between check and repair.
Task<Result<FsckRepairReply>> AdminCalls::DoFsckRepair(FsckRepairRequest r) {
  CO_RETURN_IF_ERROR(CheckAdminCall(sessions_, r.header, "checks the metadata: everybody waits meanwhile"));
  Touched touched;
  Result<FsckRepairs> repaired = RepairStore(core_->store(), r.dry_run, &touched);
  if (!r.dry_run) {
    cleaner_->NoteCommit(touched);
    if (!repaired.ok() && repaired.code() != FsError::kRetryLater) core_->Fail(repaired.error());
  }
  if (!repaired.ok()) co_return repaired.error();
  if (!r.dry_run) {
    for (const std::string& what : repaired->done) LogWarning("fsck: {}", what);
    co_await notices_->Announce(SessionId(), touched, {});
    CO_RETURN_IF_ERROR(co_await core_->Sync());
  }
  co_return FsckRepairReply{std::move(repaired->done), std::move(repaired->problems)};
}

}  // namespace stria
