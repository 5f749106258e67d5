// What a primary whose store has failed says last: to people who can go on, to the other members that its life is over, so that none of
// them waits for what it has promised (promises.h).
//
// For the executor's thread.
#pragma once

#include <map>
#include <string>

#include "api/replica_api.h"
#include "common/exec/task.h"
#include "common/ids.h"
#include "common/units.h"
#include "meta/replica/commit_rule.h"
#include "meta/replica/register.h"

namespace stria {

inline constexpr int64_t kLastWordNs = 1 * kSecond;  // that the others are told in

// A sentence's end. `rule`, `last`: of the life that ends. Before that is ended.
std::string WhoGoesOn(const Register& known, const std::string& self, const CommitRule& rule, CommitSeq last);

// Tells each of `members` but the life's own, again and again, that the life answers nothing more: until all have heard it, or for kLastWordNs.
// REQUIRES: it is so, and stays so. `replicas` outlives the task.
Task<void> SayOver(ReplicaConnector* replicas, Uuid cluster, MetaLife life, std::map<std::string, MetaMember> members);

}  // namespace stria
