// Waiting for a task, but not after an event.
#pragma once

#include <coroutine>
#include <optional>
#include <utility>

#include "common/exec/task.h"

namespace stria {

// co_await UnlessPulsed(&task, &event): the task's value, or nullopt when the event is pulsed first; the task is as far as it
// is then.
template <class T>
class UnlessPulsed {
 public:
  UnlessPulsed(Task<T>* task, Event* event) : task_(task), pulse_(event) {}
  bool await_ready() const noexcept { return false; }
  auto await_suspend(std::coroutine_handle<> parent) {
    pulse_->await_suspend(parent);
    return std::move(*task_).operator co_await().await_suspend(parent);
  }
  // Resumed by either. Both may have been about to: the second must not find a dead frame.
  std::optional<T> await_resume() {
    pulse_.reset();
    if (!task_->done()) return std::nullopt;
    return std::move(*task_).operator co_await().await_resume();
  }

 private:
  Task<T>* task_;
  std::optional<Event::Awaiter> pulse_;
};

}  // namespace stria
