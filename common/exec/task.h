// Task<T>: a coroutine that starts when awaited and gives its T to the one awaiter. Owns its frame;
// destroying a Task (even a suspended one) cancels everything below it.
//
// TaskScope owns coroutines that run on their own. WhenAll, FirstOf, WithTimeout combine.
// Everything here is for the executor's thread only.
#pragma once

#include <coroutine>
#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/check.h"
#include "common/exec/executor.h"

namespace stria {

template <class T>
class Task;

namespace exec_internal {

struct PromiseBase {
  std::coroutine_handle<> continuation = std::noop_coroutine();

  struct FinalAwaiter {
    bool await_ready() noexcept { return false; }
    template <class P>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<P> h) noexcept {
      return h.promise().continuation;
    }
    void await_resume() noexcept {}
  };
  std::suspend_always initial_suspend() noexcept { return {}; }
  FinalAwaiter final_suspend() noexcept { return {}; }
  // Stria does not throw; an exception of a library through a coroutine is a bug.
  void unhandled_exception() noexcept { std::terminate(); }
};

template <class T>
struct Promise : PromiseBase {
  std::optional<T> value;
  Task<T> get_return_object() noexcept;
  template <class U>
  void return_value(U&& v) {
    value.emplace(std::forward<U>(v));
  }
  T Take() { return std::move(*value); }
};

template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object() noexcept;
  void return_void() noexcept {}
  void Take() noexcept {}
};

}  // namespace exec_internal

template <class T = void>
class [[nodiscard]] Task {
 public:
  using promise_type = exec_internal::Promise<T>;
  using value_type = T;
  using Handle = std::coroutine_handle<promise_type>;

  Task() = default;
  explicit Task(Handle h) : h_(h) {}
  Task(Task&& o) noexcept : h_(std::exchange(o.h_, {})) {}
  Task& operator=(Task&& o) noexcept {
    if (this != &o) {
      Reset();
      h_ = std::exchange(o.h_, {});
    }
    return *this;
  }
  ~Task() { Reset(); }
  bool valid() const { return static_cast<bool>(h_); }
  // It has been awaited and has come to its end.
  bool done() const { return h_ && h_.done(); }

  struct Awaiter {
    Handle h;
    bool await_ready() noexcept { return false; }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> parent) noexcept {
      h.promise().continuation = parent;
      return h;
    }
    T await_resume() { return h.promise().Take(); }
  };
  // Awaits once; the Task must outlive the await (it does: temporaries live to the end of the
  // full expression).
  Awaiter operator co_await() const& noexcept = delete;
  Awaiter operator co_await() && noexcept {
    CHECK(h_, "awaiting an empty Task");
    return Awaiter{h_};
  }

 private:
  void Reset() {
    if (h_) std::exchange(h_, {}).destroy();
  }
  Handle h_;
};

namespace exec_internal {
template <class T>
Task<T> Promise<T>::get_return_object() noexcept {
  return Task<T>(std::coroutine_handle<Promise<T>>::from_promise(*this));
}
inline Task<void> Promise<void>::get_return_object() noexcept {
  return Task<void>(std::coroutine_handle<Promise<void>>::from_promise(*this));
}
}  // namespace exec_internal

// co_await Sleep(ns): resumes no earlier than that.
class Sleep {
 public:
  explicit Sleep(int64_t ns) : ns_(ns) {}
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) {
    Executor& ex = Executor::Current();
    waiter_.handle = h;
    ex.StartTimer(&timer_, ex.NowNs() + (ns_ > 0 ? ns_ : 0), [this, &ex] { ex.Ready(&waiter_); });
  }
  void await_resume() const noexcept {}

 private:
  int64_t ns_;
  Waiter waiter_;
  Timer timer_;
};

// co_await Yield(): lets everything else that is ready run first.
class Yield {
 public:
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) {
    waiter_.handle = h;
    Executor::Current().Ready(&waiter_);
  }
  void await_resume() const noexcept {}

 private:
  Waiter waiter_;
};

// Level-triggered: once Set, all present and future waiters pass until Reset.
class Event {
 public:
  bool is_set() const { return set_; }
  void Set() {
    set_ = true;
    WakeAll();
  }
  void Reset() { set_ = false; }
  // Wakes the present waiters, without setting.
  void Pulse() { WakeAll(); }

  class Awaiter {
   public:
    explicit Awaiter(Event* e) : e_(e) {}
    bool await_ready() const noexcept { return e_->set_; }
    void await_suspend(std::coroutine_handle<> h) {
      waiter_.handle = h;
      e_->waiters_.PushBack(&waiter_);
    }
    void await_resume() const noexcept {}

   private:
    Event* e_;
    Waiter waiter_;
  };
  Awaiter Wait() { return Awaiter(this); }

 private:
  void WakeAll() {
    while (ListNode* n = waiters_.front()) Executor::Current().Ready(static_cast<Waiter*>(n));
  }
  bool set_ = false;
  NodeList waiters_;
};

