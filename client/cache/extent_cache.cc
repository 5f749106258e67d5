#include "client/cache/extent_cache.h"

#include <algorithm>
#include <iterator>

namespace stria {
namespace {
// Beyond this the cache starts over: a scan over a huge fragmented file must not hold it all.
constexpr size_t kMaxStripes = 4096;
constexpr size_t kMaxExtents = 65'536;
// Tokens are not used in the last minute of their life.
constexpr int64_t kTokenMarginNs = 60 * kSecond;
}  // namespace

bool ExtentCache::Covers(uint64_t offset, uint64_t length, int64_t now_ns) const {
  if (now_ns > good_until_ns_) return false;
  auto it = covered_.upper_bound(offset);
  if (it == covered_.begin()) return false;
  return std::prev(it)->second >= RangeEnd(offset, length);
}

void ExtentCache::Add(uint64_t offset, const GetExtentsReply& reply, int64_t asked_ns) {
  if (stripes_.size() > kMaxStripes || map_.size() > kMaxExtents || asked_ns > good_until_ns_) Clear();
  const uint64_t end = std::max(offset, reply.covered_to);
  if (end == offset) return;
  Put(offset, end, reply.extents);
  for (const StripeGrant& g : reply.stripes) stripes_[g.info.id] = g;
  good_until_ns_ = std::min(good_until_ns_, asked_ns + reply.tokens_live_ns - kTokenMarginNs);
}

void ExtentCache::Know(uint64_t offset, uint64_t end, const std::vector<Extent>& extents) {
  if (map_.size() > kMaxExtents) Clear();
  if (offset < end) Put(offset, end, extents);
}

void ExtentCache::Put(uint64_t offset, uint64_t end, const std::vector<Extent>& extents) {
  Forget(offset, end - offset);
  map_.Punch(offset, end - offset);
  for (const Extent& e : extents) {
    const uint64_t from = std::max(offset, e.file_offset);
    const uint64_t to = std::min(end, e.end());
    if (from < to) map_.Insert(SliceExtent(e, from, to - from));
  }
  uint64_t from = offset;
  uint64_t to = end;
  auto it = covered_.upper_bound(from);
  if (it != covered_.begin() && std::prev(it)->second >= from) {
    --it;
    from = it->first;
    to = std::max(to, it->second);
    it = covered_.erase(it);
  }
  while (it != covered_.end() && it->first <= to) {
    to = std::max(to, it->second);
    it = covered_.erase(it);
  }
  covered_[from] = to;
}

void ExtentCache::Forget(uint64_t offset, uint64_t length) {
  const uint64_t end = RangeEnd(offset, length);
  auto it = covered_.upper_bound(offset);
  if (it != covered_.begin()) --it;
  while (it != covered_.end() && it->first < end) {
    const uint64_t from = it->first;
    const uint64_t to = it->second;
    if (to <= offset) {
      ++it;
      continue;
    }
    it = covered_.erase(it);
    if (from < offset) covered_[from] = offset;
    if (to > end) it = covered_.emplace(end, to).first;
  }
}

void ExtentCache::Clear() {
  map_.Clear();
  covered_.clear();
  stripes_.clear();
  good_until_ns_ = INT64_MAX;
}

const StripeGrant* ExtentCache::FindStripe(StripeId id) const {
  auto it = stripes_.find(id);
  return it == stripes_.end() ? nullptr : &it->second;
}

}  // namespace stria
