// What stria-meta listens with: the port of clients and data servers, gRPC, and the socket of this machine's admins.
//
// Owns: the servers of the transports, which service a call goes to, and who is an admin of this machine. It listens from Open to
// Shutdown, whoever serves.
//
// Executor's thread, but for what transports ask on their own.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "common/exec/loop_executor.h"
#include "common/exec/pool.h"
#include "common/exec/task.h"
#include "common/quick_wake.h"
#include "meta/audit/audit_log.h"
#include "meta/local_admins.h"
#include "meta/meta_config.h"
#include "meta/meta_proof.h"
#include "proto/bulk_transport.h"
#include "proto/grpc_transport.h"
#include "proto/transport.h"

namespace stria {

// What it is given by pointer outlives it.
struct MetaListenersParams {
  Executor* executor = nullptr;
  const MetaConfig* config = nullptr;
  MetaProof* proof = nullptr;  // opened before Open
  AuditLog* audit = nullptr;
  Pool* pool = nullptr;  // for what blocks
  std::function<void(std::shared_ptr<BulkHandedOn>)> aside;  // as BulkServerOptions'
};

class MetaListeners {
 public:
  // As BulkServerOptions::join.
  using JoinFn = std::function<Task<Result<std::string>>(std::string request, std::string binding, std::string address)>;

  explicit MetaListeners(const MetaListenersParams& params);
  ~MetaListeners();
  MetaListeners(const MetaListeners&) = delete;
  MetaListeners& operator=(const MetaListeners&) = delete;

  // For whoever serves, before Open: the dispatchers outlive this.
  Router* router() { return &router_; }
  // Listens; `connections`: of clients, at most. Gives the address of clients and data servers as it is bound.
  Result<std::string> Open(uint64_t connections, JoinFn join);
  // Commands of admins of this machine, at the socket of the settings; a warning if that cannot be had. The kernel says who they are,
  // so everybody may connect. REQUIRES: after Open; certificates.
  Task<void> ServeAdminsHere();
  // Whom certificates let in has changed: closes the connections of those who are let in no more.
  void Judge();
  // Refuses new calls, gives those under way up to grace_ns to end, then all are closed.
  Task<void> Shutdown(int64_t grace_ns);
  size_t running() const { return bulk_ ? bulk_->running() : 0; }  // calls

 private:
  Result<void> StartGrpc();
  Task<void> FollowAdmins();

  Executor* const executor_;
  const MetaConfig& config_;
  MetaProof* const proof_;
  AuditLog* const audit_;
  Pool* const pool_;
  const std::function<void(std::shared_ptr<BulkHandedOn>)> aside_;
  Router router_;
  std::optional<QuickWake> wake_;
  std::shared_ptr<const Credentials> grpc_credentials_;
  std::mutex admins_mu_;
  std::shared_ptr<const LocalAdmins> admins_;  // guarded by admins_mu_
  std::unique_ptr<GrpcServer> grpc_;
  std::unique_ptr<BulkServer> bulk_;  // it hands connections to the other
  std::unique_ptr<BulkServer> admin_;
  TaskScope scope_;  // last
};

}  // namespace stria
