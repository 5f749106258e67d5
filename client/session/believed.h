// For whom of its callers a client knows what the server would say: who counts as whom he names.
#pragma once

#include <optional>

#include "api/session_api.h"
#include "client/session/caller.h"

namespace stria {

// The caller as the server sees him: with those of his groups that are believed. Nothing: uid or gid is not believed, so he is somebody
// else there, and must be asked for.
std::optional<Caller> AsBelieved(const BelievedCallers& believed, const Caller& who);

}  // namespace stria
