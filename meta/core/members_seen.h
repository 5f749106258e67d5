// What one of several metadata servers sees of all of them while it serves: for events (meta/events) and metrics.
#pragma once

#include "api/replica_api.h"

namespace stria {

struct MembersSeen {
  MemberStatusReply status;  // of now; what only the others know of themselves is of some seconds ago
  bool handed = false;       // whoever served before has given the place to this life, as planned
};

}  // namespace stria
