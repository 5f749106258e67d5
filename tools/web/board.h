// What the page is made of: the last answer of the cluster, for how long there has been none, the history, and events. Thread-safe: one
// thread takes answers, others ask for bodies. Times are arguments: wall clock, milliseconds.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "common/error.h"
#include "tools/cli/json.h"
#include "tools/web/history.h"

namespace stria::web {

inline constexpr int64_t kLookedMs = 15'000;        // a page asks every 2 s; one in the background less often
inline constexpr int64_t kWatchedPeriodMs = 2'000;  // while somebody looks
inline constexpr int64_t kPeriodMs = 10'000;        // else
inline constexpr int64_t kStuckMs = 60'000;

class Board {
 public:
  // `cluster`: where its metadata servers are, for people. `program`: the version of what serves the page. `recorded`: nobody asks the
  // cluster any more.
  Board(std::string cluster, std::string program, bool recorded = false)
      : cluster_(std::move(cluster)), program_(std::move(program)), recorded_(recorded) {}

  // ---- For the thread that asks the cluster ----

  // An answer: an object as `stria status --json` has it, or why there is none. answer_ms as of SampleOf.
  void Take(Result<Json> status, int64_t now_ms, double answer_ms);
  // An array of {"time_s", "severity", "what", "action"}, newest first; nullopt: this cluster keeps no events.
  void TakeEvents(std::optional<Json> events);
  // Until the next question.
  int64_t PeriodMs(int64_t now_ms) const;

  // ---- Bodies of replies ----

  // {"cluster", "program", "recorded", "now_ms", "state": "starting"|"live"|"away", "as_of_ms", "away_since_ms", "error", "status"}. The
  // status stays when the metadata server goes away; null: there never was one. Notes that somebody looks.
  std::string Status(int64_t now_ms);
  std::string History(int64_t now_ms) const;
  // {"available", "events"}
  std::string Events() const;
  // A sentence; kUnavailable if the cluster has not even been asked for long, which is a fault of this program.
  Result<std::string> Health(int64_t now_ms) const;

 private:
  const std::string cluster_, program_;
  const bool recorded_;
  mutable std::mutex mu_;  // guards what follows
  std::shared_ptr<const Json> status_;
  std::optional<Json> events_;
  std::optional<int64_t> as_of_ms_, away_since_ms_, asked_ms_, looked_ms_;
  std::string error_;
  web::History history_;
};

}  // namespace stria::web
