#include "client/vfs/turns.h"

#include "client/vfs/counted.h"

namespace stria {
namespace {
Error ServersSilent() {
  return Error(FsError::kTimedOut, "what was asked of this file before waits for servers that do not answer");
}
}  // namespace

// Whoever holds it gives it up in bounded time, but a recall, which goes on until its bytes are written or the
// session is lost; and lost it is only once a server can be asked again.
Task<Result<SemaphoreHold>> Turns::Take(InodeTurnsPtr of, InodeLock InodeTurns::*line, const char* held_for) const {
  // Who held it last must not drop the inode when it is ours.
  const Counted waits(&of->waits_);
  InodeLock& lock = (*of).*line;
  while (true) {
    auto held = co_await WithTimeout(timeout_ns_, lock.Lock());
    if (held) {
      lock.HeldFor(held_for);
      co_return std::move(*held);
    }
    if (!servers_answer_()) co_return ServersSilent();
  }
}

Task<Result<void>> Turns::WritesMayStart(InodeTurnsPtr of) const {
  const Counted waits(&of->waits_);
  const auto none = [](InodeTurns* t) -> Task<bool> {
    while (t->cuts_ > 0) co_await t->cut_ended_.Wait();
    co_return true;
  };
  while (of->cuts_ > 0) {
    if (co_await WithTimeout(timeout_ns_, none(of.get()))) break;
    if (!servers_answer_()) co_return ServersSilent();
  }
  co_return Ok();
}

}  // namespace stria
