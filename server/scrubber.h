// Reads every sealed shard of a disk at a set pace and checks it: against the metadata, which knows the shards of each disk
// (finds lost or stale records), and against its checksums (finds flipped bits). Stripes whose first parity shard is here are
// read as a whole, at the same pace, and their parity is compared with their data. Faults are reported; repair makes the shards
// again from parity.
//
// A pass begins by itself from time to time, and when one was ordered. For the executor's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "api/admin_api.h"
#include "common/exec/task.h"
#include "server/background.h"
#include "server/parity_check.h"
#include "server/shard_store.h"

namespace stria {

struct ScrubOptions {
  uint64_t bytes_per_s = 20 * kMiB;            // per disk
  int64_t pause_ns = 7 * 24 * 3600 * kSecond;  // between two passes
  int64_t first_after_ns = 3600 * kSecond;     // of the start
};

// The scrubber's questions to others. Any may be null: then that is not checked.
struct ScrubHooks {
  // The metadata's list of all shards in (after, last].
  std::function<Task<Result<CompareShardsReply>>(ShardId after, ShardId last, std::vector<HeldShard> held)> compare;
  // Reports one that should be there and is not.
  std::function<Task<Result<void>>(ShardId)> lost;
  // Stripes whose first parity shard is in (after, last] here.
  std::function<Task<Result<ListParityReply>>(ShardId after, ShardId last)> list_parity;
  // Compares one; reports columns that are not as they were written.
  std::function<Task<Result<ParityCheckResult>>(StripeGrant)> check_parity;
  // That reading goes through. Outlives the scrubber.
  BackgroundGate* gate = nullptr;
};

class Scrubber {
 public:
  // `store` outlives the scrubber.
  Scrubber(ShardStore* store, ScrubOptions options, ScrubHooks hooks = {})
      : store_(store), options_(options), hooks_(std::move(hooks)) {}

  // Passes for ever.
  Task<void> Run();
  // Compares only, and reads nothing. An error if the metadata cannot be asked.
  Task<Result<void>> CompareAll();
  // One pass.
  Task<Result<void>> Pass();
  // The metadata server's order. `start`: this disk is to begin a pass for it, unless it has begun one.
  void Obey(const ScrubOrder& order, bool start);
  // Bytes a second, unless the metadata server wants another rate.
  void SetRate(uint64_t bytes_per_s) { options_.bytes_per_s = bytes_per_s; }
  // Without its target.
  const ScrubProgress& progress() const { return progress_; }

 private:
  Task<void> AwaitTurn(int64_t until_ns);
  Task<void> Pace(uint64_t bytes);
  Task<Result<void>> Verify(const StoredShard& shard);
  Task<Result<void>> Compare(ShardId after, ShardId last, const std::vector<StoredShard>& page);
  Task<Result<void>> CompareParity(ShardId after, ShardId last);
  uint64_t rate() const { return bytes_per_s_ > 0 ? bytes_per_s_ : options_.bytes_per_s; }

  ShardStore* const store_;
  ScrubOptions options_;
  const ScrubHooks hooks_;
  ScrubProgress progress_;
  bool paused_ = false;
  uint64_t bytes_per_s_ = 0;
  int64_t ordered_s_ = 0;  // the newest order to begin a pass
  Event changed_;
};

}  // namespace stria
