// Geometry of one stripe: which byte of the payload is where in which shard, and how long each shard
// is. Pure arithmetic on StripeShape (types.h); nothing here allocates but the vectors returned.
// All offsets and lengths are bytes. Safe from any thread.
//
// Spread (D = groups*k data columns, unit u):    Gathered (one unit per column, lengths differ):
//
//            col 0     col 1     col 2   parity            col 0     col 1     col 2   parity
//   row 0   [0,u)     [u,2u)    [2u,3u)    P0              [0,a)    [a,a+b)  [a+b,..)    P
//   row 1   [3u,4u)   [4u,..              P1              .         .         zeros      .
//
// Coding is by position: byte p of a parity shard covers byte p of every data shard of its group. A
// data shard that is shorter than p+1 counts as zero there, so a parity shard is as long as the
// longest data shard of its group, and zeros are never stored or sent. A column of length 0 has no
// shard at all: a short payload uses few columns.
//
// Functions other than the Validate ones REQUIRE a shape (stripe, layout) that validates; offsets out
// of the documented range are a programmer's error (CHECK).
#pragma once

#include <cstdint>
#include <vector>

#include "common/error.h"
#include "common/ids.h"
#include "stripe/types.h"

namespace stria {

// A run of payload bytes inside one data shard.
struct ShardRange {
  ColumnIndex column;
  uint64_t shard_offset = 0;
  uint64_t length = 0;
  uint64_t payload_offset = 0;
  bool operator==(const ShardRange&) const = default;
};

struct Location {
  ColumnIndex column;
  uint64_t shard_offset = 0;
  uint64_t run_bytes = 0;  // payload bytes from here on that follow each other in the same shard; > 0
  bool operator==(const Location&) const = default;
};

// The shape of a stripe of `layout` that holds `payload_bytes`, in [1, layout.stripe_bytes]. Columns
// are filled from column 0: rows of units if spread; whole columns of stripe_bytes / D if gathered.
StripeShape ShapeFor(const Layout& layout, uint64_t payload_bytes);

// `layout` for a stripe that is to hold no more than `payload_bytes` (0: a full one): a short one uses few data
// columns, with full parity. Columns of a gathered one fill one after another: they keep their length.
Layout LayoutForPayload(Layout layout, uint64_t payload_bytes);

// Every invariant of a shape, for decoders of untrusted bytes: counts and codec agree and are within
// the limits of types.h, unit_bytes is a multiple of 4 KiB, 0 < payload_bytes <= kMaxStripeBytes, and
// gathered columns add up to it. kCorrupt with a sentence otherwise.
Error ValidateShape(const StripeShape& shape);

// ValidateShape, and: one Column per column, with the length of the shape; a shard and a target if and only if that is not 0,
// no shard twice.
Error ValidateStripe(const StripeInfo& info);

// The codec that a group of k data and m parity columns is written with.
Codec DefaultCodec(uint32_t k, uint32_t m);
// True if `codec` can code (k, m).
bool CodecFits(Codec codec, uint32_t k, uint32_t m);

inline bool IsParity(const StripeShape& shape, ColumnIndex column) {
  return column.v >= shape.data_columns();
}
// In [0, groups).
uint32_t GroupOf(const StripeShape& shape, ColumnIndex column);
// The column's number inside its group as ParityCodec counts: data 0..k-1, parity k..k+m-1.
uint32_t IndexInGroup(const StripeShape& shape, ColumnIndex column);
// The inverse of the two.
ColumnIndex ColumnOf(const StripeShape& shape, uint32_t group, uint32_t index_in_group);

// Length of the column's shard, data or parity.
uint64_t ColumnBytes(const StripeShape& shape, ColumnIndex column);
// Length of the group's longest data column, which is the length of its parity columns.
uint64_t GroupBytes(const StripeShape& shape, uint32_t group);
// Payload bytes of a full row. Gathered stripes are one row.
uint64_t RowBytes(const StripeShape& shape);

// payload_offset < shape.payload_bytes.
Location Locate(const StripeShape& shape, uint64_t payload_offset);
// The inverse, for data columns; shard_offset < ColumnBytes(shape, column).
uint64_t PayloadOffset(const StripeShape& shape, ColumnIndex column, uint64_t shard_offset);

// The shard ranges that make up payload [payload_offset, payload_offset + length), in payload order,
// neighbours merged where both the payload and the shard continue. The range lies in the payload.
// In every stripe the ranges of one column are one contiguous run of its shard.
std::vector<ShardRange> MapRange(const StripeShape& shape, uint64_t payload_offset, uint64_t length);

}  // namespace stria
