// What people ask about trust: tokens to join with, certificates, exports, clients, the audit, the authority (api/trust_api.h). And the
// two calls that are not theirs: a certificate is renewed for who has it, and the authority goes to the other metadata servers.
//
// Owns nothing. Invariants: each call but these two first asks whether its caller is an admin (admin_peer.h), and with dry_run
// it changes nothing. Each one that changes something, or would, has a line in the audit, whatever became of it.
//
// Called by the dispatcher of TrustService. Sees enrolment, exports, coherence, the audit and the core.
#pragma once

#include <string>
#include <utility>

#include "api/trust_api.h"
#include "common/exec/task.h"
#include "meta/audit/audit_log.h"
#include "meta/coherence/coherence.h"
#include "meta/core/meta_core.h"
#include "meta/enrolment/enrolment_room.h"
#include "meta/exports/export_room.h"

namespace stria {

class TrustCalls final : public TrustService {
 public:
  // All outlive it.
  TrustCalls(MetaCore* core, Coherence* coherence, ExportRoom* exports, EnrolmentRoom* enrolment)
      : core_(core), coherence_(coherence), sessions_(&coherence->sessions()), exports_(exports), enrolment_(enrolment) {}
  void UseAudit(AuditLog* audit) { audit_ = audit; }                              // null: there is none
  void UseAddress(std::string address) { address_ = std::move(address); }         // of this server, as others reach it

  Task<Result<MakeTokenReply>> MakeToken(MakeTokenRequest r) override;
  Task<Result<ListTokensReply>> ListTokens(TrustListRequest r) override;
  Task<Result<TrustReply>> RevokeToken(RevokeTokenRequest r) override;
  Task<Result<ListCertificatesReply>> ListCertificates(TrustListRequest r) override;
  Task<Result<TrustReply>> RevokeCertificate(RevokeCertificateRequest r) override;
  Task<Result<RenewCertificateReply>> RenewCertificate(RenewCertificateRequest r) override;
  Task<Result<ListExportsReply>> ListExports(TrustListRequest r) override;
  Task<Result<TrustReply>> SetExport(SetExportRequest r) override;
  Task<Result<TrustReply>> RemoveExport(RemoveExportRequest r) override;
  Task<Result<ListClientsReply>> ListClients(TrustListRequest r) override;
  Task<Result<TrustReply>> EvictClient(EvictClientRequest r) override;
  Task<Result<ReadAuditReply>> ReadAudit(ReadAuditRequest r) override;
  Task<Result<ChangeAuthorityReply>> ChangeAuthority(ChangeAuthorityRequest r) override;
  Task<Result<FollowAuthorityReply>> FollowAuthority(FollowAuthorityRequest r) override;

 private:
  Result<void> MayChange(const OpHeader& h) const;
  Result<void> MayRead(const OpHeader& h) const;
  Task<Result<TrustReply>> DoSetExport(const SetExportRequest& r);
  Task<Result<TrustReply>> DoRemoveExport(const RemoveExportRequest& r);
  Task<Result<TrustReply>> DoEvict(const EvictClientRequest& r);

  MetaCore* const core_;
  Coherence* const coherence_;
  Sessions* const sessions_;
  ExportRoom* const exports_;
  EnrolmentRoom* const enrolment_;
  AuditLog* audit_ = nullptr;
  std::string address_;
};

}  // namespace stria
