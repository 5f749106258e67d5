#include "test/sim/sim_trust.h"

#include <algorithm>
#include <utility>

namespace stria {

SimTrust::SimTrust(const Uuid& cluster, Executor* executor, MapOf map_of)
    : executor_(executor), map_of_(std::move(map_of)),
      authority_(std::make_shared<const Authority>(Authority::Make(cluster, executor->WallNs() / kSecond))) {}

std::shared_ptr<const Peer> SimTrust::Have(const std::string& host, PrivateKey key, Certificate certificate, Bundle bundle, Revoked revoked) {
  const Identity who = certificate.identity().value();
  auto peer = std::make_shared<Peer>();
  peer->role = who.role;
  peer->name = who.name;
  peer->address = host;
  peer->key_hash = certificate.key_hash();
  for (const Certificate& a : bundle.all()) {
    if (SignedBy(certificate, a)) peer->issuer = a.hash();
  }
  peer->serial = certificate.serial();
  peer->not_after_s = certificate.not_after_s();
  Credentials own{std::move(key), std::move(certificate), who, std::move(bundle), std::move(revoked)};
  hosts_.insert_or_assign(host, Host{std::move(own), peer, INT64_MIN / 2});
  return peer;
}

std::shared_ptr<const Peer> SimTrust::Join(const std::string& host, Role role) {
  PrivateKey key = PrivateKey::Make();
  Certificate certificate = Signing().Sign(CertRequest::Make(key), {authority_->cluster(), role, host}, NowS()).value();
  Bundle bundle = Bundle::Of({authority_->certificate()}).value();
  if (next_) bundle = bundle.With(next_->certificate()).value();
  return Have(host, std::move(key), std::move(certificate), std::move(bundle), Revoked());
}

// Signed as if it had been long ago.
std::shared_ptr<const Peer> SimTrust::Shorten(const std::string& host, int64_t lasts_s) {
  const Credentials own = hosts_.at(host).own;
  const int64_t then_s = NowS() + lasts_s - kCertificateDays * kDayS;
  Certificate certificate = Signing().Sign(CertRequest::Make(own.key), own.identity, then_s).value();
  return Have(host, own.key, std::move(certificate), own.bundle, own.revoked);
}

std::shared_ptr<const Peer> SimTrust::Resign(const std::string& host) {
  const Credentials own = hosts_.at(host).own;
  Certificate certificate = Signing().Sign(CertRequest::Make(own.key), own.identity, NowS()).value();
  Bundle bundle = own.bundle;
  if (const Certificate& by = Signing().certificate(); !bundle.Has(by.hash())) bundle = bundle.With(by).value();
  return Have(host, own.key, std::move(certificate), std::move(bundle), own.revoked);
}

void SimTrust::Linger(const std::string& serial, bool on) {
  if (on) lingering_.insert(serial);
  else lingering_.erase(serial);
}

bool SimTrust::AllBelieveNext() {
  if (!next_) return false;
  for (auto& [name, host] : hosts_) {
    Look(name, &host);
    if (!host.own.bundle.Has(next_->certificate().hash())) return false;
  }
  return true;
}

std::vector<std::string> SimTrust::Hosts() const {
  std::vector<std::string> out;
  for (const auto& [name, host] : hosts_) out.push_back(name);
  return out;
}

std::string SimTrust::RenewalRequest(const std::string& host) const { return CertRequest::Make(hosts_.at(host).own.key).ToDer(); }

Result<std::shared_ptr<const Peer>> SimTrust::TakeRenewed(const std::string& host, const std::string& pem) {
  ASSIGN_OR_RETURN(Certificate certificate, Certificate::FromPem(pem));
  const Credentials own = hosts_.at(host).own;
  if (!certificate.MatchesKey(own.key)) return Error(FsError::kBadRequest, "the certificate that came is of another key");
  Bundle bundle = own.bundle;
  for (const auto& a : {authority_, next_}) {
    if (a && !bundle.Has(a->certificate().hash())) bundle = bundle.With(a->certificate()).value();
  }
  RETURN_IF_ERROR(Credentials::Of(own.key, certificate, bundle, own.revoked));
  return Have(host, own.key, std::move(certificate), std::move(bundle), own.revoked);
}

MetaTrust SimTrust::ForMeta() {
  MetaTrust trust{authority_, next_, this, revoked_, {}};
  for (const auto& [name, host] : hosts_) trust.given.push_back(host.own.certificate);
  return trust;
}

// What would leave it without an authority for its own certificate waits until that is renewed; revoked numbers do not.
void SimTrust::Look(const std::string& name, Host* host) {
  if (executor_->NowNs() - host->looked_ns < kLookNs) return;
  host->looked_ns = executor_->NowNs();
  const std::shared_ptr<const ClusterMap> map = map_of_(name);
  if (!map || map->bundle.empty()) return;
  Bundle bundle = Bundle::FromPem(map->bundle).value();
  host->own.revoked = Revoked();
  for (const std::string& serial : map->revoked) host->own.revoked.Add(serial);
  const Certificate& own = host->own.certificate;
  if (std::ranges::any_of(bundle.all(), [&](const Certificate& a) { return SignedBy(own, a); })) host->own.bundle = std::move(bundle);
}

Result<void> SimTrust::Believes(const std::string& host, const Peer& peer) {
  const auto it = hosts_.find(host);
  if (it == hosts_.end()) return Ok();
  Look(host, &it->second);
  const int64_t judged_s = lingering_.contains(peer.serial) ? std::min(NowS(), peer.not_after_s) : NowS();
  return it->second.own.StillGood(peer, judged_s);
}

Task<Result<void>> SimTrust::StoreNext(std::shared_ptr<const Authority> next) {
  next_ = std::move(next);
  co_return Ok();
}

Task<Result<void>> SimTrust::StoreOnly(std::shared_ptr<const Authority> authority) {
  authority_ = std::move(authority);
  next_.reset();
  co_return Ok();
}

Task<Result<void>> SimTrust::StoreRevoked(Revoked revoked) {
  revoked_ = std::move(revoked);
  co_return Ok();
}

}  // namespace stria
