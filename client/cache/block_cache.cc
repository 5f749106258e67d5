#include "client/cache/block_cache.h"

#include <algorithm>
#include <iterator>

namespace stria {

BlockCache::BlockPtr BlockCache::Find(const Key& key) {
  auto it = entries_.find(key);
  if (it == entries_.end()) return nullptr;
  Fetch& fetch = *it->second.fetch;
  if (fetch.passed == fetch.keys.size()) {  // a reader comes by once more
    for (const Key& k : fetch.keys) entries_.at(k).passed = false;
    fetch.passed = 0;
  }
  lru_.splice(lru_.begin(), lru_, it->second.fetch);
  return it->second.block;
}

std::vector<BlockCache::BlockPtr> BlockCache::Add(const Key& first, const std::vector<uint64_t>& bytes) {
  std::vector<BlockPtr> blocks;
  if (bytes.empty()) return blocks;
  lru_.emplace_front();
  for (size_t i = 0; i < bytes.size(); ++i) {
    const Key key{first.first, first.second + i};
    CHECK(!entries_.contains(key));
    blocks.push_back(std::make_shared<Block>());
    lru_.front().keys.push_back(key);
    entries_.emplace(key, Entry{blocks.back(), bytes[i], false, lru_.begin()});
    bytes_ += bytes[i];
  }
  Evict();
  return blocks;
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
  Fetch& fetch = *it->second.fetch;
  bytes_ -= it->second.bytes;
  fetch.passed -= it->second.passed;
  std::erase(fetch.keys, key);
  if (fetch.keys.empty()) lru_.erase(it->second.fetch);
  entries_.erase(it);
}

void BlockCache::Demote(const Key& key) {
  auto it = entries_.find(key);
  if (it == entries_.end()) return;
  Fetch& fetch = *it->second.fetch;
  if (!std::exchange(it->second.passed, true)) ++fetch.passed;
  if (fetch.passed == fetch.keys.size()) lru_.splice(lru_.end(), lru_, it->second.fetch);
}

void BlockCache::Clear() {
  entries_.clear();
  lru_.clear();
  bytes_ = 0;
}

bool BlockCache::IsFilled(const Fetch& fetch) const {
  return std::ranges::all_of(fetch.keys, [this](const Key& k) { return entries_.at(k).block->filled.is_set(); });
}

void BlockCache::Evict() {
  // The task that fills a fetch holds it while it is on its way; skipping such fetches keeps the bound to filled bytes plus
  // those in flight.
  auto it = lru_.end();
  while (bytes_ > limit_bytes_ && it != lru_.begin()) {
    --it;
    if (!IsFilled(*it)) continue;
    for (const Key& key : it->keys) {
      bytes_ -= entries_.at(key).bytes;
      entries_.erase(key);
    }
    it = lru_.erase(it);
  }
}

}  // namespace stria
