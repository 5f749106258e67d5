// Errors for people.
#pragma once

#include <string>

#include "common/error.h"

namespace stria {

// The message, or a sentence made from the code; never the name of a code.
std::string SentenceOf(const Error& e);

}  // namespace stria
