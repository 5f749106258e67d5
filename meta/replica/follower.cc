#include "meta/replica/follower.h"

#include <algorithm>
#include <utility>

#include "common/sabotage.h"

namespace stria {

AppendReply Follower::Reply(AppendResult result) const {
  AppendReply r;
  r.result = result;
  r.term = term_;
  r.last = store_->last();
  r.whole = store_->whole();
  if (store_->marker()) r.fetched = store_->marker()->fetched;
  return r;
}

void Follower::SawTerm(uint64_t term) { term_ = std::max(term_, term); }

Task<Result<AppendReply>> Follower::Append(AppendRequest request) {
  if (request.term < term_) co_return Reply(AppendResult::kOldTerm);
  if (request.over) {
    host_->Ended(request.term, request.primary);
    co_return Reply(AppendResult::kTaken);
  }
  if (candidate_) co_return Error(FsError::kNotReady, "this metadata server asks to be the primary itself");
  CO_RETURN_IF_ERROR(host_->Hear(request.term, request.primary, request.version, request.token_time_ns));
  term_ = request.term;
  primary_ = request.primary;
  if (request.join && !joining_) {
    join_term_ = term_;
    join_.Set();
  }
  if (request.follows) {
    CO_ASSIGN_OR_RETURN(const bool taken, TakeBatches(request));
    if (!taken) co_return Reply(AppendResult::kMismatch);
    committed_ = std::max(committed_, std::min(request.commit, CommitSeq(request.prev.seq.v + request.batches.size())));
  }
  if (!request.sync) co_return Reply(AppendResult::kTaken);
  if (!store_->begun() || joining_) co_return Reply(AppendResult::kTaken);

  LogPoint durable = store_->last();
  // That it is whole is to be as durable as the batches. If it becomes so now, the next answer says it.
  const bool whole = store_->whole();
  if (!Sabotaged(Sabotage::kFollowUnsynced)) {
    CO_ASSIGN_OR_RETURN(durable, co_await store_->Sync());
  }
  // Much may have happened meanwhile. What is said now is said to that primary and of this log.
  if (term_ != request.term || joining_ || candidate_) {
    co_return Error(FsError::kRetryLater, "another primary was heard of while the journal was synced");
  }
  AppendReply r = Reply(AppendResult::kTaken);
  if (whole) r.durable = durable;
  co_return r;
}

Result<bool> Follower::TakeBatches(const AppendRequest& request) {
  if (joining_ || !store_->begun()) return false;
  const bool blind = Sabotaged(Sabotage::kFollowBlindly);
  if (!blind && !store_->Has(request.prev)) return false;
  uint64_t chain = request.prev.chain;
  CommitSeq seq = request.prev.seq;
  size_t offset = 0;
  for (const ShippedBatch& b : request.batches) {
    if (b.length > request.payload.size() - offset) return Error(FsError::kBadRequest, "an Append has fewer bytes than it names");
    const Buffer bytes = request.payload.Slice(offset, b.length).Flatten();
    offset += b.length;
    ++seq.v;
    chain = ChainAfter(chain, b.term, bytes.view());
    if (seq <= store_->last().seq) {
      // Had before, or another one in its place: that stays until it is rewound.
      if (blind || store_->Has({seq, b.term, chain})) continue;
      return false;
    }
    RETURN_IF_ERROR(store_->Take(b.term, bytes.view()));
  }
  if (offset != request.payload.size()) return Error(FsError::kBadRequest, "an Append has more bytes than it names");
  return true;
}

Task<uint64_t> Follower::WaitJoin() {
  co_await join_.Wait();
  join_.Reset();
  co_return std::exchange(join_term_, 0);
}

}  // namespace stria
