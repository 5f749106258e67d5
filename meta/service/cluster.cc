// Nodes: registration, heartbeats, the work they are given and report.
#include <algorithm>

#include "common/sabotage.h"
#include "meta/service/meta_server_impl.h"

namespace stria {
namespace {

constexpr size_t kReportsPerTxn = 256;
constexpr size_t kMaxReports = 65536;
constexpr size_t kMaxCheckShards = 65536;
constexpr size_t kGarbagePage = 1024;

}  // namespace

Task<Result<RegisterNodeReply>> MetaServer::RegisterNode(RegisterNodeRequest r) {
  CO_RETURN_IF_ERROR(CheckHeader(r.header));
  CO_RETURN_IF_ERROR(verifier_->CheckNode(r.proof, r.uuid, r.name));
  const uint64_t incarnation = store_->super()->incarnation;
  if (r.incarnation > incarnation) {
    co_return Error(FsError::kWrongCluster, r.name + " has seen incarnation " + std::to_string(r.incarnation) +
                                                " of this cluster, the metadata is of " +
                                                std::to_string(incarnation) + ": an old copy of it is running");
  }
  std::optional<ClusterState::Registered> done;
  {
    Txn txn(*store_);  // for the numbers; they are committed together with the records below
    std::optional<Error> failed;
    const auto number = [&](IdKind kind) -> uint32_t {
      const Result<uint64_t> id = txn.NewId(kind);
      if (!id.ok()) failed = id.error();
      return id.ok() ? static_cast<uint32_t>(*id) : 0;
    };
    Result<ClusterState::Registered> registered = cluster_->Register(
        r, Now(), Wall(), [&] { return NodeId(number(IdKind::kNode)); },
        [&] { return TargetId(number(IdKind::kTarget)); });
    CO_RETURN_IF_ERROR(registered);
    upkeep_->NoteMoved(txn, cluster_->TakeMoved());
    Result<void> saved = failed ? Result<void>(*failed) : SaveClusterIn(txn);
    if (!saved.ok()) {
      SetFatal(saved.error());
      co_return saved.error();
    }
    done = *std::move(registered);
  }
  // A restarted server has forgotten what it was told to do.
  upkeep_->ForgetHandedOut({done->targets.begin(), done->targets.end()});
  PushMapEvents();
  progress_.Pulse();
  const Result<void> synced = co_await store_->Sync();
  if (!synced.ok()) {
    SetFatal(synced.error());
    co_return synced.error();
  }
  RegisterNodeReply reply;
  reply.node = done->node;
  reply.epoch = done->epoch;
  reply.targets = done->targets;
  reply.map = cluster_->Map();
  reply.beat_ns = options_.cluster.beat_ns;
  reply.token_time_ns = tokens_.TimeNs();
  co_return std::move(reply);
}

Task<Result<HeartbeatReply>> MetaServer::Heartbeat(HeartbeatRequest r) {
  CO_RETURN_IF_ERROR(CheckAdmin(r.header));
  HeartbeatReply reply;
  reply.term = term_;
  reply.token_time_ns = tokens_.TimeNs();
  const Error beat = cluster_->Beat(r.node, r.epoch, r.disks, Now(), Wall());
  if (beat.code == FsError::kNoEnt) {
    reply.register_again = true;
    reply.map_version = cluster_->version();
    co_return std::move(reply);
  }
  if (!beat.ok()) co_return beat;
  cluster_->reach().Report("node " + cluster_->FindNode(r.node)->name, r.unreachable, Wall());
  if (const Result<void> saved = SaveCluster(); !saved.ok()) {
    SetFatal(saved.error());
    co_return saved.error();
  }
  PushMapEvents();
  progress_.Pulse();
  reply.map_version = cluster_->version();
  std::vector<TargetId> here;
  for (TargetId t : cluster_->TargetsOf(r.node)) {
    if (cluster_->FindTarget(t)->state != TargetState::kFailed) here.push_back(t);
  }
  CO_ASSIGN_OR_RETURN(reply.deletes, DeletesFor(here));
  CO_ASSIGN_OR_RETURN(NodeWork work, upkeep_->WorkFor({here.begin(), here.end()}, r.rebuild_slots));
  reply.rebuilds = std::move(work.rebuilds);
  reply.widens = std::move(work.widens);
  co_return std::move(reply);
}

// Garbage that no reader can need any more, each target in turn from where the last beat ended.
Result<std::vector<DeleteWork>> MetaServer::DeletesFor(const std::vector<TargetId>& targets) {
  std::vector<DeleteWork> out;
  if (store_->Count(Counter::kGarbageShards) == 0) return out;
  // Only what no power cut brings back: the shards would be named again, and gone.
  // Nor while a restore of the metadata's backup would need them.
  const CommitSeq durable = store_->durable_seq();
  GarbageUpTo upto{std::min({sessions_.MinSeen(), durable, archives_->DeletableUpTo()}), durable, started_seq_};
  if (Sabotaged(Sabotage::kCollectAtOnce)) upto.acked = CommitSeq(UINT64_MAX);
  Txn txn(*store_);
  for (TargetId t : targets) {
    if (out.size() >= kDeletesPerBeat) break;
    ShardId& cursor = delete_cursors_[t];
    ASSIGN_OR_RETURN(const GarbagePage page, ListGarbage(txn, t, cursor, upto, kGarbagePage));
    cursor = page.end ? ShardId() : page.last;
    for (const GarbageShard& g : page.shards) {
      if (out.size() >= kDeletesPerBeat) {
        cursor = ShardId(g.shard.v - 1);  // the rest with the next beat
        break;
      }
      out.push_back({g.shard, t, tokens_.Sign(g.shard, t, kTokenDelete)});
      deletes_out_[g.shard] = t;
    }
  }
  return out;
}

Result<void> MetaServer::TakeDeleted(NodeId node, const std::vector<ShardId>& shards) {
  for (size_t i = 0; i < shards.size(); i += kReportsPerTxn) {
    Txn txn(*store_);
    for (size_t j = i; j < std::min(shards.size(), i + kReportsPerTxn); ++j) {
      auto it = deletes_out_.find(shards[j]);
      if (it == deletes_out_.end()) continue;  // of before a restart: it is handed out again
      const TargetInfo* target = cluster_->FindTarget(it->second);
      if (target == nullptr || target->node != node) continue;
      RETURN_IF_ERROR(OpGarbageDeleted(txn, it->second, shards[j]));
      deletes_out_.erase(it);
    }
    RETURN_IF_ERROR(txn.Commit());
  }
  unsynced_.Set();
  return Ok();
}

Task<Result<Empty>> MetaServer::ReportWork(ReportWorkRequest r) {
  CO_RETURN_IF_ERROR(CheckAdmin(r.header));
  if (Error e = cluster_->CheckEpoch(r.node, r.epoch); !e.ok()) co_return e;
  if (r.deleted.size() > kMaxReports || r.rebuilt.size() > kMaxReports || r.widened.size() > kMaxReports) {
    co_return Error(FsError::kBadRequest, "too many results in one report");
  }
  Result<void> done = TakeDeleted(r.node, r.deleted);
  if (done.ok()) done = upkeep_->TakeResults(r.node, r.rebuilt, r.widened);
  if (!done.ok()) {
    SetFatal(done.error());
    co_return done.error();
  }
  upkeep_->Wake();
  co_return Empty();
}

Task<Result<CheckShardsReply>> MetaServer::CheckShards(CheckShardsRequest r) {
  CO_RETURN_IF_ERROR(CheckAdmin(r.header));
  if (r.shards.size() > kMaxCheckShards) co_return Error(FsError::kBadRequest, "too many shards in one question");
  CheckShardsReply reply;
  reply.incarnation = store_->super()->incarnation;
  Txn txn(*store_);
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
  CO_RETURN_IF_ERROR(CheckHeader(r.header));
  co_return cluster_->Map();
}

}  // namespace stria
