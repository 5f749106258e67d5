#include "meta/replica/founding.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "meta/core/cluster_keys.h"
#include "meta/core/number_record.h"
#include "meta/model/families.h"
#include "meta/model/records.h"
#include "meta/replica/replica_log.h"

namespace stria {
namespace {

constexpr size_t kRowsAtOnce = 256;  // a row holds a batch

}  // namespace

bool HasJustBegun(const ReplicaStore& store) {
  return store.begun() && store.history().size() == 1 && store.first().v == store.last().seq.v + 1;
}

Task<Result<Register>> FoundMembers(ReplicaStore* store, RegisterClient* client, FoundingStore founding, Uuid nonce) {
  // A term of 0 is none in a log that has batches.
  const uint64_t term = founding.last.v == 0 ? founding.term : std::max<uint64_t>(founding.term, 1);
  if (store->marker()) {
    co_return Error(FsError::kConflict, "the store of this metadata server is not whole: it was being copied from another one");
  }
  if (!store->begun()) CO_RETURN_IF_ERROR(store->Begin({founding.last, term, founding.chain}, founding.incarnation));
  const Result<LogPoint> synced = co_await store->Sync();
  if (!synced.ok()) co_return synced.error();
  Founding first;
  first.name = founding.name;
  first.member = founding.member;
  first.store_term = std::max(term, store->last().term);
  first.incarnation = store->incarnation();
  CO_ASSIGN_OR_RETURN(const Register mine, Found(first, nonce));
  CO_ASSIGN_OR_RETURN(Register there, co_await client->Create(mine));
  const auto it = there.members.find(founding.name);
  if (it == there.members.end() || it->second.uuid != founding.member.uuid) {
    if (founding.others_are_lost) {
      CO_ASSIGN_OR_RETURN(const Register instead, FoundInPlaceOf(there, first, nonce));
      co_return co_await client->Swap({there, instead});
    }
    co_return Error(FsError::kExist, "the coordinator has metadata servers of this cluster already, with " + there.primary +
                                         " as the primary: join those instead");
  }
  // A log that has just begun, in a term above those that the register knows, is of a store that was served alone meanwhile. Any other
  // one knows more than the coordinator: that was restored from an old state, which no founding may hide.
  if (first.store_term <= there.term || !HasJustBegun(*store) || there.members.size() != 1) co_return there;
  CO_ASSIGN_OR_RETURN(const Register again, FoundAgain(there, first, nonce));
  co_return co_await client->Swap({there, again});
}

Result<void> LookAtStore(KvStore& kv, FoundingStore* founding) {
  ASSIGN_OR_RETURN(const auto state, kv.Get(static_cast<KvFamily>(Family::kState), StateKey()));
  if (!state) return Error(FsError::kInval, "there is no metadata store in it yet");
  ASSIGN_OR_RETURN(const StateRecord record, StateRecord::Decode(StateKey(), *state));
  ASSIGN_OR_RETURN(const auto term, kv.Get(static_cast<KvFamily>(Family::kCluster), TermRecordKey()));
  ASSIGN_OR_RETURN(founding->term, DecodeNumber(TermRecordKey(), term));
  founding->last = record.seq;
  return Ok();
}

Task<Result<void>> LeaveMembers(std::shared_ptr<KvStore> kv, RegisterClient* client, std::string name, Uuid uuid) {
  CO_ASSIGN_OR_RETURN(const std::optional<Register> now, co_await client->Read());
  if (now) {
    const auto self = now->members.find(name);
    if (self == now->members.end() || self->second.uuid != uuid) {
      co_return Error(FsError::kStale, "this directory is none of the metadata servers' (" + now->primary + " is the primary): served alone it would be a "
                                       "second cluster of the same files");
    }
    if (now->members.size() > 1) {
      co_return Error(FsError::kBusy, "there are " + std::to_string(now->members.size()) + " metadata servers: stop the others and remove them first (stria meta remove)");
    }
  }
  FoundingStore there;
  CO_RETURN_IF_ERROR(LookAtStore(*kv, &there));
  CO_ASSIGN_OR_RETURN(const std::unique_ptr<ReplicaStore> store, ReplicaStore::Open(kv));
  if (store->marker()) co_return Error(FsError::kConflict, "the store of this metadata server is not whole: it was being copied from another one");
  // First what says that there is a log: rows without it are nobody's, and go with the next try.
  KvBatch head;
  for (std::string key : {LogBaseKey(), LogHistoryKey(), LogOpenedKey()}) head.Delete(kReplicaStateFamily, std::move(key));
  CO_RETURN_IF_ERROR(kv->Write(head));
  while (true) {
    CO_ASSIGN_OR_RETURN(std::vector<KvEntry> rows, kv->Scan(kReplicaLogFamily, "", "", kRowsAtOnce));
    if (rows.empty()) break;
    KvBatch batch;
    for (KvEntry& row : rows) batch.Delete(kReplicaLogFamily, std::move(row.first));
    CO_RETURN_IF_ERROR(kv->Write(batch));
  }
  co_return co_await kv->Sync();
}

}  // namespace stria
