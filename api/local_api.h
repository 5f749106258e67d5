// Shards without the network: the service of a data server to readers on its own machine, besides DataService.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/types.h"
#include "common/error.h"
#include "common/exec/task.h"
#include "common/io/unique_fd.h"

namespace stria {

inline constexpr size_t kMaxLocalCrcs = 16'384;  // blocks of the largest shard that is given out

// A sealed shard that is a file of its own. The descriptor is read-only, and stays readable after the
// shard was deleted: keep it for a short while only.
struct LocalShard {
  std::shared_ptr<const UniqueFd> file;
  uint64_t length = 0;
  std::vector<uint32_t> crcs;  // of all its blocks
};

class LocalShards {
 public:
  virtual ~LocalShards() = default;
  // `token` as for a read. kNotSupported: it can only be had by reading (packed into a segment, or the disk
  // has no files); kNoSuchShard and token errors as for a read.
  virtual Task<Result<LocalShard>> OpenLocal(ShardId shard, TargetId target, std::string token) = 0;
};

}  // namespace stria
