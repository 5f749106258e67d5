// The cluster's half of the metadata service: data servers register, send heartbeats and report work; status and the admin's
// verbs. Part of meta_api.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/types.h"
#include "common/fenced_holders.h"

namespace stria {

struct DiskHello {
  Uuid uuid;
  std::string label;
  std::string channel;
  TargetId target;  // 0 for a disk that was never registered
  uint64_t capacity_bytes = 0;
  uint64_t free_bytes = 0;
  uint64_t used_bytes = 0;
  uint64_t read_errors = 0;
  uint64_t write_errors = 0;
  uint64_t checksum_errors = 0;
  bool failed = false;  // the node asks to give it up at once
  // The node cannot read it now: its sizes say nothing, and it may have no uuid (it is known by its label).
  bool absent = false;
  std::string problem;  // why it is failed or absent: a sentence
  uint64_t read_us = 0;  // that half of its last reads took at least; 0: too few to say
  uint64_t filesystem = 0;  // a number for the one that it is on, the same for all disks on that, of any node; 0: not known
  std::string proof;  // of a registration: what the last one left on the disk (RegisterNodeReply::disk_proofs)
  DiskSmart smart;          // of the device below it
};
struct RegisterNodeRequest {
  OpHeader header;
  Uuid uuid;
  std::string name;
  std::string address;
  uint64_t incarnation = 0;  // as the node last knew it, 0 at first
  std::string proof;         // HMAC with the cluster key over uuid and name (common/token.h)
  std::vector<DiskHello> disks;
};
// A key of the node's own, by which it judges shard tokens that are bound to a holder (common/bound_token.h).
struct NodeTokenKey {
  uint32_t id = 0;     // its generation
  std::string secret;  // 32 bytes
};
struct RegisterNodeReply {
  NodeId node;
  Epoch epoch;  // of this registration: older ones of the same node are fenced
  std::vector<TargetId> targets;  // one per disk of the request
  ClusterMap map;
  int64_t beat_ns = 0;  // send a heartbeat this often
  int64_t token_time_ns = 0;  // now, in which tokens expire (common/token_clock.h)
  std::vector<NodeTokenKey> token_keys;  // of yesterday, today and tomorrow; none where the node has not proved who it is
  std::vector<FencedHolder> fenced;  // at most kMaxFencedHolders; none where it gets no keys
  // One per disk of the request, to be kept on it: another node registers the disk by that only. "" of a disk that this node does not
  // have; none where it has not proved who it is.
  std::vector<std::string> disk_proofs;
};
// Work for a data server. Given again with every heartbeat until its result is reported.
struct DeleteWork {
  ShardId shard;
  TargetId target;
  std::string token;
};
struct RebuildWork {
  uint64_t task = 0;
  StripeGrant stripe;           // with read tokens; columns as they are now
  std::vector<uint16_t> lost;   // columns that cannot be read
  uint16_t column = 0;          // to make again
  bool copy = false;            // drain: the old shard can be read, copy it
  ShardId new_shard;            // the column's own: parity that is made for the first time, from data columns
  TargetId new_target;          // of the node that gets this work
  std::string write_token;
};
// A stripe that is narrower than its layout is laid out over more columns.
struct WidenWork {
  uint64_t task = 0;
  StripeGrant from;  // with read tokens; as it is now
  StripeGrant to;    // with write tokens; the same payload, digests not known yet
};
// A reader could not use the shard: its own node looks at it.
struct CheckWork {
  ShardId shard;
  TargetId target;
  uint64_t digest = 0;  // as recorded
};
struct HeartbeatRequest {
  OpHeader header;
  NodeId node;
  Epoch epoch;
  std::vector<DiskHello> disks;
  uint32_t rebuild_slots = 0;  // how many more rebuilds, or stripes to widen, it would take on
  std::vector<NodeId> unreachable;  // that it has tried to reach lately, and could not
  int64_t wall_ns = 0;   // the node's clock when it was sent; 0: it does not say
  std::string version;   // of its program; "": it does not say
};
struct HeartbeatReply {
  uint64_t map_version = 0;
  uint64_t term = 0;
  bool register_again = false;
  std::vector<DeleteWork> deletes;
  std::vector<RebuildWork> rebuilds;
  std::vector<WidenWork> widens;
  int64_t token_time_ns = 0;  // as of RegisterNodeReply
  std::vector<NodeTokenKey> token_keys;  // the same
  std::vector<FencedHolder> fenced;      // the same
  std::vector<CheckWork> checks;
};
struct RebuildResult {
  uint64_t task = 0;
  ItemResult result;
  uint64_t length = 0;
  uint64_t digest = 0;  // of the new shard
  uint64_t bytes_read = 0;
  std::vector<uint16_t> bad_columns;  // sources that failed
  // Of the new shard (stripe/checksum.h): under the number of the one that is replaced it has the digest that was recorded, or
  // the result is refused. Empty on an error, and of parity that is made for the first time.
  std::vector<uint32_t> table;
};
struct WidenResult {
  uint64_t task = 0;
  ItemResult result;
  std::vector<uint64_t> digests;  // of the new columns, 0 where there is no shard; empty on error
  uint64_t bytes_read = 0;
  std::vector<uint16_t> bad_columns;  // of the old stripe: sources that failed
  // Registers of the payload's pieces (stripe/relaid.h). In the old form they give the digests that were recorded, and in the new
  // one those above, or the result is refused. Empty on an error.
  std::vector<uint32_t> pieces;
};
struct CheckResult {
  ShardId shard;
  TargetId target;
  ItemResult result;  // kOk: all of it is as it was written
};
struct ReportWorkRequest {
  OpHeader header;
  NodeId node;
  Epoch epoch;
  std::vector<ShardId> deleted;
  std::vector<RebuildResult> rebuilt;
  std::vector<WidenResult> widened;
  std::vector<CheckResult> checked;
};
// For quarantine: which of these shards does the metadata not know (design section 3, garbage)?
struct CheckShardsRequest {
  OpHeader header;
  TargetId target;
  std::vector<ShardId> shards;
};
struct CheckShardsReply {
  std::vector<ShardId> unknown;
  uint64_t incarnation = 0;
  uint64_t term = 0;  // of the server; 0: an older release
};

struct RepairProgress {
  TargetId target;        // the one being emptied
  std::string reason;     // "n3 is out", "drain"
  uint64_t stripes_total = 0;
  uint64_t stripes_done = 0;
  uint64_t bytes_total = 0;
  uint64_t bytes_done = 0;
  double bytes_per_s = 0;
  int64_t eta_s = -1;     // -1 unknown
  bool paused = false;
  uint64_t stuck = 0;     // stripes with no place to go or too few survivors
};
struct LostFile {
  InodeId ino;
  std::string path;
  uint64_t offset = 0;
  uint64_t length = 0;
};
struct SessionInfo {
  SessionId id;
  std::string client;
  std::string node_name;
  int64_t lease_left_ns = 0;
  std::string owner;  // the name that its client has proved; "": none
  ClientIo io;        // as it told last; of this term of the server only
};
// The cost of losing one node, with everything else there.
struct NodeExposure {
  NodeId node;
  uint64_t stripes = 0;      // that could not be read without it: it has more columns of a group than can be lost
  uint64_t bytes = 0;        // payload of these
  uint64_t unprotected = 0;  // of these: their layout has no redundancy at all
};
struct NodeLoss {
  bool counted = false;  // once since the server started
  int64_t age_ns = 0;    // for how long this may not be so any more; 0: it is so now
  std::vector<NodeExposure> nodes;  // nodes whose loss would cost something, by id
};
// The metadata server's findings about its disk, in its words, and what to do.
struct Advice {
  uint8_t severity = 0;  // 0: a hint, 1: degraded, 2: at risk
  std::string what;      // a sentence
  std::string action;    // a sentence or a command to paste; "" if it heals by itself
  bool operator==(const Advice&) const = default;
};
struct StatusReply {
  ClusterMap map;
  uint64_t files = 0, directories = 0, stripes = 0;
  uint64_t live_bytes = 0;       // referenced by files
  uint64_t inline_bytes = 0;
  uint64_t degraded_stripes = 0; // miss at least one column
  uint64_t narrow_stripes = 0;
  uint64_t crowded_stripes = 0;
  uint64_t lost_stripes = 0;     // cannot be read
  uint64_t garbage_shards = 0;
  std::vector<LostFile> lost_files;  // at most 100
  std::vector<RepairProgress> repairs;
  std::vector<SessionInfo> sessions;
  int64_t repair_limit_bytes_per_s = 0;  // 0: no limit
  NodeLoss node_loss;
  std::vector<LayoutRoom> layouts;   // in use; new stripes of them are not as they ask
  uint64_t thin_stripes = 0;         // with fewer copies than their layout asks for, as it allows
  std::vector<LostFile> thin_files;  // that they are of, at most 100
  std::vector<Advice> advice;
  std::vector<NodeInfo> removed;     // nodes that may not register; since_ns: when they last asked to, 0: never
  int64_t wall_ns = 0;               // the server's wall clock when it answered; 0: an older one, which does not say
  std::string version;               // of its program (common/program.h); "": it does not say
};
enum class AdminVerb : uint8_t {
  kDrain = 1,        // target or all of node: empty it
  kUndrain = 2,
  kReplaceTarget = 3,  // target's data goes elsewhere now; new_target takes its place for placement
  kReplaceNode = 4,    // node -> new_node
  kRemove = 5,         // an emptied target or node leaves the map
  kOut = 6,            // do not wait for the grace period
  kRepairPause = 7,
  kRepairResume = 8,
  kRepairLimit = 9,    // number = bytes/s
  kAdmit = 10,         // a node or target that was removed may register again
};
struct AdminRequest {
  OpHeader header;
  AdminVerb verb = AdminVerb::kDrain;
  NodeId node;
  TargetId target;
  NodeId new_node;
  TargetId new_target;
  uint64_t number = 0;
  bool dry_run = false;
  bool force = false;  // never past the last recoverable copy
};
struct AdminReply {
  std::string message;   // one sentence: done, or to be done
  uint64_t stripes = 0;  // affected
  uint64_t bytes = 0;
};
struct FsckReply {
  std::vector<std::string> problems;  // at most 1,000, a sentence each; empty is clean
  uint64_t inodes = 0;
  uint64_t stripes = 0;
  uint64_t extents = 0;
};

}  // namespace stria
