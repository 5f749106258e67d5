#include "meta/served_meta.h"

#include <string>
#include <string_view>
#include <utility>

#include "common/os_random.h"
#include "proto/rpc_metrics.h"

namespace stria {
namespace {

Confinement::Denied NoteIn(AuditLog* audit) {
  if (audit == nullptr) return nullptr;
  return [audit](const OpHeader& by, std::string_view why) {
    NoteDenial(audit, by.peer.get(), "a call in its export", Error(FsError::kAccess, std::string(why)));
  };
}

// Before the dispatchers are made, which ask for it.
TrustService* TrustOf(MetaServer* server, ServedMetaParams* params) {
  server->trust().UseAudit(params->audit);
  if (params->trust) server->trust().Use(std::move(*params->trust));
  return server->trust().service();
}

}  // namespace

ServedMeta::ServedMeta(ServedMetaParams params, std::unique_ptr<KvStore> kv)
    : cluster_(params.cluster),
      figures_(params.figures),
      server_(std::move(params.server), std::move(kv), Random(params.seed ? *params.seed : OsRandom64()), std::move(params.keys)),
      data_(params.data),
      confined_(&server_, &server_, server_.confined(), [this] { return server_.store(); }, NoteIn(params.audit)),
      meta_dispatcher_(confined_.meta(), params.admission),
      admin_dispatcher_(confined_.admin(), params.admission),
      trust_dispatcher_(TrustOf(&server_, &params), params.admission),
      gatherer_(&server_) {
  if (params.backups != nullptr) server_.UseBackups(params.backups);
  server_.UseRoom(params.room);
  server_.UsePool(params.checks);
}

ServedMeta::~ServedMeta() { scope_.CancelAll(); }

Task<Result<void>> ServedMeta::Start() {
  CO_RETURN_IF_ERROR(co_await server_.Start());
  if (server_.store()->super()->cluster != cluster_) {
    co_return Error(FsError::kWrongCluster, "the store is of cluster " + server_.store()->super()->cluster.ToString() + ", and its superblock of " +
                                                cluster_.ToString());
  }
  // The cluster's state is there from now on.
  probe_.emplace(data_, &server_.cluster(),
                 [this](std::vector<NodeId> cannot) { server_.NoteUnreachable("the metadata server", std::move(cannot)); });
  scope_.Spawn(probe_->Run());
  if (figures_) scope_.Spawn(gatherer_.Keep());
  co_return Ok();
}

void ServedMeta::AddTo(Router* router) {
  router->Add(kMetaServiceName, &meta_dispatcher_);
  router->Add(kAdminServiceName, &admin_dispatcher_);
  router->Add(kTrustServiceName, &trust_dispatcher_);
}

void ServedMeta::TakeSettings(const MetaServerOptions& now, int64_t slow_ns) {
  server_.TakeSettings(now);
  meta_dispatcher_.SetSlow(slow_ns);
  admin_dispatcher_.SetSlow(slow_ns);
  trust_dispatcher_.SetSlow(slow_ns);
}

void ServedMeta::AddCalls(MetricFamilies* out) const { AddRpcMetrics({&meta_dispatcher_, &admin_dispatcher_, &trust_dispatcher_}, out); }

}  // namespace stria
