#include "meta/meta_proof.h"

#include <unistd.h>

#include <utility>

#include "common/daemon.h"
#include "common/log.h"
#include "meta/trust_dir.h"
#include "meta/trust_start.h"
#include "trust/files.h"

namespace stria {

Result<TrustPlace> MetaProof::Look() {
  ASSIGN_OR_RETURN(place_, FindTrust(config_.trust, {Role::kMeta}));
  return place_;
}

Result<void> MetaProof::Make(Uuid* cluster) {
  if (config_.trust == kTrustOff) return Error(FsError::kInval, "trust is off, so no authority is made: leave out --insecure or --make-trust");
  TrustDirParams params;
  params.cluster = *cluster;
  params.host = HostName();
  params.now_s = Executor::Current().WallNs() / kSecond;
  params.master_key = config_.cluster_key_file.empty();
  ASSIGN_OR_RETURN(*cluster, MakeTrustDir(config_.trust, params));
  LogInfo("the cluster's authority is in {}: keep a copy of that directory where only admins get at it", config_.trust);
  return Ok();
}

Result<Uuid> MetaProof::MakeOwn() {
  for (const std::string& file : {config_.trust + kAuthorityFile, MasterKeyPath(config_.trust)}) {
    if (file == MasterKeyPath(config_.trust) && !config_.cluster_key_file.empty()) continue;
    if (access(file.c_str(), F_OK) == 0) continue;
    return Error(FsError::kNoEnt, "there is no " + file + ": copy it from the same place of a metadata server that is there, readable for its owner only. All of them "
                                  "are the cluster's authority");
  }
  TrustDirParams params;
  params.host = HostName();
  params.now_s = Executor::Current().WallNs() / kSecond;
  return MakeTrustDir(config_.trust, params);
}

Result<void> MetaProof::Open(const std::optional<Uuid>& cluster) {
  ASSIGN_OR_RETURN(const TrustPlace place, Look());
  if (place.is == TrustIs::kThere) {
    SecuredEndsOptions options;
    options.own = {Role::kMeta};
    options.lets_in = {Role::kMeta, Role::kData, Role::kClient, Role::kAdmin, Role::kMonitor};
    options.talks_to = {Role::kData};
    if (config_.ha) options.talks_to = {Role::kData, Role::kMeta};  // and the other metadata servers
    options.elsewhere = options.talks_to;  // it knows addresses from those who have proved that they are theirs
    options.joins = true;
    options.overlap_s = config_.authority_overlap_ns / kSecond;
    ASSIGN_OR_RETURN(ends_, SecuredEnds::Open(place.directory, std::move(options)));
    ASSIGN_OR_RETURN(authority_, LoadAuthority(place.directory));
    ASSIGN_OR_RETURN(next_authority_, LoadNextAuthority(place.directory));
    if (cluster && ends_->identity().cluster != *cluster) {
      return Error(FsError::kWrongCluster, place.directory + " is of cluster " + ends_->identity().cluster.ToString() + ", and the store in " +
                                               config_.data + " of cluster " + cluster->ToString());
    }
    ForbidCoreDumps();
    return Ok();
  }
  if (place.is == TrustIs::kAbsent && cluster) {
    ASSIGN_OR_RETURN(const bool was, WasSecured(config_.data));
    if (was) {
      return Error(FsError::kAccess, "the store in " + config_.data + " was served with certificates, and there are none in " + place.directory +
                                         ": put the directory back, or say that everybody may do everything with --insecure");
    }
  }
  LogWarning("{}", InsecureWarning(place));
  return Ok();
}

Result<void> MetaProof::LoadKeys() {
  if (!keys_.empty()) return Ok();
  const bool own = ends_ && access(MasterKeyPath(place_.directory).c_str(), F_OK) == 0;
  const std::string path = own ? MasterKeyPath(place_.directory) : kClusterKeyFile;
  ASSIGN_OR_RETURN(keys_, LoadClusterKeys(path));
  if (const std::string said = WhoReadsClusterKeys(path); !said.empty()) LogWarning("{}", said);
  return Ok();
}

// An earlier life may have changed them. What cannot be read stays as it was.
void MetaProof::Reread() {
  Result<std::shared_ptr<const Authority>> authority = LoadAuthority(place_.directory);
  Result<std::shared_ptr<const Authority>> next = LoadNextAuthority(place_.directory);
  for (const Error& e : {authority.error(), next.error()}) {
    if (!e.ok()) return LogError("the authority stays as it was read before: {}", e);
  }
  authority_ = std::move(*authority);
  next_authority_ = std::move(*next);
}

std::optional<MetaTrust> MetaProof::TrustOfServer() {
  if (!ends_) return std::nullopt;
  Reread();  // an earlier life has changed them, or this server has followed the primary's (AuthorityFollower)
  if (!authority_files_) authority_files_ = std::make_unique<AuthorityFiles>(pool_, place_.directory);
  MetaTrust trust{authority_, next_authority_, authority_files_.get(), ends_->credentials()->revoked,
                  OwnCertificates(*ends_->credentials(), place_.directory)};
  trust.life_s = config_.certificate_life_ns / kSecond;
  if (config_.ha) trust.member = [secrets = SecretsOfMember()] { return secrets; };
  return trust;
}

std::unique_ptr<AuthorityFollower> MetaProof::MakeFollower() {
  if (!ends_) return nullptr;
  return std::make_unique<AuthorityFollower>(pool_, place_.directory, [this] { return ends_->credentials(); });
}

// What it has itself: who joins as a metadata server is as this one is.
Result<MemberSecrets> MetaProof::SecretsOfMember() const {
  const std::string own = MasterKeyPath(place_.directory);
  const bool has_own = access(own.c_str(), F_OK) == 0;
  ASSIGN_OR_RETURN(const std::string key, ReadSecretFile(!config_.cluster_key_file.empty() ? config_.cluster_key_file : has_own ? own : kClusterKeyFile));
  return MemberSecrets{"", key, config_.ha->etcd, config_.ha->ca, config_.ha->cert, config_.ha->key};
}

// Its own certificate, and that of the admin beside it, are renewed as those of others are.
Task<Result<std::string>> MetaProof::RenewAs(std::shared_ptr<const Credentials> own, std::string request) {
  CO_ASSIGN_OR_RETURN(RenewCertificateReply reply, co_await renew_(PeerOfOwn(*own), std::move(request)));
  co_return std::move(reply.certificate);
}

void MetaProof::Follow(RenewFn renew, MapFn map, TaskScope* scope) {
  if (!ends_) return;
  renew_ = std::move(renew);
  ends_->RenewBy([this](std::string request) { return RenewAs(ends_->credentials(), std::move(request)); });
  if (keep_former_) ends_->KeepFormerWhile(keep_former_);
  ends_->Follow(map);
  scope->Spawn(ends_->Keep(pool_));
  KeepAdmin(map, scope);
}

// Commands end before they could renew anything. The admin's directory that was made here is kept by this server: during a change of
// the authority, too, it has what the server is to be believed by.
void MetaProof::KeepAdmin(const MapFn& map, TaskScope* scope) {
  const std::string directory = place_.directory + "/admin";
  if (access((directory + "/node.pem").c_str(), F_OK) != 0) return;  // it was moved to where it is used
  SecuredEndsOptions options;
  options.own = {Role::kAdmin};
  Result<std::unique_ptr<SecuredEnds>> admin = SecuredEnds::Open(directory, std::move(options));
  if (!admin.ok()) return LogWarning("the admin's certificate is not kept: {}", admin.error());
  admin_ends_ = std::move(*admin);
  admin_ends_->RenewBy([this](std::string request) { return RenewAs(admin_ends_->credentials(), std::move(request)); });
  admin_ends_->Follow(map);
  scope->Spawn(admin_ends_->Keep(pool_));
}

}  // namespace stria
