// Changes that nobody has synced yet, and the other metadata servers: how much of what the primary has answered may be on its disk alone.
// If it is lost with its PC, clients that live do such changes again; those of a client that is lost as well are gone. So there is a
// bound, and, if the settings say so, nothing of it is answered at all before the others have received it.
//
// For the executor's thread.
#pragma once

#include <cstdint>

#include "common/exec/task.h"
#include "common/units.h"
#include "meta/replica/replica_primary.h"

namespace stria {

inline constexpr int64_t kMaxUnreceivedNs = 250 * kMillisecond;
inline constexpr uint64_t kMaxUnreceivedBytes = 4 * kMiB;

// A call has written something when the log is longer at its end; others' changes count as well, which it may tell of.
class PlainChanges {
 public:
  virtual ~PlainChanges() = default;
  virtual CommitSeq Written() const = 0;
  // Returns when what has been written may be answered. Also when the primary is deposed: the gate says that.
  virtual Task<void> Settle() = 0;
};

class ShippedChanges final : public PlainChanges {
 public:
  // `received`: wait until the others have them. `primary` outlives it, and its tasks.
  ShippedChanges(ReplicaPrimary* primary, bool received) : primary_(primary), received_(received) {}

  CommitSeq Written() const override { return primary_->store().last().seq; }
  Task<void> Settle() override {
    const CommitSeq upto = Written();
    while (!primary_->deposed() && !MayAnswer(upto)) co_await primary_->WaitReceived();
  }

 private:
  bool MayAnswer(CommitSeq upto) const {
    if (primary_->received() >= upto) return true;
    return !received_ && primary_->unreceived_ns() < kMaxUnreceivedNs && primary_->unreceived_bytes() < kMaxUnreceivedBytes;
  }

  ReplicaPrimary* const primary_;
  const bool received_;
};

}  // namespace stria
