// The metadata's backup (meta/backup): where it is kept, what it holds back, and what is held after a restore.
#include <algorithm>

#include "meta/core/cluster_keys.h"
#include "meta/service/meta_server_impl.h"

namespace stria {

void MetaServer::StartArchiver() {
  if (backups_ == nullptr) return;
  ArchiverEnv env;
  env.store = store_.get();
  env.connector = backups_;
  env.token = [this] { return tokens_.Sign(ShardId(), TargetId(), kTokenAdmin); };
  env.term = term_;
  env.nodes = [this] { return BackupNodes(); };
  env.removed = [this](NodeId id) { return cluster_->FindNode(id) == nullptr; };
  env.forget_former = [this] { return !HoldsUnknown(); };
  archiver_ = std::make_unique<Archiver>(std::move(env), options_.archiver);
  store_->SetTap([this](CommitSeq seq, const KvBatch& batch) { archiver_->Add(seq, batch); });
  scope_.Spawn(archiver_->Run());
}

// Nodes are the widest failure domain: any two will do.
std::vector<BackupNode> MetaServer::BackupNodes() const {
  std::vector<BackupNode> out;
  const ClusterMap map = cluster_->Map();
  for (const NodeInfo& n : map.nodes) {
    if (n.state != NodeState::kUp) continue;
    BackupNode node{n.id, n.address, 0};
    bool usable = false;
    for (const TargetInfo& t : map.targets) {
      if (t.node != n.id || t.state != TargetState::kUp) continue;
      usable = true;
      node.free_bytes += t.free_bytes;
    }
    if (usable) out.push_back(std::move(node));
  }
  return out;
}

CommitSeq MetaServer::DeletableUpTo() const { return archiver_ ? archiver_->DeletableUpTo() : CommitSeq(UINT64_MAX); }

BackupState MetaServer::BackupStatus() const {
  BackupState out;
  if (HoldsUnknown()) {
    out.hold_until_s = unknown_hold_until_ns_ / kSecond;
    for (const auto& [target, held] : held_) out.held_shards += held.second;
  }
  out.damage = store_->kv().Damage();
  if (!archiver_) return out;
  out.on = true;
  out.complete = archiver_->complete();
  out.behind_ns = archiver_->BehindNs();
  out.nodes = archiver_->places();
  out.checkpoint_s = archiver_->checkpoint_wall_ns() / kSecond;
  out.checkpoint_bytes = archiver_->checkpoint_bytes();
  out.problem = archiver_->problem();
  return out;
}

// A sweep asks for the shards of a target in order.
void MetaServer::NoteHeld(const CheckShardsRequest& r, uint64_t unknown) {
  if (r.shards.empty() || cluster_->FindTarget(r.target) == nullptr) return;
  auto& [last, count] = held_[r.target];
  if (r.shards.front() <= last) count = 0;  // of the next sweep
  last = r.shards.back();
  count += unknown;
}

Result<std::string> MetaServer::ForgetUnknown(bool dry_run) {
  if (!HoldsUnknown()) return std::string("no shards are held: nothing was restored, or it was long ago");
  if (!dry_run) {
    Txn txn(*store_);
    txn.Delete(Family::kCluster, UnknownHoldKey());
    RETURN_IF_ERROR(txn.Commit());
    unknown_hold_until_ns_ = 0;
    held_.clear();
  }
  return std::string("shards that the restored metadata does not know are not held any more; each data server deletes "
                     "its own after a day of quarantine");
}

}  // namespace stria
