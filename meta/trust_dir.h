// DATA/trust of the metadata server: the cluster's authority and what it has given to this machine. Blocking calls of the operating
// system; for the main program.
//
//   authority.pem  0600  key and certificate of the authority: whoever has it is the cluster. Keep a copy where only you get at it
//   node.pem ca.pem revoked   this server's own (trust/credentials.h), of role meta
//   master.key     0600  the secret that tokens are made with, unless a cluster key is given
//   admin/               a certificate of role admin, for root of this machine
//
// All is this server's user's, in directories of mode 0700.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/error.h"
#include "common/ids.h"
#include "trust/authority.h"

namespace stria {

struct TrustDirParams {
  Uuid cluster;             // of a new authority
  std::string host;         // name of the certificates
  int64_t now_s = 0;
  bool master_key = false;  // makes one, too
};
// Makes what is not there yet, and leaves what is there. Gives the authority's cluster, which is another than params.cluster if the
// authority was there. What it makes is durable on return.
Result<Uuid> MakeTrustDir(const std::string& dir, const TrustDirParams& params);
// kNoEnt if there is none, and what ReadSecretFile says.
Result<std::shared_ptr<const Authority>> LoadAuthority(const std::string& dir);
inline std::string MasterKeyPath(const std::string& dir) { return dir + "/master.key"; }

// A store that was once served with certificates is not served without them because they are not found: DATA/secured says so.
Result<void> NoteSecured(const std::string& data);
Result<bool> WasSecured(const std::string& data);

}  // namespace stria
