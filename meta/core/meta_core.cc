#include "meta/core/meta_core.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/log.h"
#include "common/sabotage.h"
#include "meta/core/cluster_keys.h"
#include "meta/core/number_record.h"

namespace stria {

MetaCore::MetaCore(const MetaCoreOptions& options, std::unique_ptr<KvStore> kv, Random rng, std::vector<ClusterKey> keys)
    : options_(options),
      kv_(std::move(kv)),
      rng_(rng),
      keys_(std::move(keys)),
      signer_(std::make_unique<TokenSigner>(keys_.at(0))),
      verifier_(std::make_unique<TokenVerifier>(keys_)),
      proof_(keys_),
      tokens_(signer_.get(), keys_.at(0), options_.token_ttl_ns) {}

Task<Result<void>> MetaCore::Open() {
  CHECK(kv_ != nullptr, "a MetaServer starts once");
  executor_ = &Executor::Current();
  tokens_.Begin(executor_);
  tokens_.AtLeast(options_.life.token_time_ns);
  CO_ASSIGN_OR_RETURN(store_, co_await MetaStore::Open(std::move(kv_)));
  if (!store_->super()) {
    co_return Error(FsError::kInval, "the metadata store is empty; create a cluster with --format");
  }
  started_ns_ = Now();
  co_return Ok();
}

Result<void> MetaCore::NextTerm(Txn& txn) {
  ASSIGN_OR_RETURN(const uint64_t last, ReadNumber(txn, TermRecordKey()));
  ASSIGN_OR_RETURN(const uint64_t later, ReadNumber(txn, OvertakenKey()));
  if (options_.life.term == 0 && later > last) {
    return Error(FsError::kNotLeader, "this store is an old copy of the cluster's metadata: its last life was " + std::to_string(last) + ", and life " +
                                          std::to_string(later) + " has been served from another. Serve that one, or restore from the backup "
                                          "on the data servers into an empty directory (--restore-from)");
  }
  const uint64_t term = options_.life.term != 0 ? options_.life.term : last + 1;
  if (term <= last) {
    return Error(FsError::kNotLeader, "this store was served in life " + std::to_string(last) + " already, and is to be served in life " +
                                          std::to_string(term) + ": what the coordinator knows is older than the store; "
                                          "docs/operations.md says what to do");
  }
  said_ = proof_.Of(store_->super()->cluster, term);
  txn.Put(Family::kCluster, TermRecordKey(), EncodeNumber(said_.term));
  return Ok();
}

Task<Result<void>> MetaCore::BeginServing() {
  started_seq_ = store_->last_seq();
  // So that no two lives of the server share a term.
  CO_RETURN_IF_ERROR(co_await store_->Sync());
  ready_ = true;
  seeds_.Begin(rng_.Next() >> 16);
  co_return Ok();
}

void MetaCore::EndServing() {
  ready_ = false;
  Pulse();
}

int64_t MetaCore::DeadlineOf(const OpHeader& h) const {
  return Now() + std::clamp<int64_t>(h.timeout_ns, 0, kMaxCallNs);
}

Result<void> MetaCore::CheckHeader(const OpHeader& h) {
  if (HasFailed()) return Failure();
  if (!ready_) return Error(FsError::kNotReady, "the metadata server is starting or stopping");
  RETURN_IF_ERROR(CheckProtocol(h));
  if (h.cluster && h.cluster != store_->super()->cluster) {
    return Error(FsError::kWrongCluster, "this is cluster " + store_->super()->cluster.ToString());
  }
  if (h.groups.size() > kMaxGroups) return Error(FsError::kBadRequest, "too many groups");
  if (h.seen_term > said_.term && proof_.Is(store_->super()->cluster, {h.seen_term, h.seen_proof})) {
    Depose(h.seen_term);
    if (HasFailed()) return Failure();
  }
  return Ok();
}

// Nothing was lost or broken here, but everything that this process says may be old.
void MetaCore::Depose(uint64_t term) {
  if (Sabotaged(Sabotage::kServeDeposed) || Sabotaged(Sabotage::kIgnoreTerms)) return;
  LogError("life {} of the metadata server has heard of life {}: it serves an old copy of the metadata, and ends", said_.term, term);
  fatal_ = Error(FsError::kNotLeader, "this metadata server (life " + std::to_string(said_.term) +
                                          ") serves an old copy of the metadata: life " + std::to_string(term) + " has been");
  if (options_.life.overtaken) {
    options_.life.overtaken(term);
    fatal_event_.Set();
    Pulse();
    return on_fail_();
  }
  // Outside of the sequence: no other copy has it.
  KvBatch batch;
  batch.Put(static_cast<KvFamily>(Family::kCluster), OvertakenKey(), EncodeNumber(term));
  if (const Result<void> kept = store_->kv().Write(batch); !kept.ok()) LogError("that cannot be noted in the store: {}", kept.error());
  scope_.Spawn(EndDeposed());
  Pulse();
  on_fail_();
}

Task<void> MetaCore::EndDeposed() {
  (void)co_await store_->kv().Sync();
  fatal_event_.Set();
}

Error MetaCore::Failure() const {
  if (fatal_.code == FsError::kNotLeader) return fatal_;
  return Error(FsError::kUnavailable, "the metadata store has failed: " + fatal_.message);
}

void MetaCore::Fail(Error error) {
  if (HasFailed()) return;
  LogError("the metadata store has failed: {}", error);
  fatal_ = std::move(error);
  fatal_event_.Set();
  Pulse();
  on_fail_();
}

Task<Error> MetaCore::WaitFatal() {
  co_await fatal_event_.Wait();
  co_return fatal_;
}

Task<void> MetaCore::WaitProgress(int64_t until_ns) {
  Timer timer;
  executor_->StartTimer(&timer, until_ns, [this] { Pulse(); });
  co_await progress_.Wait();
}

Task<Result<void>> MetaCore::Sync() {
  Result<void> synced = co_await store_->Sync();
  if (!synced.ok()) Fail(synced.error());
  if (synced.ok() && HasFailed()) co_return Failure();
  co_return synced;
}

Task<Result<void>> MetaCore::WaitDurable(CommitSeq seq) {
  Result<void> synced = co_await store_->WaitDurable(seq);
  if (!synced.ok()) Fail(synced.error());
  if (synced.ok() && HasFailed()) co_return Failure();
  co_return synced;
}

Result<CommitSeq> MetaCore::Commit(Txn& txn) {
  if (HasFailed()) return Failure();
  Result<CommitSeq> seq = txn.Commit();
  if (!seq.ok()) Fail(seq.error());
  return seq;
}

// What was answered is durable after twice group_sync_ns and a sync. Where clients ask for that themselves all the time,
// another sync would only be in their way.
Task<void> MetaCore::GroupSyncLoop() {
  while (!HasFailed()) {
    co_await unsynced_.Wait();
    const CommitSeq waits = store_->last_seq();
    co_await Sleep(options_.group_sync_ns);
    if (store_->durable_seq() >= waits && store_->durable_seq() < store_->last_seq()) continue;
    unsynced_.Reset();
    if (store_->durable_seq() == store_->last_seq()) continue;
    (void)co_await Sync();
  }
}

Task<Result<void>> WaitFences(MetaCore* core) {
  if (core->options().life.term == 0) co_return Ok();
  co_return co_await core->WaitDurable(core->fences().last());
}

}  // namespace stria
