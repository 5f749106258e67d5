#include "client/cache/block_cache.h"

#include <iterator>

namespace stria {

BlockCache::BlockPtr BlockCache::Find(const Key& key) {
  auto it = entries_.find(key);
  if (it == entries_.end()) return nullptr;
  lru_.splice(lru_.begin(), lru_, it->second.lru);
  return it->second.block;
}

BlockCache::BlockPtr BlockCache::Add(const Key& key, uint64_t bytes) {
  CHECK(!entries_.contains(key));
  lru_.push_front(key);
  auto block = std::make_shared<Block>();
  entries_.emplace(key, Entry{block, bytes, lru_.begin()});
  bytes_ += bytes;
  Evict();
  return block;
}

void BlockCache::Filled(const BlockPtr& block, BufferChain bytes) {
  block->bytes = std::move(bytes);
  block->filled.Set();
}

void BlockCache::Failed(const Key& key, const BlockPtr& block, Error error) {
  block->error = std::move(error);
  block->filled.Set();
  auto it = entries_.find(key);
  if (it == entries_.end() || it->second.block != block) return;
  bytes_ -= it->second.bytes;
  lru_.erase(it->second.lru);
  entries_.erase(it);
}

void BlockCache::Demote(const Key& key) {
  auto it = entries_.find(key);
  if (it != entries_.end()) lru_.splice(lru_.end(), lru_, it->second.lru);
}

void BlockCache::Clear() {
  entries_.clear();
  lru_.clear();
  bytes_ = 0;
}

void BlockCache::Evict() {
  // Blocks on their way are held by whoever fills them; skipping them keeps the bound to what is
  // filled plus what is in flight.
  auto it = lru_.end();
  while (bytes_ > limit_bytes_ && it != lru_.begin()) {
    --it;
    auto entry = entries_.find(*it);
    if (!entry->second.block->filled.is_set()) continue;
    bytes_ -= entry->second.bytes;
    entries_.erase(entry);
    it = lru_.erase(it);
  }
}

}  // namespace stria
