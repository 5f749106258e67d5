// Start, stop, the clock, and what is read back from the store at the start.
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
  CO_RETURN_IF_ERROR(co_await core_.Open());
  CO_RETURN_IF_ERROR(LoadAll());
  CO_RETURN_IF_ERROR(co_await core_.BeginServing());
  if (!sessions_->table().reclaiming()) cleaner_.EndClaims();
  cluster_.Begin();
  core_.StartSync();
  scope_.Spawn(TickLoop());
  cleaner_.Start();
  upkeep_->Start();
  archives_->Start(options_.archiver, core_.term());
  co_return Ok();
}

Task<Result<void>> MetaServer::Stop() {
  core_.EndServing();
  sessions_->PulsePolls();
  if (!core_.is_open()) co_return Ok();
  const Result<void> synced = co_await core_.store().Sync();
  CancelTasks();
  running_.clear();
  co_return synced;
}

Result<void> MetaServer::LoadAll() {
  Txn txn(core_.store());
  RETURN_IF_ERROR(cluster_.Load(txn));
  RETURN_IF_ERROR(core_.NextTerm(txn));
  RETURN_IF_ERROR(coherence_.Load(txn));
  archives_ = std::make_unique<ArchiveKeeper>(
      ArchiveKeeperEnv{core_.executor(), &core_.store(), &cluster_.state(), &core_.tokens(), backups_});
  RETURN_IF_ERROR(archives_->Load(txn));
  KeeperEnv env;
  env.executor = core_.executor();
  env.store = &core_.store();
  env.cluster = &cluster_.state();
  env.tokens = &core_.tokens();
  env.seeds = &core_.seeds();
  env.host = &host_;
  upkeep_ = std::make_unique<stria::Upkeep>(env, UpkeepOptions{options_.repair, options_.fold});
  RETURN_IF_ERROR(upkeep_->Load(txn));
  const SurveyEnv sees{core_.executor(), &core_.store(), &cluster_.state(), &upkeep_->bad_shards()};
  survey_ = std::make_unique<Survey>(sees, options_.count_at_once);
  RETURN_IF_ERROR(cleaner_.Load(txn));
  RETURN_IF_ERROR(txn.Commit());
  return Ok();
}

Task<void> MetaServer::TickLoop() {
  while (!core_.HasFailed()) {
    const int64_t slept_ns = core_.Now();
    co_await Sleep(options_.tick_ns);
    if (const int64_t late_ns = core_.Now() - slept_ns - options_.tick_ns; late_ns > options_.tick_ns) {
      // A long check or a stopped process: what others sent meanwhile has not been read yet.
      cluster_.Excuse(late_ns);
      sessions_->Excuse(late_ns);
      co_await Yield();
    }
    cluster_.Tick();
    coherence_.Tick();
    cleaner_.Tick(!sessions_->table().reclaiming());
    upkeep_->Wake();
    survey_->CountAhead();
  }
}

}  // namespace stria
