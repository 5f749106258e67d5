// Whether a call failed because no metadata server answered in time.
#pragma once

#include "common/error.h"

namespace stria {

inline bool ServerSilent(FsError e) { return e == FsError::kTimedOut || e == FsError::kUnavailable; }

}  // namespace stria
