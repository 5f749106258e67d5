#include "meta/replica/revival.h"

#include <string>
#include <utility>
#include <vector>

#include "meta/core/cluster_keys.h"
#include "meta/core/number_record.h"
#include "meta/model/families.h"
#include "meta/model/records.h"
#include "meta/replica/replica_log.h"
#include "meta/replica/replicated_kv.h"

namespace stria {
namespace {

constexpr size_t kRowsAtOnce = 256;  // a row holds a batch

Result<void> DropRows(KvStore& kv) {
  while (true) {
    ASSIGN_OR_RETURN(std::vector<KvEntry> rows, kv.Scan(kReplicaLogFamily, "", "", kRowsAtOnce));
    if (rows.empty()) return Ok();
    KvBatch batch;
    for (KvEntry& row : rows) batch.Delete(kReplicaLogFamily, std::move(row.first));
    RETURN_IF_ERROR(kv.Write(batch));
  }
}

Result<uint64_t> IncarnationOf(KvStore& kv) {
  ASSIGN_OR_RETURN(const auto super, kv.Get(static_cast<KvFamily>(Family::kState), SuperKey()));
  if (!super) return Error(FsError::kCorrupt, "the metadata store has no record of what it is");
  ASSIGN_OR_RETURN(const SuperRecord record, SuperRecord::Decode(SuperKey(), *super));
  return record.incarnation;
}

// Where the store is.
Result<LogPoint> EndOf(KvStore& kv, uint64_t chain) {
  ASSIGN_OR_RETURN(const auto state, kv.Get(static_cast<KvFamily>(Family::kState), StateKey()));
  if (!state) return Error(FsError::kCorrupt, "the metadata store has no record of its state");
  ASSIGN_OR_RETURN(const StateRecord record, StateRecord::Decode(StateKey(), *state));
  ASSIGN_OR_RETURN(const auto term, kv.Get(static_cast<KvFamily>(Family::kCluster), TermRecordKey()));
  ASSIGN_OR_RETURN(const uint64_t last_term, DecodeNumber(TermRecordKey(), term));
  return LogPoint{record.seq, last_term, chain};
}

}  // namespace

Task<Result<ReviveResult>> ReviveReplica(ReplicaStore* store, std::shared_ptr<KvStore> kv, ReplicaRevival params) {
  if (!store->whole() && !store->reviving()) {
    co_return Error(FsError::kConflict, "the store of this metadata server is not whole: it lacks what it was copying, or was going back");
  }
  ReviveParams revive;
  CO_ASSIGN_OR_RETURN(revive.incarnation, IncarnationOf(*kv));
  ++revive.incarnation;
  revive.store = params.store;
  revive.wall_ns = params.wall_ns;
  // From here on it is nobody's standby, and no primary, until the log begins again.
  CO_RETURN_IF_ERROR(store->BeginRevival());
  CO_RETURN_IF_ERROR(DropRows(*kv));
  CO_ASSIGN_OR_RETURN(ReviveResult revived, co_await ReviveStore(std::make_unique<ReplicatedKv>(kv), revive));
  CO_ASSIGN_OR_RETURN(const LogPoint base, EndOf(*kv, params.chain));
  CO_RETURN_IF_ERROR(store->Begin(base, params.incarnation));
  const Result<LogPoint> synced = co_await store->Sync();
  if (!synced.ok()) co_return synced.error();
  co_return std::move(revived);
}

}  // namespace stria
