#include "client/cache/extent_cache.h"

#include <algorithm>
#include <iterator>

namespace stria {
namespace {
constexpr uint64_t kNodeBytes = 48;  // of a tree, with the allocator's share
// Tokens are not used in the last minute of their life.
constexpr int64_t kTokenMarginNs = 60 * kSecond;
uint64_t MemoryOf(const StripeGrant& grant) {
  uint64_t bytes = sizeof(StripeGrant) + kNodeBytes + grant.info.columns.size() * sizeof(Column);
  for (const std::string& token : grant.tokens) bytes += sizeof(token) + token.size();
  return bytes;
}
}  // namespace

bool ExtentCache::Covers(uint64_t offset, uint64_t length, int64_t now_ns) const {
  return now_ns <= good_until_ns_ && CoveredTo(offset) >= RangeEnd(offset, length);
}

uint64_t ExtentCache::CoveredTo(uint64_t offset) const {
  auto it = covered_.upper_bound(offset);
  return it == covered_.begin() ? offset : std::max(offset, std::prev(it)->second);
}

std::optional<std::vector<Segment>> ExtentCache::Lookup(uint64_t offset, uint64_t length) const {
  if (CoveredTo(offset) < RangeEnd(offset, length)) return std::nullopt;
  return map_.Lookup(offset, length);
}

void ExtentCache::MakeRoom() {
  if (budget_) budget_->MakeRoom(this);
}

void ExtentCache::Count() {
  if (!budget_) return;
  const uint64_t before = counted_;
  counted_ = map_.size() * (sizeof(Extent) + kNodeBytes) + map_.inline_bytes() +
             covered_.size() * (2 * sizeof(uint64_t) + kNodeBytes) + stripe_bytes_;
  budget_->Count(this, before, counted_);
}

void ExtentCache::Add(uint64_t offset, const GetExtentsReply& reply, int64_t asked_ns) {
  if (asked_ns > good_until_ns_) Clear();
  const uint64_t end = std::max(offset, reply.covered_to);
  if (end == offset) return;
  Put(offset, end, reply.extents);
  for (const StripeGrant& g : reply.stripes) {
    SharedGrant& known = stripes_[g.info.id];
    if (known) stripe_bytes_ -= MemoryOf(*known);
    known = std::make_shared<const StripeGrant>(g);
    stripe_bytes_ += MemoryOf(*known);
  }
  good_until_ns_ = std::min(good_until_ns_, asked_ns + reply.tokens_live_ns - kTokenMarginNs);
  Count();
  if (budget_) budget_->Used(this);
}

void ExtentCache::Know(uint64_t offset, uint64_t end, const std::vector<Extent>& extents) {
  if (offset >= end) return;
  MakeRoom();
  Put(offset, end, extents);
  Count();
}

void ExtentCache::Put(uint64_t offset, uint64_t end, const std::vector<Extent>& extents) {
  Uncover(offset, end - offset);
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
  Uncover(offset, length);
  Count();
}

void ExtentCache::Uncover(uint64_t offset, uint64_t length) {
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
  stripe_bytes_ = 0;
  good_until_ns_ = INT64_MAX;
  Count();
}

SharedGrant ExtentCache::FindStripe(StripeId id) const {
  auto it = stripes_.find(id);
  return it == stripes_.end() ? nullptr : it->second;
}

}  // namespace stria