// One value, set once, taken by one waiter. Copies share it. A setter that outlives the waiter is
// fine (pools, network callbacks).
template <class T>
class OneShot {
 public:
  OneShot() : s_(std::make_shared<State>()) {}
  // Executor's thread only. Later calls are ignored.
  void Set(T value) const {
    if (s_->value) return;
    s_->value.emplace(std::move(value));
    s_->event.Set();
  }
  bool is_set() const { return s_->value.has_value(); }
  Task<T> Take() const { return TakeImpl(s_); }

 private:
  struct State {
    std::optional<T> value;
    Event event;
  };
  static Task<T> TakeImpl(std::shared_ptr<State> s) {
    co_await s->event.Wait();
    co_return std::move(*s->value);
  }
  std::shared_ptr<State> s_;
};

// Counting semaphore, first come first served. Acquire(n) waits until n units are there.
class Semaphore {
 public:
  explicit Semaphore(int64_t units) : free_(units) {}
  int64_t available() const { return free_; }

  class Awaiter {
   public:
    Awaiter(Semaphore* s, int64_t n) : s_(s), n_(n) {}
    ~Awaiter() {
      if (granted_ && !taken_) s_->Release(n_);  // cancelled between grant and resume
      else if (w_.linked()) {
        w_.Unlink();
        s_->Grant();
      }
    }
    bool await_ready() noexcept {
      if (!s_->waiters_.empty() || s_->free_ < n_) return false;
      s_->free_ -= n_;
      granted_ = true;
      return true;
    }
    void await_suspend(std::coroutine_handle<> h) {
      w_.handle = h;
      w_.owner = this;
      s_->waiters_.PushBack(&w_);
    }
    void await_resume() noexcept { taken_ = true; }

   private:
    friend class Semaphore;
    struct Node : Waiter {
      Awaiter* owner = nullptr;
    };
    Semaphore* s_;
    int64_t n_;
    bool granted_ = false;
    bool taken_ = false;
    Node w_;
  };
  Awaiter Acquire(int64_t n = 1) { return Awaiter(this, n); }
  bool TryAcquire(int64_t n = 1) {
    if (!waiters_.empty() || free_ < n) return false;
    free_ -= n;
    return true;
  }
  void Release(int64_t n = 1) {
    free_ += n;
    Grant();
  }

 private:
  void Grant() {
    while (auto* w = static_cast<Awaiter::Node*>(waiters_.front())) {
      if (free_ < w->owner->n_) return;
      free_ -= w->owner->n_;
      w->owner->granted_ = true;
      Executor::Current().Ready(w);
    }
  }
  int64_t free_;
  NodeList waiters_;
};

// Holds n units until destroyed: `auto held = co_await Hold(sem, n);`
class SemaphoreHold {
 public:
  SemaphoreHold() = default;
  SemaphoreHold(Semaphore* s, int64_t n) : s_(s), n_(n) {}
  SemaphoreHold(SemaphoreHold&& o) noexcept : s_(std::exchange(o.s_, nullptr)), n_(o.n_) {}
  SemaphoreHold& operator=(SemaphoreHold&& o) noexcept {
    if (this != &o) {
      Release();
      s_ = std::exchange(o.s_, nullptr);
      n_ = o.n_;
    }
    return *this;
  }
  ~SemaphoreHold() { Release(); }
  void Release() {
    if (s_) std::exchange(s_, nullptr)->Release(n_);
  }

 private:
  Semaphore* s_ = nullptr;
  int64_t n_ = 0;
};
inline Task<SemaphoreHold> Hold(Semaphore& s, int64_t n = 1) {
  co_await s.Acquire(n);
  co_return SemaphoreHold(&s, n);
}

// A mutex over awaits: `auto lock = co_await mu.Lock();`
class AsyncMutex {
 public:
  Task<SemaphoreHold> Lock() { return Hold(sem_, 1); }
  bool locked() const { return sem_.available() == 0; }

 private:
  Semaphore sem_{1};
};

// Owns coroutines that run on their own. Spawned ones start soon, not inside Spawn. Destroying the
// scope cancels those still running. Spawn may be called from a task of the scope.
class TaskScope {
 public:
  TaskScope() = default;
  TaskScope(const TaskScope&) = delete;
  TaskScope& operator=(const TaskScope&) = delete;
  ~TaskScope() { CancelAll(); }

  void Spawn(Task<void> task) { Start(Drive(std::move(task))); }
  // Calls `then` with the task's result as soon as there is one; `then` must not destroy the scope.
  template <class T, class Then>
  void Spawn(Task<T> task, Then then) {
    Start(DriveAndTell(std::move(task), std::move(then)));
  }
  // Number of tasks not yet finished.
  size_t running() const { return running_; }
  // Resumes when no task is running.
  Task<void> Join() {
    while (running_ > 0) co_await idle_.Wait();
  }
  // REQUIRES: not called from a task of this scope.
  void CancelAll() {
    // Oldest first; a destructor may Spawn nothing, but may finish other tasks' waits.
    while (ListNode* first = drivers_.front()) {
      first->Unlink();
      std::coroutine_handle<DriverPromise>::from_promise(*static_cast<DriverPromise*>(first)).destroy();
    }
    running_ = 0;
  }

