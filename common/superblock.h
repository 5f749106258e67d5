// The superblock of a data disk or a metadata store: its owner, and the features that a program must understand to use it. One
// block of kSuperblockBytes, written as a whole (Disk::ReplaceFile).
//
// Layout, little-endian: magic[8], u32 format, u32 n, n bytes of fields, u64 XXH3 of everything before
// it, zeros. A reader takes fields that it does not know at the end; format changes only if old readers
// would misread it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/error.h"
#include "common/ids.h"

namespace stria {

inline constexpr size_t kSuperblockBytes = 4096;
inline constexpr size_t kMaxSuperblockLabelBytes = 256;
inline constexpr std::string_view kSuperblockFile = "superblock";  // its usual name

enum class StoreKind : uint8_t { kDataDisk = 1, kMetadata = 2 };

// Features in use. Unknown compat: ignored. Unknown ro_compat: read only. Unknown incompat: refused.
inline constexpr uint64_t kKnownCompat = 0;
inline constexpr uint64_t kKnownRoCompat = 0;
// A metadata store that is one of several: alone it would be a second cluster.
inline constexpr uint64_t kIncompatOneOfSeveral = 1;
inline constexpr uint64_t kKnownIncompat = kIncompatOneOfSeveral;

struct Superblock {
  StoreKind kind = StoreKind::kDataDisk;
  Uuid cluster;
  Uuid own;
  uint64_t incarnation = 0;  // of the cluster; a restore of metadata bumps it
  uint64_t compat = 0;
  uint64_t ro_compat = 0;
  uint64_t incompat = 0;
  int64_t created_s = 0;  // wall clock, seconds since 1970
  std::string label;      // for people; at most kMaxSuperblockLabelBytes
  bool operator==(const Superblock&) const = default;
  bool must_be_read_only() const { return (ro_compat & ~kKnownRoCompat) != 0; }
};

// Exactly kSuperblockBytes. REQUIRES: the label fits.
std::string EncodeSuperblock(const Superblock& sb);
// `where` names the disk or store in the sentences. kCorrupt: no superblock, or a damaged one. kVersion:
// of a newer release (format or incompat flags).
Result<Superblock> DecodeSuperblock(std::string_view block, std::string_view where);
// That it is of this kind (kInval) and cluster (kWrongCluster).
Result<void> CheckSuperblock(const Superblock& sb, StoreKind kind, const Uuid& cluster,
                             std::string_view where);

}  // namespace stria
