// How the calls of a method went that a dispatcher has answered, and the line of a log about one that took too long.
// For the executor's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "common/error.h"
#include "common/ids.h"
#include "common/latency_histogram.h"
#include "trust/identity.h"

namespace stria {

struct MethodStats {
  LatencyHistogram took;  // from arrival, as far as that is known, to the reply that is ready to be sent
  uint64_t failed = 0;    // answered with an error; items of a request have errors of their own
  uint64_t slow = 0;      // took longer than DispatchOptions::slow_ns
};

// Of whoever answers calls, for its metrics.
class MethodStatsSource {
 public:
  virtual ~MethodStatsSource() = default;
  // `method`: "/stria.v1.Data/Write".
  virtual void EachMethod(const std::function<void(const std::string& method, const MethodStats& stats)>& fn) const = 0;
};

// When one call was where, by Executor::NowNs.
struct CallTimes {
  int64_t arrived_ns = 0;  // its last byte; where the transport does not say, as began_ns
  int64_t began_ns = 0;    // the executor had time for it
  int64_t ran_ns = 0;      // the service had answered; 0: it was not asked
  int64_t ended_ns = 0;    // the reply was encoded
  int64_t disk_ns = 0;     // that the service spent with its disks, as it says; 0: not known
  SessionId session;       // 0: none
  uint64_t trace_id = 0;   // 0: none
  bool may_wait = false;   // it waits on purpose (Poll), or nobody waits for it (background): slowness means nothing
};

// One sentence: which call of whom, how long it took, and where that time went.
std::string SlowCallLine(const std::string& method, const Peer* peer, const CallTimes& times, const Error& outcome);

}  // namespace stria
