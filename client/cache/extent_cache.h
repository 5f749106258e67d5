// One file's mapping, as far as a client knows it: extents of the ranges it asked for, and their stripes with read tokens.
// Valid under the inode's lease; the owner clears it on recall. With a budget, requests of other files may empty it whenever
// its owner suspends. Executor's thread only.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "api/meta_api.h"
#include "client/cache/extent_budget.h"
#include "stripe/extent_map.h"

namespace stria {

class ExtentCache {
 public:
  explicit ExtentCache(std::shared_ptr<ExtentBudget> budget = nullptr) : budget_(std::move(budget)) {}
  ExtentCache(const ExtentCache&) = delete;
  ~ExtentCache() { Clear(); }

  // Call before a question whose answer may take long.
  void MakeRoom();
  // True if the mapping of the whole range is known and its tokens are good at `now_ns` (Executor::NowNs).
  bool Covers(uint64_t offset, uint64_t length, int64_t now_ns) const;
  // Takes the answer for [offset, reply.covered_to) to a question of `asked_ns`. Forgets what was known for too long before
  // that.
  void Add(uint64_t offset, const GetExtentsReply& reply, int64_t asked_ns);
  // [offset, end) has these extents, which are inline, and holes.
  void Know(uint64_t offset, uint64_t end, const std::vector<Extent>& extents);
  // The mapping of the range changed; it must be asked for again.
  void Forget(uint64_t offset, uint64_t length);
  void Clear();

  // None if not all of the range is known. Tokens may be too old to be used.
  std::optional<std::vector<Segment>> Lookup(uint64_t offset, uint64_t length) const;
  // The end of the gapless known range from `offset` on; `offset` if it is not known.
  uint64_t CoveredTo(uint64_t offset) const;
  SharedGrant FindStripe(StripeId id) const;  // nullptr if it is not known
  size_t extents() const { return map_.size(); }
  uint64_t inline_bytes() const { return map_.inline_bytes(); }  // in memory
  uint64_t bytes() const { return counted_; }                    // of memory, about

 private:
  friend class ExtentBudget;
  void Put(uint64_t offset, uint64_t end, const std::vector<Extent>& extents);
  void Uncover(uint64_t offset, uint64_t length);

  void Count();

  const std::shared_ptr<ExtentBudget> budget_;
  std::list<ExtentCache*>::iterator place_;  // in budget_, while counted_ > 0
  uint64_t counted_ = 0;
  uint64_t stripe_bytes_ = 0;
  ExtentMap map_;
  std::map<uint64_t, uint64_t> covered_;  // offset -> end, disjoint, not touching
  std::map<StripeId, SharedGrant> stripes_;
  int64_t good_until_ns_ = INT64_MAX;  // all tokens
};

}  // namespace stria
