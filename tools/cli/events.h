// Events for people, mail and programs, and the decisions of `stria watch`: pure. Wall clock in nanoseconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/admin_api.h"
#include "tools/cli/json.h"

namespace stria::cli {

const char* SeverityName(EventSeverity s);  // "note", "warning", "critical"
std::optional<EventSeverity> SeverityOf(const std::string& name);

std::string UtcTime(int64_t ns);  // "2026-11-28T09:00:00Z"

// A line for each, and its action in a line below.
std::string RenderEvents(const std::vector<ClusterEvent>& events);
Json EventJson(const ClusterEvent& e);

// ---- What is given to the receivers of `stria watch`

// NAME, value: STRIA_EVENT_KIND and so on.
std::vector<std::pair<std::string, std::string>> EventEnvironment(const ClusterEvent& e);
// A whole message for `sendmail -t`. `host` is named in it.
std::string EventMail(const ClusterEvent& e, const std::string& to, const std::string& host);
// "[stria] warning: Node n3 is down."; of one line and bounded.
std::string EventSubject(const ClusterEvent& e);
// kInval with a sentence: it is no address that a mail program takes as one.
Result<void> CheckMailAddress(const std::string& to);

// ---- What `stria watch` remembers

struct WatchState {
  uint64_t next = 0;          // events up to this were delivered
  bool away_told = false;     // that the metadata server does not answer
  bool operator==(const WatchState&) const = default;
};
std::string EncodeWatchState(const WatchState& s);
Result<WatchState> DecodeWatchState(const std::string& text);  // kCorrupt

inline constexpr int64_t kAwayNs = 30 * kSecond;  // without an answer: told

// Whether the metadata server answers. `now_ns` never jumps.
class AwayWatch {
 public:
  AwayWatch(bool told, int64_t now_ns) : told_(told), heard_ns_(now_ns) {}
  // An event to be delivered, if there is one: "metadata-away", "metadata-back". Its number is 0.
  std::optional<ClusterEvent> OnAnswer(int64_t now_ns, int64_t wall_ns);
  std::optional<ClusterEvent> OnFailure(const std::string& why, int64_t now_ns, int64_t wall_ns);
  bool told() const { return told_; }

 private:
  bool told_;
  int64_t heard_ns_;
};

// After the n-th failure of a receiver (from 1 on): how long until it is tried again; none: this event is given up for it.
std::optional<int64_t> RetryAfterNs(int failures);

}  // namespace stria::cli
