// The hosts of a simulated cluster: what they are called, who each proves to be, and what somebody on a host can call.
//
// Names: "meta", "n1".."nN", "c1".."cM", "backup", "admin". Not thread-safe: all is on the simulator's thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "common/exec/executor.h"
#include "proto/sim_transport.h"
#include "proto/stubs.h"
#include "proto/trust_stubs.h"
#include "test/sim/sim_trust.h"
#include "trust/credentials.h"
#include "trust/identity.h"

namespace stria {

// Where the metadata server's calls to keepers of its backup come from: a host of its own, to be cut off.
inline constexpr char kBackupHost[] = "backup";
inline constexpr char kOtherMetaHost[] = "meta2";

// Nodes, disks and clients count from 0.
std::string NodeHost(size_t n);
std::string NodeAddress(size_t n);
std::string DiskName(size_t n, size_t d);  // "n1:d2"
std::string ClientHost(size_t c);

// What it needs of the cluster.
struct SimHostsNeeds {
  SimTrust::MapOf map_of;
  std::function<void(const Certificate&)> note_given;  // tells the metadata server, if that is up
  std::function<std::string()> meta_address;           // where it is now
};

class SimHosts {
 public:
  // `secured`: hosts prove who they are. `net` outlives it.
  SimHosts(SimNetwork* net, bool secured, SimHostsNeeds needs);
  // From now on by certificates, and both sides of a connection judge. REQUIRES: secured.
  void UseCertificates(const Uuid& cluster, Executor* executor);
  // Processes on `host` are the one of this role and the host's name, with a key of its own. Nothing without `secured`.
  void Prove(const std::string& host, Role role);

  // As the host, whose calls come from there.
  std::unique_ptr<TrustService> TrustOf(const std::string& host);
  std::unique_ptr<MetaService> MetaOf(const std::string& host);
  std::unique_ptr<DataService> DataOf(const std::string& host, size_t n);
  // The metadata server lets the host in; always so without certificates.
  bool IsBelieved(const std::string& host);

  // ---- With certificates
  SimTrust& trust() { return *trust_; }
  // The host has lost its certificate, or that is over: an admin makes a token, and it joins again by that, with another key.
  void Join(const std::string& host, Role role);
  // The metadata server has given the host the certificate that it has. If it is down it hears of it when it starts.
  void NoteCertificate(const std::string& host);

 private:
  SimNetwork* const net_;
  const bool secured_;
  const SimHostsNeeds needs_;
  std::unique_ptr<SimTrust> trust_;  // with certificates
};

}  // namespace stria
