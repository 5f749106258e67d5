#include "stripe/extent_map.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace stria {

namespace {

// Appends to a sequence of extents in file order, merging with the last where possible.
void Append(std::vector<Extent>* out, Extent e) {
  if (out->empty() || !CanMerge(out->back(), e)) {
    out->push_back(std::move(e));
    return;
  }
  out->back().length += e.length;
  out->back().inline_bytes += e.inline_bytes;
}

void Account(const Extent& e, int64_t sign, ExtentEdit* edit) {
  const int64_t bytes = sign * static_cast<int64_t>(e.length);
  if (e.is_inline()) {
    edit->inline_bytes_delta += bytes;
  } else {
    edit->ref_bytes_delta[e.stripe] += bytes;
  }
}

ExtentEdit Difference(std::span<const Extent> before, std::span<const Extent> after) {
  ExtentEdit edit;
  auto removed = [&edit](const Extent& e) {
    Account(e, -1, &edit);
    if (!e.is_inline()) edit.refs_removed.push_back({e.stripe, e.file_offset});
  };
  auto added = [&edit](const Extent& e) {
    Account(e, 1, &edit);
    if (!e.is_inline()) edit.refs_added.push_back({e.stripe, e.file_offset});
    edit.puts.push_back(e);
  };
  size_t b = 0;
  size_t a = 0;
  while (b < before.size() || a < after.size()) {
    const bool only_before =
        a == after.size() || (b < before.size() && before[b].file_offset < after[a].file_offset);
    if (only_before) {
      edit.deletes.push_back(before[b].file_offset);
      removed(before[b++]);
    } else if (b == before.size() || after[a].file_offset < before[b].file_offset) {
      added(after[a++]);
    } else {
      const Extent& was = before[b++];
      const Extent& is = after[a++];
      if (was == is) continue;
      if (was.stripe == is.stripe) {
        Account(was, -1, &edit);
        Account(is, 1, &edit);
        edit.puts.push_back(is);
      } else {
        removed(was);
        added(is);
      }
    }
  }
  std::erase_if(edit.ref_bytes_delta, [](const auto& entry) { return entry.second == 0; });
  return edit;
}

}  // namespace

Result<void> ValidateExtents(std::span<const Extent> extents, uint64_t off, uint64_t len, FsError code) {
  uint64_t at = off;
  const uint64_t end = RangeEnd(off, len);
  for (const Extent& e : extents) {
    const std::string where = "extent at file offset " + std::to_string(e.file_offset);
    if (e.length == 0) return Error(code, where + " is empty");
    if (e.file_offset < at) return Error(code, where + " overlaps or is out of order");
    if (e.file_offset >= end || e.length > end - e.file_offset) {
      return Error(code, where + " reaches beyond its range");
    }
    if (e.is_inline()) {
      if (e.length > kMaxInlineBytes || e.inline_bytes.size() != e.length || e.stripe_offset != 0) {
        return Error(code, where + " has inline bytes of the wrong size");
      }
    } else if (!e.inline_bytes.empty() || e.length > kMaxStripeBytes ||
               e.stripe_offset > kMaxStripeBytes - e.length) {
      return Error(code, where + " is not a range of a stripe");
    }
    at = e.end();
  }
  return Ok();
}

Extent SliceExtent(const Extent& e, uint64_t off, uint64_t len) {
  CHECK(len > 0 && off >= e.file_offset && off - e.file_offset <= e.length &&
        len <= e.length - (off - e.file_offset));
  const uint64_t skip = off - e.file_offset;
  Extent part{.file_offset = off, .length = len, .stripe = e.stripe};
  if (e.is_inline()) {
    part.inline_bytes = e.inline_bytes.substr(skip, len);
  } else {
    part.stripe_offset = e.stripe_offset + skip;
  }
  return part;
}

bool CanMerge(const Extent& e, const Extent& next) {
  if (e.end() != next.file_offset || e.stripe != next.stripe) return false;
  return e.is_inline() ? e.length + next.length <= kInlineMergeBytes
                       : e.stripe_offset + e.length == next.stripe_offset;
}

std::vector<Extent> CloneExtents(std::span<const Extent> extents, uint64_t src, uint64_t len, uint64_t dst) {
  std::vector<Extent> out;
  if (dst >= kMaxFileBytes) return out;
  const uint64_t end = RangeEnd(src, std::min(len, kMaxFileBytes - dst));
  for (const Extent& e : extents) {
    const uint64_t from = std::max(e.file_offset, src);
    const uint64_t to = std::min(e.end(), end);
    if (from >= to) continue;
    Extent part = SliceExtent(e, from, to - from);
    part.file_offset = dst + (from - src);
    out.push_back(std::move(part));
  }
  return out;
}

ExtentEdit PlanOverwrite(std::span<const Extent> existing, const std::vector<Extent>& replacement,
                         uint64_t off, uint64_t len) {
  const uint64_t end = RangeEnd(off, len);
  if (off >= end) {
    CHECK(replacement.empty(), "replacement of an empty range");
    return {};
  }
  CHECK(replacement.empty() || (replacement.front().file_offset >= off && replacement.back().end() <= end),
        "replacement outside its range");
  std::vector<Extent> after;
  after.reserve(existing.size() + replacement.size() + 1);
  for (const Extent& e : existing) {
    if (e.file_offset >= off) break;
    Append(&after, SliceExtent(e, e.file_offset, std::min(e.length, off - e.file_offset)));
  }
  for (const Extent& e : replacement) Append(&after, e);
  for (const Extent& e : existing) {
    if (e.end() <= end) continue;
    const uint64_t from = std::max(e.file_offset, end);
    Append(&after, SliceExtent(e, from, e.end() - from));
  }
  return Difference(existing, after);
}

