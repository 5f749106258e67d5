#include "meta/meta_listeners.h"

#include <algorithm>
#include <utility>

#include "common/log.h"

namespace stria {
namespace {

constexpr int64_t kLookAtAdminsNs = 60 * kSecond;

// Also those who did not finish their handshake in time, or for whom there was no place. Who is sent away at the door has proved
// nothing: all of them share one place among the denials, so that their number writes no more lines.
bool IsAudited(const Error& why) { return why.code == FsError::kAccess || why.code == FsError::kDeadline || why.code == FsError::kRetryLater; }

}  // namespace

MetaListeners::MetaListeners(const MetaListenersParams& params)
    : executor_(params.executor),
      config_(*params.config),
      proof_(params.proof),
      audit_(params.audit),
      pool_(params.pool),
      aside_(params.aside) {}

MetaListeners::~MetaListeners() {
  scope_.CancelAll();
  admin_.reset();
  bulk_.reset();
  grpc_.reset();
}

Result<std::string> MetaListeners::Open(uint64_t connections, JoinFn join) {
  RETURN_IF_ERROR(StartGrpc());
  BulkServerOptions bulk;
  ASSIGN_OR_RETURN(const WakeLatency latency, ParseWakeLatency(config_.wake_latency, IdleDriver()));
  bulk.wake = &wake_.emplace(latency);
  bulk.max_connections = std::min<size_t>(kMaxBulkConnections, connections);
  bulk.aside = aside_;
  if (proof_->secured()) {
    proof_->ends()->Secure(&bulk);
    bulk.refused = [this, log = std::move(bulk.refused)](const Error& why) {
      log(why);
      if (IsAudited(why)) executor_->Post([audit = audit_, why] { NoteDenial(audit, nullptr, "connect", why); });
    };
    bulk.join = std::move(join);
  } else {
    bulk.other = [grpc = grpc_.get()](int fd) { grpc->Adopt(fd); };
  }
  bulk_ = std::make_unique<BulkServer>(executor_, &router_, std::move(bulk));
  return bulk_->Start(config_.listen);
}

// Where nothing is proved, on the port of the others, too.
Result<void> MetaListeners::StartGrpc() {
  SecuredEnds* const ends = proof_->ends();
  if (config_.grpc_listen.empty() && ends != nullptr) return Ok();
  GrpcServerOptions options;
  if (ends != nullptr) {
    options.credentials = grpc_credentials_ = ends->credentials();
    options.judge = [ends](const Certificate& shown, const std::string& address) {
      return ends->credentials()->Judge(shown, address, {Role::kData, Role::kClient, Role::kAdmin, Role::kMonitor}, ends->NowS());
    };
    options.refused = [this](const std::string& address, const Error& why) {
      AuditEntry e = AuditOf(AuditEntry::Kind::kDenial, nullptr, "a call over gRPC", "", "refused: " + why.message);
      e.address = address;
      audit_->Note(std::move(e));
    };
  }
  auto server = std::make_unique<GrpcServer>(executor_, &router_, options);
  if (config_.grpc_listen.empty()) {
    RETURN_IF_ERROR(server->StartWithoutAddress());
  } else {
    ASSIGN_OR_RETURN(const std::string bound, server->Start(config_.grpc_listen));
    LogInfo("gRPC is served on {}", bound);
  }
  grpc_ = std::move(server);
  return Ok();
}

void MetaListeners::Judge() {
  bulk_->CloseUnless([ends = proof_->ends()](const Peer& peer) { return ends->StillGood(peer); });
  if (!grpc_ || grpc_credentials_ == proof_->ends()->credentials()) return;
  grpc_.reset();
  const Result<void> again = StartGrpc();
  if (!again.ok()) LogError("gRPC is served no more, until a restart: {}", again.error());
}

Task<void> MetaListeners::ServeAdminsHere() {
  admins_ = co_await RunOn(*pool_, [] { return std::make_shared<const LocalAdmins>(LocalAdmins::Look()); });
  BulkServerOptions options;
  options.loops = 1;
  options.socket_mode = 0666;
  options.local_peer = [this](uint32_t uid, uint32_t gid, int32_t pid) {
    std::lock_guard lock(admins_mu_);
    return admins_->PeerOf(uid, gid, pid);
  };
  auto server = std::make_unique<BulkServer>(executor_, &router_, std::move(options));
  const Result<std::string> bound = server->Start("unix:" + config_.admin_socket);
  if (!bound.ok()) {
    LogWarning("commands of this machine need a certificate: the socket {} cannot be had ({}); name another with admin_socket",
               config_.admin_socket, bound.error().message);
    co_return;
  }
  admin_ = std::move(server);
  scope_.Spawn(FollowAdmins());
}

Task<void> MetaListeners::FollowAdmins() {
  while (true) {
    co_await Sleep(kLookAtAdminsNs);
    auto now = co_await RunOn(*pool_, [] { return std::make_shared<const LocalAdmins>(LocalAdmins::Look()); });
    std::lock_guard lock(admins_mu_);
    admins_.swap(now);
  }
}

Task<void> MetaListeners::Shutdown(int64_t grace_ns) {
  if (admin_) co_await admin_->Shutdown(grace_ns);
  if (bulk_) co_await bulk_->Shutdown(grace_ns);
  if (grpc_) co_await grpc_->Shutdown(grace_ns);
}

}  // namespace stria
