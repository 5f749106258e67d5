// What admins ask for. Every verb can be tried with dry_run; none takes the last recoverable copy of live
// bytes: force does not change that.
#include <algorithm>

#include "common/quantity.h"
#include "meta/calls/admin_calls.h"
#include "meta/calls/admin_peer.h"
#include "meta/upkeep/weight.h"
#include "stripe/stripe_form.h"

namespace stria {
namespace {

constexpr size_t kWeighPage = 256;

std::string Plural(uint64_t n, const char* what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

// One that was removed may come again.
Result<AdminReply> Admit(ClusterKeeper* cluster, const AdminRequest& r) {
  AdminReply reply;
  const NodeInfo* node = cluster->state().removed().Find(r.node);
  const TargetInfo* target = cluster->state().FindTarget(r.target);
  if (target != nullptr && target->state == TargetState::kRemoved) {
    reply.message = cluster->state().TargetName(r.target) + " may be used again";
    if (!r.dry_run) cluster->AdmitTarget(r.target);
  } else if (node != nullptr) {
    reply.message = node->name + " may register again: its disks are new ones to the cluster";
    if (!r.dry_run) cluster->AdmitNode(r.node);
  } else {
    return Error(FsError::kNoEnt, "it was not removed");
  }
  return reply;
}

}  // namespace

Task<Result<AdminReply>> AdminCalls::FinishAdmin(AdminReply reply) {
  CO_RETURN_IF_ERROR(cluster_->Publish());
  CO_RETURN_IF_ERROR(co_await core_->Sync());
  rooms_->upkeep->Wake();
  co_return std::move(reply);
}

Task<Result<AdminReply>> AdminCalls::DoAdmin(AdminRequest r) {
  CO_RETURN_IF_ERROR(sessions_->CheckCaller(r.header));
  if (!r.dry_run || r.header.peer) CO_RETURN_IF_ERROR(CheckAdminCall(sessions_, r.header, "changes the cluster"));
  switch (r.verb) {
    case AdminVerb::kRepairPause:
    case AdminVerb::kRepairResume:
    case AdminVerb::kRepairLimit: co_return co_await AdminRepair(std::move(r));
    default: break;
  }
  if (r.verb == AdminVerb::kAdmit) {
    CO_ASSIGN_OR_RETURN(AdminReply reply, Admit(cluster_, r));
    co_return r.dry_run ? Result<AdminReply>(std::move(reply)) : co_await FinishAdmin(std::move(reply));
  }
  // What was committed there before a restart may still have to be repeated.
  if (r.verb == AdminVerb::kRemove && !r.dry_run) CO_RETURN_IF_ERROR(co_await sessions_->AwaitReclaims(r.header));
  std::vector<TargetId> targets;
  if (r.target) {
    const TargetInfo* t = cluster_->state().FindTarget(r.target);
    if (t == nullptr || t->state == TargetState::kRemoved) co_return Error(FsError::kNoEnt, "no such disk");
    targets = {r.target};
  } else {
    if (cluster_->state().FindNode(r.node) == nullptr) co_return Error(FsError::kNoEnt, "no such node");
    targets = cluster_->state().Targets(r.node);
  }
  if (r.verb == AdminVerb::kRemove) co_return co_await AdminRemove(std::move(r), std::move(targets));
  co_return co_await AdminTargets(std::move(r), std::move(targets));
}

Task<Result<AdminReply>> AdminCalls::AdminRepair(AdminRequest r) {
  AdminReply reply;
  RepairSettings next = rooms_->upkeep->repairer().settings();
  if (r.verb == AdminVerb::kRepairLimit) {
    next.limit_bytes_per_s = r.number;
    reply.message = r.number == 0 ? "repair runs without a limit"
                                  : "repair writes at most " + FormatSize(r.number) + "/s";
  } else {
    next.paused = r.verb == AdminVerb::kRepairPause;
    reply.message = next.paused ? "repair is paused; rebuilds that run are finished" : "repair goes on";
  }
  if (r.dry_run) co_return std::move(reply);
  if (const Result<void> saved = rooms_->upkeep->SetSettings(next); !saved.ok()) {
    core_->Fail(saved.error());
    co_return saved.error();
  }
  co_return co_await FinishAdmin(std::move(reply));
}

// What to do with one target, or why not.
Result<TargetState> AdminCalls::NextState(const AdminRequest& r, const TargetInfo& t) const {
  const std::string name = cluster_->state().TargetName(t.id);
  switch (r.verb) {
    case AdminVerb::kDrain:
      if (t.state == TargetState::kUp) return TargetState::kDraining;
      return t.state;  // its shards are on their way already
    case AdminVerb::kUndrain:
      if (t.state == TargetState::kDraining || t.state == TargetState::kUp) return TargetState::kUp;
      return Error(FsError::kInval, name + " is not draining but has failed or is out; replace the disk");
    case AdminVerb::kReplaceTarget:
    case AdminVerb::kReplaceNode:
      // Readable ones are copied from; what cannot be read is rebuilt from the others.
      if (t.state == TargetState::kUp) return TargetState::kDraining;
      return t.state;
    case AdminVerb::kOut: return TargetState::kOut;
    default: return Error(FsError::kBadRequest, "no such verb");
  }
}

Result<void> AdminCalls::CheckReplacement(const AdminRequest& r) const {
  if (r.verb == AdminVerb::kReplaceTarget) {
    const TargetInfo* n = cluster_->state().FindTarget(r.new_target);
    if (n == nullptr || n->state != TargetState::kUp || r.new_target == r.target || !r.target) {
      return Error(FsError::kInval, "the new disk is not in use; add it to its node first");
    }
  }
  if (r.verb == AdminVerb::kReplaceNode) {
    const NodeInfo* n = cluster_->state().FindNode(r.new_node);
    if (n == nullptr || n->state != NodeState::kUp || r.new_node == r.node || !r.node) {
      return Error(FsError::kInval, "the new node is not up; start its data server first");
    }
  }
  return Ok();
}

Task<Result<AdminReply>> AdminCalls::AdminTargets(AdminRequest r, std::vector<TargetId> targets) {
  CO_RETURN_IF_ERROR(CheckReplacement(r));
  const bool whole_node = !r.target;
  // Others may remove it while this waits.
  const std::string what = whole_node ? cluster_->state().FindNode(r.node)->name : cluster_->state().TargetName(r.target);
  if (r.verb == AdminVerb::kOut) {
    const bool answers = std::any_of(targets.begin(), targets.end(), [&](TargetId t) { return cluster_->state().IsReachable(t); });
    if (answers && !r.force) {
      co_return Error(FsError::kBusy, "it answered just now: drain it instead, which keeps its copies until others are made; if it has just "
                                       "died, it is missed in some seconds");
    }
    CO_ASSIGN_OR_RETURN(const uint64_t lost, co_await rooms_->survey->LostWithout(targets));
    if (lost > 0) {
      co_return Error(FsError::kBusy, "it has the last copy of parts of " + Plural(lost, "stripe") +
                                          "; repair them first, or drain it");
    }
  }
  const bool empties = r.verb == AdminVerb::kDrain || r.verb == AdminVerb::kReplaceNode || r.verb == AdminVerb::kReplaceTarget;
  if (empties && !r.force) {
    const auto stays = [&](const TargetView& t) { return TakesNew(t) && !std::ranges::count(targets, t.target); };
    if (std::ranges::none_of(cluster_->state().View().targets, stays)) {
      co_return Error(FsError::kBusy, "then every disk would be being emptied: nothing could be written any more, and what is there has no "
                                      "place to go. Add a node or disk first; --force does it all the same");
    }
  }
  CO_ASSIGN_OR_RETURN(const DiskWeight weight, co_await WeighDisks(&core_->store(), &cluster_->state(), targets));
  std::string stays;
  if (empties && weight.homeless > 0) {
    stays = Plural(weight.homeless, "stripe") + " with more columns than the " + Plural(weight.others, "disk") +
            " that would be left would stay there, and it would never be empty. Add a disk first";
    if (!r.force && !r.dry_run) co_return Error(FsError::kBusy, stays + "; --force does it all the same");
  }
  AdminReply reply;
  reply.stripes = weight.stripes;
  reply.bytes = weight.bytes;
  switch (r.verb) {
    case AdminVerb::kDrain: reply.message = what + " is emptied"; break;
    case AdminVerb::kUndrain: reply.message = what + " is in use again"; break;
    case AdminVerb::kOut: reply.message = what + " is out: its shards are rebuilt elsewhere"; break;
    default: reply.message = what + " is replaced: its shards move to the other disks, the new one among them";
  }
  reply.message += " (" + Plural(reply.stripes, "stripe") + ", " + FormatSize(reply.bytes) + ")";
  if (!stays.empty()) reply.message += "; " + stays + (r.dry_run ? " (--force does it all the same)" : "");
  if (r.verb != AdminVerb::kUndrain) {
    CO_ASSIGN_OR_RETURN(const std::string rooms, rooms_->survey->RoomsWithout(targets));
    reply.message += rooms;
  }
  std::vector<std::pair<TargetId, TargetState>> next;
  for (TargetId t : targets) {
    const TargetInfo* info = cluster_->state().FindTarget(t);
    if (info == nullptr) continue;
    CO_ASSIGN_OR_RETURN(const TargetState state, NextState(r, *info));
    next.emplace_back(t, state);
  }
  if (r.dry_run) co_return std::move(reply);
  if (r.verb == AdminVerb::kOut && whole_node) {
    cluster_->SetNodeOut(r.node);  // its disks keep their state: they count again if it returns
  } else {
    for (const auto& [t, state] : next) cluster_->SetTargetState(t, state);
  }
  co_return co_await FinishAdmin(std::move(reply));
}

// The stripes that clients have been given to fill on this target; kBusy if there is anything else on it.
Result<std::set<StripeId>> AdminCalls::OnlyAllocatedOn(TargetId target) {
  std::set<StripeId> out;
  Txn txn(core_->store());
  for (ShardId after;;) {
    ASSIGN_OR_RETURN(const auto page, ListTargetShards(txn, target, after, kWeighPage));
    for (const TargetShard& s : page) {
      after = s.shard;
      ASSIGN_OR_RETURN(const auto record, GetStripeRecord(txn, s.record.stripe));
      if (s.record.pending || !record || record->state != StripeState::kAllocated) {
        return Error(FsError::kBusy, cluster_->state().TargetName(target) + " still has shards of live stripes; drain it first");
      }
      out.insert(s.record.stripe);
    }
    if (page.size() < kWeighPage) return out;
  }
}

Task<Result<AdminReply>> AdminCalls::AdminRemove(AdminRequest r, std::vector<TargetId> targets) {
  std::set<StripeId> allocated;
  for (TargetId t : targets) {
    CO_ASSIGN_OR_RETURN(const auto some, OnlyAllocatedOn(t));
    allocated.insert(some.begin(), some.end());
  }
  AdminReply reply;
  const bool whole_node = !r.target;
  reply.message = (whole_node ? cluster_->state().FindNode(r.node)->name : cluster_->state().TargetName(r.target)) + " is removed";
  CO_ASSIGN_OR_RETURN(const std::string rooms, rooms_->survey->RoomsWithout(targets));
  reply.message += rooms;
  if (r.dry_run) co_return std::move(reply);
  // From here on nothing is placed there, nor committed; nothing has been since the check: none of this
  // waits. Who still fills one of the stripes hears kConflict and writes its bytes elsewhere.
  for (TargetId t : targets) {
    cluster_->SetTargetState(t, TargetState::kRemoved);
    rooms_->upkeep->Forget(t);
  }
  for (StripeId stripe : allocated) {
    Touched touched;
    Txn txn(core_->store());
    CO_RETURN_IF_ERROR(OpFreeStripe(txn, stripe, &touched));
    CO_RETURN_IF_ERROR(txn.Commit());
    cleaner_->NoteCommit(touched);
  }
  for (TargetId t : targets) CO_RETURN_IF_ERROR(co_await cluster_->DropGarbage(t));
  if (whole_node) cluster_->RemoveNode(r.node);
  co_return co_await FinishAdmin(std::move(reply));
}

}  // namespace stria
