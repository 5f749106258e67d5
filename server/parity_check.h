// Does the parity of a stripe fit its data? Reads all its columns, checked block by block, computes the parity again and
// compares. That finds what no checksum of a shard finds: columns that are each whole, but not of one stripe.
//
// The digests in the stripe record tell which column is wrong, if one is: then repair makes it again. If all columns are as
// written, the stripe was written wrong: which bytes are right cannot be known, and it is only reported.
//
// Memory: a window of all columns of a group and its parity, at most 2 * 8 MiB.
#pragma once

#include <cstdint>
#include <vector>

#include "api/meta_api.h"
#include "common/exec/pool.h"
#include "server/column_source.h"
#include "stripe/codec.h"

namespace stria {

inline constexpr uint64_t kParityWindowBytes = 8 * kMiB;

struct ParityCheckEnv {
  std::shared_ptr<const ClusterMap> map;
  DataConnector* connector = nullptr;  // these outlive the task
  CodecSet* codecs = nullptr;
  Pool* cpu_pool = nullptr;
};
struct ParityCheckResult {
  bool fits = true;              // meaningless if some columns are wrong
  std::vector<uint16_t> wrong;   // columns that differ from their digests; ascending
  uint64_t bytes_read = 0;
};
// REQUIRES: the grant has a read token for each column. Errors: kBadRequest (malformed); the first of a column that
// is out of reach, then nothing is known.
Task<Result<ParityCheckResult>> CheckParity(StripeGrant stripe, ParityCheckEnv env);

}  // namespace stria
