#include "meta/core/meta_core.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/log.h"
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
      tokens_(signer_.get(), keys_.at(0), options_.token_ttl_ns) {}

Task<Result<void>> MetaCore::Open() {
  CHECK(kv_ != nullptr, "a MetaServer starts once");
  executor_ = &Executor::Current();
  tokens_.Begin(executor_);
  CO_ASSIGN_OR_RETURN(store_, co_await MetaStore::Open(std::move(kv_)));
  if (!store_->super()) {
    co_return Error(FsError::kInval, "the metadata store is empty; create a cluster with --format");
  }
  started_ns_ = Now();
  co_return Ok();
}

Result<void> MetaCore::NextTerm(Txn& txn) {
  ASSIGN_OR_RETURN(term_, ReadNumber(txn, TermRecordKey()));
  txn.Put(Family::kCluster, TermRecordKey(), EncodeNumber(++term_));
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

Result<void> MetaCore::CheckHeader(const OpHeader& h) const {
  if (HasFailed()) return Failure();
  if (!ready_) return Error(FsError::kNotReady, "the metadata server is starting or stopping");
  RETURN_IF_ERROR(CheckProtocol(h));
  if (h.cluster && h.cluster != store_->super()->cluster) {
    return Error(FsError::kWrongCluster, "this is cluster " + store_->super()->cluster.ToString());
  }
  if (h.groups.size() > kMaxGroups) return Error(FsError::kBadRequest, "too many groups");
  return Ok();
}

Error MetaCore::Failure() const {
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
  co_return synced;
}

Task<Result<void>> MetaCore::WaitDurable(CommitSeq seq) {
  Result<void> synced = co_await store_->WaitDurable(seq);
  if (!synced.ok()) Fail(synced.error());
  co_return synced;
}

Result<CommitSeq> MetaCore::Commit(Txn& txn) {
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

}  // namespace stria
