// Where the page's answers come from: a cluster, or a file of recorded ones.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "tools/cli/cluster_client.h"
#include "tools/cli/json.h"
#include "tools/web/board.h"

namespace stria::web {

class Source {
 public:
  virtual ~Source() = default;
  // An object as `stria status --json` has it. Blocks; one caller at a time.
  virtual Result<Json> Status() = 0;
  // As of Board::TakeEvents.
  virtual std::optional<Json> Events() = 0;
};

// Asks the metadata servers; gives up after kAskTimeoutNs.
inline constexpr int64_t kAskTimeoutNs = 5 * kSecond;
std::unique_ptr<Source> MakeClusterSource(const std::vector<std::string>& addresses, cli::Reach reach);

// ---- Recorded answers ------------------------------------------------------------------------------
//
// {"frames": [{"age_s": 3600, "status": {..}, "answer_ms": 1.5}, {"age_s": 0, "error": "a sentence"}], "events": [..]}
// Frames are in the order of time. age_s: how long ago that was, when the program starts; 0 if it is not said. The last one stays.

struct ReplayFrame {
  int64_t age_ms = 0;
  Result<Json> status;
  double answer_ms = -1;
};
struct Replay {
  std::vector<ReplayFrame> frames;  // at least one
  std::optional<Json> events;
};
// kInval with a sentence. `name` stands for the file in it.
Result<Replay> ParseReplay(std::string_view text, const std::string& name);
Result<Replay> LoadReplay(const std::string& path);
// Everything at once; what the board says of times follows now_ms.
void TakeReplay(const Replay& replay, int64_t now_ms, Board* board);

}  // namespace stria::web
