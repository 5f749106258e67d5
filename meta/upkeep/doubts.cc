#include "meta/upkeep/doubts.h"

#include "common/log.h"

namespace stria {
namespace {

constexpr int64_t kLookNs = 10 * kSecond;
constexpr size_t kMaxInOrder = 4096;

}  // namespace

void Doubts::Note(const ReportedShard& said, TargetId target, uint64_t by) {
  const Key key(target, said.shard);
  if (doubts_.contains(key) || repairer_->IsBad(said.stripe, said.column, said.shard)) return;
  if (const auto known = in_order_.find(said.shard); known != in_order_.end() && Now() < known->second) return;
  if (doubts_.size() >= kMaxDoubts) return;
  size_t& of = of_[by];
  if (of >= kMaxDoubtsOfOne) return;
  ++of;
  doubts_[key] = {said.stripe, said.column, by, Now()};
}

Doubts::Doubted::iterator Doubts::Drop(Doubted::iterator it) {
  if (const auto of = of_.find(it->second.by); --of->second == 0) of_.erase(of);
  return doubts_.erase(it);
}

void Doubts::Forget(TargetId target) {
  for (auto it = doubts_.lower_bound({target, ShardId()}); it != doubts_.end() && it->first.first == target;) it = Drop(it);
}

Task<Result<void>> Doubts::Scan() {
  if (Now() < look_ns_) co_return Ok();
  look_ns_ = Now() + kLookNs;
  for (auto it = doubts_.begin(); it != doubts_.end();) it = Now() - it->second.since_ns >= kDoubtNs ? Drop(it) : std::next(it);
  std::erase_if(in_order_, [this](const auto& known) { return Now() >= known.second; });
  co_return Ok();
}

// nullopt: the stripe is gone, or the column has another shard.
Result<std::optional<Column>> Doubts::ColumnOf(Txn& txn, const Key& key, const Doubt& doubt) const {
  ASSIGN_OR_RETURN(const std::optional<StripeRecord> record, GetStripeRecord(txn, doubt.stripe));
  if (!record || record->state != StripeState::kLive || doubt.column >= record->info.columns.size()) return std::optional<Column>();
  const Column& c = record->info.columns[doubt.column];
  if (c.target != key.first || c.shard != key.second) return std::optional<Column>();
  return std::optional<Column>(c);
}

Result<void> Doubts::WorkFor(const std::set<TargetId>& here, uint32_t, NodeWork* work) {
  if (doubts_.empty()) return Ok();
  Txn txn(*env_.store);
  for (const TargetId t : here) {
    for (auto it = doubts_.lower_bound({t, ShardId()}); it != doubts_.end() && it->first.first == t;) {
      if (work->checks.size() >= kDoubtsPerBeat) return Ok();
      ASSIGN_OR_RETURN(const std::optional<Column> column, ColumnOf(txn, it->first, it->second));
      if (!column) {
        it = Drop(it);
        continue;
      }
      work->checks.push_back({column->shard, column->target, column->digest});
      ++it;
    }
  }
  return Ok();
}

Result<bool> Doubts::TakeChecked(NodeId from, const CheckResult& result) {
  const auto it = doubts_.find({result.target, result.shard});
  if (it == doubts_.end()) return false;
  if (!IsOn(result.target, from)) return true;
  const auto [key, doubt] = *it;
  Drop(it);
  if (result.result.code == FsError::kOk) {
    if (in_order_.size() >= kMaxInOrder) in_order_.clear();
    in_order_[key.second] = Now() + kInOrderNs;
    return true;
  }
  // A disk that does not answer is the cluster's business.
  if (!IsShardLoss(result.result.code)) return true;
  {
    Txn txn(*env_.store);
    ASSIGN_OR_RETURN(const std::optional<Column> column, ColumnOf(txn, key, doubt));
    if (!column) return true;
  }
  LogInfo("shard {} of stripe {} is bad on {}: a reader said so, and its node agrees", key.second.v, doubt.stripe.v,
          env_.cluster->TargetName(key.first));
  RETURN_IF_ERROR(repairer_->NoteBad({doubt.stripe, doubt.column, key.second, result.result.code}));
  return true;
}

}  // namespace stria
