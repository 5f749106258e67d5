// Who calls in the workloads.
#pragma once

#include "client/session/caller.h"

namespace stria {

inline const Caller kRoot;

}  // namespace stria
