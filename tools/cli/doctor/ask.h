// What `stria doctor` asks the metadata server. Blocking.
#pragma once

#include "tools/cli/cluster_client.h"
#include "tools/cli/doctor/facts.h"

namespace stria::cli::doctor {

// The cluster's map, InOrder(), and with it the server's version and clock into `facts`. By a call that every certificate may make: a data
// node's, too, so that the audit gets no denial. The client's errors; then `facts` stays as it was.
Result<ClusterMap> AskCluster(ClusterClient& client, Facts* facts);

}  // namespace stria::cli::doctor
