// Extents: the parts of a file, and how a range of them is swapped for other bytes.
//
//   ExtentMap      one file's extents in memory (the client's cache of the mapping)
//   PlanOverwrite  the same edit as keys to delete and to put, for a store keyed by file offset
//
// Both keep the same mapping; they differ only in where it lives. Offsets and lengths are bytes;
// ranges may reach up to kMaxFileBytes and are clamped there, so nothing here overflows. Extents of
// one file never overlap; holes have none. Extents that continue each other in the same stripe are
// merged, as are short inline neighbours up to kInlineMergeBytes (longer ones are left alone, so that a
// log of small appends does not rewrite 64 KiB each time).
//
// Thread-safety: functions are pure; ExtentMap is a value without locks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/error.h"
#include "stripe/types.h"

namespace stria {

inline constexpr uint64_t kInlineMergeBytes = 4 * kKiB;

// min(off + len, kMaxFileBytes) without overflow.
constexpr uint64_t RangeEnd(uint64_t off, uint64_t len) {
  return off >= kMaxFileBytes || len >= kMaxFileBytes - off ? kMaxFileBytes : off + len;
}

// Input of unknown origin: extents are sorted, apart, not empty, inside [off, off+len), inline ones of the right size and at
// most kMaxInlineBytes, stripe ranges within kMaxStripeBytes. `code` is the error's: kBadRequest for a peer's, kCorrupt for the
// store's.
Result<void> ValidateExtents(std::span<const Extent> extents, uint64_t off, uint64_t len, FsError code);

// The part of `e` in [off, off+len), which must lie in it. len > 0.
Extent SliceExtent(const Extent& e, uint64_t off, uint64_t len);

// True if `next` begins where `e` ends in the file and in its stripe (or both are short and inline).
bool CanMerge(const Extent& e, const Extent& next);

// The result of clone_range(src, len -> dst) at dst: the parts of `extents` (in order, may reach beyond the range) in [src,
// src+len), moved to dst, cut off at kMaxFileBytes.
std::vector<Extent> CloneExtents(std::span<const Extent> extents, uint64_t src, uint64_t len, uint64_t dst);

// An edit of a store keyed by file offset. Apply deletes, then puts. A key is never in both.
struct ExtentEdit {
  struct Ref {
    StripeId stripe;
    uint64_t file_offset = 0;
    auto operator<=>(const Ref&) const = default;
  };
  std::vector<uint64_t> deletes;  // file offsets of the keys to remove, ascending
  std::vector<Extent> puts;       // keyed by file_offset, ascending; replace extents there
  // (stripe, file offset) entries that appear and vanish with the above; never the same in both.
  std::vector<Ref> refs_added;
  std::vector<Ref> refs_removed;
  // Change of live bytes per stripe; stripes without a change are not in it.
  std::map<StripeId, int64_t> ref_bytes_delta;
  int64_t inline_bytes_delta = 0;
  bool empty() const { return deletes.empty() && puts.empty(); }
};

// Makes [off, off+len) hold exactly `replacement` (ValidateExtents holds for it; empty: a hole).
// `existing`, in order, must contain every extent that overlaps the range and may contain the
// neighbours that touch it, which are then merged with where possible.
ExtentEdit PlanOverwrite(std::span<const Extent> existing, const std::vector<Extent>& replacement,
                         uint64_t off, uint64_t len);

// A piece of a range: the extent behind its bytes.
struct Segment {
  enum class Kind : uint8_t { kHole, kStripe, kInline };
  uint64_t file_offset = 0;
  uint64_t length = 0;
  Kind kind = Kind::kHole;
  StripeId stripe;             // kStripe
  uint64_t stripe_offset = 0;  // kStripe
  std::string inline_bytes;    // kInline; size == length
  uint64_t end() const { return file_offset + length; }
  bool operator==(const Segment&) const = default;
};

class ExtentMap {
 public:
  // Overwrites extents beneath. length > 0, end <= kMaxFileBytes.
  void Insert(Extent e);
  // [off, off+len) becomes exactly `replacement` (as for PlanOverwrite).
  void Replace(uint64_t off, uint64_t len, std::vector<Extent> replacement);
  // The range becomes a hole.
  void Punch(uint64_t off, uint64_t len);
  // Nothing remains at or after `size`.
  void Truncate(uint64_t size) { Punch(size, kMaxFileBytes); }
  // Bytes (and holes) of [src, src+len) appear at dst as they were before; the ranges may overlap.
  void Clone(uint64_t src, uint64_t len, uint64_t dst);
  void Clear();

  // Covers [off, RangeEnd(off, len)) completely, in order.
  std::vector<Segment> Lookup(uint64_t off, uint64_t len) const;
  // The extents that overlap the range, whole.
  std::vector<Extent> Overlapping(uint64_t off, uint64_t len) const;
  // First byte at or after `off` that is in an extent.
  std::optional<uint64_t> SeekData(uint64_t off) const;
  // First byte at or after `off` that is in none; the end of the file counts as one. None if
  // off >= file_size.
  std::optional<uint64_t> SeekHole(uint64_t off, uint64_t file_size) const;

  bool empty() const { return extents_.empty(); }
  size_t size() const { return extents_.size(); }
  auto begin() const { return extents_.begin(); }  // (file offset, Extent) in order
  auto end() const { return extents_.end(); }
  uint64_t end_offset() const { return extents_.empty() ? 0 : extents_.rbegin()->second.end(); }
  uint64_t inline_bytes() const { return inline_bytes_; }  // held in memory by inline extents

 private:
  using Map = std::map<uint64_t, Extent>;
  Map::const_iterator FirstEndingAfter(uint64_t off) const;
  void SplitAt(uint64_t off);
  void Erase(uint64_t off, uint64_t end);
  void MergeAt(uint64_t off);

  Map extents_;
  uint64_t inline_bytes_ = 0;
};

}  // namespace stria
