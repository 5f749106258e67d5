#include "meta/backup/revive.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/codec.h"
#include "meta/cluster/cluster_state.h"
#include "meta/ops/fsck.h"
#include "meta/ops/ops.h"
#include "meta/repair/repair_queue.h"
#include "meta/repair/fold_queue.h"
#include "meta/repair/widen_queue.h"
#include "meta/core/cluster_keys.h"
#include "meta/session/session_table.h"
#include "meta/store/txn.h"

namespace stria {
namespace {

constexpr size_t kRun = 64;  // records of a transaction
constexpr size_t kWidenRun = 8;  // they have a shard per column
constexpr uint64_t kMaxSmallId = uint64_t{1} << 31;

constexpr KvFamily Kv(Family f) { return static_cast<KvFamily>(f); }

std::string EncodeNumber(uint64_t v) {
  ByteWriter w;
  w.U64(v);
  return SealRecord(1, w.str());
}

// Advances a number; 0 if it does not exist yet.
Result<uint64_t> ReadNumber(KvStore& kv, const std::string& key) {
  ASSIGN_OR_RETURN(const auto value, kv.Get(Kv(Family::kCluster), key));
  if (!value) return uint64_t{0};
  uint8_t version = 0;
  std::string_view body;
  if (!OpenRecord(*value, 1, &version, &body) || body.size() < 8) {
    return CorruptRecord(Family::kCluster, key, "it does not decode");
  }
  return ByteReader(body).U64();
}

// All that must not come twice, in one batch.
Result<void> Jump(KvStore& kv, const ReviveParams& p) {
  ASSIGN_OR_RETURN(const auto super_bytes, kv.Get(Kv(Family::kState), SuperKey()));
  ASSIGN_OR_RETURN(const auto state_bytes, kv.Get(Kv(Family::kState), StateKey()));
  if (!super_bytes || !state_bytes) return CorruptRecord(Family::kState, SuperKey(), "it is missing");
  ASSIGN_OR_RETURN(SuperRecord super, SuperRecord::Decode(SuperKey(), *super_bytes));
  ASSIGN_OR_RETURN(StateRecord state, StateRecord::Decode(StateKey(), *state_bytes));
  if (p.incarnation <= super.incarnation) return Error(FsError::kInval, "the incarnation of a restored store must grow");
  // A step per incarnation: an archive can be restored more than once.
  const uint64_t times = p.incarnation - super.incarnation;
  if (times > kMaxSmallId / kSmallIdJump) return Error(FsError::kInval, "this archive is too many restores old");
  for (size_t i = 0; i < kIdKinds; ++i) {
    const bool small = !IsRanged(static_cast<IdKind>(i));
    state.id_limits[i] += times * (small ? kSmallIdJump : kIdJump);
    if (small && state.id_limits[i] > kMaxSmallId) return Error(FsError::kInval, "the cluster was restored too often");
  }
  state.seq.v += times * kIdJump;
  super.incarnation = p.incarnation;
  super.store = p.store;

  KvBatch batch;
  batch.Put(Kv(Family::kState), SuperKey(), super.Encode());
  batch.Put(Kv(Family::kState), StateKey(), state.Encode());
  for (const std::string& key : {TermRecordKey(), MapVersionKey()}) {
    ASSIGN_OR_RETURN(const uint64_t now, ReadNumber(kv, key));
    batch.Put(Kv(Family::kCluster), key, EncodeNumber(now + times * kTermJump));
  }
  batch.Put(Kv(Family::kCluster), UnknownHoldKey(), EncodeNumber(static_cast<uint64_t>(p.wall_ns + kUnknownHoldNs)));
  ASSIGN_OR_RETURN(const auto nodes, kv.Scan(Kv(Family::kCluster), NodeRecordPrefix(), PrefixEnd(NodeRecordPrefix()), kMaxNodes));
  for (const KvEntry& e : nodes) {
    ASSIGN_OR_RETURN(NodeRecord node, DecodeNodeRecord(e.second));
    node.epoch.v += times * kTermJump;
    batch.Put(Kv(Family::kCluster), e.first, EncodeNodeRecord(node));
  }
  return kv.Write(batch);
}

Result<void> FenceSessions(MetaStore& store, uint64_t* fenced) {
  std::string from;
  while (true) {
    Txn txn(store);
    ASSIGN_OR_RETURN(const auto rows, txn.Scan(Family::kSessions, from, "", kRun));
    for (const KvEntry& row : rows) {
      ASSIGN_OR_RETURN(SessionRecord s, DecodeSessionRecord(row.second));
      *fenced += !s.fenced;
      s.fenced = true;
      txn.Put(Family::kSessions, row.first, EncodeSessionRecord(s));
    }
    RETURN_IF_ERROR(txn.Commit());
    if (rows.size() < kRun) return Ok();
    from = rows.back().first + '\0';
  }
}

Result<void> ForgetAllocated(MetaStore& store, uint64_t* stripes) {
  while (true) {
    Txn txn(store);
    ASSIGN_OR_RETURN(const auto rows, txn.Scan(Family::kSessionStripes, "", "", kRun));
    for (const KvEntry& row : rows) {
      uint64_t owner = 0;
      StripeId stripe;
      if (!ParseKey64x2(row.first, &owner, &stripe.v)) {
        return CorruptRecord(Family::kSessionStripes, row.first, "its key does not decode");
      }
      RETURN_IF_ERROR(OpForgetStripe(txn, stripe));
    }
    RETURN_IF_ERROR(txn.Commit());
    *stripes += rows.size();
    if (rows.size() < kRun) return Ok();
  }
}

void ForgetReserved(Txn& txn, const std::string& key, const std::optional<TargetStripeRecord>& record) {
  if (record && record->pending) txn.Delete(Family::kTargetStripes, key);
}

// They are planned again, with other shards.
Result<void> ForgetRebuilds(MetaStore& store, uint64_t* rebuilds) {
  while (true) {
    Txn txn(store);
    ASSIGN_OR_RETURN(const auto rows, txn.ScanPrefix(Family::kRepairs, RepairTaskPrefix(), kRun));
    for (const KvEntry& row : rows) {
      ASSIGN_OR_RETURN(const RepairTaskRecord task, DecodeRepairTask(row.second));
      const std::string key = TargetShardKey(task.new_target, task.new_shard);
      ASSIGN_OR_RETURN(const auto reserved, txn.Read<TargetStripeRecord>(key));
      ForgetReserved(txn, key, reserved);
      txn.Delete(Family::kRepairs, row.first);
    }
    RETURN_IF_ERROR(txn.Commit());
    *rebuilds += rows.size();
    if (rows.size() < kRun) return Ok();
  }
}

// A stripe that was being widened stays what it is; columns that it has not yet, or no longer, are forgotten: no reader of them
// is left.
Result<void> ForgetWidenings(MetaStore& store, uint64_t* rebuilds) {
  while (true) {
    Txn txn(store);
    ASSIGN_OR_RETURN(const auto rows, txn.ScanPrefix(Family::kRepairs, WidenPrefix(), kWidenRun));
    for (const KvEntry& row : rows) {
      ASSIGN_OR_RETURN(const WidenRecord task, DecodeWiden(row.second));
      for (const Column& c : task.leftovers()) {
        if (!c.shard) continue;
        const std::string key = TargetShardKey(c.target, c.shard);
        ASSIGN_OR_RETURN(const auto reserved, txn.Read<TargetStripeRecord>(key));
        ForgetReserved(txn, key, reserved);
      }
      txn.Delete(Family::kRepairs, row.first);
    }
    RETURN_IF_ERROR(txn.Commit());
    *rebuilds += rows.size();
    if (rows.size() < kWidenRun) return Ok();
  }
}

// The same for folds: of one that is swapped in the copies are forgotten, of another its parity.
Result<void> ForgetFolds(MetaStore& store, uint64_t* rebuilds) {
  while (true) {
    Txn txn(store);
    ASSIGN_OR_RETURN(const auto rows, txn.ScanPrefix(Family::kRepairs, FoldPrefix(), kWidenRun));
    for (const KvEntry& row : rows) {
      ASSIGN_OR_RETURN(const FoldRecord task, DecodeFold(row.second));
      for (const Column& c : task.leftovers()) {
        const std::string key = TargetShardKey(c.target, c.shard);
        ASSIGN_OR_RETURN(const auto reserved, txn.Read<TargetStripeRecord>(key));
        ForgetReserved(txn, key, reserved);
      }
      txn.Delete(Family::kRepairs, row.first);
    }
    RETURN_IF_ERROR(txn.Commit());
    *rebuilds += rows.size();
    if (rows.size() < kWidenRun) return Ok();
  }
}

}  // namespace

Task<Result<ReviveResult>> ReviveStore(std::unique_ptr<KvStore> kv, ReviveParams params) {
  CO_RETURN_IF_ERROR(Jump(*kv, params));
  CO_ASSIGN_OR_RETURN(const std::unique_ptr<MetaStore> store, co_await MetaStore::Open(std::move(kv)));
  ReviveResult out;
  CO_RETURN_IF_ERROR(FenceSessions(*store, &out.sessions));
  CO_RETURN_IF_ERROR(ForgetAllocated(*store, &out.stripes));
  CO_RETURN_IF_ERROR(ForgetRebuilds(*store, &out.rebuilds));
  CO_RETURN_IF_ERROR(ForgetWidenings(*store, &out.rebuilds));
  CO_RETURN_IF_ERROR(ForgetFolds(*store, &out.rebuilds));
  CO_RETURN_IF_ERROR(co_await store->Sync());
  CO_ASSIGN_OR_RETURN(out.fsck, CheckStore(store->kv()));
  co_return std::move(out);
}

}  // namespace stria
