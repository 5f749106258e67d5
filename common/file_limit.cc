#include "common/file_limit.h"

#include <sys/resource.h>

#include <algorithm>

namespace stria {

uint64_t RaiseFileLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

Result<FileBudget> DivideFiles(uint64_t limit, uint64_t stores, const std::string& program) {
  const uint64_t need = kOtherFiles + kMinConnections + kMinFilesPerStore * stores;
  if (limit < need) {
    return Error(FsError::kInval, program + " may have only " + std::to_string(limit) + " files open, and needs " +
                                      std::to_string(need) +
                                      ": raise the limit (LimitNOFILE= in its systemd unit, ulimit -Hn in a shell)");
  }
  FileBudget out;
  // Two thirds of the divisible rest, if the connections leave them.
  const uint64_t free = limit - kOtherFiles;
  out.per_store =
      std::clamp(std::min(free / 3 * 2, free - kMinConnections) / stores, kMinFilesPerStore, kMaxFilesPerStore);
  out.connections = free - out.per_store * stores;
  return out;
}

}  // namespace stria
