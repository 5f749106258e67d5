// The executor of the simulator: virtual time, one seed, everything repeatable.
#pragma once

#include <functional>
#include <vector>

#include "common/exec/executor.h"
#include "common/random.h"

namespace stria {

class SimExecutor final : public Executor {
 public:
  // `shuffle`: how many ready coroutines the seed chooses among (1 = first come, first served).
  explicit SimExecutor(uint64_t seed, size_t shuffle = 1) : rng_(seed), shuffle_(shuffle) { MakeCurrent(); }

  int64_t NowNs() const override { return now_ns_; }
  int64_t WallNs() const override { return 1'700'000'000 * kSecond + now_ns_ + wall_ahead_ns_; }
  // Sets the wall clock, forward or back.
  void JumpWall(int64_t ns) { wall_ahead_ns_ += ns; }
  void Post(std::function<void()> fn) override { posted_.push_back(std::move(fn)); }

  // More steps than this without any passing of time, and something runs in a circle (CHECK).
  static constexpr uint64_t kMaxStepsAtOnce = 50'000'000;

  // Runs until `done()` (asked between steps), nothing is left to do, or virtual time passes
  // `until_ns`. True if done() held.
  bool RunUntil(const std::function<bool()>& done, int64_t until_ns);
  // Runs all that is due in the next `ns` of virtual time.
  void RunFor(int64_t ns);
  Random& rng() { return rng_; }
  uint64_t steps() const { return steps_; }

 protected:
  size_t PickReady(size_t count) override { return count <= 1 ? 0 : rng_.Below(count); }
  size_t PickWindow() const override { return shuffle_; }

 private:
  bool Step(int64_t until_ns);
  Random rng_;
  size_t shuffle_;
  int64_t now_ns_ = 1 * kSecond;
  int64_t wall_ahead_ns_ = 0;
  uint64_t steps_ = 0;
  uint64_t steps_at_once_ = 0;  // since now_ns_ changed
  std::vector<std::function<void()>> posted_;
};

}  // namespace stria
