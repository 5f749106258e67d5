// The node's relation to the metadata server: registers, sends heartbeats with the state of its disks, carries out the work in
// the answers (deletes, rebuilds, looks at shards), reports results and damaged shards, scrubs, and sweeps for unknown shards. For the
// executor's thread.
//
// Each heartbeat's answer repeats the work until its result has been reported, so nothing is kept over a restart. Destroying
// the agent stops all of it where it stands.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "api/meta_api.h"
#include "server/agent_disks.h"
#include "server/data_server.h"
#include "server/heard_terms.h"
#include "server/meta_link.h"
#include "server/quarantine.h"
#include "server/rebuild.h"
#include "server/scrubber.h"
#include "server/shard_checks.h"
#include "server/silent_peers.h"
#include "server/widen.h"

namespace stria {

inline constexpr size_t kMaxRebuilds = 2;           // and stripes being widened, at once, per node
inline constexpr size_t kMaxPendingDeletes = 8192;  // taken on and not reported
inline constexpr size_t kMaxReportedShards = 4096;  // of one ReportWork
inline constexpr size_t kMaxBadReports = 32;        // damaged shards reported with one heartbeat
inline constexpr int64_t kTryHeldBackNs = 60 * kSecond;

struct AgentOptions {
  Uuid cluster;  // 0 until the first registration
  Uuid node;
  std::string name;
  std::string address;  // that others reach this node at
  std::string proof;    // TokenSigner::ProveNode; "" where the connection proves who the node is
  std::function<std::shared_ptr<const Peer>()> self;  // what this node proves to others; empty, or null: nothing
  uint64_t incarnation = 0;
  int64_t call_timeout_ns = 10 * kSecond;
  int64_t retry_ns = 1 * kSecond;  // after a failed registration or heartbeat
  size_t max_rebuilds = kMaxRebuilds;
  bool sweep = true;
  int64_t sweep_period_ns = 3600 * kSecond;
  int64_t quarantine_hold_ns = kQuarantineHoldNs;
  bool scrub = true;
  ScrubOptions scrub_options;
  // Outlives the agent. Without it scrubs go by their own schedule only, and compare nothing.
  AdminLink* admin = nullptr;
  int64_t scrub_report_ns = 2 * kSecond;  // between two reports of progress, which bring orders
  // Addresses of other nodes that could not be reached lately; may be missing.
  std::function<std::vector<std::string>()> unreachable;
  std::string version;  // of this program
  // Of disk i, by its number: what is known of the device below it; may be missing.
  std::function<DiskSmart(size_t i)> smart;
  // Called with every registration before the disks serve under it: records their identities on the disks; targets and proofs are by the
  // disks' numbers. An error refuses the registration.
  std::function<Task<Result<void>>(const RegisterNodeReply&)> on_registered;
  // Makes durable which lives of the metadata server were heard of. Called before work of a new one is taken on, and before
  // what others say is asked of. Missing: nothing is kept.
  std::function<Task<Result<void>>(HeardTerms::Kept)> keep_terms;
};

class Agent {
 public:
  // All outlive the agent.
  Agent(MetaLink* meta, DataConnector* connector, DataServer* server, TokenGate* gate,
        CodecSet* codecs, Pool* cpu_pool, std::vector<AgentDisk> disks, AgentOptions options);
  ~Agent();

  void Start() { scope_.Spawn(Run()); }

