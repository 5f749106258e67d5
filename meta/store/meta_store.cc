#include "common/sabotage.h"
#include "meta/store/txn.h"

namespace stria {
namespace {

constexpr uint64_t kKnownIncompat = 0;
constexpr uint64_t kKnownRoCompat = 0;

}  // namespace

Result<void> MetaStore::Load() {
  ASSIGN_OR_RETURN(auto super, kv_->Get(static_cast<KvFamily>(Family::kState), SuperKey()));
  if (super) {
    ASSIGN_OR_RETURN(super_, SuperRecord::Decode(SuperKey(), *super));
    if ((super_->incompat & ~kKnownIncompat) != 0 || (super_->ro_compat & ~kKnownRoCompat) != 0) {
      return Error(FsError::kVersion, "the metadata store uses features that this release does not know");
    }
  }
  ASSIGN_OR_RETURN(auto state, kv_->Get(static_cast<KvFamily>(Family::kState), StateKey()));
  if (state) {
    ASSIGN_OR_RETURN(state_, StateRecord::Decode(StateKey(), *state));
  } else {
    if (super) return CorruptRecord(Family::kState, StateKey(), "it is missing");
    state_.id_limits.fill(1);
    // The root has its number by definition.
    state_.id_limits[static_cast<size_t>(IdKind::kInode)] = kRootInode.v + 1;
  }
  return Ok();
}

Task<Result<std::unique_ptr<MetaStore>>> MetaStore::Open(std::unique_ptr<KvStore> kv) {
  std::unique_ptr<MetaStore> store(new MetaStore(std::move(kv)));
  CO_RETURN_IF_ERROR(store->Load());
  // Which ids below its limits the former process gave out is not known: continue beyond them.
  store->next_ids_ = store->first_ids_ = store->state_.id_limits;
  if (Sabotaged(Sabotage::kReuseShardIds)) store->next_ids_[static_cast<size_t>(IdKind::kShard)] = 1;
  for (size_t i = 0; i < kIdKinds; ++i) {
    if (IsRanged(static_cast<IdKind>(i))) store->state_.id_limits[i] += kIdRange;
  }
  KvBatch batch;
  store->found_ = store->state_.seq;
  ++store->state_.seq.v;
  batch.Put(static_cast<KvFamily>(Family::kState), StateKey(), store->state_.Encode());
  CO_RETURN_IF_ERROR(store->kv_->Write(batch));
  CO_RETURN_IF_ERROR(co_await store->Sync());
  co_return std::move(store);
}

Task<Result<void>> MetaStore::Sync() {
  const CommitSeq seq = state_.seq;
  const auto limits = state_.id_limits;
  CO_RETURN_IF_ERROR(co_await kv_->Sync());
  if (seq > durable_) {
    durable_ = seq;
    durable_limits_ = limits;
  }
  co_return Ok();
}

Task<Result<void>> MetaStore::WaitDurable(CommitSeq seq) {
  if (seq <= durable_) co_return Ok();
  co_return co_await Sync();
}

InodeId MetaStore::TakeInodes(uint32_t count) {
  const size_t i = static_cast<size_t>(IdKind::kInode);
  if (next_ids_[i] + count > durable_limits_[i]) return InodeId();
  return InodeId(std::exchange(next_ids_[i], next_ids_[i] + count));
}

Result<CommitSeq> MetaStore::Apply(KvBatch batch, const std::array<uint64_t, kIdKinds>& next_ids,
                                   const std::array<int64_t, kCounters>& count_deltas) {
  StateRecord next = state_;
  ++next.seq.v;
  for (size_t i = 0; i < kCounters; ++i) {
    next.counters[i] += static_cast<uint64_t>(count_deltas[i]);
    if (static_cast<int64_t>(next.counters[i]) < 0) {
      return CorruptRecord(Family::kState, StateKey(), "counter " + std::to_string(i) + " falls below zero");
    }
  }
  for (size_t i = 0; i < kIdKinds; ++i) {
    if (!IsRanged(static_cast<IdKind>(i))) {
      next.id_limits[i] = next_ids[i];
    } else if (next_ids[i] + kIdRange / 2 > next.id_limits[i]) {
      next.id_limits[i] += kIdRange;  // the half that is left lasts until the next group sync
    }
  }
  batch.Put(static_cast<KvFamily>(Family::kState), StateKey(), next.Encode());
  RETURN_IF_ERROR(kv_->Write(batch));
  state_ = next;
  next_ids_ = next_ids;
  for (KvOp& op : batch.ops) {
    if (op.family == static_cast<KvFamily>(Family::kState) && op.key == SuperKey() && op.value) {
      ASSIGN_OR_RETURN(super_, SuperRecord::Decode(op.key, *op.value));
    }
  }
  if (tap_) tap_(state_.seq, batch);
  return state_.seq;
}

}  // namespace stria
