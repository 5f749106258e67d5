// How long the reads of a disk take lately: so that one which answers, but far slower than others do, is seen. Those that
// have not ended yet count as far as they have come. For the executor's thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <utility>
#include <vector>

#include "common/exec/executor.h"
#include "common/units.h"

namespace stria {

class ReadTimes {
 public:
  static constexpr size_t kMostReads = 16;             // the last ones ...
  static constexpr int64_t kLatelyNs = 120 * kSecond;  // ... of this time
  static constexpr size_t kFewestReads = 4;

  // A read under way; it ends with the object, also if its caller has gone.
  class Timer {
   public:
    explicit Timer(ReadTimes* times) : times_(times), began_ns_(Executor::Current().NowNs()) {
      times_->going_on_.insert(began_ns_);
    }
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;
    ~Timer() {
      times_->going_on_.erase(times_->going_on_.find(began_ns_));
      if (times_->ended_.size() == kMostReads) times_->ended_.pop_front();
      const int64_t now = Executor::Current().NowNs();
      times_->ended_.emplace_back(now, now - began_ns_);
    }

   private:
    ReadTimes* const times_;
    const int64_t began_ns_;
  };

  // Half of the last ones took longer, ns; 0 if there were too few to say.
  int64_t Median() const {
    const int64_t now = Executor::Current().NowNs();
    std::vector<int64_t> took;
    for (auto it = going_on_.begin(); it != going_on_.end() && took.size() < kMostReads; ++it) took.push_back(now - *it);
    for (auto it = ended_.rbegin(); it != ended_.rend() && took.size() < kMostReads; ++it) {
      if (it->first + kLatelyNs > now) took.push_back(it->second);
    }
    if (took.size() < kFewestReads) return 0;
    const auto middle = took.begin() + static_cast<ptrdiff_t>(took.size() / 2);
    std::nth_element(took.begin(), middle, took.end());
    return *middle;
  }

 private:
  std::multiset<int64_t> going_on_;                // when they began
  std::deque<std::pair<int64_t, int64_t>> ended_;  // (when, took)
};

}  // namespace stria
