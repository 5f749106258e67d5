// Nodes: registration, heartbeats, the work they are given and report.
#include <algorithm>

#include "common/sabotage.h"
#include "meta/service/meta_server_impl.h"

namespace stria {
namespace {

constexpr size_t kMaxReports = 65536;
constexpr size_t kMaxCheckShards = 65536;

}  // namespace

Task<Result<RegisterNodeReply>> MetaServer::RegisterNode(RegisterNodeRequest r) {
  CO_RETURN_IF_ERROR(core_.CheckHeader(r.header));
  CO_RETURN_IF_ERROR(core_.verifier().CheckNode(r.proof, r.uuid, r.name));
  co_return co_await cluster_.Register(std::move(r));
}

Task<Result<HeartbeatReply>> MetaServer::Heartbeat(HeartbeatRequest r) {
  CO_RETURN_IF_ERROR(sessions_->CheckAdmin(r.header));
  HeartbeatReply reply;
  CO_ASSIGN_OR_RETURN(const std::vector<TargetId> here, cluster_.TakeBeat(r, &reply));
  if (reply.register_again) co_return std::move(reply);
  CO_ASSIGN_OR_RETURN(reply.deletes, cluster_.DeletesFor(here, Deletable()));
  CO_ASSIGN_OR_RETURN(NodeWork work, upkeep_->WorkFor({here.begin(), here.end()}, r.rebuild_slots));
  reply.rebuilds = std::move(work.rebuilds);
  reply.widens = std::move(work.widens);
  co_return std::move(reply);
}

// Only what no reader can need any more, and no power cut brings back: the shards would be named again, and gone. Nor while a
// restore of the metadata's backup would need them.
GarbageUpTo MetaServer::Deletable() const {
  const CommitSeq durable = core_.store().durable_seq();
  GarbageUpTo upto{std::min({sessions_->table().MinSeen(), durable, archives_->DeletableUpTo()}), durable, core_.started_seq()};
  if (Sabotaged(Sabotage::kCollectAtOnce)) upto.acked = CommitSeq(UINT64_MAX);
  return upto;
}

Task<Result<Empty>> MetaServer::ReportWork(ReportWorkRequest r) {
  CO_RETURN_IF_ERROR(sessions_->CheckAdmin(r.header));
  if (Error e = cluster_.state().CheckEpoch(r.node, r.epoch); !e.ok()) co_return e;
  if (r.deleted.size() > kMaxReports || r.rebuilt.size() > kMaxReports || r.widened.size() > kMaxReports) {
    co_return Error(FsError::kBadRequest, "too many results in one report");
  }
  Result<void> done = cluster_.TakeDeleted(r.node, r.deleted);
  if (done.ok()) done = upkeep_->TakeResults(r.node, r.rebuilt, r.widened);
  if (!done.ok()) {
    core_.Fail(done.error());
    co_return done.error();
  }
  upkeep_->Wake();
  co_return Empty();
}

Task<Result<CheckShardsReply>> MetaServer::CheckShards(CheckShardsRequest r) {
  CO_RETURN_IF_ERROR(sessions_->CheckAdmin(r.header));
  if (r.shards.size() > kMaxCheckShards) co_return Error(FsError::kBadRequest, "too many shards in one question");
  CheckShardsReply reply;
  reply.incarnation = core_.store().super()->incarnation;
  Txn txn(core_.store());
  for (ShardId s : r.shards) {
    CO_ASSIGN_OR_RETURN(const bool known, IsShardKnown(txn, r.target, s));
    if (!known) reply.unknown.push_back(s);
  }
  if (archives_->HoldsUnknown()) {
    // They may be of files that were written after the moment that was restored.
    archives_->NoteHeld(r, reply.unknown.size());
    reply.unknown.clear();
  }
  co_return std::move(reply);
}

Task<Result<ClusterMap>> MetaServer::GetMap(InodeRequest r) {
  CO_RETURN_IF_ERROR(core_.CheckHeader(r.header));
  co_return cluster_.state().Map();
}

}  // namespace stria
