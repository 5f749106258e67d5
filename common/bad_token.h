// How the tokens for shards are refused.
#pragma once

#include <string>

#include "common/error.h"

namespace stria {

inline Error BadToken(const char* why) { return Error(FsError::kBadToken, std::string("the shard token ") + why); }

}  // namespace stria
