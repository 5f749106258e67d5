// The metadata's backup, as the metadata server sees it: where it is kept, what it holds back, and which shards are held after
// a restore.
//
// Owns: the archiver, and, after a restore, until when shards that the metadata does not know are kept (they may be of files
// that were written after the moment that was restored), with how many of them sweeps have found.
//
// Invariants: what is not in the backup is not deleted, as long as the backup works (DeletableUpTo). While unknown shards are
// held no data server is told that a shard is unknown.
//
// Called by the metadata server: its handlers, and what deletes shards. Sees the store, the cluster and tokens.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/admin_api.h"
#include "api/meta_api.h"
#include "common/exec/task.h"
#include "meta/backup/archiver.h"
#include "meta/cluster/cluster_state.h"
#include "meta/core/token_mint.h"
#include "meta/store/txn.h"

namespace stria {

// All that it points to outlives the keeper.
struct ArchiveKeeperEnv {
  Executor* executor = nullptr;
  MetaStore* store = nullptr;
  const ClusterState* cluster = nullptr;
  const TokenMint* tokens = nullptr;
  BackupConnector* connector = nullptr;  // null: no backup is kept
  std::vector<ClusterKey> keys;          // what objects are sealed by; with a connector there is one
};

class ArchiveKeeper {
 public:
  explicit ArchiveKeeper(const ArchiveKeeperEnv& env) : env_(env) {}
  ~ArchiveKeeper() { Stop(); }
  Result<void> Load(Txn& txn);
  // Keeps a backup from now on. `said`: this life of the server.
  void Start(const ArchiverOptions& options, SaidTerm said);
  void Stop() { scope_.CancelAll(); }

  // Shards that became garbage in batches up to this may be deleted.
  CommitSeq DeletableUpTo() const;
  // Everything committed before the call is archived on return. kInval: no backup is kept.
  Task<Result<void>> BackupNow(bool dry_run, int64_t deadline_ns);
  BackupState State() const;
  const Archiver* archiver() const { return archiver_.get(); }  // null: it keeps no backup

  bool HoldsUnknown() const { return env_.executor->WallNs() < hold_until_ns_; }
  // A data server has asked, and `unknown` of these are. A sweep asks for the shards of a target in order.
  void NoteHeld(const CheckShardsRequest& r, uint64_t unknown);
  // An admin ends the holding. Gives what was, or would be, done, in one sentence.
  Result<std::string> ForgetUnknown(bool dry_run);

 private:
  std::vector<BackupNode> Nodes() const;

  const ArchiveKeeperEnv env_;
  std::unique_ptr<const ArchiveSeal> seal_;
  std::unique_ptr<Archiver> archiver_;
  int64_t hold_until_ns_ = 0;  // wall clock
  // Shards that are held, as sweeps find them: up to which one, and how many.
  std::map<TargetId, std::pair<ShardId, uint64_t>> held_;
  TaskScope scope_;  // last: its tasks use everything above
};

}  // namespace stria
