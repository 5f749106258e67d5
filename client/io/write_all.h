// Writes payload of any length into as many stripes as it takes, around targets that fail.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "client/io/stripe_writer.h"

namespace stria {

// Where grants come from (StripePool, or MetaService::Allocate) and where unused ones go.
class GrantSource {
 public:
  virtual ~GrantSource() = default;
  // A stripe for up to `payload_bytes`; it may hold less (StripeCapacity) if it had to be narrower or shorter.
  // kTooFewDomains: there are too few disks just now.
  virtual Task<Result<StripeGrant>> Take(uint64_t payload_bytes, std::vector<TargetId> avoid) = 0;
  // Will not be committed.
  virtual void GiveBack(StripeId stripe) = 0;
  // A writer has found no space, and stripes that are given back may hold some: sends them now. Best effort.
  virtual void HurryGiveBack() {}
};

// Payload [payload_offset, + info.shape.payload_bytes) is in this stripe from its start.
struct WrittenPiece {
  uint64_t payload_offset = 0;
  StripeInfo info;
};

struct WriteAllOptions {
  int64_t timeout_ns = 60 * kSecond;
  int64_t place_timeout_ns = 60 * kSecond;  // of that, how long it waits for disks while there are too few
  size_t stripes_at_once = 2;  // in flight
  size_t max_avoid = 64;       // targets; the oldest are forgiven
  StripeWriterOptions writer;
};

// An error that says that bytes could not be stored because there was no place for them, for want of space or of disks.
inline bool FindsNoPlace(FsError e) {
  return e == FsError::kNoSpace || e == FsError::kTooFewDomains || e == FsError::kAllEmptied;
}

// Tries until all is written, an error says that no try can help, or timeout_ns have passed. On error all
// stripes it used are given back, in a hurry if there was no space. Ok: pieces in order, without gaps;
// durable, not committed.
// Errors: kNoSpace, kFenced ... of the source; kTooFewDomains after place_timeout_ns; kTimedOut with the last reason.
// `source` outlives the call.
Task<Result<std::vector<WrittenPiece>>> WriteAll(StripeIo io, GrantSource& source, Layout layout,
                                                 BufferChain payload, WriteAllOptions options = {});

}  // namespace stria
