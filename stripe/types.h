// The vocabulary of the data path: layouts (policy), shapes (one stripe's geometry), extents.
// Values only; the arithmetic is in layout.h, codec.h, extent_map.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/units.h"

namespace stria {

inline constexpr uint32_t kMaxDataColumns = 32;   // k, per group
inline constexpr uint32_t kMaxParity = 4;         // m, per group
inline constexpr uint32_t kMaxColumns = 64;       // of one stripe, data and parity of all groups
inline constexpr uint64_t kDefaultUnitBytes = 256 * kKiB;
inline constexpr uint64_t kDefaultStripeBytes = 32 * kMiB;  // payload of a full stripe
inline constexpr uint64_t kMaxStripeBytes = 1 * kGiB;
inline constexpr uint64_t kChecksumBlockBytes = 64 * kKiB;
inline constexpr uint64_t kMaxInlineBytes = 64 * kKiB;      // of one inline extent
inline constexpr uint64_t kMaxFileBytes = (uint64_t{1} << 63) - 1;  // off_t

// On disk and on the wire by number: append only.
enum class Codec : uint8_t {
  kNone = 0,         // m = 0
  kCopy = 1,         // k = 1: parity columns are copies
  kXor = 2,          // m = 1
  kVandermonde = 3,  // m <= 3 (ISA-L gf_gen_rs_matrix)
  kCauchy = 4,       // m <= 4 (ISA-L gf_gen_cauchy1_matrix)
};
enum class Domain : uint8_t { kNode = 1, kChannel = 2, kDisk = 3 };
enum class Arrangement : uint8_t { kSpread = 1, kGathered = 2 };
enum class Place : uint8_t { kSpread = 1, kLocal = 2, kNode = 3 };

// Policy of a file or directory, inherited at creation. A stripe has `groups` independent groups of
// k data and m parity columns: raid50:GxK+1 is groups=G k=K m=1, raid10:n is groups=n/2 k=1 m=1.
struct Layout {
  uint8_t groups = 1;
  uint8_t k = 4;
  uint8_t m = 1;
  // The fewest copies, or parity columns + 1, of a stripe while fewer than m + 1 disks can be written; 0: m + 1. At most m.
  uint8_t min_copies = 0;
  Codec codec = Codec::kXor;
  bool rotate = true;  // raid4 keeps parity on one target (as far as placement allows)
  Arrangement arrangement = Arrangement::kSpread;
  Domain domain = Domain::kNode;
  Place place = Place::kSpread;
  NodeId place_node;  // Place::kNode only
  uint32_t unit_bytes = kDefaultUnitBytes;      // multiple of 4 KiB
  uint64_t stripe_bytes = kDefaultStripeBytes;  // multiple of groups*k*unit_bytes
  uint32_t data_columns() const { return uint32_t{groups} * k; }
  uint32_t parity_columns() const { return uint32_t{groups} * m; }
  uint32_t columns() const { return data_columns() + parity_columns(); }
  bool operator==(const Layout&) const = default;
};

// The form of new stripes of a layout, and how long it holds.
struct LayoutRoom {
  std::string layout;   // "raid5:4+1,domain=disk": the settings that matter here
  std::string stripes;  // "3+1", "2 copies", "nothing" (they cannot be written)
  std::string until;    // "another node joins"; "" if they are as the layout asks
  bool narrow = false;
  bool crowded = false;
  bool thin = false;  // fewer copies, or less parity, than the layout asks for
  bool none = false;  // nothing can be written
  bool whole() const { return !narrow && !crowded && !thin && !none; }
  bool operator==(const LayoutRoom&) const = default;
};

// Geometry of one stripe. Columns are numbered data first: 0 .. groups*k-1 are data (group = column/k),
// then groups*m parity (group = (column - groups*k)/m).
//
// Spread: payload byte b is in row b/(D*unit), column (b/unit) mod D, D = groups*k.
// Gathered: column_bytes holds the length of each data column; payload fills column after column.
struct StripeShape {
  uint8_t groups = 1;
  uint8_t k = 1;
  uint8_t m = 0;
  Codec codec = Codec::kNone;
  uint32_t unit_bytes = kDefaultUnitBytes;
  uint64_t payload_bytes = 0;
  std::vector<uint64_t> column_bytes;  // gathered only: D entries, sum == payload_bytes; else empty
  uint32_t data_columns() const { return uint32_t{groups} * k; }
  uint32_t parity_columns() const { return uint32_t{groups} * m; }
  uint32_t columns() const { return data_columns() + parity_columns(); }
  bool gathered() const { return !column_bytes.empty(); }
  bool operator==(const StripeShape&) const = default;
};

// A byte range of a file and where its bytes are: at an offset of a stripe's payload, or here.
// Holes have no extent.
struct Extent {
  uint64_t file_offset = 0;
  uint64_t length = 0;           // > 0
  StripeId stripe;               // 0 for inline
  uint64_t stripe_offset = 0;    // in the stripe's payload
  std::string inline_bytes;      // size == length if inline
  bool is_inline() const { return !stripe; }
  uint64_t end() const { return file_offset + length; }
  bool operator==(const Extent&) const = default;
};

// Where one column of a stripe lies. A column of length 0 has no shard (shard == 0).
struct Column {
  ShardId shard;
  TargetId target;
  uint64_t length = 0;  // bytes of the shard
  uint64_t digest = 0;  // of its checksum table (checksum.h)
  bool operator==(const Column&) const = default;
};

struct StripeInfo {
  StripeId id;
  StripeShape shape;
  std::vector<Column> columns;  // shape.columns() entries
  bool narrow = false;   // fewer columns than its layout asks for (too few domains were there)
  bool crowded = false;  // two columns share a failure domain
  bool operator==(const StripeInfo&) const = default;
};

}  // namespace stria
