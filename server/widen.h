// Laying a stripe out over more columns: it was written narrow because nodes were down, and becomes as wide as its layout asks
// for.
//
//   1. Windows of its payload are read from its data columns, checked block by block, put into the columns of the new
//      shape, encoded, and written to the disks of the new columns, this node's or others'.
//   2. When all of a source has been read its checksums must have the recorded digest; else it is named in the result.
//   3. All new columns are sealed, and must have the digests computed here. Only then does the result say kOk. With the registers
//      of the payload (stripe/relaid.h) in it the metadata server compares them with what was recorded.
//
// The old columns are not touched: the metadata takes the new ones in their place, or none. Memory: about three windows, of 8
// MiB or a row of units. Nothing is reconstructed: only a stripe that is whole is laid out anew.
#pragma once

#include <memory>

#include "api/data_api.h"
#include "api/meta_api.h"
#include "common/exec/pool.h"
#include "stripe/codec.h"

namespace stria {

inline constexpr uint64_t kWidenWindowBytes = 8 * kMiB;  // of payload, if a row of units is not more

struct WidenEnv {
  std::shared_ptr<const ClusterMap> map;  // where the columns are
  DataConnector* connector = nullptr;     // these outlive the task
  CodecSet* codecs = nullptr;
  Pool* cpu_pool = nullptr;
};

// Never fails: errors are in the result; the metadata server collects shards that were written.
Task<WidenResult> RunWiden(WidenWork work, WidenEnv env);

}  // namespace stria
