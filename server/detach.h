// Runs a task to its end even if its caller goes away. A cancelled request (the peer went away) must not leave a shard half way
// between two states.
#pragma once

#include <utility>

#include "common/exec/task.h"

namespace stria {

namespace detach_internal {
template <class T>
Task<void> RunTo(Task<T> task, OneShot<T> result) {
  result.Set(co_await std::move(task));
}
}  // namespace detach_internal

// The task's value. The task runs in `scope`: it ends with the scope, not with the awaiter.
template <class T>
Task<T> RunIn(TaskScope& scope, Task<T> task) {
  OneShot<T> result;
  scope.Spawn(detach_internal::RunTo(std::move(task), result));
  co_return co_await result.Take();
}

}  // namespace stria
