// Errors for people.
#pragma once

#include <string>
#include <string_view>

#include "common/error.h"

namespace stria {

// The message, or a sentence made from the code; never the name of a code.
std::string SentenceOf(const Error& e);

// "PROGRAM: SENTENCE" on stderr, where no terminal obeys it: servers, arguments and names have their say in it.
void SaySentence(std::string_view program, std::string_view sentence);

}  // namespace stria
