#include "server/shard_checks.h"

#include <string>

#include "common/log.h"

namespace stria {

void ShardChecks::Take(std::vector<CheckWork> work) {
  for (const CheckWork& w : work) {
    if (taken_.size() >= kMaxChecksTaken) break;
    if (taken_.insert({w.target, w.shard}).second) queue_.push_back(w);
  }
  if (running_ || queue_.empty()) return;
  running_ = true;
  scope_.Spawn(Run());
}

void ShardChecks::Reported(size_t n) {
  for (size_t i = 0; i < n; ++i) taken_.erase({done_[i].target, done_[i].shard});
  done_.erase(done_.begin(), done_.begin() + static_cast<ptrdiff_t>(n));
}

Task<void> ShardChecks::Run() {
  while (!queue_.empty()) {
    const CheckWork work = queue_.front();
    queue_.pop_front();
    const Result<void> good = co_await Look(work);
    if (!good.ok()) LogWarning("shard {}, which the metadata server asks about, is not here as it should be: {}", work.shard.v, good.error());
    done_.push_back({work.shard, work.target, ItemResult{good.code(), good.error().message}});
    on_done_();
  }
  running_ = false;
}

Task<Result<void>> ShardChecks::Look(CheckWork work) {
  ShardStore* const store = server_->FindStore(work.target);
  if (store == nullptr) co_return Error(FsError::kUnavailable, "its disk is not in use here");
  Result<ShardRecordPtr> record = co_await store->index().Get(work.shard, false);
  if (record.code() == FsError::kCorrupt) co_return Error(FsError::kChecksum, record.error().message);
  if (!record.ok()) co_return record.error();
  if (!*record) co_return Error(FsError::kNoSuchShard, "disk " + store->options().name + " does not have it");
  if ((*record)->digest != work.digest) {
    co_return Error(FsError::kChecksum, "disk " + store->options().name + " has it with other checksums than were written");
  }
  const GateUse use = co_await server_->gate().Background((*record)->length);
  co_return co_await store->Verify(work.shard);
}

}  // namespace stria
