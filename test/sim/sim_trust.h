// The certificates of a simulated cluster: those of the authority, which are real, and who believes whom by what its map tells. What the
// network does with that is what connections do: where one of the two sides does not believe the other, none comes about.
//
// Each host has its key and certificate, and looks at its map every few seconds, as proto/secured_ends.h does for real programs. The
// authority's files are kept in memory, over restarts of the metadata server.
//
// Certificates have random numbers and lengths that differ by a byte or two, so sizes of messages, and with them trace(), are not the
// same in two runs of one seed. What happens is.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "api/types.h"
#include "meta/enrolment/authority_keeper.h"
#include "meta/service/trust_rooms.h"
#include "trust/credentials.h"

namespace stria {

class SimTrust final : public AuthorityKeeper {
 public:
  static constexpr int64_t kLookNs = 5 * kSecond;  // at the map: kTrustLookNs
  // The map that a host has now; null: none yet.
  using MapOf = std::function<std::shared_ptr<const ClusterMap>(const std::string& host)>;

  SimTrust(const Uuid& cluster, Executor* executor, MapOf map_of);

  // ---- Certificates. Each gives what the host proves from now on.
  // Of a new key, as by a token to join with.
  std::shared_ptr<const Peer> Join(const std::string& host, Role role);
  // Of the key that it has, and soon over.
  std::shared_ptr<const Peer> Shorten(const std::string& host, int64_t lasts_s);
  std::string RenewalRequest(const std::string& host) const;
  // kBadRequest: it is not what was asked for.
  Result<std::shared_ptr<const Peer>> TakeRenewed(const std::string& host, const std::string& pem);
  // Of the key that it has, by the authority that signs now: as the metadata server renews its own.
  std::shared_ptr<const Peer> Resign(const std::string& host);
  // The connections of who had this certificate (serial number) go on although it ends, or do not: real ones are judged again now and
  // then only (kJudgeAgainNs).
  void Linger(const std::string& serial, bool on);
  const Certificate& CertificateOf(const std::string& host) const { return hosts_.at(host).own.certificate; }

  // ---- A change of the authority
  bool changing() const { return next_ != nullptr; }
  // Each host has heard of the next one, so that nobody is lost when the metadata server shows a certificate of it.
  bool AllBelieveNext();
  bool IsOfSigner(const std::string& host) const { return SignedBy(CertificateOf(host), Signing().certificate()); }
  std::vector<std::string> Hosts() const;

  // For a metadata server that starts.
  MetaTrust ForMeta();
  // Whether `host` would talk to `peer` now. kAccess.
  Result<void> Believes(const std::string& host, const Peer& peer);

  // ---- AuthorityKeeper
  Task<Result<void>> StoreNext(std::shared_ptr<const Authority> next) override;
  Task<Result<void>> StoreOnly(std::shared_ptr<const Authority> authority) override;
  Task<Result<void>> StoreRevoked(Revoked revoked) override;

 private:
  struct Host {
    Credentials own;  // with what it believes
    std::shared_ptr<const Peer> peer;
    int64_t looked_ns = INT64_MIN / 2;
  };
  int64_t NowS() const { return executor_->WallNs() / kSecond; }
  const Authority& Signing() const { return next_ ? *next_ : *authority_; }
  void Look(const std::string& name, Host* host);
  std::shared_ptr<const Peer> Have(const std::string& host, PrivateKey key, Certificate certificate, Bundle bundle, Revoked revoked);

  Executor* const executor_;
  const MapOf map_of_;
  std::shared_ptr<const Authority> authority_, next_;
  Revoked revoked_;  // of the file beside the authority
  std::map<std::string, Host> hosts_;
  std::set<std::string> lingering_;  // serial numbers
};

}  // namespace stria
