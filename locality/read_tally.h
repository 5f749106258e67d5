// Where bytes that were read came from. Counted by client/io's reader; printed as user.stria.io.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/error.h"

namespace stria {

struct ReadTally {
  uint64_t local_bytes = 0;          // from disks of the reader's own node
  uint64_t network_bytes = 0;        // from disks of other nodes
  uint64_t reconstructed_bytes = 0;  // decoded from those: their own disk could not give them
  uint64_t fetched_bytes() const { return local_bytes + network_bytes; }
  bool operator==(const ReadTally&) const = default;
};

// "local=N,network=N,reconstructed=N", bytes.
std::string ReadTallyText(const ReadTally& tally);
// The inverse; unknown keys are skipped. kCorrupt if one of the three is missing or no number.
Result<ReadTally> ParseReadTally(std::string_view text);

}  // namespace stria
