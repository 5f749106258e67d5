#include "common/superblock.h"

#include <xxhash.h>

#include <cstdio>

#include "common/codec.h"

namespace stria {
namespace {

constexpr std::string_view kMagic("STRIASB\n", 8);
constexpr uint32_t kFormat = 1;
constexpr size_t kChecksumBytes = 8;

std::string_view KindName(StoreKind kind) {
  return kind == StoreKind::kDataDisk ? "a data disk" : "a metadata store";
}

}  // namespace

std::string EncodeSuperblock(const Superblock& sb) {
  CHECK(sb.label.size() <= kMaxSuperblockLabelBytes);
  ByteWriter body;
  body.U8(static_cast<uint8_t>(sb.kind));
  body.U64(sb.cluster.hi);
  body.U64(sb.cluster.lo);
  body.U64(sb.own.hi);
  body.U64(sb.own.lo);
  body.U64(sb.incarnation);
  body.U64(sb.compat);
  body.U64(sb.ro_compat);
  body.U64(sb.incompat);
  body.I64(sb.created_s);
  body.Str(sb.label);
  ByteWriter w;
  w.Raw(kMagic);
  w.U32(kFormat);
  w.Str(body.str());
  w.U64(XXH3_64bits(w.str().data(), w.size()));
  std::string block = w.Take();
  block.resize(kSuperblockBytes, '\0');
  return block;
}

Result<Superblock> DecodeSuperblock(std::string_view block, std::string_view where) {
  const std::string prefix = "the superblock of " + std::string(where) + " ";
  if (block.size() < kSuperblockBytes || !block.starts_with(kMagic)) {
    return Error(FsError::kCorrupt, std::string(where) + " has no Stria superblock");
  }
  ByteReader r(block.substr(kMagic.size()));
  const uint32_t format = r.U32();
  ByteReader body(r.Str());
  const uint64_t checksum = r.U64();
  const size_t covered = block.size() - r.left() - kChecksumBytes;
  if (!r.ok() || XXH3_64bits(block.data(), covered) != checksum) {
    return Error(FsError::kCorrupt, prefix + "is damaged: its checksum is wrong");
  }
  if (format != kFormat) {
    return Error(FsError::kVersion, prefix + "has format " + std::to_string(format) +
                                        ", this release knows " + std::to_string(kFormat) +
                                        ": use the release that made it");
  }
  Superblock sb;
  const uint8_t kind = body.U8();
  sb.kind = static_cast<StoreKind>(kind);
  sb.cluster.hi = body.U64();
  sb.cluster.lo = body.U64();
  sb.own.hi = body.U64();
  sb.own.lo = body.U64();
  sb.incarnation = body.U64();
  sb.compat = body.U64();
  sb.ro_compat = body.U64();
  sb.incompat = body.U64();
  sb.created_s = body.I64();
  sb.label = std::string(body.Str());
  if (!body.ok() || kind < 1 || kind > 2 || sb.label.size() > kMaxSuperblockLabelBytes) {
    return Error(FsError::kCorrupt, prefix + "does not decode");
  }
  if (const uint64_t unknown = sb.incompat & ~kKnownIncompat; unknown != 0) {
    char flags[32];
    std::snprintf(flags, sizeof flags, "0x%llx", static_cast<unsigned long long>(unknown));
    return Error(FsError::kVersion, prefix + "needs features that this release does not have (flags " +
                                        flags + "): use a newer release");
  }
  return sb;
}

Result<void> CheckSuperblock(const Superblock& sb, StoreKind kind, const Uuid& cluster,
                             std::string_view where) {
  if (sb.kind != kind) {
    return Error(FsError::kInval, std::string(where) + " is " + std::string(KindName(sb.kind)) + ", not " +
                                      std::string(KindName(kind)));
  }
  if (sb.cluster != cluster) {
    return Error(FsError::kWrongCluster, std::string(where) + " belongs to cluster " + sb.cluster.ToString() +
                                             ", not to " + cluster.ToString());
  }
  return Ok();
}

}  // namespace stria
