// Format of segment files: append-only, self-describing containers of small shards, and of the
// checksum tables of large ones, so that an index can be made again from the files alone.
//
//   0      header: magic, version, disk uuid, segment id, hash; zeros up to 4,096
//   4096   batches of entries. A batch (one group commit) begins at a multiple of 4,096, so that no
//          append touches a page that holds synced bytes; its entries begin at multiples of 64.
//   entry  head (48 bytes, then the table: u32 per block), padded to 64; then the payload if it has
//          one, padded to 64
//
// The hash of a head covers head and table and is seeded with disk, segment and offset: an entry
// copied elsewhere (say, inside the payload of another) is not one. All integers little-endian.
// Pure functions, but for ScanSegment.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/exec/task.h"
#include "common/ids.h"
#include "common/io/disk.h"
#include "common/units.h"
#include "server/shard_index.h"

namespace stria {

inline constexpr uint64_t kMaxPackedShardBytes = 256 * kKiB;  // larger shards are raw files
inline constexpr uint64_t kSegmentRollBytes = 64 * kMiB;
inline constexpr uint64_t kSegmentHeaderBytes = 4096;
inline constexpr uint64_t kSegmentBatchAlign = 4096;
inline constexpr uint64_t kSegmentEntryAlign = 64;
inline constexpr uint64_t kSegmentHeadBytes = 48;

struct SegmentEntry {
  uint64_t offset = 0;  // of the head, in the file
  ShardId shard;
  ShardKind kind = ShardKind::kPacked;  // kRaw: table only
  uint64_t length = 0;
  uint64_t digest = 0;
  std::vector<uint32_t> crcs;
};

// Head, table and padding.
uint64_t SegmentHeadBytes(uint64_t shard_length);
// All of the entry, padding included.
uint64_t SegmentEntryBytes(ShardKind kind, uint64_t shard_length);
// Where the payload of a packed shard is in the segment file.
inline uint64_t SegmentPayloadOffset(const SegmentPlace& place, uint64_t shard_length) {
  return place.offset + SegmentHeadBytes(shard_length);
}

std::string SegmentName(uint64_t segment);  // "segments/0000000000000001.seg"
std::string RawShardName(ShardId shard);    // "shards/2a/000000000000002a"
// False for names of another form.
bool ParseSegmentName(std::string_view name, uint64_t* segment);
bool ParseRawShardName(std::string_view name, ShardId* shard);

// kSegmentHeaderBytes long.
std::string EncodeSegmentHeader(const Uuid& disk, uint64_t segment);
Error CheckSegmentHeader(const Uuid& disk, uint64_t segment, std::string_view bytes);

// SegmentHeadBytes(entry.length) long; entry.offset counts.
std::string EncodeSegmentHead(const Uuid& disk, uint64_t segment, const SegmentEntry& entry);
// `bytes` begins at `offset`. kNoData if it is a head that goes beyond the end of `bytes`, kCorrupt if it
// is none.
Result<SegmentEntry> DecodeSegmentHead(const Uuid& disk, uint64_t segment, uint64_t offset,
                                       std::string_view bytes);

// All entries whose heads are whole, in order; bytes between them are skipped. Payloads are not read. kCorrupt if the segment's
// header is bad. With `begin`, an offset from which on entries are wanted, the header is not looked at: after a power cut it
// may be missing where later batches are not.
Task<Result<std::vector<SegmentEntry>>> ScanSegment(Disk* disk, Uuid disk_uuid, uint64_t segment, uint64_t size_bytes,
                                                    uint64_t begin = 0);

// True if the entry's bytes (a raw shard's in its file) are there and right; only disk errors are errors.
Task<Result<bool>> IsWholeEntry(Disk* disk, uint64_t segment, const SegmentEntry& entry);

}  // namespace stria