  bool registered() const { return registered_; }
  NodeId node() const { return node_; }
  const std::shared_ptr<const ClusterMap>& map() const { return map_; }
  // A disk that could not be used can be now: it is registered, and unless it is new compared with the metadata at once.
  // `store` outlives the agent; `disk` is the one that is there.
  void Attach(size_t i, ShardStore* store, Uuid disk, std::string proof = "");
  // For an unusable disk: this one is there, and is registered, so that the metadata can be asked what it should have. Again as long as
  // it has no target: another node may have it, and give it up.
  void Expect(size_t i, Uuid disk, std::string proof);
  // A disk cannot be used any more, for this reason. Its store has no new work from here on.
  void Detach(size_t i, std::string problem);
  // For an unusable disk: the disk that the cluster knows in its place, and the reason.
  void SetPlace(size_t i, Uuid disk, TargetId target);
  void SetProblem(size_t i, std::string problem) { disks_.at(i).problem = std::move(problem); }
  // One more disk, which cannot be used yet: its number is the next one.
  void AddDisk(AgentDisk disk);
  // A disk that was detached is not this node's any more. Its number stays taken.
  void Leave(size_t i, std::string problem);
  // For the shards with after < id <= last, of which the disk has `held`. kNotReady: no server can be asked.
  Task<Result<CompareShardsReply>> CompareShards(size_t disk, ShardId after, ShardId last, std::vector<HeldShard> held);
  // A change of settings at run time; see AgentOptions.
  void SetPace(size_t max_rebuilds, uint64_t scrub_bytes_per_s);
  uint64_t rebuilds_done() const { return rebuilds_done_; }
  size_t rebuilding() const { return rebuilding_; }  // now; widening, too

 private:
  OpHeader Header() const;
  Task<void> Run();
  Task<Result<void>> Register();
  Task<Result<void>> Beat();
  Task<Result<void>> ReportResults();
  Task<void> ReportBadShards();
  bool WithoutNewDisks(const Error& refused);
  Task<Result<void>> RefreshMap(uint64_t version, uint64_t term);
  Task<void> TakeLife(SaidTerm said);
  Task<void> KeepTerms();
  void LogKeptOut(const AgentDisk& d, const ClusterMap& map) const;

  void TakeDeletes(std::vector<DeleteWork> work);
  Task<void> DeleteShards(std::vector<DeleteWork> work);
  void TakeRebuilds(std::vector<RebuildWork> work);
  Task<void> RebuildOne(RebuildWork work);
  void TakeWidens(std::vector<WidenWork> work);
  Task<void> WidenOne(WidenWork work);
  Task<void> SweepLoop();
  std::unique_ptr<Scrubber> MakeScrubber(size_t disk);
  Task<Result<void>> ReportLost(ShardId shard);
  Task<Result<ListParityReply>> ListParity(size_t disk, ShardId after, ShardId last);
  Task<Result<ParityCheckResult>> CompareParity(StripeGrant stripe);
  Task<void> ScrubReportLoop();
  Task<Result<void>> ReportScrubs();
  void StartScrub(size_t disk);
  Task<void> CompareSoon(size_t disk);

  MetaLink* const meta_;
  SilentPeers peers_;
  DataServer* const server_;
  TokenGate* const tokens_;
  CodecSet* const codecs_;
  Pool* const cpu_pool_;
  std::vector<AgentDisk> disks_;
  AgentOptions options_;

  bool registered_ = false;
  uint64_t attached_ = 0;  // and detached disks: a registration that was under way does not know of them
  int64_t held_until_ns_ = 0;  // then disks that are held back are tried again; 0: there are none
  NodeId node_;
  Epoch epoch_;
  int64_t beat_ns_ = 1 * kSecond;
  std::shared_ptr<const ClusterMap> map_;
  uint64_t map_term_ = 0;  // of the server when it gave the map, by its heartbeats
  HeardTerms::Kept kept_;  // as last made durable
  Event work_done_;  // something to report or to ask: the next heartbeat comes at once

  std::set<ShardId> deleting_;  // under way, or done and not reported
  std::set<ShardId> deleted_;   // done and not reported
  std::set<uint64_t> tasks_;    // of rebuilds and widenings under way, or done and not reported
  size_t rebuilding_ = 0;       // both
  std::vector<RebuildResult> rebuilt_;  // done and not reported; at most max_rebuilds per heartbeat
  std::vector<WidenResult> widened_;    // the same
  uint64_t rebuilds_done_ = 0;
  ShardChecks checks_;
  std::vector<std::unique_ptr<Scrubber>> scrubbers_;  // one per disk; null if it is not scrubbed
  std::vector<std::unique_ptr<TaskScope>> scrub_scopes_;  // of their tasks

  TaskScope scope_;  // last
};

}  // namespace stria
