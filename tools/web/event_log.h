// The newest events of a cluster, as the page shows them: asked for page by page, each once. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "api/admin_api.h"
#include "common/units.h"
#include "tools/cli/json.h"

namespace stria::web {

class EventLog {
 public:
  static constexpr size_t kKept = 200;          // the newest
  static constexpr uint32_t kLimit = 200;       // of one answer
  static constexpr int64_t kSinceNs = 30 * 86'400 * kSecond;  // from before that nothing is shown
  static constexpr int kAnewAfter = 60;         // requests

  // The next thing to ask: what is new since the last answer. Now and then it is what is kept once more, as an event that came and
  // went is counted up after it was told.
  ReadEventsRequest Next(int64_t wall_ns);
  // True: there are more already, ask again.
  bool Take(ReadEventsReply reply);
  // Of which cluster they are. Those of another one are forgotten: it counts from one again.
  void Of(const std::string& cluster);

  // As of Board::TakeEvents.
  cli::Json Shown() const;

 private:
  std::string cluster_;
  std::map<uint64_t, ClusterEvent> kept_;  // by number
  uint64_t after_ = 0;
  int asked_ = 0;  // since it was asked anew
};

}  // namespace stria::web
