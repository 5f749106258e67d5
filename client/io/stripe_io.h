// The tools of readers and writers of stripes. Values of references: copy freely; the referents outlive their users.
#pragma once

#include "client/io/peers.h"
#include "common/exec/pool.h"
#include "stripe/codec.h"

namespace stria {

// CRCs and parity of up to this many bytes are computed on the executor's thread, more on the pool.
inline constexpr uint64_t kInlineComputeBytes = 1 * kMiB;

struct StripeIo {
  DataPeers& peers;
  CodecSet& codecs;
  Pool& pool;
};

}  // namespace stria
