#include "common/exec/sim_executor.h"

#include "common/check.h"

namespace stria {

bool SimExecutor::Step(int64_t until_ns) {
  ++steps_;
  CHECK(++steps_at_once_ < kMaxStepsAtOnce, "something runs in a circle: no time passes");
  if (!posted_.empty()) {
    std::vector<std::function<void()>> batch;
    batch.swap(posted_);
    for (auto& fn : batch) fn();
    return true;
  }
  if (RunOneReady()) return true;
  const int64_t next = NextTimerNs();
  if (next > until_ns) return false;
  if (next > now_ns_) {
    now_ns_ = next;
    steps_at_once_ = 0;
  }
  RunDueTimers(now_ns_);
  return true;
}

bool SimExecutor::RunUntil(const std::function<bool()>& done, int64_t until_ns) {
  while (!done()) {
    if (!Step(until_ns)) return done();
  }
  return true;
}

void SimExecutor::RunFor(int64_t ns) {
  const int64_t until = now_ns_ + ns;
  while (Step(until)) {
  }
  now_ns_ = until;
}

}  // namespace stria
