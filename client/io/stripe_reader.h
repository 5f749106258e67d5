// Reads payload bytes of stripes, although up to m columns per group are missing, slow or wrong.
//
// 1. The ranges asked for become block-aligned ranges of columns; columns whose disk is known bad are
//    left out at once and k others of their group are asked instead (what is read anyway is used).
// 2. One vector request per server and kMaxPayloadBytes, all at once; each block's CRC is verified.
// 3. A column that fails (error, missing, wrong bytes) or takes longer than usual is reconstructed for just
//    the asked range; a slow one may still win the race.
// 4. Bytes go from network slices (or the decoder) straight into the caller's spans: one copy; or the slices
//    themselves are given, uncopied.
//
// Errors: kNoSuchShard or kTokenExpired when bytes could not be had and a column said so: refetch the extents and read again
// before that counts as loss. kUnavailable if too many columns' servers did not answer, for patience_ns if they may be back
// soon (the map does not call them down); kIo, with stripe and range, when more than m columns are gone or wrong.
//
// Executor's thread only. Destroying a read cancels it; spans and chains must stay valid until it ends or is
// destroyed, and hold nothing useful unless it is ok. Bounds: one request in flight per column and round;
// DataPeers bounds the bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "api/types.h"
#include "client/io/stripe_io.h"
#include "common/buffer.h"
#include "common/exec/task.h"
#include "locality/read_tally.h"

namespace stria {

// A column that could not be used, for MetaService::ReportShard.
struct BadShard {
  StripeId stripe;
  ColumnIndex column;
  ShardId shard;
  TargetId target;
  FsError reason = FsError::kChecksum;  // kChecksum, kNoSuchShard, kDiskFailed, kUnavailable
  std::string token;  // with which it was read
};

// A range of one stripe's payload, which has it, and where its bytes go: to `out`, or, if `chain` is set,
// `length` bytes become the chain's content.
struct StripeRange {
  SharedGrant stripe;  // with read tokens
  uint64_t payload_offset = 0;
  std::span<uint8_t> out;
  BufferChain* chain = nullptr;
  uint64_t length = 0;
  Tallies tally = {};   // the read's bytes are added to these, also after a failure
  bool patient = true;  // StripeReaderOptions::patience_ns; else unreadable ranges fail at once
  uint64_t bytes() const { return chain ? length : out.size(); }
};

struct StripeReaderStats {
  uint64_t read_bytes = 0;  // asked for
  ReadTally tally;          // of all reads: fetched from servers, and the decoded part of the requested bytes
  uint64_t hedged = 0;      // races started
};

struct StripeReaderOptions {
  int64_t patience_ns = 20 * kSecond;  // with servers that do not answer and are not known to be down
};

class StripeReader {
 public:
  // `on_bad` is called at most once per column and try; it must not destroy the reader.
  StripeReader(StripeIo io, std::function<void(const BadShard&)> on_bad, StripeReaderOptions options = {})
      : io_(io), on_bad_(std::move(on_bad)), options_(options) {}

  Task<Result<void>> Read(SharedGrant stripe, uint64_t payload_offset, std::span<uint8_t> out,
                          Tallies tally = {});
  // The bytes as they came from the network. The chain may hold more memory than it shows. `patient`: as StripeRange.
  Task<Result<BufferChain>> ReadShared(SharedGrant stripe, uint64_t payload_offset, uint64_t length,
                                       Tallies tally = {}, bool patient = true);
  // All at once, requests to the same server shared; results in the order of `ranges`.
  Task<std::vector<Result<void>>> ReadMany(std::vector<StripeRange> ranges);

  const StripeReaderStats& stats() const { return stats_; }

 private:
  StripeIo io_;
  std::function<void(const BadShard&)> on_bad_;
  StripeReaderOptions options_;
  StripeReaderStats stats_;
};

}  // namespace stria
