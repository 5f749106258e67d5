// Errors for people.
#pragma once

#include <string>

#include "common/error.h"

namespace stria {

// The message, or what can be said without one; never the name of a code.
std::string SentenceOf(const Error& e);

}  // namespace stria
