#include "trust/credentials.h"

#include <algorithm>

#include "common/sabotage.h"

namespace stria {
namespace {

constexpr char kNodeFile[] = "/node.pem";
constexpr char kBundleFile[] = "/ca.pem";
constexpr char kRevokedFile[] = "/revoked";

}  // namespace

Result<Credentials> Credentials::Of(PrivateKey key, Certificate certificate, Bundle bundle, Revoked revoked) {
  if (!certificate.MatchesKey(key)) return Error(FsError::kBadRequest, "the private key is not that of the certificate");
  ASSIGN_OR_RETURN(Identity identity, certificate.identity());
  if (identity.cluster != bundle.cluster()) {
    return Error(FsError::kWrongCluster, "the certificate is of cluster " + identity.cluster.ToString() + ", the bundle of cluster " + bundle.cluster().ToString());
  }
  const bool known = std::any_of(bundle.all().begin(), bundle.all().end(), [&](const Certificate& a) { return SignedBy(certificate, a); });
  if (!known) return Error(FsError::kBadRequest, "the certificate is signed by no authority of the bundle");
  return Credentials{std::move(key), std::move(certificate), std::move(identity), std::move(bundle), std::move(revoked)};
}

Result<void> Credentials::StillGood(const Peer& peer, int64_t now_s) const {
  const auto refused = [&](const char* why) { return Error(FsError::kAccess, peer.ToString() + " is not believed any more: its certificate " + why); };
  if (revoked.Has(peer.serial) && !Sabotaged(Sabotage::kBelieveRevoked)) return refused("is revoked");
  if (!bundle.Has(peer.issuer) && !Sabotaged(Sabotage::kBelieveFormer)) return refused("is of an authority that was removed");
  if (now_s > peer.not_after_s && !Sabotaged(Sabotage::kBelieveExpired)) return refused("has expired");
  return Ok();
}

Result<Peer> Credentials::Judge(const Certificate& shown, const std::string& address, RoleSet roles, int64_t now_s) const {
  const auto refused = [&](const std::string& why) { return Error(FsError::kAccess, "the peer at " + address + " was refused: " + why); };
  const Result<Identity> who = shown.identity();
  if (!who.ok()) return refused(who.error().message);
  if (who->cluster != identity.cluster) return refused("its certificate is of cluster " + who->cluster.ToString());
  const auto issuer = std::find_if(bundle.all().begin(), bundle.all().end(), [&](const Certificate& a) { return SignedBy(shown, a); });
  if (issuer == bundle.all().end()) return refused("no authority of this cluster has signed its certificate");
  if (now_s < shown.not_before_s()) return refused("its certificate is not valid yet; look at the clocks");
  Peer peer{who->role, who->name, address, shown.key_hash(), issuer->hash(), shown.serial(), shown.not_after_s()};
  RETURN_IF_ERROR(StillGood(peer, now_s));
  if (!roles.Has(peer.role)) return refused(peer.ToString() + " has another role than those that belong here (" + roles.ToString() + ")");
  return peer;
}

CredentialFiles::Stamps CredentialFiles::Look() const {
  return {StampOf(directory_ + kNodeFile), StampOf(directory_ + kBundleFile), StampOf(directory_ + kRevokedFile)};
}

Result<Credentials> CredentialFiles::Read() const {
  ASSIGN_OR_RETURN(const std::string node, ReadSecretFile(directory_ + kNodeFile));
  ASSIGN_OR_RETURN(const std::string ca, ReadPublicFile(directory_ + kBundleFile));
  Result<std::string> revoked_text = ReadPublicFile(directory_ + kRevokedFile);
  if (!revoked_text.ok() && revoked_text.code() != FsError::kNoEnt) return revoked_text.error();
  const auto in = [&](const char* file, Error e) { return e.WithContext("the file " + directory_ + file + " is not used"); };
  Result<PrivateKey> key = PrivateKey::FromPem(node);
  if (!key.ok()) return in(kNodeFile, key.error());
  Result<Certificate> certificate = Certificate::FromPem(node);
  if (!certificate.ok()) return in(kNodeFile, certificate.error());
  Result<Bundle> bundle = Bundle::FromPem(ca);
  if (!bundle.ok()) return in(kBundleFile, bundle.error());
  Result<Revoked> revoked = revoked_text.ok() ? Revoked::Parse(*revoked_text) : Revoked();
  if (!revoked.ok()) return in(kRevokedFile, revoked.error());
  Result<Credentials> all = Credentials::Of(std::move(*key), std::move(*certificate), std::move(*bundle), std::move(*revoked));
  if (!all.ok()) return in(kNodeFile, all.error());
  return all;
}

Result<std::shared_ptr<const Credentials>> CredentialFiles::Load() {
  std::lock_guard<std::mutex> lock(mu_);
  stamps_ = Look();  // before reading: what changes meanwhile is read again
  ASSIGN_OR_RETURN(Credentials read, Read());
  last_ = std::make_shared<const Credentials>(std::move(read));
  return last_;
}

Result<std::shared_ptr<const Credentials>> CredentialFiles::Refresh() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (last_ != nullptr && Look() == stamps_) return last_;
  }
  return Load();
}

Result<void> CredentialFiles::SaveNode(const std::string& directory, const PrivateKey& key, const Certificate& certificate) {
  if (!certificate.MatchesKey(key)) return Error(FsError::kInval, "the private key is not that of the certificate");
  return ReplaceFile(directory + kNodeFile, key.ToPem() + certificate.ToPem(), 0600);
}
Result<void> CredentialFiles::SaveBundle(const std::string& directory, const Bundle& bundle) {
  return ReplaceFile(directory + kBundleFile, bundle.ToPem(), 0644);
}
Result<void> CredentialFiles::SaveRevoked(const std::string& directory, const Revoked& revoked) {
  return ReplaceFile(directory + kRevokedFile, revoked.Format(), 0644);
}

}  // namespace stria
