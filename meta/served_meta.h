// What serves clients: the MetaServer on its open store, what judges calls before they reach it, and what looks after it. Can be
// built and torn down while the process goes on, which one of several metadata servers does with each life as primary (meta_house.h);
// what listens is elsewhere (meta_listeners.h).
//
// Owns: the store that it is given, the server, its dispatchers, the probe of data servers, the figures for metrics.
//
// Executor's thread. Destroying it at any point is a crash of what serves: a new one on the same store recovers. Destroy whoever holds its
// calls first.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "api/backup_api.h"
#include "api/data_api.h"
#include "common/exec/pool.h"
#include "common/exec/task.h"
#include "common/kv/kv.h"
#include "common/metrics.h"
#include "common/token.h"
#include "meta/audit/audit_log.h"
#include "meta/exports/confined_front.h"
#include "meta/meta_gatherer.h"
#include "meta/node_probe.h"
#include "meta/service/meta_server.h"
#include "meta/store/room.h"
#include "proto/admin_stubs.h"
#include "proto/stubs.h"
#include "proto/transport.h"
#include "proto/trust_stubs.h"

namespace stria {

// What it is given by pointer outlives it.
struct ServedMetaParams {
  MetaServerOptions server;
  std::vector<ClusterKey> keys;  // the first signs
  Uuid cluster;                  // the store must be of it
  std::optional<MetaTrust> trust;  // none: insecure
  DispatchOptions admission;
  AuditLog* audit = nullptr;  // null: there is none
  MetaRoom* room = nullptr;   // the store's disk
  Pool* checks = nullptr;     // for checks of the metadata
  DataConnector* data = nullptr;
  BackupConnector* backups = nullptr;  // null: it keeps no backup
  bool figures = false;                // somebody wants metrics: what must be looked for is
  std::optional<uint64_t> seed;  // of what it chooses by chance; none: the operating system's
};

class ServedMeta {
 public:
  ServedMeta(ServedMetaParams params, std::unique_ptr<KvStore> kv);
  ~ServedMeta();
  ServedMeta(const ServedMeta&) = delete;
  ServedMeta& operator=(const ServedMeta&) = delete;

  // Recovers; then calls may come in. kWrongCluster: the store is of another cluster.
  Task<Result<void>> Start();
  // Makes everything durable and ends all tasks; calls give kNotReady from then on.
  Task<Result<void>> Stop() { return server_.Stop(); }
  // Resumes when nothing can be written any more, or another serves in a later term.
  Task<Error> WaitFatal() { return server_.WaitFatal(); }

  // Its services; it outlives the router's calls.
  void AddTo(Router* router);
  // Settings that count at once. `slow_ns`: calls that take longer are logged.
  void TakeSettings(const MetaServerOptions& now, int64_t slow_ns);
  MetaServer* server() { return &server_; }
  const MetaServer* server() const { return &server_; }
  // As MetaGatherer::Now.
  MetaFigures Figures() const { return gatherer_.Now(); }
  void AddCalls(MetricFamilies* out) const;

 private:
  const Uuid cluster_;
  const bool figures_;
  MetaServer server_;
  DataConnector* const data_;
  std::optional<NodeProbe> probe_;  // once it has started
  ConfinedFront confined_;
  MetaDispatcher meta_dispatcher_;
  AdminDispatcher admin_dispatcher_;
  TrustDispatcher trust_dispatcher_;
  MetaGatherer gatherer_;
  TaskScope scope_;  // last
};

}  // namespace stria
