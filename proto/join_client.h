// The new machine's end of joining: for programs that do this one thing (stria join).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "common/error.h"
#include "trust/identity.h"

namespace stria {

// Blocks. Connects to the metadata server at "host:port", which must show the authority with this hash (of the join token); sends the request that
// `make` gives for the connection's binding (at most kMaxJoinRequestBytes), and returns the answer's bytes. All within timeout_ns (> 0; names may take
// longer). kAccess: this side or the server refuses, with the server's sentence; kUnavailable, kDeadline. Any thread.
Result<std::string> AskToJoin(const std::string& address, const Sha256Hash& authority,
                              const std::function<std::string(std::string_view binding)>& make, int64_t timeout_ns);

}  // namespace stria
