// Verbs that change the cluster, or would, with their lines in the audit.
#include "common/quantity.h"
#include "meta/calls/admin_calls.h"
#include "meta/calls/call_audit.h"

namespace stria {
namespace {

const char* NameOf(AdminVerb verb) {
  switch (verb) {
    case AdminVerb::kDrain: return "drain";
    case AdminVerb::kUndrain: return "undrain";
    case AdminVerb::kReplaceTarget:
    case AdminVerb::kReplaceNode: return "replace";
    case AdminVerb::kRemove: return "remove";
    case AdminVerb::kOut: return "out";
    case AdminVerb::kRepairPause: return "rebuild pause";
    case AdminVerb::kRepairResume: return "rebuild resume";
    case AdminVerb::kRepairLimit: return "rebuild limit";
    case AdminVerb::kAdmit: return "add";
  }
  return "";
}

const char* NameOf(UpkeepVerb verb) {
  switch (verb) {
    case UpkeepVerb::kStatus: return "status";
    case UpkeepVerb::kScrubStart: return "scrub start";
    case UpkeepVerb::kScrubPause: return "scrub pause";
    case UpkeepVerb::kScrubResume: return "scrub resume";
    case UpkeepVerb::kRebalanceStart: return "rebalance start";
    case UpkeepVerb::kRebalanceStop: return "rebalance stop";
    case UpkeepVerb::kRepairStart: return "rebuild start";
    case UpkeepVerb::kBackupNow: return "meta backup";
    case UpkeepVerb::kForgetUnknown: return "meta forget-unknown";
  }
  return "";
}

std::string NameOf(const ClusterState& state, NodeId node) {
  const NodeInfo* n = state.FindNode(node);
  return n != nullptr ? n->name : "node " + std::to_string(node.v);
}

// The names as they are before the verb is carried out: afterwards they may be gone.
AuditedCall CallOf(const ClusterState& state, const AdminRequest& r) {
  AuditedCall call;
  call.dry_run = r.dry_run;
  const std::string name = NameOf(r.verb);
  if (r.target) {
    call.verb = "disk " + name;
    call.arguments = state.TargetName(r.target);
    if (r.new_target) call.arguments += " " + state.TargetName(r.new_target);
  } else if (r.node) {
    call.verb = "node " + name;
    call.arguments = NameOf(state, r.node);
    if (r.new_node) call.arguments += " " + NameOf(state, r.new_node);
  } else {
    call.verb = name;
    if (r.verb == AdminVerb::kRepairLimit) call.arguments = FormatSize(r.number);
  }
  if (r.force) call.arguments += " --force";
  return call;
}

template <class Reply>
std::string MessageOf(const Result<Reply>& reply) {
  return reply.ok() ? reply->message : "";
}

}  // namespace

Task<Result<AdminReply>> AdminCalls::Admin(AdminRequest r) {
  const OpHeader header = r.header;
  AuditedCall call;
  if (audit_ != nullptr && !core_->HasFailed() && core_->CheckHeader(header).ok()) call = CallOf(cluster_->state(), r);
  call.dry_run = r.dry_run;
  if (call.verb.empty()) call.verb = NameOf(r.verb);
  Result<AdminReply> reply = co_await DoAdmin(std::move(r));
  NoteCall(audit_, header, std::move(call), reply.error(), MessageOf(reply));
  co_return reply;
}

Task<Result<UpkeepReply>> AdminCalls::Upkeep(UpkeepRequest r) {
  if (r.verb == UpkeepVerb::kStatus) co_return co_await DoUpkeep(std::move(r));
  const OpHeader header = r.header;
  AuditedCall call;
  call.verb = NameOf(r.verb);
  call.dry_run = r.dry_run;
  if (r.verb == UpkeepVerb::kScrubStart && r.number > 0) call.arguments = "--rate " + FormatSize(r.number);
  Result<UpkeepReply> reply = co_await DoUpkeep(std::move(r));
  NoteCall(audit_, header, std::move(call), reply.error(), MessageOf(reply));
  co_return reply;
}

Task<Result<FsckRepairReply>> AdminCalls::FsckRepair(FsckRepairRequest r) {
  const OpHeader header = r.header;
  AuditedCall call;
  call.verb = "fsck";
  call.arguments = "--repair";
  call.dry_run = r.dry_run;
  Result<FsckRepairReply> reply = co_await DoFsckRepair(std::move(r));
  const std::string message =
      reply.ok() ? std::to_string(reply->done.size()) + " repairs, " + std::to_string(reply->problems.size()) + " problems" : "";
  NoteCall(audit_, header, std::move(call), reply.error(), message);
  co_return reply;
}

}  // namespace stria
