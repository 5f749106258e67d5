#include "meta/session/event_queue.h"

#include <algorithm>
#include <string>
#include <utility>

namespace stria {

uint64_t EventQueue::Push(SessionEvent e, int64_t now_ns) {
  e.seq = next_++;
  events_.push_back({std::move(e), now_ns + static_cast<int64_t>(events_.size()) * kEventTakesNs});
  return next_ - 1;
}

std::vector<SessionEvent> EventQueue::Take(size_t limit) {
  std::vector<SessionEvent> out;
  for (const Queued& q : events_) {
    if (out.size() >= limit) break;
    out.push_back(q.event);
  }
  if (!out.empty()) delivered_ = std::max(delivered_, out.back().seq);
  return out;
}

Error EventQueue::Ack(uint64_t event) {
  if (event > delivered_) {
    return Error(FsError::kBadRequest, "event " + std::to_string(event) + " was acknowledged but never sent");
  }
  while (!events_.empty() && events_.front().event.seq <= event) events_.pop_front();
  return Error();
}

}  // namespace stria
