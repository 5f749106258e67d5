#include "proto/validate.h"

#include <string>
#include <string_view>

#include "common/units.h"
#include "proto/wire.h"
#include "stripe/layout.h"

namespace stria {
namespace {

Error Bad(std::string why) { return Error(FsError::kBadRequest, std::move(why)); }
std::string Num(uint64_t v) { return std::to_string(v); }

Result<void> CheckItems(size_t count) {
  if (count <= kMaxDataItems) return Ok();
  return Bad(Num(count) + " items in one request; the limit is " + Num(kMaxDataItems));
}

Result<void> CheckCrcs(uint64_t length, size_t crcs) {
  if (crcs == DivCeil(length, kChecksumBlockBytes)) return Ok();
  return Bad(Num(crcs) + " block checksums for " + Num(length) + " bytes");
}

Result<void> CheckShardRange(uint64_t offset, uint64_t length) {
  if (offset % kChecksumBlockBytes != 0) return Bad("offset " + Num(offset) + " is not on a checksum block");
  if (length > kMaxPayloadBytes) return Bad("an item of " + Num(length) + " bytes is larger than a payload");
  if (offset > kMaxStripeBytes) return Bad("offset " + Num(offset) + " is beyond any shard");
  return Ok();
}

// The items' lengths (each at most kMaxPayloadBytes, at most kMaxDataItems of them) must add up.
template <class Items>
uint64_t SumLengths(const Items& items) {
  uint64_t sum = 0;
  for (const auto& item : items) sum += item.length;
  return sum;
}
template <class Items>
Result<void> CheckPayload(const Items& items, uint64_t payload_bytes) {
  RETURN_IF_ERROR(CheckItems(items.size()));
  const uint64_t sum = SumLengths(items);
  if (sum > kMaxPayloadBytes) return Bad("a payload of " + Num(sum) + " bytes is over the limit of 4 MiB");
  if (sum == payload_bytes) return Ok();
  return Bad("the items add up to " + Num(sum) + " bytes, the payload has " + Num(payload_bytes));
}

// For the first and last block of a read.
Result<void> CheckOmitted(uint64_t head_bytes, uint64_t tail_bytes) {
  if (head_bytes < kChecksumBlockBytes && tail_bytes < kChecksumBlockBytes) return Ok();
  return Bad("a whole block is left out");
}

// A directory entry's name.
Result<void> CheckName(std::string_view name) {
  if (name.empty()) return Bad("an empty name");
  if (name.size() > kMaxNameBytes) {
    return Error(FsError::kNameTooLong, "a name of " + Num(name.size()) + " bytes; the limit is 255");
  }
  if (name.find_first_of(std::string_view("/\0", 2)) != name.npos) return Bad("a name with a slash or a NUL");
  return Ok();
}

Result<void> CheckSymlink(std::string_view target) {
  if (target.size() <= kMaxSymlinkBytes) return Ok();
  return Error(FsError::kNameTooLong, "a symlink target of " + Num(target.size()) +
                                          " bytes; the limit is " + Num(kMaxSymlinkBytes));
}

Result<void> CheckFileRange(uint64_t offset, uint64_t length) {
  if (offset <= kMaxFileBytes && length <= kMaxFileBytes - offset) return Ok();
  return Error(FsError::kFBig, "a range that ends beyond the largest file");
}

template <class T, class Key>
Result<void> CheckIncreasing(const std::vector<T>& list, const char* what, Key key) {
  for (size_t i = 1; i < list.size(); ++i) {
    if (!(key(list[i - 1]) < key(list[i]))) return Bad(std::string(what) + " are not in increasing order");
  }
  return Ok();
}

Result<void> CheckSortedExtents(const std::vector<Extent>& extents) {
  for (size_t i = 1; i < extents.size(); ++i) {
    if (extents[i].file_offset < extents[i - 1].end()) return Bad("extents overlap or are not in order");
  }
  return Ok();
}

}  // namespace

// ---- Values of both services -----------------------------------------------------------------------

Result<void> Validate(const OpHeader& v) {
  return v.timeout_ns < 0 ? Bad("a negative timeout") : Error();
}
Result<void> Validate(const DataHeader& v) {
  return v.timeout_ns < 0 ? Bad("a negative timeout") : Error();
}

Result<void> Validate(const StripeShape& v) {
  Error e;
  if (v.payload_bytes == 0) {
    if (!v.column_bytes.empty()) return Bad("a stripe without payload that lists column lengths");
    StripeShape filled = v;
    filled.payload_bytes = 1;
    e = ValidateShape(filled);
  } else {
    e = ValidateShape(v);
  }
  if (!e.ok()) return Bad(e.message);
  return Ok();
}

Result<void> Validate(const StripeInfo& v) {
  if (v.columns.size() == v.shape.columns()) return Ok();
  return Bad("stripe " + Num(v.id.v) + " lists " + Num(v.columns.size()) + " of its " +
             Num(v.shape.columns()) + " columns");
}

Result<void> Validate(const StripeGrant& v) {
  if (v.tokens.size() != v.info.columns.size()) {
    return Bad("stripe " + Num(v.info.id.v) + " has " + Num(v.info.columns.size()) + " columns and " +
               Num(v.tokens.size()) + " tokens");
  }
  if (v.max_column_bytes % v.info.shape.unit_bytes != 0) {
    return Bad("stripe " + Num(v.info.id.v) + " may take " + Num(v.max_column_bytes) +
               " bytes in a column, which are no whole units");
  }
  return Ok();
}

Result<void> Validate(const Extent& v) {
  if (v.length == 0) return Bad("an extent without bytes");
  RETURN_IF_ERROR(CheckFileRange(v.file_offset, v.length));
  if (v.is_inline()) {
    if (v.stripe_offset != 0) return Bad("an inline extent with an offset in a stripe");
    if (v.inline_bytes.size() != v.length) {
      return Bad("an inline extent of length " + Num(v.length) + " with " + Num(v.inline_bytes.size()) +
                 " bytes");
    }
    if (v.length > kMaxInlineBytes) return Bad("an inline extent over 64 KiB");
    return Ok();
  }
  if (!v.inline_bytes.empty()) return Bad("an extent with both a stripe and inline bytes");
  if (v.stripe_offset > kMaxStripeBytes || v.length > kMaxStripeBytes - v.stripe_offset) {
    return Bad("an extent beyond the end of any stripe");
  }
  return Ok();
}

Result<void> Validate(const ClusterMap& v) {
  RETURN_IF_ERROR(CheckIncreasing(v.nodes, "nodes", [](const NodeInfo& n) { return n.id; }));
  return CheckIncreasing(v.targets, "targets", [](const TargetInfo& t) { return t.id; });
}

// ---- Data service ----------------------------------------------------------------------------------

Result<void> Validate(const ShardWrite& v) {
  RETURN_IF_ERROR(CheckShardRange(v.offset, v.length));
  return CheckCrcs(v.length, v.crcs.size());
}
Result<void> Validate(const WriteRequest& v) { return CheckPayload(v.items, v.payload.size()); }
Result<void> Validate(const WriteReply& v) { return CheckItems(v.items.size()); }
Result<void> Validate(const SealRequest& v) { return CheckItems(v.items.size()); }
Result<void> Validate(const SealReply& v) { return CheckItems(v.items.size()); }

Result<void> Validate(const ShardRead& v) {
  RETURN_IF_ERROR(CheckShardRange(v.offset, v.length));
  if (v.omit_head == 0 && v.omit_tail == 0) return Ok();
  RETURN_IF_ERROR(CheckOmitted(v.omit_head, v.omit_tail));
  return v.omit_head + v.omit_tail < v.length ? Result<void>(Ok()) : Bad("the omitted bytes are all of the range");
}
Result<void> Validate(const ReadRequest& v) {
  RETURN_IF_ERROR(CheckItems(v.items.size()));
  const uint64_t sum = SumLengths(v.items);
  if (sum > kMaxPayloadBytes) return Bad(Num(sum) + " bytes asked for; the limit is 4 MiB");
  return Ok();
}
Result<void> Validate(const ReadItem& v) {
  if (v.length > kMaxPayloadBytes) return Bad("an item larger than a payload");
  if (v.result.code != FsError::kOk && v.length != 0) return Bad("a failed item with bytes");
  if (v.length == 0 && v.left_out.any()) return Bad("something is left out of nothing");
  RETURN_IF_ERROR(CheckOmitted(v.left_out.head_bytes, v.left_out.tail_bytes));
  return CheckCrcs(v.left_out.head_bytes + v.length + v.left_out.tail_bytes, v.crcs.size());
}
Result<void> Validate(const ReadReply& v) { return CheckPayload(v.items, v.payload.size()); }

Result<void> Validate(const DeleteRequest& v) { return CheckItems(v.items.size()); }
Result<void> Validate(const DeleteReply& v) { return CheckItems(v.items.size()); }
Result<void> Validate(const InventoryReply& v) {
  return CheckIncreasing(v.shards, "shards", [](const ShardStat& s) { return s.shard; });
}

// ---- Metadata service ------------------------------------------------------------------------------

Result<void> Validate(const OpenSessionRequest& v) {
  if (v.path.size() <= kMaxPathBytes) return Ok();
  return Error(FsError::kNameTooLong, "a path of " + Num(v.path.size()) + " bytes is to be mounted; the limit is " + Num(kMaxPathBytes));
}
Result<void> Validate(const PollReply& v) {
  return CheckIncreasing(v.events, "events", [](const SessionEvent& e) { return e.seq; });
}

Result<void> Validate(const NameRequest& v) { return CheckName(v.name); }

Result<void> Validate(const SetAttrRequest& v) { return CheckFileRange(v.size.value_or(0), 0); }

Result<void> Validate(const MakeNodeRequest& v) {
  RETURN_IF_ERROR(CheckName(v.name));
  return CheckSymlink(v.target);
}

Result<void> Validate(const MadeFile& v) { return CheckName(v.name); }

Result<void> Validate(const RenameRequest& v) {
  RETURN_IF_ERROR(CheckName(v.name));
  return CheckName(v.new_name);
}

Result<void> Validate(const LinkRequest& v) { return CheckName(v.new_name); }
Result<void> Validate(const ReadLinkReply& v) { return CheckSymlink(v.target); }
Result<void> Validate(const DirEntry& v) { return CheckName(v.name); }

Result<void> Validate(const FileLock& v) {
  if (v.first > v.last || v.last > kLockToEnd) return Bad("a lock of no bytes, or beyond the end of any file");
  return Ok();
}

Result<void> Validate(const XattrRequest& v) {
  if (v.name.size() > kMaxXattrNameBytes) {
    return Error(FsError::kRange, "an attribute name over " + Num(kMaxXattrNameBytes) + " bytes");
  }
  if (v.name.find('\0') != v.name.npos) return Bad("an attribute name with a NUL");
  static_assert(kMaxXattrValueBytes >= kMaxWireStringBytes, "the decoder's limit covers values");
  return Ok();
}

Result<void> Validate(const GetExtentsRequest& v) {
  // A length "to the end of any file" is fine.
  return CheckFileRange(v.offset, 0);
}

Result<void> Validate(const GetExtentsReply& v) {
  RETURN_IF_ERROR(CheckSortedExtents(v.extents));
  return CheckIncreasing(v.stripes, "stripes", [](const StripeGrant& g) { return g.info.id; });
}

Result<void> Validate(const AllocateRequest& v) {
  if (v.payload_bytes > kMaxStripeBytes) return Bad("a stripe of more than 1 GiB asked for");
  return Ok();
}

Result<void> Validate(const CommitRequest& v) {
  if (v.append && v.extents.empty()) return Bad("an append without extents");
  RETURN_IF_ERROR(CheckSortedExtents(v.extents));
  for (const auto& [offset, length] : v.punch) RETURN_IF_ERROR(CheckFileRange(offset, length));
  return CheckFileRange(v.grow_to.value_or(0), 0);
}

Result<void> Validate(const CloneRequest& v) {
  // A length "to the end of any file" is fine.
  RETURN_IF_ERROR(CheckFileRange(v.from_offset, 0));
  return CheckFileRange(v.to_offset, 0);
}

Result<void> Validate(const RebuildWork& v) {
  const size_t columns = v.stripe.info.columns.size();
  if (v.column >= columns) return Bad("column " + Num(v.column) + " of " + Num(columns));
  for (const uint16_t lost : v.lost) {
    if (lost >= columns) return Bad("lost column " + Num(lost) + " of " + Num(columns));
  }
  return Ok();
}

}  // namespace stria
