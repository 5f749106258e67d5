// Where a program finds its credentials on this machine, and what it does if there are none.
//
// A certificate has one role, and a PC may have several programs of Stria. DIR/ROLE (DIR/data, DIR/client, DIR/admin), if it is
// there, is the place of that role; else DIR itself. Half of what belongs there is never taken for nothing: a program that has lost
// a file does not start, instead of talking in the clear.
#pragma once

#include <string>
#include <vector>

#include "common/error.h"
#include "trust/identity.h"

namespace stria {

inline constexpr char kTrustDirectory[] = "/etc/stria/trust";
inline constexpr char kTrustOff[] = "off";
inline constexpr char kAuthorityFile[] = "/authority.pem";  // of the metadata server: key and certificate, 0600
inline constexpr char kNextAuthorityFile[] = "/authority-next.pem";  // beside it, while it is changed for another: that one

enum class TrustIs : uint8_t {
  kThere,   // a file of credentials is there; whether they are good is not known yet
  kAbsent,  // nothing is there
  kOff,     // the setting says so
};
struct TrustPlace {
  TrustIs is = TrustIs::kAbsent;
  std::string directory;  // where the credentials are, or would be; "" if off
};
// `setting`: a directory, or "off". Of the roles that the program may have, the first that has a place of its own counts.
// kAccess if it cannot be told what is there.
Result<TrustPlace> FindTrust(const std::string& setting, const std::vector<Role>& roles);

// For the log and the status of a program that goes on without credentials: what that means, and what to do.
std::string InsecureWarning(const TrustPlace& place);

// From now on this process, and what it starts, leave no core: keys would be in it. Neither as a file nor by a program that the kernel
// gives it to.
void ForbidCoreDumps();
// The same of this process only: what it starts are programs of whoever called it.
void ForbidOwnCoreDump();

}  // namespace stria
