// For tests: runs one task in virtual time and returns its value.
#pragma once

#include <optional>
#include <utility>

#include "common/exec/sim_executor.h"
#include "common/exec/task.h"

namespace stria {

inline constexpr int64_t kSimRunLimitNs = 24 * 3600 * kSecond;

// The task's value. REQUIRES: it finishes within `limit_ns` of virtual time.
template <class T>
T RunSim(SimExecutor& ex, Task<T> task, int64_t limit_ns = kSimRunLimitNs) {
  std::optional<T> out;
  TaskScope scope;
  scope.Spawn([](Task<T> t, std::optional<T>* to) -> Task<void> { to->emplace(co_await std::move(t)); }(
                                                      std::move(task), &out));
  CHECK(ex.RunUntil([&] { return out.has_value(); }, ex.NowNs() + limit_ns), "the task does not finish");
  return std::move(*out);
}

inline void RunSim(SimExecutor& ex, Task<void> task, int64_t limit_ns = kSimRunLimitNs) {
  bool done = false;
  TaskScope scope;
  scope.Spawn([](Task<void> t, bool* flag) -> Task<void> {
    co_await std::move(t);
    *flag = true;
  }(std::move(task), &done));
  CHECK(ex.RunUntil([&] { return done; }, ex.NowNs() + limit_ns), "the task does not finish");
}

}  // namespace stria
