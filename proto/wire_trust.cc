// Messages of trust.proto.
#include "api/trust_api.h"
#include "proto/trust.pb.h"
#include "proto/wire_types.h"

namespace stria {
namespace wire {

WIRE_ENUM(Role, kMeta, kMonitor);
WIRE_ENUM(AuthorityVerb, kShow, kFinish);

WIRE_MESSAGE(TrustListRequest) { F(header); F(after); }
WIRE_MESSAGE(TrustReply) { F(message); }
WIRE_MESSAGE(JoinTokenInfo) { F(id); F(role); F(name); F(uses); F(used); F(networks); F(expires_s); F(trusted_root); F(names); }
WIRE_MESSAGE(MakeTokenRequest) { F(header); F(verifier); F(role); F(name); F(uses); F(networks); F(ttl_s); F(trusted_root); F(names); }
WIRE_MESSAGE(MakeTokenReply) { F(token); F(authority); F(address); }
WIRE_MESSAGE(ListTokensReply) { F(tokens); }
WIRE_MESSAGE(RevokeTokenRequest) { F(header); F(id); F(dry_run); }
WIRE_MESSAGE(CertificateInfo) {
  F(serial); F(role); F(name); F(key); F(issuer); F(token); F(address); F(given_s); F(not_after_s); F(trusted_root);
  F(revoked);
}
WIRE_MESSAGE(ListCertificatesReply) { F(certificates); F(next); }
WIRE_MESSAGE(RevokeCertificateRequest) { F(header); F(which); F(dry_run); }
WIRE_MESSAGE(RenewCertificateRequest) { F(header); F(request); F(of); }
WIRE_MESSAGE(RenewCertificateReply) { F(certificate); F(bundle); }
WIRE_MESSAGE(ListExportsReply) { F(lines); }
WIRE_MESSAGE(SetExportRequest) { F(header); F(line); F(dry_run); }
WIRE_MESSAGE(RemoveExportRequest) { F(header); F(path); F(clients); F(dry_run); }
WIRE_MESSAGE(ClientInfo) { F(session); F(client); F(owner); F(node); F(lease_left_ns); }
WIRE_MESSAGE(ListClientsReply) { F(clients); }
WIRE_MESSAGE(EvictClientRequest) { F(header); F(session); F(dry_run); }
WIRE_MESSAGE(ReadAuditRequest) { F(header); F(since_s); F(limit); }
WIRE_MESSAGE(ReadAuditReply) { F(lines); F(more); }
WIRE_MESSAGE(ChangeAuthorityRequest) { F(header); F(verb); F(dry_run); F(force); }
WIRE_MESSAGE(AuthorityInfo) { F(hash); F(not_after_s); F(signs); F(in_force); F(whose); F(lacking); }
WIRE_MESSAGE(ChangeAuthorityReply) { F(message); F(authorities); }
WIRE_MESSAGE(FollowAuthorityRequest) { F(header); F(member); F(store); F(holds); F(believes); F(signed_by); F(given); F(offer); }
WIRE_MESSAGE(FollowAuthorityReply) { F(authority); F(next); F(wants); F(keep); F(bundle); }

}  // namespace wire

WIRE_CODEC(TrustListRequest);
WIRE_CODEC(TrustReply);
WIRE_CODEC(MakeTokenRequest);
WIRE_CODEC(MakeTokenReply);
WIRE_CODEC(ListTokensReply);
WIRE_CODEC(RevokeTokenRequest);
WIRE_CODEC(ListCertificatesReply);
WIRE_CODEC(RevokeCertificateRequest);
WIRE_CODEC(RenewCertificateRequest);
WIRE_CODEC(RenewCertificateReply);
WIRE_CODEC(ListExportsReply);
WIRE_CODEC(SetExportRequest);
WIRE_CODEC(RemoveExportRequest);
WIRE_CODEC(ListClientsReply);
WIRE_CODEC(EvictClientRequest);
WIRE_CODEC(ReadAuditRequest);
WIRE_CODEC(ReadAuditReply);
WIRE_CODEC(ChangeAuthorityRequest);
WIRE_CODEC(ChangeAuthorityReply);
WIRE_CODEC(FollowAuthorityRequest);
WIRE_CODEC(FollowAuthorityReply);

}  // namespace stria
