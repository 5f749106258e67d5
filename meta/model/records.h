// The values of the metadata store. Each record encodes to {version, length, body} (common/codec.h), and decoding checks every
// field: hostile bytes give kCorrupt with a sentence that names family and key, never a crash. Golden bytes of every record are
// in records_test.cc.
//
// A record type R has: R::kFamily, std::string Encode(), static Result<R> Decode(key, value).
// Values only; no thread-safety needed.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/types.h"
#include "common/codec.h"
#include "common/error.h"
#include "meta/model/families.h"
#include "stripe/types.h"

namespace stria {

inline constexpr uint32_t kMaxLinks = 65000;          // names of one file
inline constexpr uint32_t kMaxDirLinks = 2'000'000'000;  // subdirectories of one directory, and two: what programs take for a number of links
inline constexpr size_t kMaxMasks = 64;               // masked ranges of one inode
inline constexpr size_t kMaxXattrsPerInode = 1024;

// "record 0000000000000007 of family inodes is corrupt: WHAT"
Error CorruptRecord(Family f, std::string_view key, std::string_view what);

// ---- Pieces of records, for other modules' records as well ----
void EncodeLayout(const Layout& layout, ByteWriter* w);
Layout DecodeLayout(ByteReader* r);  // bounds and enums; the reader fails beyond them
void EncodeShape(const StripeShape& shape, ByteWriter* w);
StripeShape DecodeShape(ByteReader* r);  // bounds only: a stripe that is being filled has no payload yet
void EncodeStripeInfo(const StripeInfo& info, ByteWriter* w);
StripeInfo DecodeStripeInfo(ByteReader* r);
void EncodeNode(const NodeInfo& node, ByteWriter* w);
NodeInfo DecodeNode(ByteReader* r);
void EncodeTarget(const TargetInfo& target, ByteWriter* w);
TargetInfo DecodeTarget(ByteReader* r);

struct MaskRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool operator==(const MaskRange&) const = default;
};

struct InodeRecord {
  static constexpr Family kFamily = Family::kInodes;
  Attr attr;              // a directory's size is the number of its entries
  Layout layout;          // files and directories: the effective one
  bool layout_inherited = true;
  InodeId parent;         // directories; the root is its own
  std::string symlink_target;
  uint64_t inline_bytes = 0;   // held by inline extents
  uint64_t extent_count = 0;   // records in family extents, masked ones too
  uint32_t xattr_count = 0;
  uint32_t xattr_bytes = 0;    // names and values
  // Extents in these ranges are dead and wait to be trimmed (family intents): readers see holes. Sorted,
  // disjoint, at most kMaxMasks. attr.allocated_bytes, inline_bytes and extent_count still count them.
  std::vector<MaskRange> masks;
  bool dead() const { return attr.nlink == 0; }
  bool is_dir() const { return attr.type == FileType::kDirectory; }
  bool operator==(const InodeRecord&) const = default;
  std::string Encode() const;
  static Result<InodeRecord> Decode(std::string_view key, std::string_view value);
};

struct DentryRecord {
  static constexpr Family kFamily = Family::kDentries;
  InodeId ino;
  FileType type = FileType::kFile;
  uint8_t slot = 1;  // in [1, kMaxSlots]; cookie = NameHash(name) | slot
  bool operator==(const DentryRecord&) const = default;
  std::string Encode() const;
  static Result<DentryRecord> Decode(std::string_view key, std::string_view value);
};

struct ExtentRecord {
  static constexpr Family kFamily = Family::kExtents;
  Extent extent;  // file_offset is the key's
  bool operator==(const ExtentRecord&) const = default;
  std::string Encode() const;
  static Result<ExtentRecord> Decode(std::string_view key, std::string_view value);
};

enum class StripeState : uint8_t {
  kAllocated = 1,  // a session fills it; lengths and digests are not known; no references
  kLive = 2,       // sealed and committed; has references
};
struct StripeRecord {
  static constexpr Family kFamily = Family::kStripes;
  StripeInfo info;      // id is the key's
  StripeState state = StripeState::kAllocated;
  SessionId session;    // kAllocated: the owner
  InodeId ino;          // the file it was allocated for
  Layout layout;        // as asked for: to re-widen narrow stripes and to place rebuilt shards
  CommitSeq live_since; // kLive: since when; kAllocated: since when it is that
  // It has fewer copies, or less parity, than its layout asks for, as the layout allows (Layout::min_copies).
  bool is_thin() const { return info.shape.m < layout.m; }
  bool operator==(const StripeRecord&) const = default;
  std::string Encode() const;
  static Result<StripeRecord> Decode(std::string_view key, std::string_view value);
};

struct RefBytesRecord {
  static constexpr Family kFamily = Family::kRefBytes;
  uint64_t bytes = 0;  // of files, in extents of this stripe; > 0
  bool operator==(const RefBytesRecord&) const = default;
  std::string Encode() const;
  static Result<RefBytesRecord> Decode(std::string_view key, std::string_view value);
};

