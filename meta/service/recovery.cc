// Start, stop, the clock, and what is read back from the store at the start.
#include "meta/core/for_each.h"
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
  if (!sessions_.reclaiming()) cleaner_.EndClaims();
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
  for (auto& [id, event] : polls_) event->Pulse();
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
  sessions_.SetTerm(core_.term());
  RETURN_IF_ERROR(LoadSessions(txn));
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
      sessions_.Excuse(late_ns);
      co_await Yield();
    }
    cluster_.Tick();
    ExpireSessions();
    LapseSilent();
    cleaner_.Tick(!sessions_.reclaiming());
    upkeep_->Wake();
    survey_->CountAhead();
  }
}

Result<void> MetaServer::LoadSessions(Txn& txn) {
  RETURN_IF_ERROR(ForEachEntry(txn, Family::kSessions, "", [&](const auto&, const auto& v) -> Result<void> {
    ASSIGN_OR_RETURN(SessionRecord s, DecodeSessionRecord(v));
    if (s.fenced) {
      cleaner_.NoteEnded(s.id);
      return Ok();
    }
    polls_[s.id] = std::make_shared<stria::Event>();
    sessions_.Load(std::move(s), core_.Now());
    return Ok();
  }));
  return ForEachEntry(txn, Family::kReplies, "", [&](const auto& k, const auto& v) -> Result<void> {
    uint64_t session = 0, seq = 0;
    if (!ParseKey64x2(k, &session, &seq)) return CorruptRecord(Family::kReplies, k, "its key is malformed");
    if (sessions_.Find(SessionId(session)) != nullptr) sessions_.LoadReply(SessionId(session), OpSeq(seq), v);
    else cleaner_.NoteEnded(SessionId(session));
    return Ok();
  });
}

}  // namespace stria
