// Which node a data server may speak for: the one of the name that its certificate proves, and disks of that node only. Where
// nothing is proved (OpHeader::peer is null) the other checks of a call are all there is, and these pass.
//
// kAccess, with who asked, of what, and for which call (`what`: "reports work").
#pragma once

#include <string_view>

#include "api/meta_api.h"
#include "meta/cluster/cluster_state.h"

namespace stria {

// A registration: under the peer's own name, and not as a node of another name, whose uuid the map tells everybody.
Result<void> AcceptRegistration(const ClusterState& cluster, const RegisterNodeRequest& r);
// A node that is not known passes: the call itself refuses it, and a node that was removed has to hear that it is to register.
Result<void> AcceptNode(const ClusterState& cluster, const OpHeader& h, NodeId node, std::string_view what);
// A disk that is not known is nobody's.
Result<void> AcceptTarget(const ClusterState& cluster, const OpHeader& h, TargetId target, std::string_view what);
// True if a data server has proved that this disk is its own.
bool IsOwnTarget(const ClusterState& cluster, const OpHeader& h, TargetId target);

}  // namespace stria
