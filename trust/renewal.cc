#include "trust/renewal.h"

#include <utility>
#include <vector>

namespace stria {

bool RenewalIsDue(const Certificate& own, const Bundle& believed, int64_t now_s, int64_t overlap_s) {
  if (now_s >= RenewAt(own)) return true;
  const std::vector<Certificate>& all = believed.all();
  if (all.size() < 2 || SignedBy(own, all.back())) return false;
  return overlap_s <= 0 || now_s >= all.back().not_before_s() + kBackdatedS + overlap_s;
}

Result<Certificate> AcceptRenewal(const Credentials& own, const Bundle& believed, std::string_view pem) {
  ASSIGN_OR_RETURN(Certificate certificate, Certificate::FromPem(pem));
  ASSIGN_OR_RETURN(const Identity who, certificate.identity());
  if (who != own.identity) return Error(FsError::kBadRequest, "the certificate that came is of " + FormatIdentity(who));
  RETURN_IF_ERROR(Credentials::Of(own.key, certificate, believed, own.revoked));
  return certificate;
}

Result<void> StoreRenewal(const std::string& directory, const Credentials& own, const Bundle& believed, const Certificate& certificate) {
  Bundle both = own.bundle;
  for (const Certificate& a : believed.all()) {
    if (both.Has(a.hash())) continue;
    ASSIGN_OR_RETURN(both, both.With(a));
  }
  if (both.all().size() > own.bundle.all().size()) RETURN_IF_ERROR(CredentialFiles::SaveBundle(directory, both));
  return CredentialFiles::SaveNode(directory, own.key, certificate);
}

Result<void> StoreBelieved(const std::string& directory, const Credentials& own, const Bundle& believed, const Revoked& revoked) {
  if (own.revoked.Format() != revoked.Format()) RETURN_IF_ERROR(CredentialFiles::SaveRevoked(directory, revoked));
  if (own.bundle.ToPem() == believed.ToPem()) return Ok();
  // Files that its program could not read would be the end of it.
  if (!Credentials::Of(own.key, own.certificate, believed, revoked).ok()) return Ok();
  return CredentialFiles::SaveBundle(directory, believed);
}

}  // namespace stria
