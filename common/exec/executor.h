// The runtime: one thread of logic. An Executor resumes coroutines and runs timers, in a defined
// order, on one thread at a time. All state of a process belongs to its executor's thread; other threads may
// only Post() (and be that thread for a while, with PostOrRun). Blocking calls and heavy pure computation go to a Pool (pool.h).
//
// Cancelling is destroying: a suspended coroutine frame may be destroyed at any time on the
// executor's thread; every awaitable unlinks itself in its destructor, so nothing resumes a dead
// frame. That makes cancellation synchronous (it is its own join), and lets the simulator crash a
// process by destroying its frames. Therefore destructors do no I/O.
#pragma once

#include <coroutine>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "common/check.h"
#include "common/compiler.h"
#include "common/units.h"

namespace stria {

class Executor;

// Link in at most one list. Unlinks itself when destroyed.
class ListNode {
 public:
  ListNode() = default;
  ListNode(const ListNode&) = delete;
  ListNode& operator=(const ListNode&) = delete;
  ~ListNode() { Unlink(); }
  bool linked() const { return next_ != nullptr; }
  void Unlink() {
    if (!next_) return;
    prev_->next_ = next_;
    next_->prev_ = prev_;
    next_ = prev_ = nullptr;
  }

 private:
  friend class NodeList;
  ListNode* prev_ = nullptr;
  ListNode* next_ = nullptr;
};

class NodeList {
 public:
  NodeList() { head_.prev_ = head_.next_ = &head_; }
  ~NodeList() {
    while (!empty()) head_.next_->Unlink();
    head_.prev_ = head_.next_ = nullptr;
  }
  bool empty() const { return head_.next_ == &head_; }
  void PushBack(ListNode* n) {
    n->Unlink();
    n->prev_ = head_.prev_;
    n->next_ = &head_;
    head_.prev_->next_ = n;
    head_.prev_ = n;
  }
  ListNode* front() { return empty() ? nullptr : head_.next_; }
  // nth from the front; for seeded schedules. REQUIRES: n < number of nodes.
  ListNode* at(size_t n) {
    ListNode* p = head_.next_;
    while (n--) p = p->next_;
    return p;
  }
  size_t CountUpTo(size_t limit) {
    size_t n = 0;
    for (ListNode* p = head_.next_; p != &head_ && n < limit; p = p->next_) ++n;
    return n;
  }

 private:
  ListNode head_;
};

// A suspended coroutine that something will make ready.
class Waiter : public ListNode {
 public:
  std::coroutine_handle<> handle;
};

// A pending timer; unlinks itself when destroyed.
class Timer {
 public:
  Timer() = default;
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer() { Cancel(); }
  void Cancel();
  bool pending() const { return executor_ != nullptr; }

 private:
  friend class Executor;
  Executor* executor_ = nullptr;
  std::pair<int64_t, uint64_t> key_;
  std::function<void()> fire_;
};

class Executor {
 public:
  Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  virtual ~Executor();

  // The executor of this thread. REQUIRES: called from a coroutine or callback that it runs (or after MakeCurrent on this
  // thread). Not inline: a coroutine may continue on another thread (PostOrRun), and the compiler would keep the address of the
  // first thread's pointer across co_await. The same holds for errno: do not read it after co_await.
  static Executor& Current();
  static bool HasCurrent();
  void MakeCurrent();
  static void ClearCurrent();

  // Nanoseconds that never jump (CLOCK_BOOTTIME, or virtual time): leases, timeouts.
  virtual int64_t NowNs() const = 0;
  // Nanoseconds since 1970: file times, tokens. May jump.
  virtual int64_t WallNs() const = 0;
  // Runs `fn` on the executor's thread, soon. Any thread. Dropped if the executor stops first.
  virtual void Post(std::function<void()> fn) = 0;
  // The same, or, if the executor is idle, runs `fn` here and now, with what follows from it: then this thread is the
  // executor's meanwhile. Not while holding a lock that the executor's work may want, nor on a thread that may not wait for
  // that work. It may run before earlier Posts of the same thread.
  virtual void PostOrRun(std::function<void()> fn) { Post(std::move(fn)); }
  // False on a thread that helps (PostOrRun).
  virtual bool OnOwnThread() const { return true; }
  // True if other work will run on the executor's thread as soon as this coroutine or callback waits: then work that another
  // thread can do is better done there. REQUIRES: on that thread.
  virtual bool OthersWait() const { return HasReady(); }
  // From now on no thread helps. Before the executor's thread ends helper threads and waits for them, it must be on its own
  // thread, or it could wait for itself: `EndHelp(); while (!OnOwnThread()) co_await Yield();`
  virtual void EndHelp() {}

  // Makes `w`'s coroutine resume soon (never inside this call).
  void Ready(Waiter* w) { ready_.PushBack(w); }
  // Calls `fire` on this thread at `when_ns` or later, unless `t` is cancelled or destroyed first.
  void StartTimer(Timer* t, int64_t when_ns, std::function<void()> fire);

 protected:
  friend class Timer;
  bool RunOneReady();            // resumes the next ready coroutine; false if none
  bool RunDueTimers(int64_t now);  // fires due timers; false if none was due
  // INT64_MAX if there is none.
  int64_t NextTimerNs() const { return timers_.empty() ? INT64_MAX : timers_.begin()->first.first; }
  bool HasReady() const { return !ready_.empty(); }
  // The ready coroutine to run next, 0 .. count-1: the simulator chooses by seed.
  virtual size_t PickReady(size_t count) { return 0; }
  virtual size_t PickWindow() const { return 1; }  // how many PickReady chooses among at most

  NodeList ready_;
  std::map<std::pair<int64_t, uint64_t>, Timer*> timers_;
  uint64_t timer_seq_ = 0;
};

}  // namespace stria
