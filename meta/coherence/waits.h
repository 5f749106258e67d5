// Operations that wait for other sessions, for who looks for circles in what waits for what (test/sim/progress.h). Each is noted
// in its own coroutine's frame, once it waits. Executor's thread only.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "common/exec/executor.h"
#include "common/ids.h"

namespace stria {

class WaitList {
 public:
  enum class For : uint8_t {
    kOpen,      // leases
    kChange,    // a change: leases, acknowledgements of it
    kMapping,   // somebody who reads bytes
    kQuestion,  // others who ask what is so
    kPages,     // as kMapping, for pages that a kernel reads
  };
  using Events = std::vector<std::pair<SessionId, uint64_t>>;

  // While it lives, `asks` (0: it is not known which session, or none) waits with an operation on `ino`: until these `events`,
  // which outlive it, are answered or acknowledged; without any, for recalls of all others with more than a shared lease.
  class Wait {
   public:
    Wait(WaitList* list, For why, SessionId asks, InodeId ino, const Events* events = nullptr)
        : why(why), asks(asks), ino(ino), events(events), since_ns(Executor::Current().NowNs()), list_(list),
          number_(++list->next_) {
      list_->waits_[number_] = this;
    }
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    ~Wait() { list_->waits_.erase(number_); }

    const For why;
    const SessionId asks;
    const InodeId ino;
    const Events* const events;
    const int64_t since_ns;

   private:
    WaitList* const list_;
    const uint64_t number_;
  };

  const std::map<uint64_t, const Wait*>& all() const { return waits_; }  // by number, oldest first

 private:
  std::map<uint64_t, const Wait*> waits_;
  uint64_t next_ = 0;
};

}  // namespace stria
