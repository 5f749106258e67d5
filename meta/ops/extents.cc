#include "meta/ops/extents.h"

#include <algorithm>

#include "meta/ops/stripes.h"

namespace stria {
namespace {

// The most that dropping one extent adds to a batch: its keys, a cut rest, and a stripe of all columns
// that becomes garbage.
constexpr size_t kDropRecords = 16 + 2 * kMaxColumns;
constexpr size_t kDropBytes = 2 * kMaxInlineBytes + kDropRecords * 64;
constexpr size_t kDropChunk = 256;

bool RoomToDrop(const Txn& txn) {
  return txn.records() + kDropRecords <= kTrimRecords && txn.bytes() + kDropBytes <= kTrimBytes;
}

}  // namespace

std::vector<MaskRange> SubtractMask(const std::vector<MaskRange>& masks, MaskRange range) {
  std::vector<MaskRange> out;
  for (const MaskRange& m : masks) {
    if (m.end <= range.begin || m.begin >= range.end) {
      out.push_back(m);
      continue;
    }
    if (m.begin < range.begin) out.push_back({m.begin, range.begin});
    if (m.end > range.end) out.push_back({range.end, m.end});
  }
  return out;
}

std::vector<MaskRange> AddMask(const std::vector<MaskRange>& masks, MaskRange range) {
  std::vector<MaskRange> out;
  for (const MaskRange& m : masks) {
    if (m.end < range.begin || m.begin > range.end) {
      out.push_back(m);
    } else {
      range = {std::min(m.begin, range.begin), std::max(m.end, range.end)};
    }
  }
  out.insert(std::upper_bound(out.begin(), out.end(), range,
                              [](const MaskRange& a, const MaskRange& b) { return a.begin < b.begin; }),
             range);
  return out;
}

std::vector<Extent> VisibleExtents(const std::vector<Extent>& extents, const std::vector<MaskRange>& masks) {
  if (masks.empty()) return extents;
  std::vector<Extent> out;
  for (const Extent& e : extents) {
    uint64_t at = e.file_offset;
    for (const MaskRange& m : masks) {
      if (m.end <= at) continue;
      if (m.begin >= e.end()) break;
      if (m.begin > at) out.push_back(SliceExtent(e, at, m.begin - at));
      at = std::min(m.end, e.end());
    }
    if (at < e.end()) out.push_back(SliceExtent(e, at, e.end() - at));
  }
  return out;
}

Result<std::vector<Extent>> ReadExtents(Txn& txn, InodeId ino, uint64_t begin, uint64_t end, size_t limit) {
  std::vector<Extent> out;
  if (begin > 0) {
    ASSIGN_OR_RETURN(auto before, txn.Last(Family::kExtents, ExtentKey(ino, 0), ExtentKey(ino, begin - 1)));
    if (before) {
      ASSIGN_OR_RETURN(ExtentRecord rec, ExtentRecord::Decode(before->first, before->second));
      if (rec.extent.end() >= begin) out.push_back(std::move(rec.extent));
    }
  }
  ASSIGN_OR_RETURN(auto rows,
                   txn.Scan(Family::kExtents, ExtentKey(ino, begin), ExtentKey(ino, end + 1), limit + 1));
  if (rows.size() > limit) return Error(FsError::kTooBig, "the range has too many extents; split it");
  for (const KvEntry& row : rows) {
    ASSIGN_OR_RETURN(ExtentRecord rec, ExtentRecord::Decode(row.first, row.second));
    out.push_back(std::move(rec.extent));
  }
  return out;
}

Result<ExtentPage> ReadExtentPage(Txn& txn, InodeId ino, uint64_t begin, uint64_t end, size_t limit) {
  ExtentPage page;
  page.covered_to = end;
  ASSIGN_OR_RETURN(auto before, txn.Last(Family::kExtents, ExtentKey(ino, 0), ExtentKey(ino, begin)));
  if (before) {
    ASSIGN_OR_RETURN(ExtentRecord e, ExtentRecord::Decode(before->first, before->second));
    if (e.extent.end() > begin) page.extents.push_back(std::move(e.extent));
  }
  // One more than fits, for where the page ends if there is more.
  ASSIGN_OR_RETURN(auto rows,
                   txn.Scan(Family::kExtents, ExtentKey(ino, begin + 1), ExtentKey(ino, end), limit));
  for (const KvEntry& row : rows) {
    ASSIGN_OR_RETURN(ExtentRecord e, ExtentRecord::Decode(row.first, row.second));
    page.extents.push_back(std::move(e.extent));
  }
  if (rows.size() == limit) {
    page.covered_to = page.extents.back().file_offset;
    page.extents.pop_back();
  }
  return page;
}

void ApplyEdit(Txn& txn, InodeRecord* rec, const std::vector<Extent>& existing, const ExtentEdit& edit,
               StripeDeltas* deltas) {
  const InodeId ino = rec->attr.ino;
  auto existed = [&](uint64_t offset) -> const Extent* {
    auto it = std::lower_bound(existing.begin(), existing.end(), offset,
                               [](const Extent& e, uint64_t off) { return e.file_offset < off; });
    return it != existing.end() && it->file_offset == offset ? &*it : nullptr;
  };
  for (uint64_t offset : edit.deletes) {
    txn.Delete(Family::kExtents, ExtentKey(ino, offset));
    const Extent* old = existed(offset);
    CHECK(old, "an edit deletes an extent that was not there");
    rec->attr.allocated_bytes -= old->length;
    --rec->extent_count;
  }
  for (const Extent& e : edit.puts) {
    txn.Write(ExtentKey(ino, e.file_offset), ExtentRecord{e});
    if (const Extent* old = existed(e.file_offset)) {
      rec->attr.allocated_bytes -= old->length;
    } else {
      ++rec->extent_count;
    }
    rec->attr.allocated_bytes += e.length;
  }
  for (const ExtentEdit::Ref& ref : edit.refs_removed) {
    txn.Delete(Family::kStripeRefs, StripeRefKey(ref.stripe, ino, ref.file_offset));
  }
  for (const ExtentEdit::Ref& ref : edit.refs_added) {
    txn.Write(StripeRefKey(ref.stripe, ino, ref.file_offset), StripeRefRecord());
  }
  for (const auto& [stripe, delta] : edit.ref_bytes_delta) (*deltas)[stripe] += delta;
  rec->inline_bytes += static_cast<uint64_t>(edit.inline_bytes_delta);
  txn.AddCount(Counter::kInlineBytes, edit.inline_bytes_delta);
}

Result<void> SettleStripes(Txn& txn, const StripeDeltas& deltas, Touched* touched) {
  for (const auto& [stripe, delta] : deltas) {
    const std::string key = StripeKey(stripe);
    ASSIGN_OR_RETURN(std::optional<RefBytesRecord> old, txn.Read<RefBytesRecord>(key));
    const int64_t bytes = (old ? static_cast<int64_t>(old->bytes) : 0) + delta;
    if (bytes < 0)
      return CorruptRecord(Family::kRefBytes, key, "it counts less than the extents that use it");
    txn.AddCount(Counter::kLiveBytes, delta);
    if (bytes > 0) {
      txn.Write(key, RefBytesRecord{static_cast<uint64_t>(bytes)});
    } else {
      RETURN_IF_ERROR(DiscardStripe(txn, stripe, touched));
    }
  }
  return Ok();
}

Result<uint64_t> DropRange(Txn& txn, InodeRecord* rec, uint64_t begin, uint64_t end, Touched* touched) {
  const InodeId ino = rec->attr.ino;
  uint64_t at = begin;
  // The one that begins before the range, if it reaches in. None does if one begins just there, as one does where a former
  // call stopped: so this never goes back over all that was removed before, which a store passes one by one.
  std::vector<Extent> chunk;
  if (begin > 0) {
    ASSIGN_OR_RETURN(auto before, txn.Last(Family::kExtents, ExtentKey(ino, 0), ExtentKey(ino, begin)));
    if (before) {
      ASSIGN_OR_RETURN(ExtentRecord first, ExtentRecord::Decode(before->first, before->second));
      if (first.extent.file_offset < begin && first.extent.end() > begin) chunk.push_back(std::move(first.extent));
    }
  }
  for (bool more = true; more && rec->extent_count > 0;) {
    // No more than the count: behind the last extent may lie removed ones.
    const size_t limit = std::min<uint64_t>(kDropChunk, rec->extent_count);
    ASSIGN_OR_RETURN(auto rows, txn.Scan(Family::kExtents, ExtentKey(ino, at), ExtentKey(ino, end), limit));
    more = rows.size() == limit;
    for (const KvEntry& row : rows) {
      ASSIGN_OR_RETURN(ExtentRecord r, ExtentRecord::Decode(row.first, row.second));
      chunk.push_back(std::move(r.extent));
    }
    for (const Extent& e : chunk) {
      if (!RoomToDrop(txn)) return std::max(at, std::min(e.file_offset, end));
      const uint64_t from = std::max(e.file_offset, begin);
      const uint64_t to = std::min(e.end(), end);
      StripeDeltas deltas;
      ApplyEdit(txn, rec, {e}, PlanOverwrite(std::span(&e, 1), {}, from, to - from), &deltas);
      RETURN_IF_ERROR(SettleStripes(txn, deltas, touched));
      at = to;
    }
    chunk.clear();
  }
  return end;
}

void SetIntent(Txn& txn, const InodeRecord& rec, Touched* touched) {
  const std::string key = InodeKey(rec.attr.ino);
  if (rec.masks.empty()) {
    txn.Delete(Family::kIntents, key);
  } else {
    txn.Write(key, IntentRecord());
    touched->trim.insert(rec.attr.ino);
  }
}

}  // namespace stria
