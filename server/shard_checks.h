// Looks at shards that a reader elsewhere could not use, or that another node has written, as the metadata server asks with its
// answers to heartbeats: reads each from its disk, one after the other, through the node's gate, and compares it with its checksums
// and with the digest that was recorded, or that its writer has told.
//
// The question is repeated until its answer has been reported. For the executor's thread.
#pragma once

#include <deque>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "api/meta_api.h"
#include "common/exec/task.h"
#include "server/data_server.h"

namespace stria {

inline constexpr size_t kMaxChecksTaken = 64;  // and not reported

class ShardChecks {
 public:
  // `server` outlives it. `on_done`: there is something to report.
  ShardChecks(DataServer* server, std::function<void()> on_done) : server_(server), on_done_(std::move(on_done)) {}

  // Those that it has already are skipped.
  void Take(std::vector<CheckWork> work);
  const std::vector<CheckResult>& done() const { return done_; }
  // The first n of done().
  void Reported(size_t n);

 private:
  Task<void> Run();
  Task<Result<void>> Look(CheckWork work);

  DataServer* const server_;
  const std::function<void()> on_done_;
  std::deque<CheckWork> queue_;
  std::set<std::pair<TargetId, ShardId>> taken_;  // waiting, or done and not reported
  std::vector<CheckResult> done_;
  bool running_ = false;
  TaskScope scope_;  // last
};

}  // namespace stria
