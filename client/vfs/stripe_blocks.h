// Room: bytes of stripes, in memory and on their way. A sequential reader goes through blocks (client/cache/block_cache.h),
// fetched ahead of it; any other gets just the range that it asks for.
//
// Owns: the block cache, what is being fetched into it, and what is to be fetched ahead.
//
// Invariants: blocks are of stripes, which never change, so none is ever stale. What is on its way and to be fetched ahead
// takes no more than half of the cache, and a little for each reader that has nothing ahead of it.
//
// Called by: the read path. Calls: StripeReader. Knows no other room, and no inode.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "client/cache/block_cache.h"
#include "client/io/stripe_reader.h"
#include "client/session/read_tracker.h"
#include "client/vfs/io_counters.h"
#include "common/buffer.h"
#include "common/exec/task.h"
#include "locality/read_tally.h"

namespace stria {

class StripeBlocks {
 public:
  static constexpr uint64_t kBlock = BlockCache::kBlockBytes;
  static constexpr uint64_t kLeastAheadBytes = 1 * kMiB;

  struct How {
    bool via_cache = false;  // what is not there is fetched in whole blocks
    bool passes = false;     // the reader does not come back: what it has passed may go first
    bool patient = true;     // with data servers that may be back soon
  };

  // `begin_read`: MetaSession::BeginRead. All of them outlive it; `scope` is cancelled before it goes.
  StripeBlocks(uint64_t cache_bytes, StripeReader& reader, std::function<ReadGuard()> begin_read, IoCounters& counters,
               TaskScope& scope)
      : most_on_its_way_(cache_bytes / 2), blocks_(cache_bytes), reader_(reader), begin_read_(std::move(begin_read)),
        counters_(counters), scope_(scope) {}
  StripeBlocks(const StripeBlocks&) = delete;
  StripeBlocks& operator=(const StripeBlocks&) = delete;

  // Whether a sequential reader will want so much of the block that it is worth to fetch all of it. Files that were written
  // here and there have short pieces of many stripes: of those just the bytes asked for are read.
  // `run`: bytes of the stripe from there that it will want. `asked`: of the run, now; who asks for little at a time would
  // otherwise ask often.
  static bool WorthABlock(const StripeShape& shape, uint64_t stripe_offset, uint64_t run, uint64_t asked);

  Task<Result<BufferChain>> Read(SharedGrant grant, uint64_t stripe_offset, uint64_t length, How how,
                                 Tallies tally);
  // Begins to fetch the blocks in which the range lies, as far as they are not there.
  void FetchAhead(const SharedGrant& grant, uint64_t stripe_offset, uint64_t stripe_end,
                  const Tallies& tally);
  void Clear() { blocks_.Clear(); }

  // How much may be fetched ahead of one more reader. Many readers together would otherwise have several times the cache on
  // its way. Who has nothing ahead of it gets a little in any case: others may wait for servers that are gone.
  uint64_t RoomAhead(bool nothing_ahead) const;
  // So many bytes are to be fetched ahead; false: too many fetches are. They end as FetchAhead begins, or comes to nothing.
  bool BeginAhead(uint64_t bytes);
  void EndAhead(uint64_t bytes);

 private:
  static constexpr int kMaxAhead = 64;  // readers, of which a fetch ahead has not begun

  void Fetch(const SharedGrant& grant, uint64_t first_block, uint64_t end_block, Tallies tally);
  Task<void> Fill(SharedGrant grant, uint64_t first_block, std::vector<BlockCache::BlockPtr> blocks,
                  Tallies tally);

  const uint64_t most_on_its_way_;
  BlockCache blocks_;
  StripeReader& reader_;
  const std::function<ReadGuard()> begin_read_;
  IoCounters& counters_;  // of these fetched_bytes and cache_hit_bytes
  TaskScope& scope_;
  uint64_t fetching_bytes_ = 0;
  uint64_t ahead_bytes_ = 0;  // to be fetched ahead, and not begun
  int ahead_ = 0;
};

}  // namespace stria
