#include "meta/enrolment/authority_files.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "common/io/unique_fd.h"
#include "trust/credentials.h"
#include "trust/files.h"

namespace stria {
namespace {

constexpr unsigned kSecret = 0600;

// A name that goes, durably.
Result<void> Unlink(const std::string& directory, const std::string& path) {
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return ErrnoError(errno, "remove " + path);
  const UniqueFd dir(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (dir.get() < 0 || fsync(dir.get()) != 0) return ErrnoError(errno, "sync " + directory);
  return Ok();
}

}  // namespace

Result<std::shared_ptr<const Authority>> LoadNextAuthority(const std::string& directory) {
  const std::string path = directory + kNextAuthorityFile;
  const Result<std::string> pem = ReadSecretFile(path);
  if (pem.code() == FsError::kNoEnt) return std::shared_ptr<const Authority>();
  if (!pem.ok()) return pem.error();
  Result<Authority> authority = Authority::FromPem(*pem);
  if (!authority.ok()) return authority.error().WithContext("the file " + path + " is not used");
  return std::shared_ptr<const Authority>(std::make_shared<const Authority>(std::move(*authority)));
}

Task<Result<void>> AuthorityFiles::StoreNext(std::shared_ptr<const Authority> next) {
  co_return co_await RunOn(*pool_, [next, path = directory_ + kNextAuthorityFile] { return ReplaceFile(path, next->ToPem(), kSecret); });
}

// First the one file, then the other goes: whoever finds the same authority in both has no change under way.
Task<Result<void>> AuthorityFiles::StoreOnly(std::shared_ptr<const Authority> authority) {
  co_return co_await RunOn(*pool_, [authority, dir = directory_]() -> Result<void> {
    RETURN_IF_ERROR(ReplaceFile(dir + kAuthorityFile, authority->ToPem(), kSecret));
    return Unlink(dir, dir + kNextAuthorityFile);
  });
}

Task<Result<void>> AuthorityFiles::StoreRevoked(Revoked revoked) {
  co_return co_await RunOn(*pool_, [revoked = std::move(revoked), dir = directory_] { return CredentialFiles::SaveRevoked(dir, revoked); });
}

}  // namespace stria
