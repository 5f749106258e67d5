// The bound on memory for the mappings of all of a client's files. The mapping that was asked for longest ago goes first.
// ExtentCaches count themselves. Executor's thread only.
#pragma once

#include <cstdint>
#include <list>

namespace stria {

class ExtentCache;

class ExtentBudget {
 public:
  explicit ExtentBudget(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}
  ExtentBudget(const ExtentBudget&) = delete;

  // Clears other caches than `asking` until there is room, and `asking` too if it has more than half of the budget. The next
  // addition may still exceed it: a range that is read must be known whole, however many pieces it is in.
  void MakeRoom(ExtentCache* asking);
  uint64_t bytes() const { return bytes_; }  // about

 private:
  friend class ExtentCache;
  using Order = std::list<ExtentCache*>;
  void Count(ExtentCache* cache, uint64_t before, uint64_t now);
  void Used(ExtentCache* cache);

  const uint64_t limit_bytes_;
  uint64_t bytes_ = 0;
  Order order_;  // those that know anything; used last: first
};

}  // namespace stria
