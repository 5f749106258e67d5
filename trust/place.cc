#include "trust/place.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

namespace stria {
namespace {

// Whether something is at `path`. An error if that cannot be told.
Result<bool> IsThere(const std::string& path) {
  struct stat st;
  if (lstat(path.c_str(), &st) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  return Error(FsError::kAccess, "whether there are credentials in " + path + " cannot be told: " + strerror(errno) +
                                     "; let the user that runs this program search the directory, or name another with --trust");
}

}  // namespace

Result<TrustPlace> FindTrust(const std::string& setting, const std::vector<Role>& roles) {
  if (setting == kTrustOff) return TrustPlace{TrustIs::kOff, ""};
  if (setting.empty()) return Error(FsError::kInval, "trust is empty: name the directory of the credentials, or write \"off\"");
  TrustPlace place{TrustIs::kAbsent, setting};
  for (const Role role : roles) {
    const std::string own = setting + "/" + std::string(RoleName(role));
    ASSIGN_OR_RETURN(const bool there, IsThere(own));
    if (!there) continue;
    place.directory = own;
    break;
  }
  for (const char* file : {"/node.pem", "/ca.pem", kAuthorityFile}) {
    ASSIGN_OR_RETURN(const bool there, IsThere(place.directory + file));
    if (there) place.is = TrustIs::kThere;
  }
  return place;
}

std::string InsecureWarning(const TrustPlace& place) {
  const std::string why = place.is == TrustIs::kOff ? "trust is off" : "there are no credentials in " + place.directory;
  return "INSECURE: " + why + ", so nothing is encrypted, and everybody who reaches the ports of this cluster may read, change and " +
         "delete everything (docs/security.md)";
}

// A limit of 0 counts for files only. At 1, which no file fits into either, the kernel starts no program of core_pattern's (core(5)).
// One that listens on a socket gets a core whatever the limit is: hence the other one.
void ForbidCoreDumps() {
  const rlimit none = {1, 1};
  (void)setrlimit(RLIMIT_CORE, &none);
  ForbidOwnCoreDump();
}

void ForbidOwnCoreDump() { (void)prctl(PR_SET_DUMPABLE, 0); }

}  // namespace stria
