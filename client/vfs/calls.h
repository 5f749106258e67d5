// The calls of programs that are under way in a mount, oldest first: what takes too long, and since when. Each call is a node
// in its own coroutine's frame, so noting one costs no memory. Executor's thread only.
#pragma once

#include <cstdint>

#include "api/types.h"
#include "common/exec/executor.h"

namespace stria {

class CallList {
 public:
  // While it lives the call is under way. Does not move.
  class Call {
   public:
    // `what`: a literal, as "open of".
    Call(CallList* list, const char* what, InodeId ino)
        : list_(list), what_(what), ino_(ino), since_ns_(Executor::Current().NowNs()), before_(list->newest_) {
      (before_ ? before_->after_ : list_->oldest_) = this;
      list_->newest_ = this;
      ++list_->size_;
      ++list_->begun_;
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    ~Call() {
      (before_ ? before_->after_ : list_->oldest_) = after_;
      (after_ ? after_->before_ : list_->newest_) = before_;
      --list_->size_;
    }
    const char* what() const { return what_; }
    InodeId ino() const { return ino_; }
    int64_t since_ns() const { return since_ns_; }  // Executor::NowNs
    const Call* next() const { return after_; }     // that began later

   private:
    CallList* const list_;
    const char* const what_;
    const InodeId ino_;
    const int64_t since_ns_;
    Call* before_;
    Call* after_ = nullptr;
  };

  const Call* oldest() const { return oldest_; }
  uint64_t size() const { return size_; }
  uint64_t begun() const { return begun_; }  // ever

 private:
  Call* oldest_ = nullptr;
  Call* newest_ = nullptr;
  uint64_t size_ = 0;
  uint64_t begun_ = 0;
};

}  // namespace stria
