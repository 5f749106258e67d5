#include "meta/replica/founding.h"

#include <algorithm>
#include <utility>

namespace stria {

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
  if (it != there.members.end() && it->second.uuid == founding.member.uuid) co_return there;
  co_return Error(FsError::kExist, "the coordinator has metadata servers of this cluster already, with " + there.primary +
                                       " as the primary: join those instead");
}

}  // namespace stria