ExtentMap::Map::const_iterator ExtentMap::FirstEndingAfter(uint64_t off) const {
  auto it = extents_.upper_bound(off);
  if (it != extents_.begin() && std::prev(it)->second.end() > off) --it;
  return it;
}

// No extent lies across `off` afterwards.
void ExtentMap::SplitAt(uint64_t off) {
  auto it = extents_.lower_bound(off);
  if (it == extents_.begin()) return;
  Extent& left = (--it)->second;
  if (left.end() <= off) return;
  Extent right = SliceExtent(left, off, left.end() - off);
  left.length = off - left.file_offset;
  if (left.is_inline()) left.inline_bytes.resize(left.length);
  extents_.emplace(off, std::move(right));
}

void ExtentMap::Erase(uint64_t off, uint64_t end) {
  SplitAt(off);
  SplitAt(end);
  auto first = extents_.lower_bound(off);
  auto last = extents_.lower_bound(end);
  for (auto it = first; it != last; ++it) inline_bytes_ -= it->second.inline_bytes.size();
  extents_.erase(first, last);
}

// Merges the extent that ends at `off` with the one that begins there.
void ExtentMap::MergeAt(uint64_t off) {
  auto right = extents_.find(off);
  if (right == extents_.end() || right == extents_.begin()) return;
  Extent& left = std::prev(right)->second;
  if (!CanMerge(left, right->second)) return;
  left.length += right->second.length;
  left.inline_bytes += right->second.inline_bytes;
  extents_.erase(right);
}

void ExtentMap::Insert(Extent e) {
  const uint64_t off = e.file_offset;
  const uint64_t end = RangeEnd(off, e.length);
  CHECK(e.length > 0 && end - off == e.length, "extent outside a file");
  CHECK(e.inline_bytes.size() == (e.is_inline() ? e.length : 0), "inline bytes of the wrong size");
  Erase(off, end);
  inline_bytes_ += e.inline_bytes.size();
  extents_.emplace(off, std::move(e));
  MergeAt(off);
  MergeAt(end);
}

void ExtentMap::Replace(uint64_t off, uint64_t len, std::vector<Extent> replacement) {
  const uint64_t end = RangeEnd(off, len);
  CHECK(replacement.empty() || (replacement.front().file_offset >= off && replacement.back().end() <= end),
        "replacement outside its range");
  Punch(off, len);
  for (Extent& e : replacement) Insert(std::move(e));
}

void ExtentMap::Punch(uint64_t off, uint64_t len) {
  const uint64_t end = RangeEnd(off, len);
  if (off < end) Erase(off, end);
}

void ExtentMap::Clone(uint64_t src, uint64_t len, uint64_t dst) {
  Replace(dst, len, CloneExtents(Overlapping(src, len), src, len, dst));
}

void ExtentMap::Clear() {
  extents_.clear();
  inline_bytes_ = 0;
}

std::vector<Segment> ExtentMap::Lookup(uint64_t off, uint64_t len) const {
  std::vector<Segment> out;
  const uint64_t end = RangeEnd(off, len);
  uint64_t at = off;
  for (auto it = FirstEndingAfter(off); at < end; ++it) {
    const uint64_t next = it == extents_.end() ? end : std::min(end, it->first);
    if (at < next) out.push_back({.file_offset = at, .length = next - at});
    if (next == end) break;
    const uint64_t from = std::max(off, it->first);
    at = std::min(end, it->second.end());
    Extent part = SliceExtent(it->second, from, at - from);
    out.push_back({.file_offset = from,
                   .length = part.length,
                   .kind = part.is_inline() ? Segment::Kind::kInline : Segment::Kind::kStripe,
                   .stripe = part.stripe,
                   .stripe_offset = part.stripe_offset,
                   .inline_bytes = std::move(part.inline_bytes)});
  }
  return out;
}

std::vector<Extent> ExtentMap::Overlapping(uint64_t off, uint64_t len) const {
  std::vector<Extent> out;
  const uint64_t end = RangeEnd(off, len);
  if (off >= end) return out;
  for (auto it = FirstEndingAfter(off); it != extents_.end() && it->first < end; ++it)
    out.push_back(it->second);
  return out;
}

std::optional<uint64_t> ExtentMap::SeekData(uint64_t off) const {
  auto it = FirstEndingAfter(off);
  if (it == extents_.end()) return std::nullopt;
  return std::max(off, it->first);
}

std::optional<uint64_t> ExtentMap::SeekHole(uint64_t off, uint64_t file_size) const {
  if (off >= file_size) return std::nullopt;
  uint64_t at = off;
  for (auto it = FirstEndingAfter(off); it != extents_.end() && it->first <= at; ++it) at = it->second.end();
  return std::min(at, file_size);
}

}  // namespace stria
