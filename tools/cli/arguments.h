// The words of the command line. What is secret in them is hidden from those who list processes.
#pragma once

#include <string>
#include <vector>

namespace stria::cli {

// Copies of all words. Tokens to join with are written over where they were, so that /proc and ps do not show them any more.
std::vector<std::string> TakeArguments(int argc, char** argv);

}  // namespace stria::cli
