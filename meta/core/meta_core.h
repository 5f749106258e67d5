// The core of the metadata server: the store, and what all rooms do with it.
//
// Owns: the store, the term, whether calls are answered, the error that ends the server, the group sync, keys and tokens, and
// the one event on which calls wait for progress.
//
// Invariants: the term is durable before anybody hears of it. After the first error of the store nothing is answered any more.
// The same when a caller proves that a later life of the metadata has been (OpHeader::seen_term): this process is of an old copy. It
// notes that in its store, which is not served any more; one of several metadata servers (GivenLife) tells that instead, and may serve
// again in another life.
// What was answered is durable after two group syncs at most, or before the answer (Sync, WaitDurable).
//
// Called by all rooms. Sees no other room; what it has to tell is a callback.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "api/meta_api.h"
#include "common/exec/task.h"
#include "common/kv/kv.h"
#include "common/random.h"
#include "common/token.h"
#include "meta/core/fences.h"
#include "meta/core/given_life.h"
#include "meta/core/place_seeds.h"
#include "meta/core/term_proof.h"
#include "meta/core/token_mint.h"
#include "meta/store/room.h"
#include "meta/store/txn.h"

namespace stria {

inline constexpr size_t kMaxGroups = 65'536;         // of a caller
inline constexpr int64_t kMaxCallNs = 60 * kSecond;  // no call waits longer

struct MetaCoreOptions {
  int64_t group_sync_ns = 5 * kMillisecond;
  int64_t token_ttl_ns = 3600 * kSecond;
  std::string version;  // of this program, for status
  GivenLife life = {};
};

class MetaCore {
 public:
  // `keys`: the first signs. The store must be formatted (FormatMetaStore).
  MetaCore(const MetaCoreOptions& options, std::unique_ptr<KvStore> kv, Random rng, std::vector<ClusterKey> keys);
  ~MetaCore() { CancelTasks(); }
  void UseRoom(MetaRoom* room) { room_ = room; }       // the store's disk; outlives the core
  void OnFail(std::function<void()> told) { on_fail_ = std::move(told); }
  const MetaCoreOptions& options() const { return options_; }

  // ---- Life ----
  Task<Result<void>> Open();          // the store; once
  // This life's; before all other rooms load. kNotLeader: the store has seen a later life, here or of another copy.
  Result<void> NextTerm(Txn& txn);
  Task<Result<void>> BeginServing();  // what the rooms have loaded is committed. Resumes when calls are answered
  void StartSync() { scope_.Spawn(GroupSyncLoop()); }
  void EndServing();
  void CancelTasks() { scope_.CancelAll(); }
  // Runs until its end, or until CancelTasks; its caller may go away.
  void Spawn(Task<void> task) { scope_.Spawn(std::move(task)); }
  uint64_t term() const { return said_.term; }
  const SaidTerm& said() const { return said_; }  // the term, and its proof for others
  int64_t started_ns() const { return started_ns_; }
  CommitSeq started_seq() const { return started_seq_; }  // the last one before this life

  // ---- Callers ----
  // Protocol and cluster are right, calls are answered, and the caller has heard of no later life: else this one ends here.
  Result<void> CheckHeader(const OpHeader& h);
  int64_t DeadlineOf(const OpHeader& h) const;

  // ---- The error that ends the server ----
  bool HasFailed() const { return !fatal_.ok(); }
  Error Failure() const;      // what callers hear of it; kNotLeader after a later life. REQUIRES: HasFailed
  void Fail(Error error);     // nothing can be written any more
  Task<Error> WaitFatal();

  // ---- Time and progress ----
  Executor* executor() const { return executor_; }
  int64_t Now() const { return executor_->NowNs(); }
  int64_t Wall() const { return executor_->WallNs(); }
  // Something happened that a call may wait for: an event was acknowledged, a lease changed, a session or a node came or went.
  void Pulse() { progress_.Pulse(); }
  Task<void> WaitProgress(int64_t until_ns);

  // ---- The store ----
  MetaStore& store() const { return *store_; }
  bool is_open() const { return store_ != nullptr; }
  void Committed() { unsynced_.Set(); }  // something waits for the group sync
  // Their errors, too, end the server; and nothing is durable, or done, after its end.
  Task<Result<void>> Sync();
  Task<Result<void>> WaitDurable(CommitSeq seq);
  Result<CommitSeq> Commit(Txn& txn);
  Fences& fences() { return fences_; }
  MetaRoom* room() const { return room_; }  // null: there is enough

  // ---- Keys ----
  const std::vector<ClusterKey>& keys() const { return keys_; }
  const TokenSigner& signer() const { return *signer_; }
  const TokenVerifier& verifier() const { return *verifier_; }
  const TokenMint& tokens() const { return tokens_; }
  TokenMint& tokens() { return tokens_; }
  Random& rng() { return rng_; }
  PlaceSeeds& seeds() { return seeds_; }

 private:
  Task<void> GroupSyncLoop();
  void Depose(uint64_t term);
  Task<void> EndDeposed();

  const MetaCoreOptions options_;
  std::unique_ptr<KvStore> kv_;  // until Open
  Random rng_;
  const std::vector<ClusterKey> keys_;
  const std::unique_ptr<TokenSigner> signer_;
  const std::unique_ptr<TokenVerifier> verifier_;
  Executor* executor_ = nullptr;
  const TermProof proof_;
  TokenMint tokens_;
  PlaceSeeds seeds_;
  std::unique_ptr<MetaStore> store_;
  MetaRoom* room_ = nullptr;
  bool ready_ = false;
  Error fatal_;
  Event fatal_event_;
  std::function<void()> on_fail_ = [] {};
  SaidTerm said_;
  int64_t started_ns_ = 0;
  CommitSeq started_seq_;
  Fences fences_;
  Event progress_;
  Event unsynced_;
  TaskScope scope_;  // last: its tasks use everything above
};

// Before something is given that may have been a fenced session's. A server that is alone does not wait.
Task<Result<void>> WaitFences(MetaCore* core);

}  // namespace stria
