#include "meta/trust_start.h"

#include <unistd.h>

#include "common/address.h"
#include "common/log.h"
#include "trust/files.h"

namespace stria {

std::vector<Certificate> OwnCertificates(const Credentials& own, const std::string& directory) {
  std::vector<Certificate> all = {own.certificate};
  const Result<std::string> admin = ReadSecretFile(directory + "/admin/node.pem");
  if (admin.ok()) {
    if (const Result<Certificate> certificate = Certificate::FromPem(*admin); certificate.ok()) all.push_back(*certificate);
  } else if (admin.code() != FsError::kNoEnt) {
    LogWarning("the first admin's certificate is not counted: {}", admin.error());
  }
  return all;
}

Peer PeerOfOwn(const Credentials& own) {
  Peer self;
  self.role = own.identity.role;
  self.name = own.identity.name;
  self.key_hash = own.certificate.key_hash();
  self.serial = own.certificate.serial();
  self.not_after_s = own.certificate.not_after_s();
  return self;
}

std::string HostName() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return host;
}

std::string AddressForOthers(const std::string& bound, const std::string& host_name) {
  const std::string host = HostOfAddress(bound);
  const bool everywhere = host == "0.0.0.0" || host == "[::]" || host == "::";
  return everywhere ? host_name + ":" + PortOfAddress(bound) : bound;
}

}  // namespace stria
