// What serves clients while this member is the primary: the seam between MetaNode, which knows who may serve, and the metadata server,
// which knows how.
//
// For the executor's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/exec/task.h"
#include "common/kv/kv.h"
#include "meta/replica/answer_gate.h"
#include "meta/replica/register.h"
#include "meta/replica/replica_primary.h"

namespace stria {

// A life as primary begins.
struct HouseOpening {
  MetaLife life;
  std::unique_ptr<KvStore> store;    // replicated. The house's first batch is the first of the term in the log
  std::shared_ptr<AnswerGate> gate;  // is asked for every answer that leaves, and for every call that begins
  ReplicaPrimary* primary = nullptr;  // for the tap and the bound on plain changes (replica_primary.h); until Close returns
  std::function<void(uint64_t term)> saw_term;  // to be told of a later life that somebody has proved; until Close returns
  int64_t token_time_ns = 0;         // the time for tokens is at least that, as other primaries have said; 0: none has
};

class ServingHouse {
 public:
  virtual ~ServingHouse() = default;
  // Serves from its return on, until Close. kNotLeader: the life was over before that; any other error ends this member. Store and
  // primary are there until Close has returned. Where this member ends without a Close, they are gone before the house is destroyed.
  virtual Task<Result<void>> Open(HouseOpening opening) = 0;
  // Resumes when what was opened cannot go on: its store has failed. Cancelled at the end of the life.
  virtual Task<Error> WaitFatal() = 0;
  // Also after an Open that failed. Calls under way are answered with kNotLeader and `where`, or not at all; on return nothing of the
  // house uses the store. Soon: the next primary may be this one again.
  virtual Task<void> Close(std::string where) = 0;
  // While it is open: the time for tokens, nanoseconds since 1970. 0: not known yet.
  virtual int64_t TokenTimeNs() const = 0;
};

}  // namespace stria
