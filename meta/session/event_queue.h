// Events of one session, in order, until it acknowledges them. Pure; not thread-safe.
//
// Invariants: numbers are dense, and never used again; what was not acknowledged is given again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "api/meta_api.h"
#include "common/error.h"

namespace stria {

inline constexpr size_t kMaxEventsPerPoll = 512;

class EventQueue {
 public:
  // `first` > 0: the number of the first event.
  explicit EventQueue(uint64_t first) : next_(first), delivered_(first - 1) {}

  uint64_t Push(SessionEvent e);  // its number
  // The next events, in order; they count as delivered.
  std::vector<SessionEvent> Take(size_t limit = kMaxEventsPerPoll);
  // All up to `event` are processed. kBadRequest if it was never delivered.
  Error Ack(uint64_t event);
  bool Acked(uint64_t event) const { return event < first(); }
  uint64_t delivered() const { return delivered_; }
  uint64_t first() const { return events_.empty() ? next_ : events_.front().seq; }  // that Take would give first
  size_t size() const { return events_.size(); }  // not yet acknowledged
  bool empty() const { return events_.empty(); }

  // What is queued is told to nobody any more.
  void Drop() { events_.clear(); }
  // It may acknowledge what it cannot have seen: all until now.
  void SkipToEnd() { delivered_ = next_ - 1; }

 private:
  std::deque<SessionEvent> events_;
  uint64_t next_;
  uint64_t delivered_;
};

}  // namespace stria
