#include "meta/cluster/cluster_keeper.h"

#include <algorithm>
#include <optional>

#include "common/log.h"
#include "meta/core/cluster_keys.h"
#include "meta/core/for_each.h"
#include "meta/core/number_record.h"

namespace stria {
namespace {

constexpr size_t kDeletesPerBeat = 512;  // shards a node is told to delete at a time
constexpr size_t kReportsPerTxn = 256;
constexpr size_t kGarbagePage = 1024;
constexpr size_t kDropPage = 1024;
constexpr GarbageUpTo kAllGarbage{CommitSeq(UINT64_MAX), CommitSeq(UINT64_MAX)};

}  // namespace

Result<void> ClusterKeeper::Load(Txn& txn) {
  const SuperRecord& super = *core_->store().super();
  state_ = std::make_unique<ClusterState>(options_, super.cluster, super.incarnation);
  ASSIGN_OR_RETURN(const uint64_t version, ReadNumber(txn, MapVersionKey()));
  RETURN_IF_ERROR(ForEachEntry(txn, Family::kCluster, NodeRecordPrefix(), [&](const auto&, const auto& v) -> Result<void> {
    ASSIGN_OR_RETURN(NodeRecord n, DecodeNodeRecord(v));
    state_->LoadNode(std::move(n), core_->Now());
    return Ok();
  }));
  RETURN_IF_ERROR(ForEachEntry(txn, Family::kCluster, TargetRecordPrefix(), [&](const auto&, const auto& v) -> Result<void> {
    ASSIGN_OR_RETURN(TargetInfo t, DecodeTargetRecord(v));
    return state_->LoadTarget(std::move(t));
  }));
  RETURN_IF_ERROR(ForEachEntry(txn, Family::kCluster, RemovedNodePrefix(), [&](const auto&, const auto& v) -> Result<void> {
    ASSIGN_OR_RETURN(NodeRecord n, DecodeNodeRecord(v));
    state_->LoadRemoved(std::move(n.info));
    return Ok();
  }));
  state_->LoadVersion(version, core_->said());
  return Ok();
}

void ClusterKeeper::SetTimes(const ClusterOptions& now) {
  options_.suspect_ns = now.suspect_ns;
  if (state_ != nullptr) state_->SetTimes(now);
}

void ClusterKeeper::Tick() {
  state_->Tick(core_->Now(), core_->Wall());
  if (const auto saved = Save(); !saved.ok()) core_->Fail(saved.error());
  Tell();
}

Result<void> ClusterKeeper::Publish() {
  if (const Result<void> saved = Save(); !saved.ok()) {
    core_->Fail(saved.error());
    return saved.error();
  }
  Tell();
  return Ok();
}

Result<void> ClusterKeeper::Save() {
  Txn txn(core_->store());
  return Save(txn);
}

Result<void> ClusterKeeper::Save(Txn& txn) {
  const ClusterState::Changes c = state_->TakeChanges();
  if (c.empty()) return Ok();
  for (const NodeRecord& n : c.nodes) txn.Put(Family::kCluster, NodeRecordKey(n.info.id), EncodeNodeRecord(n));
  for (const TargetInfo& t : c.targets) txn.Put(Family::kCluster, TargetRecordKey(t.id), EncodeTargetRecord(t));
  for (NodeId id : c.nodes_removed) txn.Delete(Family::kCluster, NodeRecordKey(id));
  for (TargetId id : c.targets_removed) txn.Delete(Family::kCluster, TargetRecordKey(id));
  for (const NodeInfo& n : c.refused.added) txn.Put(Family::kCluster, RemovedNodeKey(n.id), EncodeNodeRecord({n, Epoch()}));
  for (NodeId id : c.refused.dropped) txn.Delete(Family::kCluster, RemovedNodeKey(id));
  txn.Put(Family::kCluster, MapVersionKey(), EncodeNumber(state_->version()));
  RETURN_IF_ERROR(txn.Commit());
  core_->Committed();
  return Ok();
}

void ClusterKeeper::Tell() {
  if (state_->version() == told_version_) return;
  told_version_ = state_->version();
  LogChanges();
  host_->MapChanged();
}

void ClusterKeeper::LogChanges() {
  const ClusterMap map = state_->Map();
  for (const NodeInfo& n : map.nodes) {
    const NodeState before = std::exchange(logged_nodes_[n.id], n.state);
    if (before == n.state) continue;
    if (n.state == NodeState::kUp) LogInfo("node {} is up at {}", n.name, n.address);
    else if (n.state == NodeState::kSuspect) LogInfo("node {} is not heard", n.name);
    else if (n.state == NodeState::kDown) LogWarning("node {} is down", n.name);
    else LogWarning("node {} is out: its shards are rebuilt on the others", n.name);
  }
  for (const TargetInfo& t : map.targets) {
    const TargetState before = std::exchange(logged_targets_[t.id], t.state);
    if (before == t.state) continue;
    const std::string name = map.TargetName(t.id);
    if (t.state == TargetState::kUp) LogInfo("disk {} is in use", name);
    else if (t.state == TargetState::kDraining) LogInfo("disk {} is being emptied", name);
    else if (t.state == TargetState::kFailed) LogWarning("disk {} has failed: its shards are rebuilt elsewhere", name);
    else if (t.state == TargetState::kOut) LogWarning("disk {} is out: its shards are rebuilt elsewhere", name);
    else LogInfo("disk {} is removed", name);
  }
}

// ---- Nodes ----

Task<Result<RegisterNodeReply>> ClusterKeeper::Register(RegisterNodeRequest r) {
  const uint64_t incarnation = core_->store().super()->incarnation;
  if (r.incarnation > incarnation) {
    co_return Error(FsError::kWrongCluster, r.name + " has seen incarnation " + std::to_string(r.incarnation) +
                                                " of this cluster, the metadata is of " +
                                                std::to_string(incarnation) + ": an old copy of it is running");
  }
  std::optional<ClusterState::Registered> done;
  {
    Txn txn(core_->store());  // for the numbers; they are committed together with the records below
    std::optional<Error> failed;
    const auto number = [&](IdKind kind) -> uint32_t {
      const Result<uint64_t> id = txn.NewId(kind);
      if (!id.ok()) failed = id.error();
      return id.ok() ? static_cast<uint32_t>(*id) : 0;
    };
    // Uuids are in the map, for everybody to see. A node that proves its name brings a disk of another by what is on the disk.
    const auto may_bring = [&](const DiskHello& d, const TargetInfo& as) {
      if (!r.header.peer || core_->verifier().KnowsDisk(d.proof, d.uuid, as.node)) return true;
      LogWarning("{} registers disk {} without what it has from its node: it is not used", r.header.peer->ToString(), state_->TargetName(as.id));
      return false;
    };
    Result<ClusterState::Registered> registered = state_->Register(
        r, core_->Now(), core_->Wall(), [&] { return NodeId(number(IdKind::kNode)); },
        [&] { return TargetId(number(IdKind::kTarget)); }, may_bring);
    CO_RETURN_IF_ERROR(registered);
    host_->Moved(txn, state_->TakeMoved());
    Result<void> saved = failed ? Result<void>(*failed) : Save(txn);
    if (!saved.ok()) {
      core_->Fail(saved.error());
      co_return saved.error();
    }
    done = *std::move(registered);
  }
  // A restarted server has forgotten what it was told to do.
  host_->Restarted({done->targets.begin(), done->targets.end()});
  Tell();
  core_->Pulse();
  CO_RETURN_IF_ERROR(co_await core_->Sync());
  RegisterNodeReply reply;
  reply.node = done->node;
  reply.epoch = done->epoch;
  reply.targets = done->targets;
  reply.map = state_->Map();
  reply.beat_ns = options_.beat_ns;
  reply.token_time_ns = core_->tokens().TimeNs();
  if (HolderOf(r.header) != 0) {
    reply.token_keys = core_->tokens().KeysOf(r.uuid);
    reply.fenced = core_->tokens().Fenced();
  }
  if (r.header.peer) {
    for (size_t i = 0; i < r.disks.size(); ++i) {
      const bool has = done->targets[i] && !r.disks[i].absent;
      reply.disk_proofs.push_back(has ? core_->signer().ProveDisk(r.disks[i].uuid, done->node) : "");
    }
  }
  co_return std::move(reply);
}

Result<std::vector<TargetId>> ClusterKeeper::TakeBeat(const HeartbeatRequest& r, HeartbeatReply* reply) {
  reply->term = core_->term();
  reply->token_time_ns = core_->tokens().TimeNs();
  const Error beat = state_->Beat(r.node, r.epoch, r.disks, core_->Now(), core_->Wall());
  if (beat.code == FsError::kNoEnt) {
    reply->register_again = true;
    reply->map_version = state_->version();
    return std::vector<TargetId>();
  }
  if (!beat.ok()) return beat;
  const std::string who = "node " + state_->FindNode(r.node)->name;
  NoteUnreachable({SessionId(), who, who}, r.unreachable);
  RETURN_IF_ERROR(Publish());
  core_->Pulse();
  reply->map_version = state_->version();
  if (HolderOf(r.header) != 0) {
    reply->token_keys = core_->tokens().KeysOf(state_->FindNode(r.node)->uuid);
    reply->fenced = core_->tokens().Fenced();
  }
  std::vector<TargetId> here;
  for (TargetId t : state_->Targets(r.node)) {
    if (state_->FindTarget(t)->state != TargetState::kFailed) here.push_back(t);
  }
  return here;
}

Result<std::vector<DeleteWork>> ClusterKeeper::DeletesFor(const std::vector<TargetId>& targets, const GarbageUpTo& upto, uint64_t holder) {
  std::vector<DeleteWork> out;
  if (core_->store().Count(Counter::kGarbageShards) == 0) return out;
  Txn txn(core_->store());
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
      out.push_back({g.shard, t, core_->tokens().Sign(g.shard, t, kTokenDelete, holder)});
      deletes_out_[g.shard] = t;
    }
  }
  return out;
}

