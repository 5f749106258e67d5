#include "tools/cli/arguments.h"

#include <cstring>
#include <string_view>

#include "trust/join_token.h"

namespace stria::cli {

std::vector<std::string> TakeArguments(int argc, char** argv) {
  std::vector<std::string> words(argv, argv + argc);
  for (int i = 0; i < argc; ++i) {
    // Also after a "=".
    char* const secret = std::strstr(argv[i], kJoinTokenPrefix);
    if (secret != nullptr) std::memset(secret, 'x', std::strlen(secret));
  }
  return words;
}

}  // namespace stria::cli
