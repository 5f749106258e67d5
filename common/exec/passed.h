// An event as a task, for WithTimeout and FirstOf. Executor's thread only.
#pragma once

#include "common/exec/task.h"

namespace stria {

// True, once the event is set or pulsed. The event outlives the task.
inline Task<bool> Passed(Event* event) {
  co_await event->Wait();
  co_return true;
}

}  // namespace stria