struct TargetStripeRecord {
  static constexpr Family kFamily = Family::kTargetStripes;
  StripeId stripe;
  uint16_t column = 0;
  bool pending = false;  // a rebuild is making this shard; the stripe does not use it yet
  bool operator==(const TargetStripeRecord&) const = default;
  std::string Encode() const;
  static Result<TargetStripeRecord> Decode(std::string_view key, std::string_view value);
};

struct GarbageRecord {
  static constexpr Family kFamily = Family::kGarbage;
  StripeId stripe;  // that it was of
  CommitSeq seq;    // delete when every session has acknowledged it
  CommitSeq allocated;  // of a stripe that was never committed, when it was allocated; else 0
  bool operator==(const GarbageRecord&) const = default;
  std::string Encode() const;
  static Result<GarbageRecord> Decode(std::string_view key, std::string_view value);
};

struct XattrRecord {
  static constexpr Family kFamily = Family::kXattrs;
  std::string value;
  bool operator==(const XattrRecord&) const = default;
  std::string Encode() const;
  static Result<XattrRecord> Decode(std::string_view key, std::string_view value);
};

// A record that is only its key.
template <Family F>
struct MarkerRecord {
  static constexpr Family kFamily = F;
  bool operator==(const MarkerRecord&) const = default;
  std::string Encode() const { return SealRecord(1, {}); }
  static Result<MarkerRecord> Decode(std::string_view key, std::string_view value) {
    uint8_t version = 0;
    std::string_view body;
    if (!OpenRecord(value, 1, &version, &body)) return CorruptRecord(F, key, "it does not decode");
    return MarkerRecord();
  }
};
using ParentRecord = MarkerRecord<Family::kParents>;
using StripeRefRecord = MarkerRecord<Family::kStripeRefs>;
using OrphanRecord = MarkerRecord<Family::kOrphans>;
using IntentRecord = MarkerRecord<Family::kIntents>;
using SessionStripeRecord = MarkerRecord<Family::kSessionStripes>;

// The stored reply of a mutation, by (session, op_seq). `bytes` is the service's own encoding.
struct ReplyRecord {
  static constexpr Family kFamily = Family::kReplies;
  uint16_t kind = 0;       // which call
  FsError code = FsError::kOk;
  std::string message;     // of an error
  std::string bytes;       // of a reply
  CommitSeq seq;
  uint64_t digest = 0;     // of the request (meta/files/request_digest.h); 0 in those of before
  bool operator==(const ReplyRecord&) const = default;
  std::string Encode() const;
  static Result<ReplyRecord> Decode(std::string_view key, std::string_view value);
};

inline constexpr uint64_t kSuperMagic = 0x4174654d61697274;  // "triaMetA"
struct SuperRecord {
  static constexpr Family kFamily = Family::kState;
  Uuid cluster;
  Uuid store;               // of this metadata store
  uint64_t incarnation = 1; // bumped when restored from a backup
  uint64_t compat = 0;      // features: unknown ones may be ignored,
  uint64_t ro_compat = 0;   //   forbid writing,
  uint64_t incompat = 0;    //   forbid reading
  int64_t created_ns = 0;
  bool operator==(const SuperRecord&) const = default;
  std::string Encode() const;
  static Result<SuperRecord> Decode(std::string_view key, std::string_view value);
};

// Kinds of ids, none given out twice.
enum class IdKind : uint8_t {
  kInode = 0,
  kStripe = 1,
  kShard = 2,
  kSession = 3,
  kStamp = 4,  // Attr::version, data_version
  kNode = 5,
  kTarget = 6,
  kTask = 7,
};
inline constexpr size_t kIdKinds = 8;
constexpr bool IsRanged(IdKind k) { return k != IdKind::kNode && k != IdKind::kTarget; }

// Numbers kept up to date in every batch.
enum class Counter : uint8_t {
  kFiles = 0,        // inodes that are not directories, dead ones too
  kDirectories = 1,
  kStripes = 2,      // live
  kLiveBytes = 3,    // in stripes, referenced by files
  kInlineBytes = 4,
  kNarrow = 5,       // live stripes
  kCrowded = 6,      // live stripes
  kGarbageShards = 7,
  kAllocated = 8,    // stripes being filled
};
inline constexpr size_t kCounters = 9;

struct StateRecord {
  static constexpr Family kFamily = Family::kState;
  CommitSeq seq;                                // of the batch that it came with
  std::array<uint64_t, kIdKinds> id_limits{};   // ids below were (or may have been) given out
  std::array<uint64_t, kCounters> counters{};
  bool operator==(const StateRecord&) const = default;
  std::string Encode() const;
  static Result<StateRecord> Decode(std::string_view key, std::string_view value);
};

}  // namespace stria