Result<void> ClusterKeeper::TakeDeleted(NodeId node, const std::vector<ShardId>& shards) {
  for (size_t i = 0; i < shards.size(); i += kReportsPerTxn) {
    Txn txn(core_->store());
    for (size_t j = i; j < std::min(shards.size(), i + kReportsPerTxn); ++j) {
      auto it = deletes_out_.find(shards[j]);
      if (it == deletes_out_.end()) continue;  // of before a restart: it is handed out again
      const TargetInfo* target = state_->FindTarget(it->second);
      if (target == nullptr || target->node != node) continue;
      RETURN_IF_ERROR(OpGarbageDeleted(txn, it->second, shards[j]));
      deletes_out_.erase(it);
    }
    RETURN_IF_ERROR(txn.Commit());
  }
  core_->Committed();
  return Ok();
}

Task<Result<void>> ClusterKeeper::DropGarbage(TargetId target) {
  for (bool more = true; more; co_await Yield()) {
    Txn txn(core_->store());
    CO_ASSIGN_OR_RETURN(const GarbagePage page, ListGarbage(txn, target, ShardId(), kAllGarbage, kDropPage));
    for (const GarbageShard& g : page.shards) CO_RETURN_IF_ERROR(OpGarbageDeleted(txn, target, g.shard));
    CO_RETURN_IF_ERROR(txn.Commit());
    more = !page.end;
  }
  delete_cursors_.erase(target);
  std::erase_if(deletes_out_, [target](const auto& out) { return out.second == target; });
  co_return Ok();
}

}  // namespace stria
