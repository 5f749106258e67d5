// Values that cross service boundaries: attributes, cluster map, leases, call headers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/protocol.h"
#include "common/buffer.h"
#include "common/error.h"
#include "common/ids.h"
#include "common/lock_ranges.h"
#include "stripe/types.h"
#include "trust/identity.h"

namespace stria {

inline constexpr size_t kMaxNameBytes = 255;
inline constexpr size_t kMaxSymlinkBytes = 4095;
inline constexpr size_t kMaxPathBytes = 4095;  // of a mounted directory
inline constexpr size_t kMaxXattrNameBytes = 255;
inline constexpr size_t kMaxXattrValueBytes = 64 * kKiB;
inline constexpr size_t kMaxXattrsBytes = 128 * kKiB;  // names and values of one inode
inline constexpr uint64_t kMaxMessageBytes = 8 * kMiB;  // one request or reply, payload included
inline constexpr uint64_t kMaxPayloadBytes = 4 * kMiB;  // bulk bytes of one data request or reply

// Numbers are on disk and on the wire.
enum class FileType : uint8_t {
  kFile = 1, kDirectory = 2, kSymlink = 3, kFifo = 4, kSocket = 5, kCharDevice = 6, kBlockDevice = 7,
};

inline constexpr uint8_t kAccessAcl = 1;
inline constexpr uint8_t kDefaultAcl = 2;

struct Attr {
  InodeId ino;
  FileType type = FileType::kFile;
  uint32_t mode = 0;  // permission bits, 07777
  uint32_t nlink = 0;
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint64_t rdev = 0;
  uint64_t size = 0;
  uint64_t allocated_bytes = 0;  // mapped by extents (st_blocks * 512)
  int64_t atime_ns = 0;  // wall clock
  int64_t mtime_ns = 0;
  int64_t ctime_ns = 0;
  uint64_t version = 0;       // grows with every change of the inode
  uint64_t data_version = 0;  // grows with every change of content or size
  uint8_t acls = 0;           // kAccessAcl, kDefaultAcl: which POSIX ACLs there are (extended attributes)
  bool operator==(const Attr&) const = default;
};

// How a session that is confined to an export names an inode besides by its number (trust/inode_handle.h): every reply that shows it
// one brings the seal, and its requests bring those of the inodes that they name (inodes_of.h). Sessions that are not confined
// have none.
struct InodeSeal {
  InodeId ino;
  uint64_t mac = 0;
  bool operator==(const InodeSeal&) const = default;
};
inline constexpr size_t kMaxRequestSeals = 16;

// Which life of the metadata server somebody has heard of (`term`; 0: of none), with what that life gave to prove it by
// (meta/core/term_proof.h; 0: nothing). Terms grow from life to life of the cluster's metadata, also over restores.
struct SaidTerm {
  uint64_t term = 0;
  uint64_t proof = 0;
  bool operator==(const SaidTerm&) const = default;
};

// On every metadata request.
struct OpHeader {
  uint32_t protocol = kProtocolVersion;  // api/protocol.h
  uint32_t oldest_protocol = kOldestProtocol;
  Uuid cluster;        // 0 only before the client knows it
  SessionId session;   // 0 for node and admin calls
  Epoch epoch;         // of the session: a secret between it and the server
  OpSeq op_seq;        // > 0 on mutations: exactly once per (session, op_seq)
  OpSeq acked_below;   // replies of all ops below this have arrived: the server may forget them
  uint32_t uid = 0;    // the caller: no other field says who it is
  uint32_t gid = 0;
  std::vector<uint32_t> groups;  // supplementary, at most 65,536
  int64_t timeout_ns = 30 * kSecond;  // how long the caller waits; every call has one
  uint64_t trace_id = 0;  // of a session's calls: numbers them in the order in which they were begun
  uint64_t term = 0;      // of the server that is asked; another one refuses (kRetryLater). 0: any
  // Of a replay: replays of all sessions run in this order, which is that of the lost commits. 0: none. It counts between the
  // session's reclaim and its first Sync, and not below the first replay that the session announced.
  uint64_t replay_order = 0;
  uint64_t replay_next = 0;  // of the session's next replay (also on a reclaim: of its first); 0: there is none
  // OpenReply::proof of the request's inode: the server does not check permissions again for an inode that the session has, or
  // had, open. On a replay that makes an inode: of the number that it had.
  std::string opened;
  // Of a mutation that no program waits for any more: if it has not begun it is refused (kTimedOut), and so is a later copy.
  // Otherwise its answer is wanted as before.
  bool settle = false;
  std::vector<InodeSeal> seals;  // of the request's inodes, at most kMaxRequestSeals; of a confined session only
  // The newest life of the metadata server that the caller has heard of (SaidTerm); 0: of none. A server of an older one that is
  // shown the proof ends, and answers kNotLeader.
  uint64_t seen_term = 0;
  uint64_t seen_proof = 0;
  // Not on the wire: whom the connection has proved to be the caller (proto/stubs.h). Null: nothing was proved, as the
  // transport has no TLS, or the caller is of this process.
  std::shared_ptr<const Peer> peer;
};

// What a client's programs have read and written since it started; it counts itself.
struct ClientIo {
  uint64_t local_bytes = 0;          // fetched from disks of its own node (locality/read_tally.h)
  uint64_t network_bytes = 0;        // and of other nodes
  uint64_t reconstructed_bytes = 0;  // decoded from those
  uint64_t written_bytes = 0;        // given to it to write
  uint64_t operations = 0;           // that programs have begun; those that the kernel answers by itself do not count
  bool operator==(const ClientIo&) const = default;
};

// A session's right to an inode's data and size without asking (meta/session/lease_table.h).
enum class LeaseMode : uint8_t {
  kNone = 0,
  kRead = 1,       // cache data and attributes; several sessions
  kExclusive = 2,  // also buffer writes; one session, no other holds anything
  kShared = 3,     // someone writes while others use it: no caching, writes commit before reply
};

// Pushed by the metadata server to a session. Processed in order; acknowledged by number.
struct SessionEvent {
  enum class Kind : uint8_t {
    kInvalidateAttr = 1,   // forget ino's attributes and its xattrs
    kInvalidateData = 2,   // forget ino's extents and cached bytes (and attributes)
    kInvalidateEntry = 3,  // forget (ino, name), positive or negative, and ino's listing
    kRecall = 4,           // bring ino's lease down to `lease` (flush first), then call LeaseDone
    kFlush = 5,            // commit dirty data of ino, keep the lease, then call LeaseDone
    kClusterMap = 6,       // fetch the map again
    kLockFree = 7,         // a lock that is waited for (`ticket`) can perhaps be had now: ask again
  };
  uint64_t seq = 0;
  Kind kind = Kind::kInvalidateAttr;
  InodeId ino;
  std::string name;
  LeaseMode lease = LeaseMode::kNone;
  uint64_t ticket = 0;
};

// Locks of the two kinds do not see each other, as in Linux.
enum class LockKind : uint8_t {
  kPosix = 1,  // fcntl(2): byte ranges, of a process or an open file (OFD)
  kFlock = 2,  // flock(2): the whole file, of an open file
};

// A lock of a session, on behalf of one of its owners (a process or open file of the client; the client's
// number for it).
struct FileLock {
  InodeId ino;
  LockKind kind = LockKind::kPosix;
  uint64_t owner = 0;
  LockType type = LockType::kNone;
  uint64_t first = 0;
  uint64_t last = kLockToEnd;
  uint32_t pid = 0;
  LockRange range() const { return {first, last, type, pid}; }
  bool operator==(const FileLock&) const = default;
};

enum class NodeState : uint8_t { kUp = 1, kSuspect = 2, kDown = 3, kOut = 4 };
enum class TargetState : uint8_t {
  kUp = 1,        // in use
  kDraining = 2,  // readable; nothing new is placed; its shards move away
  kFailed = 3,    // the disk returned errors or is lost; its shards are being rebuilt elsewhere
  kOut = 4,       // nothing on it counts any more
  kRemoved = 5,
};

struct NodeInfo {
  NodeId id;
  Uuid uuid;
  std::string name;     // "n3"
  std::string address;  // host:port
  NodeState state = NodeState::kUp;
  int64_t since_ns = 0;  // wall clock of the last change of state
  bool operator==(const NodeInfo&) const = default;
};

// The device below a disk's directory, in its own words (smartctl). Counts are 0 where it does not say.
enum class SmartHealth : uint8_t { kUnknown, kGood, kFailing };
struct DiskSmart {
  std::string device;  // "sda"; "": nothing is known
  std::string model;
  std::string serial;
  uint64_t power_on_hours = 0;
  uint32_t temperature_c = 0;  // degrees Celsius
  uint64_t reallocated = 0;    // sectors
  uint64_t pending = 0;        // sectors that could not be read, and were not written since
  SmartHealth health = SmartHealth::kUnknown;
  std::string problem;         // why it is failing: a part of a sentence
  bool operator==(const DiskSmart&) const = default;
};

struct TargetInfo {
  TargetId id;
  NodeId node;
  Uuid disk_uuid;
  std::string label;  // "d2", unique in its node
  std::string channel;  // "" means a channel of its own
  TargetState state = TargetState::kUp;
  uint64_t capacity_bytes = 0;
  uint64_t free_bytes = 0;   // net of the repair reserve
  uint64_t used_bytes = 0;   // by shards
  uint64_t read_errors = 0;
  uint64_t write_errors = 0;
  uint64_t checksum_errors = 0;
  std::string problem;    // why its node cannot use it, in the node's words; "" if it can
  bool given_up = false;  // failed, but only because it was away too long: usable again when it returns
  uint64_t read_us = 0;   // that half of its last reads took at least; 0: too few to say. Not persistent
  DiskSmart smart;        // not persistent
  bool operator==(const TargetInfo&) const = default;
};

struct ClusterMap {
  uint64_t version = 0;
  Uuid cluster;
  uint64_t incarnation = 0;  // bumped when metadata is restored from a backup
  std::vector<NodeInfo> nodes;      // by id
  std::vector<TargetInfo> targets;  // by id
  std::string bundle;                // the authorities that are believed, PEM, the one that signs last; "": there are none (it is insecure)
  std::vector<std::string> revoked;  // serial numbers of certificates that are not believed although they are not over
  // Of the life of the server that gave this map; 0: an older one, which does not say. Not of the map's version.
  uint64_t term = 0;
  uint64_t term_proof = 0;
  // Of who asks for the map (GetMap) only: the server's version ("": an older one, which does not say), and its wall clock as it answered.
  std::string server_version;
  int64_t wall_ns = 0;
  SaidTerm said() const { return {term, term_proof}; }
  const NodeInfo* FindNode(NodeId id) const {
    for (const NodeInfo& n : nodes) if (n.id == id) return &n;
    return nullptr;
  }
  const TargetInfo* FindTarget(TargetId id) const {
    for (const TargetInfo& t : targets) if (t.id == id) return &t;
    return nullptr;
  }
  // "n3:d2"
  std::string TargetName(TargetId id) const {
    const TargetInfo* t = FindTarget(id);
    const NodeInfo* n = t ? FindNode(t->node) : nullptr;
    return n ? n->name + ":" + t->label : "target " + std::to_string(id.v);
  }
};

// The outcome of one item of a vector request.
struct ItemResult {
  FsError code = FsError::kOk;
  std::string message;
  Error error() const { return Error(code, message); }
};

// A stripe with a token for each column that has a shard (encoded ShardToken, common/token.h; opaque
// to clients). tokens.size() == info.columns.size(); "" where there is no shard.
struct StripeGrant {
  StripeInfo info;
  std::vector<std::string> tokens;
  // For want of space no column may become longer than this; a multiple of the unit. 0: as in a full stripe of the layout.
  uint64_t max_column_bytes = 0;
};
// Many reads use a mapping's grants, and each may outlive it.
using SharedGrant = std::shared_ptr<const StripeGrant>;

}  // namespace stria
