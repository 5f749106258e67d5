// The members of etcd that `stria dev` starts for several metadata servers: real ones, of the machine's own package, on addresses of
// this machine only. What is written there is sealed by the metadata servers, so that another user of this machine can keep them from
// changing roles, and no more.
#pragma once

#include <string>
#include <vector>

#include "common/error.h"
#include "tools/cli/dev/plan.h"

namespace stria::cli {

inline constexpr int kDevEtcdMembers = 3;  // one of them may be lost

// "etcd1" ..
bool IsEtcdName(const std::string& name);

// Times are for slow disks and busy machines: an election that a slow sync brings on would cost more than a late one.
std::vector<std::string> EtcdCommandLine(const DevCluster& c, const DevProcess& p, const std::string& binary);

// kNoEnt with the remedy.
Result<std::string> FindEtcd();

// Whether the member at `address` (host:port of its clients) says that it has a majority. Waits for at most `timeout_ns`.
bool EtcdHasMajority(const std::string& address, int64_t timeout_ns);
// Of such an answer over HTTP.
bool SaysHealthy(const std::string& answer);

}  // namespace stria::cli
