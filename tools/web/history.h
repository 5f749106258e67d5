// The last hour of what a cluster did, from its own answers: pure. A sample is what one answer (`stria status --json`) says of counters
// and times; the history makes rates of two samples that follow each other, and keeps them in slots of ten seconds.
//
// Bounded: kSlots slots, and of a sample no more than kMaxCounters counters of a flow. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "tools/cli/json.h"

namespace stria::web {

using cli::Json;

inline constexpr int64_t kSlotMs = 10'000;
inline constexpr size_t kSlots = 360;               // an hour
inline constexpr int64_t kMaxStepMs = 60'000;       // two samples further apart have a gap between them
inline constexpr size_t kMaxCounters = 4096;

// Bytes a second, but kFolds: folds a second. FlowName gives the name in JSON.
enum class Flow : uint8_t { kRead, kWritten, kRebuilt, kScrubbed, kMoved, kFolded, kFolds };
inline constexpr size_t kFlows = 7;
// Milliseconds.
enum class Level : uint8_t { kAnswer, kDisk, kWorstDisk };
inline constexpr size_t kLevels = 3;
const char* FlowName(Flow f);
const char* LevelName(Level l);

struct Sample {
  int64_t at_ms = 0;  // wall clock
  // By who counts (a client, a disk): each starts again from 0 on its own. No counter: the cluster does not tell.
  std::array<std::map<std::string, uint64_t>, kFlows> counters;
  std::array<std::optional<double>, kLevels> levels;
};

// What is not there, or is not what it should be, is left out: the answer may be of another version. `answer_ms`: how long the
// metadata server took to give it; < 0: not known.
Sample SampleOf(const Json& status, int64_t at_ms, double answer_ms);

class History {
 public:
  // In the order of time; one that is not later than the last begins the history anew if it is much older, and is else ignored.
  void Add(const Sample& s);

  // {"slot_ms", "points": [{"t", "read", ..}]}: the slots of the hour before now_ms that have anything, oldest first; what was not
  // told is null.
  Json Points(int64_t now_ms) const;

 private:
  struct Slot {
    int64_t number = 0;  // since 1970
    std::array<double, kFlows> amount{};
    std::array<int64_t, kFlows> over_ms{};  // 0: not told
    std::array<std::optional<double>, kLevels> levels;
  };
  Slot* At(int64_t at_ms);

  std::optional<Sample> last_;
  std::deque<Slot> slots_;
};

}  // namespace stria::web
