// Wiring: start, stop, the clock, and what takes more than one room.
#include <algorithm>

#include "meta/service/meta_server.h"
#include "trust/exports.h"

namespace stria {
namespace {

CoherenceOptions CoherenceOf(const MetaServerOptions& o) {
  return {o.sessions, {o.root_squash, o.squash_id, o.admin_uids}, o.max_interests, o.answer_timeout_ns};
}

}  // namespace

MetaServer::MetaServer(MetaServerOptions options, std::unique_ptr<KvStore> kv, Random rng,
                       std::vector<ClusterKey> keys)
    : options_(std::move(options)),
      core_({options_.group_sync_ns, options_.token_ttl_ns, options_.version, options_.life}, std::move(kv), rng, std::move(keys)),
      cleaner_(&core_, &host_),
      cluster_(&core_, &host_, options_.cluster),
      exports_(&core_),
      coherence_(&core_, &cleaner_, CoherenceOf(options_), [this](SessionId s) { NoteEnded(s); }),
      files_(&core_, &cleaner_, &coherence_, &cluster_, &host_),
      nodes_(&core_, &coherence_.sessions(), &cluster_, &rooms_),
      admins_(&core_, &cleaner_, &coherence_, &cluster_, &rooms_),
      trust_(&core_, &coherence_, &exports_, &cluster_, &admins_) {
  coherence_.UseExports(&exports_, [this](const Peer& peer) {
    return trust_.enrolment()->IsTrustedRoot(peer) || std::ranges::any_of(options_.trusted_root, [&](const std::string& glob) { return GlobMatches(glob, peer.name); });
  });
  core_.OnFail([this] { coherence_.sessions().PulsePolls(); });
}

MetaServer::~MetaServer() { CancelTasks(); }

// A start that failed has not made all rooms.
void MetaServer::CancelTasks() {
  if (events_) events_->Stop();
  if (survey_) survey_->Stop();
  if (upkeep_) upkeep_->Stop();
  if (archives_) archives_->Stop();
  scope_.CancelAll();
  cleaner_.Stop();
  core_.CancelTasks();
}

void MetaServer::TakeSettings(const MetaServerOptions& now) {
  options_.repair = now.repair;
  options_.fold = now.fold;
  cluster_.SetTimes(now.cluster);
  if (upkeep_ != nullptr) upkeep_->SetOptions({now.repair, now.fold});
}

void MetaServer::NoteEnded(SessionId s) {
  files_.NoteEnded(s);
  cluster_.ForgetUnreachable(s);
}

void MetaServer::Host::MapChanged() {
  server_->coherence_.sessions().PushAll(SessionEvent::Kind::kClusterMap);
  server_->upkeep_->Wake();
}

// ---- Life ----

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
  CO_RETURN_IF_ERROR(trust_.Begin());
  CO_RETURN_IF_ERROR(co_await core_.BeginServing());
  if (!coherence_.sessions().table().reclaiming()) cleaner_.EndClaims();
  cluster_.Begin();
  core_.StartSync();
  scope_.Spawn(TickLoop());
  cleaner_.Start();
  upkeep_->Start();
  archives_->Start(options_.archiver, core_.said());
  if (events_) events_->Start([this] { return SeeCluster(); });
  co_return Ok();
}

Task<Result<void>> MetaServer::Stop() {
  core_.EndServing();
  coherence_.sessions().PulsePolls();
  if (events_) events_->Pulse();
  if (!core_.is_open()) co_return Ok();
  const Result<void> synced = co_await core_.store().Sync();
  CancelTasks();
  files_.ForgetRuns();
  co_return synced;
}

