// Wiring: which room answers which call of sessions, and what rooms below tell.
#include <algorithm>

#include "meta/service/meta_server_impl.h"

namespace stria {
namespace {

CoherenceOptions CoherenceOf(const MetaServerOptions& o) {
  return {o.sessions, {o.root_squash, o.squash_id, o.admin_uids}, o.max_interests, o.answer_timeout_ns};
}

}  // namespace

MetaServer::MetaServer(MetaServerOptions options, std::unique_ptr<KvStore> kv, Random rng,
                       std::vector<ClusterKey> keys)
    : options_(std::move(options)),
      core_({options_.group_sync_ns, options_.token_ttl_ns}, std::move(kv), rng, std::move(keys)),
      cleaner_(&core_, &host_),
      cluster_(&core_, &host_, options_.cluster),
      coherence_(&core_, &cleaner_, CoherenceOf(options_), [this](SessionId s) { numbers_.Drop(s); }) {
  core_.OnFail([this] { sessions_->PulsePolls(); });
}

MetaServer::~MetaServer() { CancelTasks(); }

// A start that failed has not made all rooms.
void MetaServer::CancelTasks() {
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

void MetaServer::Host::MapChanged() {
  server_->sessions_->PushAll(SessionEvent::Kind::kClusterMap);
  server_->upkeep_->Wake();
}

// ---- Sessions ----

Task<Result<OpenSessionReply>> MetaServer::OpenSession(OpenSessionRequest r) {
  CO_ASSIGN_OR_RETURN(OpenSessionReply reply, co_await coherence_.OpenSession(std::move(r)));
  reply.map = cluster_.state().Map();
  co_return std::move(reply);
}

Task<Result<RenewReply>> MetaServer::Renew(RenewRequest r) {
  CO_ASSIGN_OR_RETURN(RenewReply reply, coherence_.Renew(r));
  reply.map_version = cluster_.state().version();
  cluster_.NoteUnreachable(sessions_->table().Find(r.header.session)->client, std::move(r.unreachable));
  co_return std::move(reply);
}

Task<Result<PollReply>> MetaServer::Poll(PollRequest r) { return sessions_->Poll(std::move(r)); }

Task<Result<Empty>> MetaServer::CloseSession(InodeRequest r) {
  CO_RETURN_IF_ERROR(coherence_.CloseSession(r.header));
  co_return Empty();
}

Task<Result<Empty>> MetaServer::Release(InodeRequest r) {
  CO_RETURN_IF_ERROR(sessions_->CheckSession(r.header));
  leases_->GiveBack(r.header, r.ino);
  co_return Empty();
}

Task<Result<Empty>> MetaServer::LeaseDone(LeaseDoneRequest r) {
  CO_RETURN_IF_ERROR(sessions_->CheckSession(r.header));
  CO_RETURN_IF_ERROR(leases_->Done(r));
  co_return Empty();
}

}  // namespace stria
