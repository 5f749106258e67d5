#include "test/sim/sim_hosts.h"

#include <utility>

#include "common/check.h"
#include "common/random.h"

namespace stria {

std::string NodeHost(size_t n) { return "n" + std::to_string(n + 1); }
std::string NodeAddress(size_t n) { return NodeHost(n) + ":7"; }
std::string DiskName(size_t n, size_t d) { return NodeHost(n) + ":d" + std::to_string(d + 1); }
std::string ClientHost(size_t c) { return "c" + std::to_string(c + 1); }

SimHosts::SimHosts(SimNetwork* net, bool secured, SimHostsNeeds needs) : net_(net), secured_(secured), needs_(std::move(needs)) {}

void SimHosts::UseCertificates(const Uuid& cluster, Executor* executor) {
  CHECK(secured_, "certificates secure a cluster");
  trust_ = std::make_unique<SimTrust>(cluster, executor, needs_.map_of);
  net_->SetJudge([this](const std::string& from, const Peer* peer, const std::string& to) -> Result<void> {
    if (peer != nullptr) RETURN_IF_ERROR(trust_->Believes(to, *peer));
    const std::shared_ptr<const Peer> server = net_->PeerOf(to);
    return server ? trust_->Believes(from, *server) : Ok();
  });
}

void SimHosts::Prove(const std::string& host, Role role) {
  if (!secured_) return;
  if (trust_) return net_->SetPeer(host, trust_->Join(host, role));
  auto peer = std::make_shared<Peer>();
  peer->role = role;
  peer->name = host;
  peer->address = host;
  peer->serial = host;
  Random key(std::hash<std::string>()(host));
  for (uint8_t& byte : peer->key_hash) byte = static_cast<uint8_t>(key.Next());
  net_->SetPeer(host, std::move(peer));
}

std::unique_ptr<TrustService> SimHosts::TrustOf(const std::string& host) {
  return std::make_unique<TrustStub>(net_->MakeTransport(host, needs_.meta_address()));
}
std::unique_ptr<MetaService> SimHosts::MetaOf(const std::string& host) {
  return std::make_unique<MetaStub>(net_->MakeTransport(host, needs_.meta_address()));
}
std::unique_ptr<DataService> SimHosts::DataOf(const std::string& host, size_t n) {
  return std::make_unique<DataStub>(net_->MakeTransport(host, NodeAddress(n)));
}

bool SimHosts::IsBelieved(const std::string& host) { return !trust_ || trust_->Believes("meta", *net_->PeerOf(host)).ok(); }

void SimHosts::Join(const std::string& host, Role role) {
  Prove(host, role);
  NoteCertificate(host);
}

void SimHosts::NoteCertificate(const std::string& host) { needs_.note_given(trust_->CertificateOf(host)); }

}  // namespace stria
