// Planning and finishing a read of one stripe, with as few bytes fetched as the columns at hand allow.
// Pure: no I/O happens here. A caller
//
//   1. plans:     PlanRead(info, range, options) says what to fetch from which shard;
//   2. fetches plan.fetch (all ranges at once) and checks their checksums;
//   3. if a column is missing, slow or wrong: adds it to options.unavailable, plans again, and fetches
//      only MissingRanges(plan.fetch, what it has);
//   4. assembles: AssembleRead copies and decodes the fetched bytes into the reply.
//
// A byte whose column is unavailable is decoded from the k columns of its group that cost least: those that end before it count
// as zeros and are free, then those that are read anyway, then options.cost, then data before parity. Only the wanted positions
// are decoded. With Codec::kCopy any copy is read in place of another. Bytes with fewer than k columns left are listed as lost,
// exactly these; the rest can still be served.
//
// REQUIRES a StripeInfo that ValidateStripe accepts. Offsets and lengths are bytes. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/error.h"
#include "common/ids.h"
#include "stripe/codec.h"
#include "stripe/types.h"

namespace stria {

// Bytes of one shard.
struct FetchRange {
  ColumnIndex column;
  uint64_t shard_offset = 0;
  uint64_t length = 0;
  uint64_t end() const { return shard_offset + length; }
  bool operator==(const FetchRange&) const = default;
};

struct ByteRange {
  uint64_t offset = 0;
  uint64_t length = 0;
  uint64_t end() const { return offset + length; }
  bool operator==(const ByteRange&) const = default;
};

struct ReadOptions {
  std::vector<ColumnIndex> unavailable;  // in any order, repeats allowed
  // Per column, lower is better: the cost of reading it (0 for a local disk, say). Empty: all alike.
  std::vector<uint32_t> cost;
  bool whole_blocks = true;  // fetch whole checksum blocks, for callers that check checksums
};

// Bytes of the reply that a shard has as they are.
struct DirectRange {
  ColumnIndex column;
  uint64_t shard_offset = 0;
  uint64_t length = 0;
  uint64_t out_offset = 0;  // in the reply
  bool operator==(const DirectRange&) const = default;
};

struct DecodeSource {
  ColumnIndex column;
  bool zeros = false;  // ends before this range: nothing is fetched
  bool operator==(const DecodeSource&) const = default;
};

// Positions [shard_offset, shard_offset + length) of the columns `wanted`, computed from k others.
struct DecodeGroup {
  uint32_t group = 0;
  uint64_t shard_offset = 0;
  uint64_t length = 0;
  std::vector<DecodeSource> sources;  // k, ascending
  std::vector<ColumnIndex> wanted;    // 1..m, ascending
  bool operator==(const DecodeGroup&) const = default;
};

struct ReadPlan {
  StripeId stripe;
  StripeShape shape;
  std::optional<ColumnIndex> column;  // if set, the range is of this column's shard, else of the payload
  uint64_t offset = 0;
  uint64_t length = 0;
  std::vector<DirectRange> direct;  // by out_offset
  std::vector<DecodeGroup> decode;  // by group, position
  std::vector<FetchRange> fetch;    // by column, offset; disjoint, never touching
  std::vector<ByteRange> lost;      // in the same terms as offset; ascending, never touching
  uint64_t fetch_bytes() const;
};

// Plans payload [offset, offset + length). kCorrupt if the stripe does not have it. A plan may have lost
// ranges, see LostBytes.
Result<ReadPlan> PlanRead(const StripeInfo& info, uint64_t offset, uint64_t length,
                          const ReadOptions& options);

// Plans bytes of one column's shard, data or parity: as it is if the column is available, else decoded.
// For rebuilds and scrubs.
Result<ReadPlan> PlanColumnRead(const StripeInfo& info, ColumnIndex column, uint64_t shard_offset,
                                uint64_t length, const ReadOptions& options);

// kIo, naming the stripe and its lost ranges, if the plan has any.
Error LostBytes(const ReadPlan& plan);

// Sorted by column and offset; touching and overlapping ranges are joined.
std::vector<FetchRange> MergeRanges(std::vector<FetchRange> ranges);
// Each range grown to whole checksum blocks of its shard (the last block may be short), then merged.
std::vector<FetchRange> AlignToBlocks(const StripeShape& shape, std::vector<FetchRange> ranges);
// The parts of `need` that are not in `have`, merged.
std::vector<FetchRange> MissingRanges(std::vector<FetchRange> need, std::vector<FetchRange> have);

// Bytes that have been fetched from a column's shard.
struct FetchedBytes {
  ColumnIndex column;
  uint64_t shard_offset = 0;
  std::span<const uint8_t> bytes;
};

// Fills out[i] with byte plan.offset + i. `fetched` covers plan.fetch, in pieces of any number and order
// (more than that is ignored). A piece may lie in `out` itself at the place where its bytes belong: they
// are not copied then. Lost ranges of `out` are left alone. REQUIRES out.size() == plan.length. kIo if
// bytes that the plan needs were not fetched; `out` is undefined then.
// Takes time in proportion to the bytes: made for a pool thread.
Error AssembleRead(const ReadPlan& plan, std::span<const FetchedBytes> fetched, std::span<uint8_t> out,
                   CodecSet* codecs);

}  // namespace stria
