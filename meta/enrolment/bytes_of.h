// A verifier as bytes of a key.
#pragma once

#include <string_view>

#include "trust/join_token.h"

namespace stria {

inline std::string_view BytesOf(const JoinVerifier& v) { return {reinterpret_cast<const char*>(v.data()), v.size()}; }

}  // namespace stria