Result<void> MetaServer::LoadAll() {
  Txn txn(core_.store());
  RETURN_IF_ERROR(core_.NextTerm(txn));
  RETURN_IF_ERROR(cluster_.Load(txn));
  core_.tokens().Bind(&cluster_.state(), core_.store().super()->incarnation);
  RETURN_IF_ERROR(exports_.Load(txn));
  RETURN_IF_ERROR(trust_.Load(txn));
  RETURN_IF_ERROR(coherence_.Load(txn));
  archives_ = std::make_unique<ArchiveKeeper>(
      ArchiveKeeperEnv{core_.executor(), &core_.store(), &cluster_.state(), &core_.tokens(), backups_, core_.keys()});
  RETURN_IF_ERROR(archives_->Load(txn));
  KeeperEnv env;
  env.executor = core_.executor();
  env.store = &core_.store();
  env.cluster = &cluster_.state();
  env.tokens = &core_.tokens();
  env.seeds = &core_.seeds();
  env.host = &host_;
  env.audience = [this](Txn& txn, const std::vector<InodeId>& files) { return exports_.AudienceOf(txn, files); };
  upkeep_ = std::make_unique<stria::Upkeep>(env, UpkeepOptions{options_.repair, options_.fold});
  RETURN_IF_ERROR(upkeep_->Load(txn));
  const SurveyEnv sees{core_.executor(), &core_.store(), &cluster_.state(), &upkeep_->bad_shards()};
  survey_ = std::make_unique<Survey>(sees, options_.count_at_once);
  if (options_.events_ns > 0) {
    EventRoomOptions events;
    events.look_ns = options_.events_ns;
    events_ = std::make_unique<EventRoom>(&core_, events);
    RETURN_IF_ERROR(events_->Load(txn));
  }
  rooms_ = {upkeep_.get(), survey_.get(), archives_.get(), events_.get()};
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
      coherence_.sessions().Excuse(late_ns);
      co_await Yield();
    }
    cluster_.Tick();
    coherence_.Tick();
    trust_.Tick();
    cleaner_.Tick(!coherence_.sessions().table().reclaiming());
    upkeep_->Wake();
    survey_->CountAhead();
  }
}

// ---- Sessions ----

Task<Result<OpenSessionReply>> MetaServer::OpenSession(OpenSessionRequest r) {
  const OpHeader header = r.header;
  const std::string what = r.path + " as " + r.client;
  // Its connection may be older than the revocation, or be made before the transport hears of that.
  const auto refused = [this, &header]() -> Error {
    if (!header.peer || !trust_.enrolment()->IsRevokedKey(header.peer->key_hash)) return Error();
    return Error(FsError::kUnavailable, header.peer->ToString() + " gets no session: a certificate of its key was revoked; let it join again with a token");
  };
  if (Error no = refused(); !no.ok()) co_return no;
  CO_ASSIGN_OR_RETURN(OpenSessionReply reply, co_await coherence_.OpenSession(std::move(r)));
  // What was revoked meanwhile may have found no session to end.
  if (Error no = refused(); !no.ok()) {
    coherence_.EndHolder(header.peer->key_hash);
    co_return no;
  }
  if (!reply.reclaimed) trust_.NoteSession(header, what, reply.session);
  reply.map = cluster_.state().Map();
  co_return std::move(reply);
}

Task<Result<StatusReply>> MetaServer::Status(InodeRequest r) {
  CO_ASSIGN_OR_RETURN(StatusReply reply, co_await admins_.Status(std::move(r)));
  for (Advice& a : trust_.enrolment()->NodesKeptOut(reply.map)) reply.advice.push_back(std::move(a));
  co_return std::move(reply);
}

Task<Result<RenewReply>> MetaServer::Renew(RenewRequest r) {
  CO_ASSIGN_OR_RETURN(RenewReply reply, coherence_.Renew(r));
  reply.map_version = cluster_.state().version();
  // What a client calls itself is anything; whose it is has been proved.
  const SessionRecord& session = *coherence_.sessions().table().Find(r.header.session);
  ReachReports::Who who = {r.header.session, "", session.client};
  if (!session.owner.name.empty()) {
    who.owner = "client " + session.owner.name;
    who.text = who.owner + " (" + session.client + ")";
  }
  cluster_.NoteUnreachable(std::move(who), std::move(r.unreachable));
  co_return std::move(reply);
}

Task<Result<Empty>> MetaServer::CloseSession(InodeRequest r) {
  CO_RETURN_IF_ERROR(coherence_.CloseSession(r.header));
  co_return Empty();
}

MetaServer::RepairSummary MetaServer::repair_summary() const {
  if (upkeep_ == nullptr) return {};
  const Repairer& r = upkeep_->repairer();
  return {r.waiting(), r.parked(), r.in_flight(), upkeep_->widener().in_flight(), upkeep_->folder().queue().in_flight()};
}

}  // namespace stria
