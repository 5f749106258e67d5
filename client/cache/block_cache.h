// Blocks of stripe payload in memory: readahead, and small neighbourhoods of random reads. Stripes are immutable, so a cached
// block never goes stale; only its stripe may stop being referenced.
//
// A block is kBlockBytes of a stripe's payload (the last one shorter). The reader that adds blocks fills them; others wait for
// them. Blocks that are fetched together share memory (a column's bytes came in one piece), so they go together, too: otherwise
// each piece would stay for its last block, and the memory would be several times the limit. Beyond the limit the least
// recently used filled fetches are evicted. Executor's thread only.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <utility>
#include <vector>

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
  // Blocks of one fetch, from `first` on, of so many bytes each. REQUIRES: none of them is there. Counts the bytes at once.
  // The caller calls Filled or Failed for each.
  std::vector<BlockPtr> Add(const Key& first, const std::vector<uint64_t>& bytes);
  void Filled(const BlockPtr& block, BufferChain bytes);
  // Waiters see the error; the block leaves the cache, so that a later read tries again.
  void Failed(const Key& key, const BlockPtr& block, Error error);
  // A sequential reader has passed it: its fetch is the first to go when that is true of all of it.
  void Demote(const Key& key);
  void Clear();
  uint64_t bytes() const { return bytes_; }

 private:
  struct Fetch {
    std::vector<Key> keys;
    size_t passed = 0;  // of them
  };
  struct Entry {
    BlockPtr block;
    uint64_t bytes = 0;
    bool passed = false;
    std::list<Fetch>::iterator fetch;
  };
  void Evict();
  bool IsFilled(const Fetch& fetch) const;
  uint64_t limit_bytes_;
  uint64_t bytes_ = 0;
  std::map<Key, Entry> entries_;
  std::list<Fetch> lru_;  // most recently used first
};

}  // namespace stria
