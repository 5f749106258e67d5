// What handshakes of one side go by. TLS 1.3 and one cipher only; both sides have certificates of the cluster's authority, and of
// no other: the system's store of authorities is not looked at.
//
// No tickets, no resumption, no early data. A resumed session would not look at certificate, revocation and role again, its keys would
// be one more secret to rotate, and early data can be replayed. What it would save is little: connections live for days, and a
// handshake costs each side less than a millisecond (README.md).
//
// A context does not change: who gets other credentials makes another context, and handshakes that begin then take it. Peers that
// are connected are judged again with Credentials::StillGood.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "trust/credentials.h"
#include "trust/tls/wire_mode.h"

struct ssl_ctx_st;

namespace stria {

inline constexpr size_t kMaxPeerCertificateBytes = 3072;  // as they come, with their chain
// A key seals at most so many records (RFC 8446, 5.5: 2^24.5 of full size); then the sender takes the next.
inline constexpr uint64_t kRekeyRecords = uint64_t{1} << 22;

struct TlsSettings {
  std::shared_ptr<const Credentials> credentials;
  std::function<int64_t()> now_s;  // seconds since 1970; any thread
  RoleSet peers;                   // those that are let in
  // Client: those that it wants, the best first. Server: those that it takes.
  std::vector<WireMode> modes = {WireMode::kPrivacy};
  bool joins = false;  // server: also takes who has no certificate yet and wants one (enrolment); says so in TlsSession::joining
  uint64_t rekey_records = kRekeyRecords;
};

// All modes from the best down to `least`: what a server takes that names the least.
std::vector<WireMode> ModesFrom(WireMode least);

// Immutable; any thread.
class TlsContext {
 public:
  enum class Side { kServer, kClient };
  // REQUIRES: all of `settings`.
  static std::shared_ptr<const TlsContext> Make(Side side, TlsSettings settings);
  // A client that has no certificate yet, and of the cluster it wants to join only the hash of its authority's certificate. It talks to
  // the metadata server only, which must show that certificate.
  static std::shared_ptr<const TlsContext> MakeJoining(const Sha256Hash& authority, std::function<int64_t()> now_s);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  Side side() const { return side_; }
  const TlsSettings& settings() const { return settings_; }
  const std::optional<Sha256Hash>& pinned() const { return pinned_; }
  ssl_ctx_st* get() const { return ctx_; }

 private:
  TlsContext(Side side, TlsSettings settings, std::optional<Sha256Hash> pinned);
  const Side side_;
  const TlsSettings settings_;
  const std::optional<Sha256Hash> pinned_;
  ssl_ctx_st* const ctx_;
};

// The context of now, for those that begin handshakes. Any thread.
class CurrentTls {
 public:
  explicit CurrentTls(std::shared_ptr<const TlsContext> context) : context_(std::move(context)) {}
  std::shared_ptr<const TlsContext> Get() const {
    std::lock_guard<std::mutex> lock(mu_);
    return context_;
  }
  void Set(std::shared_ptr<const TlsContext> context) {
    std::lock_guard<std::mutex> lock(mu_);
    context_.swap(context);
  }

 private:
  mutable std::mutex mu_;
  std::shared_ptr<const TlsContext> context_;  // guarded by mu_
};

}  // namespace stria
