// The first metadata server of a cluster that is to have several: its store, which has been served alone so far, gets a log, and the
// register its first value. By a person, once (register.h, T1). And the last one, which is to be alone again.
//
// For the executor's thread.
#pragma once

#include <memory>
#include <string>

#include "common/exec/task.h"
#include "common/kv/kv.h"
#include "meta/replica/register_client.h"
#include "meta/replica/replica_store.h"

namespace stria {

struct FoundingStore {
  std::string name;
  MetaMember member;
  CommitSeq last;           // of the store as it is
  uint64_t term = 0;        // the last that it was served in
  uint64_t incarnation = 1;
  uint64_t chain = 0;       // random: no two logs begin alike
  bool others_are_lost = false;  // a person says so: it takes the place of members that the register names; `incarnation` is above theirs
};

// The log is durable before the register names it. Again is as once. kExist: others have founded the members already, `message` says
// who; any other error: it is not known whether the register was written, and again is safe.
Task<Result<Register>> FoundMembers(ReplicaStore* store, RegisterClient* client, FoundingStore founding, Uuid nonce);

// The log has begun, and nothing was written since.
bool HasJustBegun(const ReplicaStore& store);

// What the store says of itself as it lies there: `last` and `term`. kInval: there is none in it.
Result<void> LookAtStore(KvStore& kv, FoundingStore* founding);

// The other way: the only member is to be served alone again, so its log goes; other settings open it then. Durable on return; again is
// as once, also after a crash in the middle. The register stays as it is: FoundMembers goes on from it. Nothing else uses `kv`.
// kBusy: there are other members; kStale: it is none itself; kConflict: its store is not whole; errors of RegisterClient::Read.
Task<Result<void>> LeaveMembers(std::shared_ptr<KvStore> kv, RegisterClient* client, std::string name, Uuid uuid);

}  // namespace stria
