// Blocks of stripe payload in memory: what was read ahead, and small neighbourhoods of random reads.
// Stripes are immutable, so a cached block is never stale; only its stripe may stop being referenced.
//
// A block is kBlockBytes of a stripe's payload (the last one shorter). Whoever adds a block fills it;
// others wait for it. Filled blocks are evicted, least recently used first, when the limit is passed.
// Executor's thread only.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <utility>

#include "common/buffer.h"
#include "common/error.h"
#include "common/exec/task.h"
#include "common/ids.h"

namespace stria {

class BlockCache {
 public:
  static constexpr uint64_t kBlockBytes = 1 * kMiB;

  struct Block {
    Event filled;  // set once, with either bytes or error
    BufferChain bytes;
    Error error;
  };
  using BlockPtr = std::shared_ptr<Block>;
  using Key = std::pair<StripeId, uint64_t>;  // stripe, number of the block in its payload

  explicit BlockCache(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  // nullptr if it is neither there nor on its way.
  BlockPtr Find(const Key& key);
  // REQUIRES: Find(key) == nullptr. Counts `bytes` at once. The caller calls Filled or Failed.
  BlockPtr Add(const Key& key, uint64_t bytes);
  void Filled(const BlockPtr& block, BufferChain bytes);
  // Waiters see the error; the block leaves the cache, so that a later read tries again.
  void Failed(const Key& key, const BlockPtr& block, Error error);
  // Makes it the first to go (a sequential reader has passed it).
  void Demote(const Key& key);
  void Clear();
  uint64_t bytes() const { return bytes_; }

 private:
  struct Entry {
    BlockPtr block;
    uint64_t bytes = 0;
    std::list<Key>::iterator lru;
  };
  void Evict();
  uint64_t limit_bytes_;
  uint64_t bytes_ = 0;
  std::map<Key, Entry> entries_;
  std::list<Key> lru_;  // most recently used first
};

}  // namespace stria
