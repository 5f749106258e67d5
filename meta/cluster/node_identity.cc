#include "meta/cluster/node_identity.h"

#include <string>

#include "common/printable.h"

namespace stria {
namespace {

Error Refusal(const OpHeader& h, const std::string& of, std::string_view what) {
  return Error::Denial(h.peer->ToString() + " " + std::string(what) + " of " + of +
                                     ": a data server does so for the node of its own name only");
}

bool IsNodeOf(const OpHeader& h, const NodeInfo& node) {
  return h.peer->role == Role::kData && node.name == h.peer->name;
}

}  // namespace

Result<void> AcceptRegistration(const ClusterState& cluster, const RegisterNodeRequest& r) {
  if (!r.header.peer) return Ok();
  if (r.header.peer->role != Role::kData || r.name != r.header.peer->name) {
    return Refusal(r.header, "node " + Printable(r.name.substr(0, kMaxNodeNameBytes)), "asks for the registration");
  }
  for (const NodeInfo& n : cluster.Map().nodes) {
    if (n.uuid != r.uuid || n.name == r.name) continue;
    return Error::Denial(r.header.peer->ToString() + " registers with the uuid of node " + n.name +
                                       ": let its machine join under that name again, or first remove that node:  stria node remove " + n.name);
  }
  return Ok();
}

Result<void> AcceptNode(const ClusterState& cluster, const OpHeader& h, NodeId node, std::string_view what) {
  if (!h.peer) return Ok();
  const NodeInfo* const known = cluster.FindNode(node);
  if (known == nullptr || IsNodeOf(h, *known)) return Ok();
  return Refusal(h, "node " + known->name, what);
}

Result<void> AcceptTarget(const ClusterState& cluster, const OpHeader& h, TargetId target, std::string_view what) {
  if (!h.peer || IsOwnTarget(cluster, h, target)) return Ok();
  const bool known = cluster.FindTarget(target) != nullptr;
  return Refusal(h, known ? "disk " + cluster.TargetName(target) : "a disk that is not known (" + std::to_string(target.v) + ")", what);
}

bool IsOwnTarget(const ClusterState& cluster, const OpHeader& h, TargetId target) {
  if (!h.peer) return false;
  const TargetInfo* const info = cluster.FindTarget(target);
  const NodeInfo* const node = info == nullptr ? nullptr : cluster.FindNode(info->node);
  return node != nullptr && IsNodeOf(h, *node);
}

}  // namespace stria
