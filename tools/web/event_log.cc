#include "tools/web/event_log.h"

#include <iterator>
#include <utility>

#include "tools/cli/events.h"

namespace stria::web {

ReadEventsRequest EventLog::Next(int64_t wall_ns) {
  if (++asked_ > kAnewAfter) {
    asked_ = 0;
    after_ = kept_.empty() ? 0 : kept_.begin()->first - 1;
  }
  ReadEventsRequest r;
  r.after = after_;
  r.since_ns = wall_ns - kSinceNs;
  r.limit = kLimit;
  return r;
}

bool EventLog::Take(ReadEventsReply reply) {
  for (ClusterEvent& e : reply.events) {
    const uint64_t seq = e.seq;
    kept_.insert_or_assign(seq, std::move(e));
  }
  while (kept_.size() > kKept) kept_.erase(kept_.begin());
  const bool further = reply.next > after_;
  if (further) after_ = reply.next;
  return reply.more && further;
}

void EventLog::Of(const std::string& cluster) {
  if (cluster == cluster_) return;
  cluster_ = cluster;
  kept_.clear();
  after_ = 0;
}

cli::Json EventLog::Shown() const {
  cli::Json out = cli::Json::array();
  for (auto it = kept_.rbegin(); it != kept_.rend(); ++it) {
    const ClusterEvent& e = it->second;
    std::string what = e.text;
    if (e.count > 1) what += " (" + std::to_string(e.count) + " times, the last at " + cli::UtcTime(e.last_ns) + ")";
    out.push_back({{"seq", e.seq}, {"time_s", e.time_ns / kSecond}, {"severity", cli::SeverityName(e.severity)}, {"what", what}, {"action", e.action}});
  }
  return out;
}

}  // namespace stria::web
