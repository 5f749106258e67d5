// Free TCP ports of 127.0.0.1, below the range from which the system takes ports of outgoing connections.
#pragma once

#include <string>
#include <vector>

#include "common/error.h"

namespace stria::cli {

bool PortIsFree(int port);
// Different `salt`s start to look at different places, so that clusters do not race for the same ports.
Result<int> FindFreePort(const std::string& salt, const std::vector<int>& taken);
// The port of "HOST:PORT"; 0 if there is none.
int PortOf(const std::string& address);

}  // namespace stria::cli
