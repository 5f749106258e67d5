#include "meta/trust_dir.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include <filesystem>
#include <system_error>

#include "common/os_random.h"
#include "common/token.h"
#include "trust/credentials.h"
#include "trust/files.h"
#include "trust/place.h"

namespace stria {
namespace {

constexpr char kAnyHost[] = "meta";
constexpr char kNodeFile[] = "/node.pem", kBundleFile[] = "/ca.pem";

std::string SecuredFile(const std::string& data) { return data + "/secured"; }

// An error if it cannot be told.
Result<bool> IsThere(const std::string& path) {
  struct stat st;
  if (lstat(path.c_str(), &st) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  return ErrnoError(errno, "look at " + path);
}

Result<void> MakePrivateDir(const std::string& dir) {
  std::error_code ec;
  std::filesystem::create_directories(dir, ec);
  if (ec) return ErrnoError(ec.value(), "make the directory " + dir);
  if (chmod(dir.c_str(), 0700) != 0) return ErrnoError(errno, "protect the directory " + dir);
  return Ok();
}

// A certificate of that role in `dir`, and the bundle with the authority alone.
Result<void> Give(const std::string& dir, const Authority& authority, Role role, const std::string& host, int64_t now_s) {
  RETURN_IF_ERROR(MakePrivateDir(dir));
  ASSIGN_OR_RETURN(const bool bundle_there, IsThere(dir + kBundleFile));
  if (!bundle_there) {
    ASSIGN_OR_RETURN(const Bundle bundle, Bundle::Of({authority.certificate()}));
    RETURN_IF_ERROR(CredentialFiles::SaveBundle(dir, bundle));
  }
  ASSIGN_OR_RETURN(const bool node_there, IsThere(dir + kNodeFile));
  if (node_there) return Ok();
  const PrivateKey key = PrivateKey::Make();
  const Identity who{authority.cluster(), role, IsPeerName(host) ? host : kAnyHost};
  ASSIGN_OR_RETURN(const Certificate certificate, authority.Sign(CertRequest::Make(key), who, now_s));
  return CredentialFiles::SaveNode(dir, key, certificate);
}

}  // namespace

Result<Uuid> MakeTrustDir(const std::string& dir, const TrustDirParams& params) {
  RETURN_IF_ERROR(MakePrivateDir(dir));
  const std::string path = dir + kAuthorityFile;
  ASSIGN_OR_RETURN(const bool there, IsThere(path));
  if (!there) RETURN_IF_ERROR(ReplaceFile(path, Authority::Make(params.cluster, params.now_s).ToPem(), 0600));
  ASSIGN_OR_RETURN(const std::shared_ptr<const Authority> authority, LoadAuthority(dir));
  ASSIGN_OR_RETURN(const bool key_there, IsThere(MasterKeyPath(dir)));
  if (params.master_key && !key_there) {
    ClusterKey key;
    key.id = 1;
    OsRandomBytes(key.secret);
    RETURN_IF_ERROR(ReplaceFile(MasterKeyPath(dir), FormatClusterKey(key) + "\n", 0600));
  }
  RETURN_IF_ERROR(Give(dir + "/" + std::string(RoleName(Role::kAdmin)), *authority, Role::kAdmin, params.host, params.now_s));
  RETURN_IF_ERROR(Give(dir, *authority, Role::kMeta, params.host, params.now_s));
  return authority->cluster();
}

Result<std::shared_ptr<const Authority>> LoadAuthority(const std::string& dir) {
  const std::string path = dir + kAuthorityFile;
  ASSIGN_OR_RETURN(const std::string pem, ReadSecretFile(path));
  Result<Authority> authority = Authority::FromPem(pem);
  if (!authority.ok()) return authority.error().WithContext("the file " + path + " is not used");
  return std::make_shared<const Authority>(std::move(*authority));
}

Result<void> NoteSecured(const std::string& data) {
  ASSIGN_OR_RETURN(const bool there, WasSecured(data));
  if (there) return Ok();
  return ReplaceFile(SecuredFile(data), "This store is served with certificates; see docs/security.md.\n", 0600);
}

Result<bool> WasSecured(const std::string& data) { return IsThere(SecuredFile(data)); }

}  // namespace stria
