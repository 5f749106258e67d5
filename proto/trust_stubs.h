// Both ends of api/trust_api.h on a transport. As stubs.h says.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/trust_api.h"
#include "proto/stubs.h"
#include "proto/transport.h"

namespace stria {

inline constexpr char kTrustServiceName[] = "stria.v1.Trust";

#define STRIA_TRUST_METHODS(X)                                            \
  X(MakeToken, MakeTokenRequest, MakeTokenReply)                          \
  X(ListTokens, TrustListRequest, ListTokensReply)                        \
  X(RevokeToken, RevokeTokenRequest, TrustReply)                          \
  X(ListCertificates, TrustListRequest, ListCertificatesReply)            \
  X(RevokeCertificate, RevokeCertificateRequest, TrustReply)              \
  X(RenewCertificate, RenewCertificateRequest, RenewCertificateReply)     \
  X(ListExports, TrustListRequest, ListExportsReply)                      \
  X(SetExport, SetExportRequest, TrustReply)                              \
  X(RemoveExport, RemoveExportRequest, TrustReply)                        \
  X(ListClients, TrustListRequest, ListClientsReply)                      \
  X(EvictClient, EvictClientRequest, TrustReply)                          \
  X(ReadAudit, ReadAuditRequest, ReadAuditReply)                          \
  X(ChangeAuthority, ChangeAuthorityRequest, ChangeAuthorityReply)        \
  X(FollowAuthority, FollowAuthorityRequest, FollowAuthorityReply)

class TrustStub final : public TrustService {
 public:
  explicit TrustStub(std::shared_ptr<Transport> transport) : transport_(std::move(transport)) {}
#define X(Name, Request, Reply) Task<Result<Reply>> Name(Request request) override;
  STRIA_TRUST_METHODS(X)
#undef X

 private:
  std::shared_ptr<Transport> transport_;
};

using TrustDispatcher = ServiceDispatcher<TrustService>;
extern template class ServiceDispatcher<TrustService>;

class TransportTrustConnector final : public TrustConnector {
 public:
  explicit TransportTrustConnector(TransportFactory* factory) : factory_(factory) {}
  std::shared_ptr<TrustService> ConnectTrust(const std::string& address) override {
    std::shared_ptr<TrustService>& stub = stubs_[address];
    if (!stub) stub = std::make_shared<TrustStub>(factory_->Make(address));
    return stub;
  }

 private:
  TransportFactory* factory_;
  std::map<std::string, std::shared_ptr<TrustService>> stubs_;  // of the few metadata servers
};

// Another certificate (PEM) for the caller's own identity, for a request (DER): asks one metadata server after the other until one
// answers. What SecuredEnds::RenewBy takes. `connector` outlives it.
Task<Result<std::string>> AskForRenewal(TrustConnector* connector, std::vector<std::string> addresses, std::string request);

}  // namespace stria
