// The computing part of writing: payload cut into columns, parity, checksums. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/buffer.h"
#include "stripe/checksum.h"
#include "stripe/codec.h"
#include "stripe/types.h"

namespace stria {

// Cuts payload that begins at `payload_offset` of the stripe into its data columns, without copying; each
// column's part continues where its last one ended. `shape` has at least that payload.
std::vector<BufferChain> CutIntoColumns(const StripeShape& shape, uint64_t payload_offset,
                                        const BufferChain& payload);

// m parity columns over k data columns (of one group, positions [0, length)); shorter ones count as zeros.
// `sums`: nothing, or k + m that go on over the columns' bytes, which come from memory once for both.
std::vector<Buffer> EncodeParity(const ParityCodec& codec, const std::vector<BufferChain>& data, uint64_t length,
                                 std::span<ChecksumBuilder* const> sums = {});

// Parity and running checksums of one batch of rows. In: payload as it arrived; out: all columns of the stripe.
struct EncodeJob {
  StripeShape shape;
  CodecSet* codecs = nullptr;
  std::vector<BufferChain> columns;        // data columns in; parity columns are appended
  std::vector<ChecksumBuilder> checksums;  // one per column
  bool with_parity = true;

  void Run();
};

}  // namespace stria
