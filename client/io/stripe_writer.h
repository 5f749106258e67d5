// Writes one stripe: streams data and parity to all columns at once, seals them, compares what the
// servers made durable with its own length and digest.
//
// Append     takes payload; whole batches of rows leave as they fill, pipelined, bounded in flight.
// Finish     sends the rest, seals every column; the StripeInfo to commit: every column durable, full m.
//
// Payload is never copied: slices of the caller's Buffers go into messages; only parity is new memory. A
// column whose bytes fit one request is written and sealed in one round trip. Columns that stay empty
// lose their shard. Gathered stripes send their parity at the end.
//
// A request that fails in a retryable way is repeated until retry_ns after its first try. Then the stripe fails and
// failed_targets() says where: the same bytes go into another stripe that avoids them. It fails at once when one of its nodes
// is found lost (common/silence.h). A stripe with less than full m is never returned. kTokenExpired: ask for a fresh stripe; no
// target is to blame.
//
// Executor's thread only. Destroying a writer cancels it; shards that were written are garbage, collected
// when the grant is given back or the session ends.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "api/types.h"
#include "client/io/stripe_io.h"
#include "common/buffer.h"
#include "common/exec/task.h"

namespace stria {

struct StripeWriterOptions {
  int64_t inflight_bytes = 16 * kMiB;  // of one stripe, payload and parity
  int64_t retry_ns = 3 * kSecond;      // how long after the first try of a request it is repeated
  uint64_t seed = 1;                   // of the jitter
  // Gathered stripes only: the length of each data column (at most as many as the grant has; none is 0). The payload is their
  // sum. Empty: columns fill up one after another.
  std::vector<uint64_t> columns = {};
};

// Payload that a stripe (as allocated) can take: the columns are as long as in a full stripe of the layout, also
// if there are fewer of them, or as long as the grant says for want of space.
uint64_t StripeCapacity(const Layout& layout, const StripeGrant& grant);

class StripeWriter {
 public:
  // `grant` as from Allocate: every column has shard, target and a token to write; payload_bytes is 0.
  StripeWriter(StripeIo io, StripeGrant grant, const Layout& layout, StripeWriterOptions options = {});
  ~StripeWriter();
  StripeWriter(const StripeWriter&) = delete;
  StripeWriter& operator=(const StripeWriter&) = delete;

  uint64_t capacity_bytes() const;
  uint64_t appended_bytes() const;
  // Waits while too much is in flight. An error means the stripe has failed; Finish then tells the same
  // error and completes failed_targets(). REQUIRES: it fits.
  Task<Result<void>> Append(BufferChain payload);
  // Once, after at least one byte. Durable on return if ok.
  Task<Result<StripeInfo>> Finish();
  // After an error of Finish: the targets that failed, ascending; empty if it was not their fault.
  const std::vector<TargetId>& failed_targets() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The outcome of a stripe written in one go.
struct StripeWritten {
  Error error;  // ok: `info` is to be committed
  StripeInfo info;
  std::vector<TargetId> failed;
};
Task<StripeWritten> WriteWholeStripe(StripeIo io, StripeGrant grant, Layout layout, BufferChain payload,
                                     StripeWriterOptions options = {});

}  // namespace stria
