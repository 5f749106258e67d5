// Layouts name a node by its number (stripe/layout_spec.h); people by its name. Pure.
#pragma once

#include <string>
#include <string_view>

#include "api/types.h"

namespace stria {

// "..,place=node:n3" -> "..,place=node:3". A name goes before a number; a number that is no name stays. kNoEnt, with the list
// of nodes, if no node is called so.
Result<std::string> NodeNumberForName(std::string_view spec, const ClusterMap& map);
// The inverse, for printing; a number that is no node's stays.
std::string NodeNameForNumber(std::string_view spec, const ClusterMap& map);

}  // namespace stria
