// Upkeep: orders and questions of admins beyond api/meta_api.h, and reports of data servers about them. Served by the metadata
// server; apart from MetaService because clients do not need it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/types.h"
#include "common/exec/task.h"

namespace stria {

inline constexpr size_t kMaxAffectedFiles = 1000;   // of one reply
inline constexpr size_t kMaxComparedShards = 4096;  // of one request
inline constexpr size_t kMaxUnfitStripes = 100;     // of one disk

inline constexpr size_t kMaxEvents = 1000;          // of one reply

// One pass over a disk: every sealed shard is compared with the metadata, read, and checked.
struct ScrubProgress {
  TargetId target;
  bool running = false;
  uint64_t bytes_done = 0;
  uint64_t bytes_total = 0;  // as of the pass's beginning
  uint64_t shards = 0;
  uint64_t damaged = 0;      // found by the pass, and reported for repair
  int64_t started_s = 0;     // wall clock, 0: never since the server started
  int64_t finished_s = 0;    // of the last whole pass, 0: none
  int64_t order_s = 0;       // ScrubOrder::start_s that the last pass began for, 0: by itself
  uint64_t stripes = 0;      // with first parity shard here: their parity was compared with their data
  std::vector<StripeId> unfit;  // of these: the parity does not fit, and every column is as it was written
  bool operator==(const ScrubProgress&) const = default;
};

// Orders to a data server about the disks it reported.
struct ScrubOrder {
  bool paused = false;
  uint64_t bytes_per_s = 0;     // per disk; 0: as the server is configured
  int64_t start_s = 0;          // begin a pass of `targets`, unless one began for this order already
  std::vector<TargetId> targets;
};

struct ReportScrubRequest {
  OpHeader header;
  NodeId node;
  Epoch epoch;
  std::vector<ScrubProgress> disks;
};

// Sealed shards of a disk with after < id <= last, all of them, by id.
struct HeldShard {
  ShardId shard;
  uint64_t digest = 0;  // of its checksum table
};
struct CompareShardsRequest {
  OpHeader header;
  TargetId target;
  ShardId after;
  ShardId last;
  std::vector<HeldShard> held;
};
struct CompareShardsReply {
  std::vector<ShardId> missing;  // live stripes have them there; look again, they may be newer than the list
  std::vector<ShardId> wrong;    // shards with wrong bytes
  uint64_t term = 0;             // of the server; 0: an older release
};

// Live stripes with after < id <= last whose first parity shard (of the first group) is on the target, by id.
struct ListParityRequest {
  OpHeader header;
  TargetId target;
  ShardId after;
  ShardId last;
};
struct ListParityReply {
  std::vector<StripeGrant> stripes;  // with read tokens; those that lack a column are left out
  ShardId last;                      // the reply is complete up to here; ask again for what follows
};

enum class UpkeepVerb : uint8_t {
  kStatus = 1,
  kScrubStart = 2,      // every disk in use, now; number: bytes/s per disk, 0 as configured
  kScrubPause = 3,
  kScrubResume = 4,
  kRebalanceStart = 5,  // move shards until all disks are filled alike
  kRebalanceStop = 6,
  kRepairStart = 7,     // down nodes are given up now, waiting stripes are tried again
  kBackupNow = 8,       // all that is committed is in the metadata's backup when this returns
  kForgetUnknown = 9,   // after a restore: shards that the metadata does not know need not be kept any more
};
struct UpkeepRequest {
  OpHeader header;
  UpkeepVerb verb = UpkeepVerb::kStatus;
  uint64_t number = 0;
  bool dry_run = false;
};
struct AffectedFile {
  InodeId ino;
  std::string path;  // one of them, from the root; "" if it has none
  uint64_t offset = 0;
  uint64_t length = 0;
  bool lost = false;  // of CanRemove: else only with less redundancy until it is rebuilt
};
// The metadata's backup on the data servers.
struct BackupState {
  bool on = false;            // this server makes one
  bool complete = false;      // the archive has a whole checkpoint and all batches since
  int64_t behind_ns = 0;      // age of the oldest change that is not archived; 0: all are
  std::vector<NodeId> nodes;  // that keep it
  int64_t checkpoint_s = 0;   // wall clock, of the last one; 0: none since the server started
  uint64_t checkpoint_bytes = 0;
  std::string problem;        // why it does not go on; "" if it does
  int64_t hold_until_s = 0;   // wall clock; after a restore: unknown shards are kept until then. 0: none are
  uint64_t held_shards = 0;   // of those, found so far
  std::string damage;         // what of the metadata store itself could not be read; "" if nothing was met
};
// Mirrored columns that get one parity together (docs/folding.md).
struct FoldState {
  bool on = false;
  uint64_t under_way = 0;     // folds
  uint64_t waiting = 0;       // stripes that could be folded; not all may have been found yet
  uint64_t folded = 0;        // folds made since the server started
  uint64_t folded_bytes = 0;  // of their data
};
struct UpkeepReply {
  std::string message;  // one sentence: done, or to be done
  bool scrub_paused = false;
  uint64_t scrub_bytes_per_s = 0;     // 0: as the servers are configured
  std::vector<ScrubProgress> scrubs;  // as last reported; disks not yet heard of are missing
  bool rebalancing = false;
  uint64_t rebalance_bytes_done = 0;
  uint64_t rebalance_bytes_left = 0;  // estimate
  std::vector<AffectedFile> unfit;    // of stripes whose parity does not fit; at most kMaxAffectedFiles
  BackupState backup;
  FoldState folding;
};

// Fsck that makes the safe repairs (meta/ops/fsck.h). All other calls wait until it is done.
struct FsckRepairRequest {
  OpHeader header;
  bool dry_run = false;
};
struct FsckRepairReply {
  std::vector<std::string> done;      // a sentence for each repair, done or to be done
  std::vector<std::string> problems;  // that are left (dry_run: that are there); at most 1,000
};

// The cost of pulling out these disks now, all at once.
struct CanRemoveRequest {
  OpHeader header;
  std::vector<TargetId> targets;
};
struct CanRemoveReply {
  uint64_t lost_stripes = 0;      // beyond those that cannot be read already
  uint64_t degraded_stripes = 0;  // that have a shard there, and would stay readable
  std::vector<AffectedFile> files;  // lost ones first; at most kMaxAffectedFiles
  bool more = false;                // there are more than these
};

// Names of an inode that the caller could find by listing directories, page by page; an admin gets all.
struct NamesRequest {
  OpHeader header;
  InodeId ino;
  std::string after;  // `next` of the page before
};
struct NamesReply {
  std::vector<std::string> paths;
  uint64_t hidden = 0;  // names in directories that the caller may not list
  std::string next;     // "" if that were all
};

// The files that status, scrub status and can-remove name, page by page: those have only the first ones. For admins, as there.
enum class FilesKind : uint8_t {
  kLost = 1,          // ranges that cannot be read
  kThin = 2,          // have fewer copies than their layout asks for, as it allows
  kUnfit = 3,         // parity does not fit, though all is as it was written
  kWouldBeLost = 4,   // without `targets`
  kWouldDegrade = 5,  // without `targets`, but could still be read
};
struct FilesRequest {
  OpHeader header;
  FilesKind kind = FilesKind::kLost;
  std::vector<TargetId> targets;
  std::string after;  // `next` of the page before
};
struct FilesReply {
  std::vector<AffectedFile> files;  // at most kMaxAffectedFiles
  std::string next;                 // "" if that were all
  bool cut = false;                 // all that are remembered: there are more such stripes
};

// What happened to the cluster, each change once: a bounded history, which survives restarts.
enum class EventSeverity : uint8_t {
  kNote = 0,      // it is well again, or nothing is to be done
  kWarning = 1,   // redundancy, room or time is lost
  kCritical = 2,  // bytes cannot be read or written, or are at risk
};
struct ClusterEvent {
  uint64_t seq = 0;      // dense but after a restore of the metadata; never given twice
  int64_t time_ns = 0;   // wall clock
  std::string kind;      // "node-down": docs/operations.md, "Being told"
  EventSeverity severity = EventSeverity::kNote;
  std::string subject;   // "n3", "n3:d2", "cluster"
  std::string text;      // one sentence
  std::string action;    // one sentence or a command to paste; "" if nothing is to be done
  uint32_t count = 1;    // how often it was so: it came and went since, too often to tell each time
  int64_t last_ns = 0;   // wall clock, of the last time
};
struct ReadEventsRequest {
  OpHeader header;
  uint64_t after = 0;    // only those with a larger number
  int64_t since_ns = 0;  // and not from before; wall clock
  EventSeverity least = EventSeverity::kNote;  // and not less severe
  uint32_t limit = kMaxEvents;
  int64_t wait_ns = 0;   // if there is none, until there is one; bounded by what header.timeout_ns leaves
};
struct ReadEventsReply {
  std::vector<ClusterEvent> events;  // by number; at most kMaxEvents
  uint64_t next = 0;   // `after` of the next request: all up to this were looked at
  uint64_t first = 0;  // number of the oldest one that is kept; 0: there is none
  bool more = false;   // there are later ones already
};

class AdminService {
 public:
  virtual ~AdminService() = default;
  virtual Task<Result<UpkeepReply>> Upkeep(UpkeepRequest r) = 0;
  virtual Task<Result<CanRemoveReply>> CanRemove(CanRemoveRequest r) = 0;
  virtual Task<Result<ScrubOrder>> ReportScrub(ReportScrubRequest r) = 0;
  virtual Task<Result<CompareShardsReply>> CompareShards(CompareShardsRequest r) = 0;
  virtual Task<Result<ListParityReply>> ListParity(ListParityRequest r) = 0;
  virtual Task<Result<FsckRepairReply>> FsckRepair(FsckRepairRequest r) = 0;
  virtual Task<Result<NamesReply>> Names(NamesRequest r) = 0;
  virtual Task<Result<FilesReply>> Files(FilesRequest r) = 0;
  virtual Task<Result<ReadEventsReply>> ReadEvents(ReadEventsRequest r) = 0;
};

class AdminConnector {
 public:
  virtual ~AdminConnector() = default;
  virtual std::shared_ptr<AdminService> ConnectAdmin(const std::string& address) = 0;
};

}  // namespace stria
