// Keys of clusters, as the command line makes them.
#pragma once

#include <string>

#include "common/error.h"

namespace stria::cli {

// A file with a new key, which only its owner may read, and on a machine with the group stria (packages make it) that. kExist if the file is there.
Result<void> WriteNewKey(const std::string& path);

}  // namespace stria::cli
