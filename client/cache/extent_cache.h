// What a client knows of one file's mapping: extents of the ranges it asked for, and the stripes they
// refer to with their read tokens. Valid under the inode's lease; the owner clears it on recall.
// Executor's thread only.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "api/meta_api.h"
#include "stripe/extent_map.h"

namespace stria {

class ExtentCache {
 public:
  // True if the mapping of the whole range is known and its tokens are good at `now_ns` (Executor::NowNs).
  bool Covers(uint64_t offset, uint64_t length, int64_t now_ns) const;
  // Takes an answer for [offset, reply.covered_to) to what was asked at `asked_ns`. What was known for too long
  // before that is forgotten.
  void Add(uint64_t offset, const GetExtentsReply& reply, int64_t asked_ns);
  // [offset, end) has these extents, which are inline, and holes.
  void Know(uint64_t offset, uint64_t end, const std::vector<Extent>& extents);
  // The mapping of the range changed; it must be asked for again.
  void Forget(uint64_t offset, uint64_t length);
  void Clear();

  // REQUIRES: Covers(offset, length).
  std::vector<Segment> Lookup(uint64_t offset, uint64_t length) const { return map_.Lookup(offset, length); }
  const StripeGrant* FindStripe(StripeId id) const;
  size_t extents() const { return map_.size(); }
  uint64_t inline_bytes() const { return map_.inline_bytes(); }  // in memory

 private:
  void Put(uint64_t offset, uint64_t end, const std::vector<Extent>& extents);

  ExtentMap map_;
  std::map<uint64_t, uint64_t> covered_;  // offset -> end, disjoint, not touching
  std::map<StripeId, StripeGrant> stripes_;
  int64_t good_until_ns_ = INT64_MAX;  // all tokens
};

}  // namespace stria
