// Events of one session, in order, until it acknowledges them. Pure; not thread-safe.
//
// Invariants: numbers are dense, and never used again; what was not acknowledged is given again. How long each may stay
// unacknowledged counts from when it was queued, whatever else is acknowledged meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "api/meta_api.h"
#include "common/error.h"
#include "common/units.h"

namespace stria {

inline constexpr size_t kMaxEventsPerPoll = 512;
// That a session may need for an event: one that is queued behind others may be acknowledged by so much later for each of these.
inline constexpr int64_t kEventTakesNs = 5 * kMillisecond;

class EventQueue {
 public:
  // `first` > 0: the number of the first event.
  explicit EventQueue(uint64_t first) : next_(first), delivered_(first - 1) {}

  uint64_t Push(SessionEvent e, int64_t now_ns);  // its number
  // The next events, in order; they count as delivered.
  std::vector<SessionEvent> Take(size_t limit = kMaxEventsPerPoll);
  // All up to `event` are processed. kBadRequest if it was never delivered.
  Error Ack(uint64_t event);
  bool Acked(uint64_t event) const { return event < first(); }
  uint64_t delivered() const { return delivered_; }
  uint64_t first() const { return events_.empty() ? next_ : events_.front().event.seq; }  // that Take would give first
  size_t size() const { return events_.size(); }  // not yet acknowledged
  bool empty() const { return events_.empty(); }
  // How long the session has left the oldest one unacknowledged, beyond what those before it took; 0 if there is none.
  int64_t SilentNs(int64_t now_ns) const { return events_.empty() ? 0 : now_ns - events_.front().from_ns; }

  // What is queued is told to nobody any more.
  void Drop() { events_.clear(); }
  // It may acknowledge what it cannot have seen: all until now.
  void SkipToEnd() { delivered_ = next_ - 1; }

 private:
  struct Queued {
    SessionEvent event;
    int64_t from_ns = 0;  // it could be taken from then on
  };
  std::deque<Queued> events_;
  uint64_t next_;
  uint64_t delivered_;
};

}  // namespace stria
