// A member of the metadata servers that is to serve without those that had more (register.h, T8): its store becomes one that was restored
// from an old copy (meta/backup/revive.h), and its log begins anew there, so that whatever the others still have is of another history.
//
// For the executor's thread.
#pragma once

#include <cstdint>
#include <memory>

#include "common/exec/task.h"
#include "common/ids.h"
#include "common/kv/kv.h"
#include "meta/backup/revive.h"
#include "meta/replica/replica_store.h"

namespace stria {

struct ReplicaRevival {
  uint64_t incarnation = 0;  // of the log: above all that there were
  uint64_t chain = 0;        // random: no two logs begin alike
  Uuid store;                // a new one
  int64_t wall_ns = 0;
};

// Durable on return: the store is whole, and its log has nothing but its beginning. Nobody else uses `store` and its `kv` meanwhile. Again
// is fine, also after a crash in the middle, from which on the store is nothing else any more (ReplicaStore::reviving).
// kConflict: it is not whole: it lacks what it was copying, or was going back. Other errors are ReviveStore's.
Task<Result<ReviveResult>> ReviveReplica(ReplicaStore* store, std::shared_ptr<KvStore> kv, ReplicaRevival params);

}  // namespace stria
