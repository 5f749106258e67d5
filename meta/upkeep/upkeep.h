// Upkeep: the background jobs, each a Keeper. It asks each in turn, at every tick and whenever there may be work, to follow the map,
// scan some and plan some (Round); a heartbeat asks them in the same order for work (WorkFor); what nodes report it brings to the
// keeper whose task it was. A new job: meta/README.md, "A new background job".
//
// Owns: the keepers, their order, and the task that asks them.
//
// Invariants: keepers asked earlier come first, and a node that is given anything by one takes on nothing new from those after it:
// what is at risk comes before what would only be better. A keeper sees those before it; what one before has done reaches it by a
// callback that is wired here.
//
// Called by the metadata server: its handlers and its clock. Sees core, cluster, and of the server KeeperHost only.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "meta/upkeep/doubts.h"
#include "meta/upkeep/folder.h"
#include "meta/upkeep/keeper.h"
#include "meta/upkeep/misfits.h"
#include "meta/upkeep/rebalancer.h"
#include "meta/upkeep/repairer.h"
#include "meta/upkeep/scrubs.h"
#include "meta/upkeep/upkeep_options.h"
#include "meta/upkeep/widener.h"

namespace stria {

class Upkeep {
 public:
  // Of `env`, `work` and `scope` are Upkeep's own.
  Upkeep(KeeperEnv env, const UpkeepOptions& options);
  ~Upkeep() { Stop(); }
  Result<void> Load(Txn& txn);
  void Start();
  void Stop() { scope_.CancelAll(); }
  void SetOptions(const UpkeepOptions& options);
  // There may be work: the map, the store or the time is another.
  void Wake() { work_.Set(); }

  // ---- Nodes ----
  Result<NodeWork> WorkFor(const std::set<TargetId>& here, uint32_t slots, uint64_t holder = 0);
  void ForgetHandedOut(const std::set<TargetId>& here);
  // In the transaction of a registration, which its caller commits: disks that came to another node or channel.
  void NoteMoved(Txn& txn, const std::set<TargetId>& targets) { misfits_.NoteMoved(txn, targets); }
  Result<void> TakeResults(NodeId from, const std::vector<RebuildResult>& rebuilt, const std::vector<WidenResult>& widened);
  Result<void> TakeChecked(NodeId from, const std::vector<CheckResult>& checked);
  Result<ScrubOrder> TakeScrub(const std::vector<ScrubProgress>& disks) { return scrubs_.Take(disks); }
  void Forget(TargetId target);  // it has left the cluster

  // ---- Clients ----
  // These were committed: some may be narrower or more crowded than need be.
  Result<void> NoteCommitted(const std::vector<StripeInfo>& stripes) { return misfits_.NoteCommitted(stripes); }
  Result<void> NoteBad(const ReportedShard& bad) { return repairer_.NoteBad(bad); }
  // A reader (Peer::Holder) says so: its own node is asked. REQUIRES: the column has this shard, on `target`.
  void NoteDoubt(const ReportedShard& said, TargetId target, uint64_t by) { doubts_.Note(said, target, by); }

  // ---- Admins ----
  Result<std::string> OrderScrub(const UpkeepRequest& r) { return scrubs_.Order(r); }
  Task<Result<std::string>> OrderRebalance(UpkeepRequest r) { return rebalancer_.Order(std::move(r)); }
  Result<void> SetSettings(const RepairSettings& settings) { return repairer_.SetSettings(settings); }
  void Hurry();  // nothing that was put off waits any longer

  // ---- What is so ----
  const BadShards& bad_shards() const { return repairer_; }
  const Repairer& repairer() const { return repairer_; }
  const Widener& widener() const { return widener_; }
  const Folder& folder() const { return folder_; }
  const Scrubs& scrubs() const { return scrubs_; }
  void Tell(UpkeepReply* reply) const;

 private:
  Task<void> Loop();
  Task<Result<void>> Round();

  Event work_;
  std::optional<uint64_t> followed_;  // version of the map
  KeeperEnv env_;
  Repairer repairer_;
  Doubts doubts_;
  Widener widener_;
  Misfits misfits_;
  Folder folder_;
  Rebalancer rebalancer_;
  Scrubs scrubs_;
  const std::vector<Keeper*> keepers_;  // in the order in which they are asked
  TaskScope scope_;                     // last: its tasks use everything above
};

}  // namespace stria
