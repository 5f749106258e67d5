// How many files and sockets this process may have open, and how a daemon divides them: one that runs out of them
// while it serves takes its disks for broken, and its peers it for dead.
#pragma once

#include <cstdint>
#include <string>

#include "common/error.h"

namespace stria {

// Raises the soft limit to the hard one, and returns it.
uint64_t RaiseFileLimit();

struct FileBudget {
  uint64_t per_store = 0;    // files of each disk or database
  uint64_t connections = 0;  // of clients
};

inline constexpr uint64_t kOtherFiles = 96;  // logs, event loops, connections to others
inline constexpr uint64_t kMinFilesPerStore = 64;
inline constexpr uint64_t kMaxFilesPerStore = 768;  // more are of no use
inline constexpr uint64_t kMinConnections = 64;

// For `stores` (1 or more) disks and databases. kInval with a sentence if `limit` is not enough for them.
Result<FileBudget> DivideFiles(uint64_t limit, uint64_t stores, const std::string& program);

}  // namespace stria
