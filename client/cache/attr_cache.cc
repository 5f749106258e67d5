#include "client/cache/attr_cache.h"

#include <algorithm>

namespace stria {

Attr AttrCache::Remember(const Attr& attr, uint64_t generation) {
  auto [it, fresh] = nodes_.try_emplace(attr.ino);
  Node& node = it->second;
  if (fresh) {
    lru_.push_front(attr.ino);
    node.lru = lru_.begin();
    node.attr = attr;
  } else {
    lru_.splice(lru_.begin(), lru_, node.lru);
    if (attr.version >= node.attr.version) node.attr = attr;
  }
  node.generation = generation;
  const Attr kept = node.attr;
  while (nodes_.size() > max_nodes_) {
    nodes_.erase(lru_.back());
    lru_.pop_back();
  }
  return kept;
}

std::optional<Attr> AttrCache::Find(InodeId ino, uint64_t generation) {
  const auto it = nodes_.find(ino);
  if (it == nodes_.end() || it->second.generation != generation) return std::nullopt;
  lru_.splice(lru_.begin(), lru_, it->second.lru);
  return it->second.attr;
}

std::optional<Attr> AttrCache::LastKnown(InodeId ino, uint64_t generation) const {
  const auto it = nodes_.find(ino);
  if (it == nodes_.end() || it->second.generation != generation) return std::nullopt;
  return it->second.attr;
}

void AttrCache::Forget(InodeId ino) {
  const auto it = nodes_.find(ino);
  if (it == nodes_.end()) return;
  lru_.erase(it->second.lru);
  nodes_.erase(it);
}

void AttrCache::ForgetBefore(InodeId ino, uint64_t version) {
  if (const auto it = nodes_.find(ino); it != nodes_.end() && it->second.attr.version < version) Forget(ino);
}

void AttrCache::Clear() {
  nodes_.clear();
  lru_.clear();
}

std::vector<InodeId> AttrCache::All() const {
  std::vector<InodeId> all;
  for (const auto& [ino, node] : nodes_) all.push_back(ino);
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace stria
