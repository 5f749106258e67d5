#include "server/segment.h"

#include <xxhash.h>

#include <algorithm>
#include <cstdio>

#include "common/codec.h"
#include "stripe/checksum.h"
#include "stripe/types.h"

namespace stria {
namespace {

constexpr uint64_t kHeaderMagic = 0x31474553'41525453;  // "STRASEG1"
constexpr uint32_t kEntryMagic = 0x544e4553;            // "SENT"
constexpr uint8_t kVersion = 1;
constexpr uint64_t kScanWindowBytes = 1 * kMiB;
constexpr uint64_t kReadBytes = 1 * kMiB;

uint64_t Seed(const Uuid& disk, uint64_t segment, uint64_t offset) {
  ByteWriter w;
  w.U64(disk.hi);
  w.U64(disk.lo);
  w.U64(segment);
  w.U64(offset);
  return XXH3_64bits(w.str().data(), w.size());
}

uint64_t HashOf(std::string_view bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

bool ParseHex16(std::string_view text, uint64_t* out) {
  if (text.size() != 16) return false;
  uint64_t v = 0;
  for (const char c : text) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return false;
    v = v << 4 | static_cast<uint64_t>(digit);
  }
  *out = v;
  return true;
}

}  // namespace

uint64_t SegmentHeadBytes(uint64_t shard_length) {
  return AlignUp(kSegmentHeadBytes + 4 * ChecksumBlocks(shard_length), kSegmentEntryAlign);
}

uint64_t SegmentEntryBytes(ShardKind kind, uint64_t shard_length) {
  return SegmentHeadBytes(shard_length) +
         (kind == ShardKind::kPacked ? AlignUp(shard_length, kSegmentEntryAlign) : 0);
}

std::string SegmentName(uint64_t segment) {
  char name[48];
  std::snprintf(name, sizeof name, "segments/%016llx.seg", static_cast<unsigned long long>(segment));
  return name;
}

std::string RawShardName(ShardId shard) {
  char name[48];
  std::snprintf(name, sizeof name, "shards/%02x/%016llx", static_cast<unsigned>(shard.v & 0xff),
                static_cast<unsigned long long>(shard.v));
  return name;
}

bool ParseSegmentName(std::string_view name, uint64_t* segment) {
  constexpr std::string_view kPrefix = "segments/", kSuffix = ".seg";
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return false;
  name.remove_prefix(kPrefix.size());
  if (name.size() < kSuffix.size()) return false;
  name.remove_suffix(kSuffix.size());
  return ParseHex16(name, segment) && *segment != 0;
}

bool ParseRawShardName(std::string_view name, ShardId* shard) {
  constexpr size_t kPrefixBytes = 10;  // shards/xx/
  uint64_t id = 0;
  if (name.size() != kPrefixBytes + 16 || !ParseHex16(name.substr(kPrefixBytes), &id) || id == 0)
    return false;
  *shard = ShardId(id);
  return name == RawShardName(*shard);
}

std::string EncodeSegmentHeader(const Uuid& disk, uint64_t segment) {
  ByteWriter w;
  w.U64(kHeaderMagic);
  w.U32(kVersion);
  w.U64(disk.hi);
  w.U64(disk.lo);
  w.U64(segment);
  w.U64(HashOf(w.str(), Seed(disk, segment, 0)));
  std::string out = w.Take();
  out.resize(kSegmentHeaderBytes);
  return out;
}

Error CheckSegmentHeader(const Uuid& disk, uint64_t segment, std::string_view bytes) {
  const std::string name = SegmentName(segment);
  ByteReader r(bytes);
  if (r.U64() != kHeaderMagic || !r.ok()) return Error(FsError::kCorrupt, name + " is not a segment");
  const uint32_t version = r.U32();
  if (version != kVersion) return Error(FsError::kVersion, name + " has an unknown version");
  Uuid owner;
  owner.hi = r.U64();
  owner.lo = r.U64();
  const uint64_t id = r.U64();
  const size_t hashed_bytes = bytes.size() - r.left();
  const uint64_t hash = r.U64();
  if (!r.ok() || hash != HashOf(bytes.substr(0, hashed_bytes), Seed(owner, id, 0))) {
    return Error(FsError::kCorrupt, name + " has a damaged header");
  }
  if (owner != disk || id != segment)
    return Error(FsError::kCorrupt, name + " belongs to another disk or place");
  return {};
}

std::string EncodeSegmentHead(const Uuid& disk, uint64_t segment, const SegmentEntry& entry) {
  ByteWriter w;
  w.U32(kEntryMagic);
  w.U8(kVersion);
  w.U8(static_cast<uint8_t>(entry.kind));
  w.U16(0);
  w.U64(entry.shard.v);
  w.U64(entry.length);
  w.U64(entry.digest);
  w.U32(static_cast<uint32_t>(entry.crcs.size()));
  w.U32(0);
  ByteWriter table;
  for (const uint32_t crc : entry.crcs) table.U32(crc);
  w.U64(HashOf(w.str() + table.str(), Seed(disk, segment, entry.offset)));
  w.Raw(table.str());
  std::string out = w.Take();
  out.resize(SegmentHeadBytes(entry.length));
  return out;
}

Result<SegmentEntry> DecodeSegmentHead(const Uuid& disk, uint64_t segment, uint64_t offset,
                                       std::string_view bytes) {
  const Error none(FsError::kCorrupt, "no segment entry here");
  const Error more(FsError::kNoData, "the entry goes on");
  if (bytes.size() < kSegmentHeadBytes) return more;
  ByteReader r(bytes);
  SegmentEntry e;
  e.offset = offset;
  if (r.U32() != kEntryMagic || r.U8() != kVersion) return none;
  const uint8_t kind = r.U8();
  if (kind != static_cast<uint8_t>(ShardKind::kRaw) && kind != static_cast<uint8_t>(ShardKind::kPacked))
    return none;
  e.kind = static_cast<ShardKind>(kind);
  r.U16();
  e.shard = ShardId(r.U64());
  e.length = r.U64();
  e.digest = r.U64();
  const uint64_t blocks = r.U32();
  r.U32();
  const uint64_t hash = r.U64();
  const uint64_t max_length = e.kind == ShardKind::kPacked ? kMaxPackedShardBytes : kMaxStripeBytes;
  if (!e.shard || e.length == 0 || e.length > max_length || blocks != ChecksumBlocks(e.length)) return none;
  if (r.left() < 4 * blocks) return more;
  const std::string hashed = std::string(bytes.substr(0, kSegmentHeadBytes - 8)) +
                             std::string(bytes.substr(kSegmentHeadBytes, 4 * blocks));
  if (hash != HashOf(hashed, Seed(disk, segment, offset))) return none;
  e.crcs.resize(blocks);
  for (uint32_t& crc : e.crcs) crc = r.U32();
  if (TableDigest(e.crcs, e.length) != e.digest) return none;
  return e;
}

Task<Result<std::vector<SegmentEntry>>> ScanSegment(Disk* disk, Uuid disk_uuid, uint64_t segment, uint64_t size_bytes,
                                                    uint64_t begin) {
  const std::string name = SegmentName(segment);
  if (begin == 0) {
    CO_ASSIGN_OR_RETURN(const Buffer bytes, co_await disk->Read(name, 0, kSegmentHeaderBytes));
    CO_RETURN_IF_ERROR(Result<void>(CheckSegmentHeader(disk_uuid, segment, bytes.view())));
  }
  std::vector<SegmentEntry> out;
  Buffer window;
  uint64_t window_offset = 0;
  uint64_t at = std::max(begin, kSegmentHeaderBytes);
  while (at + kSegmentHeadBytes <= size_bytes) {
    if (at < window_offset || at + kSegmentHeadBytes > window_offset + window.size()) {
      CO_ASSIGN_OR_RETURN(window, co_await disk->Read(name, at, kScanWindowBytes));
      window_offset = at;
      if (window.size() < kSegmentHeadBytes) break;
    }
    Result<SegmentEntry> e =
        DecodeSegmentHead(disk_uuid, segment, at, window.view().substr(at - window_offset));
    if (e.code() == FsError::kNoData && window_offset < at && window.size() == kScanWindowBytes) {
      window = Buffer();  // the head straddles the window's end: read from its start
      continue;
    }
    if (!e.ok()) {
      at = AlignUp(at + 1, kSegmentBatchAlign);
      continue;
    }
    at += SegmentEntryBytes(e->kind, e->length);
    if (at > size_bytes) break;  // its payload was never written in full
    out.push_back(std::move(*e));
  }
  co_return out;
}

Task<Result<bool>> IsWholeEntry(Disk* disk, uint64_t segment, const SegmentEntry& e) {
  const bool packed = e.kind == ShardKind::kPacked;
  const std::string name = packed ? SegmentName(segment) : RawShardName(e.shard);
  const uint64_t base = packed ? SegmentPayloadOffset({segment, e.offset}, e.length) : 0;
  for (uint64_t at = 0; at < e.length; at += kReadBytes) {
    const uint64_t n = std::min(kReadBytes, e.length - at);
    Result<Buffer> bytes = co_await disk->Read(name, base + at, n);
    if (bytes.code() == FsError::kNoEnt) co_return false;
    if (!bytes.ok()) co_return bytes.error();
    if (bytes->size() != n) co_return false;
    const uint64_t first = at / kChecksumBlockBytes;
    const auto table = std::span(e.crcs).subspan(first, ChecksumBlocks(n));
    if (FirstBadBlock(e.shard, first, bytes->span(), table)) co_return false;
  }
  co_return true;
}

}  // namespace stria
