#include "meta/backup/archive_keeper.h"

#include "meta/core/cluster_keys.h"
#include "meta/core/number_record.h"

namespace stria {

Result<void> ArchiveKeeper::Load(Txn& txn) {
  ASSIGN_OR_RETURN(const uint64_t hold, ReadNumber(txn, UnknownHoldKey()));
  hold_until_ns_ = static_cast<int64_t>(hold);
  return Ok();
}

void ArchiveKeeper::Start(const ArchiverOptions& options, SaidTerm said) {
  if (env_.connector == nullptr) return;
  seal_ = std::make_unique<const ArchiveSeal>(env_.keys);
  ArchiverEnv env;
  env.seal = seal_.get();
  env.store = env_.store;
  env.connector = env_.connector;
  env.token = [this] { return env_.tokens->Sign(ShardId(), TargetId(), kTokenAdmin, 0); };
  env.said = said;
  env.nodes = [this] { return Nodes(); };
  env.removed = [this](NodeId id) { return env_.cluster->FindNode(id) == nullptr; };
  env.forget_former = [this] { return !HoldsUnknown(); };
  archiver_ = std::make_unique<Archiver>(std::move(env), options);
  env_.store->SetTap([this](CommitSeq seq, const KvBatch& batch) { archiver_->Add(seq, batch); });
  scope_.Spawn(archiver_->Run());
}

// Nodes are the widest failure domain: any two will do.
std::vector<BackupNode> ArchiveKeeper::Nodes() const {
  std::vector<BackupNode> out;
  const ClusterMap map = env_.cluster->Map();
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

CommitSeq ArchiveKeeper::DeletableUpTo() const { return archiver_ ? archiver_->DeletableUpTo() : CommitSeq(UINT64_MAX); }

Task<Result<void>> ArchiveKeeper::BackupNow(bool dry_run, int64_t deadline_ns) {
  if (!archiver_) co_return Error(FsError::kInval, "this metadata server keeps no backup: it is switched off in its settings");
  if (!dry_run) CO_RETURN_IF_ERROR(co_await archiver_->BackupNow(deadline_ns));
  co_return Ok();
}

BackupState ArchiveKeeper::State() const {
  BackupState out;
  if (HoldsUnknown()) {
    out.hold_until_s = hold_until_ns_ / kSecond;
    for (const auto& [target, held] : held_) out.held_shards += held.second;
  }
  out.damage = env_.store->kv().Damage();
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

void ArchiveKeeper::NoteHeld(const CheckShardsRequest& r, uint64_t unknown) {
  if (r.shards.empty() || env_.cluster->FindTarget(r.target) == nullptr) return;
  auto& [last, count] = held_[r.target];
  if (r.shards.front() <= last) count = 0;  // of the next sweep
  last = r.shards.back();
  count += unknown;
}

Result<std::string> ArchiveKeeper::ForgetUnknown(bool dry_run) {
  if (!HoldsUnknown()) return std::string("no shards are held: nothing was restored, or it was long ago");
  if (!dry_run) {
    Txn txn(*env_.store);
    txn.Delete(Family::kCluster, UnknownHoldKey());
    RETURN_IF_ERROR(txn.Commit());
    hold_until_ns_ = 0;
    held_.clear();
  }
  return std::string("shards that the restored metadata does not know are not held any more; each data server deletes "
                     "its own after a day of quarantine");
}

}  // namespace stria
