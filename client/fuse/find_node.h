// Which node of the cluster this machine is, for mounts without --node: data on its own disks is near.
#pragma once

#include <functional>
#include <string>

#include "api/types.h"

namespace stria {

struct NodeFound {
  std::string name;  // "" if it is none, or if it cannot be told which
  std::string said;  // a sentence for the log
};
// `is_here`: whether the address of a data server is of this machine. Pure.
NodeFound FindOwnNode(const ClusterMap& map, const std::function<bool(const std::string& address)>& is_here);

// Whether a host of "host:port" has an address of one of this machine's interfaces. Blocks (for names).
bool IsOwnAddress(const std::string& address);

}  // namespace stria
