// Attributes that a client may remember, of which generation of the session each, and those used last. The owner decides
// what may be remembered (NodeCache::Remember): nothing from before an event or a change of its own. Pure; executor's thread only.
//
// Bounded: at most max_nodes; beyond that those that were not used for longest go.
//
// Invariant: of an inode the newest version that was remembered since it was forgotten last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>
#include <vector>

#include "api/types.h"

namespace stria {

class AttrCache {
 public:
  explicit AttrCache(size_t max_nodes) : max_nodes_(max_nodes) {}
  AttrCache(const AttrCache&) = delete;
  AttrCache& operator=(const AttrCache&) = delete;

  // Returns what is remembered now: newer attributes win.
  Attr Remember(const Attr& attr, uint64_t generation);
  std::optional<Attr> Find(InodeId ino, uint64_t generation);
  // The same, without being a use of it.
  std::optional<Attr> LastKnown(InodeId ino, uint64_t generation) const;
  bool Knows(InodeId ino) const { return nodes_.contains(ino); }

  void Forget(InodeId ino);
  void ForgetBefore(InodeId ino, uint64_t version);  // if they are older
  void Clear();

  size_t size() const { return nodes_.size(); }
  std::vector<InodeId> All() const;  // by number

 private:
  struct Node {
    Attr attr;
    uint64_t generation = 0;
    std::list<InodeId>::iterator lru;
  };

  const size_t max_nodes_;
  std::unordered_map<InodeId, Node> nodes_;
  std::list<InodeId> lru_;  // most recently used first
};

}  // namespace stria
