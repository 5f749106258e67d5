#include "tools/cli/dev/dev_trust.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "trust/authority.h"
#include "trust/credentials.h"
#include "trust/files.h"
#include "trust/place.h"

namespace stria::cli {
namespace {

constexpr uintmax_t kMaxClusterFileBytes = 1 << 20;

Result<void> MakePrivateDir(const std::string& dir) {
  std::error_code ec;
  std::filesystem::create_directories(dir, ec);
  if (ec) return ErrnoError(ec.value(), "make the directory " + dir);
  if (chmod(dir.c_str(), 0700) != 0) return ErrnoError(errno, "protect the directory " + dir);
  return {};
}

}  // namespace

Result<void> IssueDevCertificate(const DevCluster& c, const DevProcess& p, int64_t now_s) {
  const std::string dir = c.TrustOf(p);
  RETURN_IF_ERROR(MakePrivateDir(dir));
  const Result<std::shared_ptr<const Credentials>> there = CredentialFiles(dir).Load();
  if (!there.ok() && there.code() != FsError::kNoEnt) return there.error();
  if (there.ok() && now_s < RenewAt((*there)->certificate)) return {};
  ASSIGN_OR_RETURN(const std::string pem, ReadSecretFile(c.MetaTrust() + kAuthorityFile));
  ASSIGN_OR_RETURN(const Authority authority, Authority::FromPem(pem));
  const PrivateKey key = there.ok() ? (*there)->key : PrivateKey::Make();
  const Role role = p.kind == DevProcess::Kind::kNode ? Role::kData : Role::kClient;
  ASSIGN_OR_RETURN(const Certificate certificate, authority.Sign(CertRequest::Make(key), {authority.cluster(), role, p.name}, now_s));
  ASSIGN_OR_RETURN(const std::string bundle_pem, ReadPublicFile(c.MetaTrust() + "/ca.pem"));
  ASSIGN_OR_RETURN(const Bundle bundle, Bundle::FromPem(bundle_pem));
  RETURN_IF_ERROR(CredentialFiles::SaveBundle(dir, bundle));
  return CredentialFiles::SaveNode(dir, key, certificate);
}

bool HasDevAdmin(const DevCluster& c) { return access((c.AdminTrust() + "/node.pem").c_str(), F_OK) == 0; }

std::string DevTrustNear(const std::string& place, const std::vector<std::string>& addresses) {
  if (!place.starts_with('/')) return "";
  for (std::filesystem::path at = place;; at = at.parent_path()) {
    const std::string file = (at / "cluster.json").string();
    struct stat st;
    // Not one that somebody else has put above this user's files.
    if (lstat(file.c_str(), &st) == 0 && S_ISREG(st.st_mode) && (st.st_uid == geteuid() || st.st_uid == 0) &&
        static_cast<uintmax_t>(st.st_size) <= kMaxClusterFileBytes) {
      std::ostringstream text;
      text << std::ifstream(file, std::ios::binary).rdbuf();
      Result<DevCluster> c = DecodeDevCluster(text.str(), file);
      if (c.ok() && c->secured && std::count(addresses.begin(), addresses.end(), c->MetaAddress()) > 0) {
        c->dir = at.string();  // it may have been moved
        return c->AdminTrust();
      }
    }
    if (at == at.parent_path()) return "";
  }
}

}  // namespace stria::cli
