// Start, stop, and what is read back from the store at the start.
#include <algorithm>

#include "meta/core/cluster_keys.h"
#include "meta/core/for_each.h"
#include "meta/core/number_record.h"
#include "meta/service/meta_server_impl.h"

namespace stria {
Task<Result<void>> FormatMetaStore(std::unique_ptr<KvStore> kv, FormatParams params) {
  CO_ASSIGN_OR_RETURN(auto store, co_await MetaStore::Open(std::move(kv)));
  {
    Txn txn(*store);
    CO_RETURN_IF_ERROR(FormatStore(txn, params));
    CO_RETURN_IF_ERROR(txn.Commit());
  }
  co_return co_await store->Sync();
}

Task<Result<void>> MetaServer::Start() {
  CHECK(kv_ != nullptr, "a MetaServer starts once");
  executor_ = &Executor::Current();
  tokens_.Begin(executor_);
  CO_ASSIGN_OR_RETURN(store_, co_await MetaStore::Open(std::move(kv_)));
  if (!store_->super()) {
    co_return Error(FsError::kInval, "the metadata store is empty; create a cluster with --format");
  }
  started_ns_ = Now();
  CO_RETURN_IF_ERROR(LoadAll());
  started_seq_ = store_->last_seq();
  // The term is durable before anybody hears of it, so that no two lives of the server share one.
  CO_RETURN_IF_ERROR(co_await store_->Sync());
  ready_ = true;
  window_over_ = !sessions_.reclaiming();
  if (window_over_) reaps_ = orphans_;
  pushed_map_version_ = cluster_->version();
  seeds_.Begin(rng_.Next() >> 16);
  clean_work_.Set();
  scope_.Spawn(GroupSyncLoop());
  scope_.Spawn(TickLoop());
  scope_.Spawn(CleanLoop());
  upkeep_->Start();
  archives_->Start(options_.archiver, term_);
  co_return Ok();
}

Task<Result<void>> MetaServer::Stop() {
  ready_ = false;
  progress_.Pulse();
  for (auto& [id, event] : polls_) event->Pulse();
  if (!store_) co_return Ok();
  const Result<void> synced = co_await store_->Sync();
  CancelTasks();
  running_.clear();
  co_return synced;
}

Result<void> MetaServer::LoadAll() {
  Txn txn(*store_);
  RETURN_IF_ERROR(LoadCluster(txn));
  sessions_.SetTerm(++term_);
  RETURN_IF_ERROR(LoadSessions(txn));
  archives_ = std::make_unique<ArchiveKeeper>(
      ArchiveKeeperEnv{executor_, store_.get(), cluster_.get(), &tokens_, backups_});
  RETURN_IF_ERROR(archives_->Load(txn));
  KeeperEnv env;
  env.executor = executor_;
  env.store = store_.get();
  env.cluster = cluster_.get();
  env.tokens = &tokens_;
  env.seeds = &seeds_;
  env.host = &host_;
  upkeep_ = std::make_unique<stria::Upkeep>(env, UpkeepOptions{options_.repair, options_.fold});
  RETURN_IF_ERROR(upkeep_->Load(txn));
  const SurveyEnv sees{executor_, store_.get(), cluster_.get(), &upkeep_->bad_shards()};
  survey_ = std::make_unique<Survey>(sees, options_.count_at_once);
  RETURN_IF_ERROR(LoadWork(txn));
  txn.Put(Family::kCluster, TermRecordKey(), EncodeNumber(term_));
  RETURN_IF_ERROR(txn.Commit());
  return Ok();
}

Result<void> MetaServer::LoadCluster(Txn& txn) {
  const SuperRecord& super = *store_->super();
  cluster_ = std::make_unique<ClusterState>(options_.cluster, super.cluster, super.incarnation);
  ASSIGN_OR_RETURN(term_, ReadNumber(txn, TermRecordKey()));
  ASSIGN_OR_RETURN(const uint64_t version, ReadNumber(txn, MapVersionKey()));
  RETURN_IF_ERROR(ForEachEntry(txn, Family::kCluster, NodeRecordPrefix(), [&](const auto&, const auto& v) -> Result<void> {
    ASSIGN_OR_RETURN(NodeRecord n, DecodeNodeRecord(v));
    cluster_->LoadNode(std::move(n), Now());
    return Ok();
  }));
  RETURN_IF_ERROR(ForEachEntry(txn, Family::kCluster, TargetRecordPrefix(), [&](const auto&, const auto& v) -> Result<void> {
    ASSIGN_OR_RETURN(TargetInfo t, DecodeTargetRecord(v));
    return cluster_->LoadTarget(std::move(t));
  }));
  RETURN_IF_ERROR(ForEachEntry(txn, Family::kCluster, RemovedNodePrefix(), [&](const auto&, const auto& v) -> Result<void> {
    ASSIGN_OR_RETURN(NodeRecord n, DecodeNodeRecord(v));
    cluster_->LoadRemoved(std::move(n.info));
    return Ok();
  }));
  cluster_->LoadVersion(version);
  return Ok();
}

Result<void> MetaServer::LoadSessions(Txn& txn) {
  RETURN_IF_ERROR(ForEachEntry(txn, Family::kSessions, "", [&](const auto&, const auto& v) -> Result<void> {
    ASSIGN_OR_RETURN(SessionRecord s, DecodeSessionRecord(v));
    if (s.fenced) {
      ended_.insert(s.id);
      return Ok();
    }
    polls_[s.id] = std::make_shared<stria::Event>();
    sessions_.Load(std::move(s), Now());
    return Ok();
  }));
  return ForEachEntry(txn, Family::kReplies, "", [&](const auto& k, const auto& v) -> Result<void> {
    uint64_t session = 0, seq = 0;
    if (!ParseKey64x2(k, &session, &seq)) return CorruptRecord(Family::kReplies, k, "its key is malformed");
    if (sessions_.Find(SessionId(session)) != nullptr) sessions_.LoadReply(SessionId(session), OpSeq(seq), v);
    else ended_.insert(SessionId(session));
    return Ok();
  });
}

Result<void> MetaServer::LoadWork(Txn& txn) {
  for (InodeId after;;) {
    ASSIGN_OR_RETURN(const auto page, ListOrphans(txn, after, kLoadPage));
    orphans_.insert(page.begin(), page.end());
    if (page.size() < kLoadPage) break;
    after = page.back();
  }
  for (InodeId after;;) {
    ASSIGN_OR_RETURN(const auto page, ListTrims(txn, after, kLoadPage));
    trims_.insert(page.begin(), page.end());
    if (page.size() < kLoadPage) break;
    after = page.back();
  }
  return Ok();
}

Result<void> MetaServer::SaveCluster() {
  Txn txn(*store_);
  return SaveClusterIn(txn);
}

Result<void> MetaServer::SaveClusterIn(Txn& txn) {
  const ClusterState::Changes c = cluster_->TakeChanges();
  if (c.empty()) return Ok();
  for (const NodeRecord& n : c.nodes) txn.Put(Family::kCluster, NodeRecordKey(n.info.id), EncodeNodeRecord(n));
  for (const TargetInfo& t : c.targets) txn.Put(Family::kCluster, TargetRecordKey(t.id), EncodeTargetRecord(t));
  for (NodeId id : c.nodes_removed) txn.Delete(Family::kCluster, NodeRecordKey(id));
  for (TargetId id : c.targets_removed) txn.Delete(Family::kCluster, TargetRecordKey(id));
  for (const NodeInfo& n : c.refused.added) txn.Put(Family::kCluster, RemovedNodeKey(n.id), EncodeNodeRecord({n, Epoch()}));
  for (NodeId id : c.refused.dropped) txn.Delete(Family::kCluster, RemovedNodeKey(id));
  txn.Put(Family::kCluster, MapVersionKey(), EncodeNumber(cluster_->version()));
  RETURN_IF_ERROR(txn.Commit());
  unsynced_.Set();
  return Ok();
}

}  // namespace stria
