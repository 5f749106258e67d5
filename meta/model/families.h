// The families of the metadata store, and how their keys are made.
//
// Keys are fixed-width big-endian numbers (and a name at the end), so that records that are read together lie together. Numbers
// of families are on disk: append only. docs/formats.md has the table.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/ids.h"
#include "common/kv/kv.h"

namespace stria {

enum class Family : KvFamily {
  kState = 0,           // "super", "state": superblock; commit sequence, id ranges, counters
  kInodes = 1,          // ino
  kDentries = 2,        // parent, name hash, name
  kParents = 3,         // ino, parent, name
  kExtents = 4,         // ino, file offset
  kStripes = 5,         // stripe
  kStripeRefs = 6,      // stripe, ino, file offset
  kRefBytes = 7,        // stripe
  kTargetStripes = 8,   // target, shard: the shards of a dead disk; which shards are known
  kCluster = 9,         // (meta's cluster code)
  kSessions = 10,       // session
  kReplies = 11,        // session, op sequence
  kLocks = 12,          // ino, ... (reserved)
  kRepairs = 13,        // (meta's repair code)
  kGarbage = 14,        // target, shard: to delete there
  kOrphans = 15,        // ino: unlinked while open
  kXattrs = 16,         // ino, name
  kIntents = 17,        // ino: has masked ranges to trim
  kSessionStripes = 18, // session, stripe: allocated, not committed
};
inline constexpr size_t kFamilies = 19;

// "inodes"; also the name of the RocksDB column family.
std::string_view FamilyName(Family f);
// Names of all families by number, and the prefix that scans of each stay in (common/kv/rocks_kv.h).
std::vector<std::string> FamilyNames();
std::vector<size_t> FamilyPrefixBytes();

// The name's place in its directory: 55 bits of XXH3 above 8 zero bits, never 0. The low bits are for
// the slot that tells names of the same hash apart, so that hash | slot is a readdir cookie, in
// [kFirstCookie, 2^63), unique in its directory while the entry exists.
uint64_t NameHash(std::string_view name);
inline constexpr uint64_t kFirstCookie = 257;  // smaller ones are free for "." and ".."
inline constexpr uint32_t kMaxSlots = 255;     // names of one hash in one directory

std::string InodeKey(InodeId ino);
std::string DentryKey(InodeId parent, std::string_view name);
std::string DentryHashKey(InodeId parent, uint64_t hash);  // before all names of this hash
std::string ParentKey(InodeId ino, InodeId parent, std::string_view name);
std::string ExtentKey(InodeId ino, uint64_t file_offset);
std::string StripeKey(StripeId stripe);
std::string StripeRefKey(StripeId stripe, InodeId ino, uint64_t file_offset);
std::string TargetShardKey(TargetId target, ShardId shard);
std::string TargetKey(TargetId target);
std::string NodeKey(NodeId node);
std::string SessionKey(SessionId session);
std::string SessionStripeKey(SessionId session, StripeId stripe);
std::string ReplyKey(SessionId session, OpSeq seq);
std::string XattrKey(InodeId ino, std::string_view name);
std::string SuperKey();
std::string StateKey();

// The end of the range of keys that begin with `prefix` ("" if there is none: to the last key).
std::string PrefixEnd(std::string_view prefix);

// Keys read back. False if malformed.
struct DentryKeyParts {
  InodeId parent;
  uint64_t hash = 0;
  std::string name;
};
bool ParseDentryKey(std::string_view key, DentryKeyParts* out);
struct ParentKeyParts {
  InodeId ino;
  InodeId parent;
  std::string name;
};
bool ParseParentKey(std::string_view key, ParentKeyParts* out);
struct StripeRefKeyParts {
  StripeId stripe;
  InodeId ino;
  uint64_t file_offset = 0;
};
bool ParseStripeRefKey(std::string_view key, StripeRefKeyParts* out);
struct TargetShardKeyParts {
  TargetId target;
  ShardId shard;
};
bool ParseTargetShardKey(std::string_view key, TargetShardKeyParts* out);
// Keys that are one number: inodes, stripes, ref_bytes, orphans, intents, sessions.
bool ParseKey64(std::string_view key, uint64_t* out);
// Keys that are two: extents, session stripes, replies.
bool ParseKey64x2(std::string_view key, uint64_t* first, uint64_t* second);
bool ParseXattrKey(std::string_view key, InodeId* ino, std::string* name);

// "0000000000000001 'name'": the key for people, hex in words of its family.
std::string KeyToString(Family f, std::string_view key);

}  // namespace stria
