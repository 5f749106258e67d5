// Shared by the operations on data: edits of a file's extents together with the references of stripes,
// and ranges that are masked. Internal to meta/ops.
//
// A mask is a range of a file whose extents are dead but still there (too many to remove at once). It is a range, not a set of
// extents: a write into it takes its own range out of it, and an extent may be partly masked.
#pragma once

#include <map>
#include <vector>

#include "meta/ops/ops.h"
#include "stripe/extent_map.h"

namespace stria {

// ---- Pure ----

// `masks` without `range`. Sorted and disjoint in and out.
std::vector<MaskRange> SubtractMask(const std::vector<MaskRange>& masks, MaskRange range);
// `masks` with `range`; neighbours become one.
std::vector<MaskRange> AddMask(const std::vector<MaskRange>& masks, MaskRange range);
// The parts of the extents that are not masked.
std::vector<Extent> VisibleExtents(const std::vector<Extent>& extents, const std::vector<MaskRange>& masks);

// ---- Stored ----

// Those that overlap or touch [begin, end), whole, in order, masked ones too. kTooBig beyond `limit`.
Result<std::vector<Extent>> ReadExtents(Txn& txn, InodeId ino, uint64_t begin, uint64_t end, size_t limit);

// The first `limit` (> 1) at most of those that overlap [begin, end), whole, in order, masked ones too.
struct ExtentPage {
  std::vector<Extent> extents;
  uint64_t covered_to = 0;  // > begin (if end is): none before it is left out
};
Result<ExtentPage> ReadExtentPage(Txn& txn, InodeId ino, uint64_t begin, uint64_t end, size_t limit);

// Change of each stripe's live bytes over a whole transaction: stripes are freed only when all edits
// are in, since one edit may drop the last reference and the next bring one.
using StripeDeltas = std::map<StripeId, int64_t>;

// Puts the edit (planned on `existing`) and its reference records; counts into rec (which the caller
// writes) and deltas.
void ApplyEdit(Txn& txn, InodeRecord* rec, const std::vector<Extent>& existing, const ExtentEdit& edit,
               StripeDeltas* deltas);
// Writes the new counts; stripes without references become garbage.
Result<void> SettleStripes(Txn& txn, const StripeDeltas& deltas, Touched* touched);

// Removes extents in [begin, end), from the front, as many as one transaction should. Returns where it stopped: `end` if all
// are gone. Does not look at masks. The caller writes rec.
Result<uint64_t> DropRange(Txn& txn, InodeRecord* rec, uint64_t begin, uint64_t end, Touched* touched);

// Puts or removes the inode's entry in the queue of TrimStep, as its masks say.
void SetIntent(Txn& txn, const InodeRecord& rec, Touched* touched);

}  // namespace stria
