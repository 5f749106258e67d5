// A life of the metadata server that was given to it from outside: by the register of several metadata servers (meta/replica). A
// server that is alone gives itself the next one.
#pragma once

#include <cstdint>
#include <functional>

#include "meta/core/members_seen.h"

namespace stria {

struct GivenLife {
  uint64_t term = 0;          // 0: the one after the last in the store
  int64_t token_time_ns = 0;  // the time for tokens is at least that, nanoseconds since 1970
  // A caller has proved that this later life has been: nothing is answered any more. Without it (a server that is alone) the store is
  // marked as an old copy.
  std::function<void(uint64_t term)> overtaken = {};
  std::function<MembersSeen()> members = {};  // all metadata servers, as they are now; null: there is one
};

}  // namespace stria