 private:
  struct DriverPromise;
  struct Driver {
    using promise_type = DriverPromise;
    std::coroutine_handle<DriverPromise> h;
  };
  // All that a task of the scope needs lies in one frame, which goes when the task has ended.
  struct DriverPromise : ListNode {
    TaskScope* scope = nullptr;
    Waiter start;
    Driver get_return_object() noexcept { return Driver{std::coroutine_handle<DriverPromise>::from_promise(*this)}; }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept {
      Unlink();
      if (--scope->running_ == 0) scope->idle_.Pulse();
      return {};
    }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
  void Start(Driver driver) {
    DriverPromise& p = driver.h.promise();
    p.scope = this;
    drivers_.PushBack(&p);
    ++running_;
    p.start.handle = driver.h;
    Executor::Current().Ready(&p.start);
  }
  static Driver Drive(Task<void> task) {
    Task<void> mine = std::move(task);  // gone before the scope hears of the end
    co_await std::move(mine);
  }
  template <class T, class Then>
  static Driver DriveAndTell(Task<T> task, Then then) {
    Task<T> mine = std::move(task);
    if constexpr (std::is_void_v<T>) {
      co_await std::move(mine);
      then();
    } else {
      then(co_await std::move(mine));
    }
  }
  NodeList drivers_;
  size_t running_ = 0;
  Event idle_;
};

// Runs all at once; results in order. Cancelled together with the awaiter.
template <class T>
Task<std::vector<T>> WhenAll(std::vector<Task<T>> tasks) {
  std::vector<std::optional<T>> slots(tasks.size());
  size_t left = tasks.size();
  Event done;
  TaskScope scope;
  for (size_t i = 0; i < tasks.size(); ++i) {
    scope.Spawn(std::move(tasks[i]), [slot = &slots[i], left = &left, done = &done](T value) {
      slot->emplace(std::move(value));
      if (--*left == 0) done->Set();
    });
  }
  if (left > 0) co_await done.Wait();
  std::vector<T> out;
  out.reserve(slots.size());
  for (auto& s : slots) out.push_back(std::move(*s));
  co_return out;
}
inline Task<void> WhenAll(std::vector<Task<void>> tasks) {
  size_t left = tasks.size();
  Event done;
  TaskScope scope;
  for (auto& t : tasks) {
    scope.Spawn(std::move(t), [left = &left, done = &done] {
      if (--*left == 0) done->Set();
    });
  }
  if (left > 0) co_await done.Wait();
}

// The first to finish wins; the other is destroyed. Exactly one of the two is set.
template <class A, class B>
Task<std::pair<std::optional<A>, std::optional<B>>> FirstOf(Task<A> a, Task<B> b) {
  std::pair<std::optional<A>, std::optional<B>> out;
  Event done;
  {
    TaskScope scope;
    scope.Spawn(std::move(a), [&out, &done](A value) {
      out.first.emplace(std::move(value));
      done.Set();
    });
    scope.Spawn(std::move(b), [&out, &done](B value) {
      out.second.emplace(std::move(value));
      done.Set();
    });
    co_await done.Wait();
  }
  if (out.first) out.second.reset();
  co_return std::move(out);
}

namespace exec_internal {
// co_await InTime(&task, ns): the task's value, or nullopt after that time; the task is as far as it is then.
template <class T>
class InTime {
 public:
  InTime(Task<T>* task, int64_t ns) : task_(task), ns_(ns) {}
  bool await_ready() const noexcept { return false; }
  auto await_suspend(std::coroutine_handle<> parent) {
    Executor& ex = Executor::Current();
    late_.handle = parent;
    ex.StartTimer(&timer_, ex.NowNs() + (ns_ > 0 ? ns_ : 0), [this, &ex] { ex.Ready(&late_); });
    return std::move(*task_).operator co_await().await_suspend(parent);
  }
  // Resumed by the task or by the timer. Both may have been about to: the second must not find a dead frame.
  std::optional<T> await_resume() {
    timer_.Cancel();
    late_.Unlink();
    if (!task_->done()) return std::nullopt;
    return std::move(*task_).operator co_await().await_resume();
  }

 private:
  Task<T>* task_;
  int64_t ns_;
  Waiter late_;
  Timer timer_;
};
}  // namespace exec_internal

// The task's value, or nullopt if it took longer (then it has been destroyed).
template <class T>
Task<std::optional<T>> WithTimeout(int64_t ns, Task<T> task) {
  Task<T> mine = std::move(task);  // destroyed before the caller goes on
  co_return co_await exec_internal::InTime<T>(&mine, ns);
}

}  // namespace stria
