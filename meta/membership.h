// What stria-meta does once on somebody's word: the store of its directory becomes the first of several metadata servers', an empty
// directory becomes another one's, the last one is alone again. The mark in the superblock says which of them it is (data_dir.h).
//
// For the executor's thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/coordinator.h"
#include "common/exec/task.h"
#include "common/kv/kv.h"
#include "common/superblock.h"
#include "common/token.h"
#include "meta/ha_config.h"

namespace stria {

// A member's directory, and what it agrees with the others by.
struct Membership {
  std::string data;  // the directory, with a superblock
  Superblock super;
  HaConfig ha;
  std::string release;
  ClusterKey key;
  Coordinator* coordinator = nullptr;  // outlives the task
  std::vector<ClusterKey> other_keys = {};  // that may have sealed what the coordinator has
  bool adopt = false;  // a person says that no other member's store has more: the coordinator knows of none, or all that it knows are lost
};

// --ha-init. Waits for a coordinator that does not answer, with a warning. Again is as once. kExist: others have founded it; kConflict:
// the store is not what its log says, or, without `adopt`, the coordinator has lost a register that others may have been in.
Task<Result<void>> BecomeFirst(Membership m, std::shared_ptr<KvStore> kv);
// --ha-leave, as LeaveMembers; then the mark goes. Nothing else has the store open.
Task<Result<void>> BecomeAlone(Membership m, std::shared_ptr<KvStore> kv);

}  // namespace stria
