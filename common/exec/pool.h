// Pools run blocking calls (disk, RocksDB) and heavy pure computation (CRC, parity) off the
// executor's thread.
//
// Work on a pool owns everything it touches, or shares it immutably: the coroutine that waits for it may be destroyed
// meanwhile, and the work still runs to its end.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/exec/executor.h"
#include "common/exec/task.h"

namespace stria {

class Pool {
 public:
  virtual ~Pool() = default;
  // Runs `work` once, some time, on some thread. Any thread may call. Unbounded: callers bound their work in flight.
  virtual void Submit(std::function<void()> work) = 0;
};

// Runs work inside Submit: for tests and the simulator.
class InlinePool final : public Pool {
 public:
  void Submit(std::function<void()> work) override { work(); }
};

class ThreadPool final : public Pool {
 public:
  // REQUIRES: threads >= 1. `name` (<= 12 characters) shows in top and gdb.
  ThreadPool(int threads, const std::string& name);
  // Finishes all submitted work, then joins. On a pool thread (which helps an executor whose work ends the pool) it joins the
  // others, and that thread ends when it comes back.
  ~ThreadPool() override;
  void Submit(std::function<void()> work) override;

 private:
  struct State {
    std::mutex mu;
    std::condition_variable cv;
    std::deque<std::function<void()>> queue;  // guarded by mu
    bool stop = false;                        // guarded by mu
  };
  // The next work; waits for it. None: the pool ends.
  static std::function<void()> Next(State& state);
  static void Loop(std::shared_ptr<State> state);
  const std::shared_ptr<State> state_;
  std::vector<std::thread> threads_;
};

// co_await RunOn(pool, fn): fn's result, computed on the pool. fn returns non-void and owns its data, which is gone when the
// caller goes on; that may be on the pool's thread (Executor::PostOrRun).
// The executor must outlive the pool's work.
template <class F, class R = std::invoke_result_t<F>>
Task<R> RunOn(Pool& pool, F fn) {
  OneShot<R> result;
  Executor* ex = &Executor::Current();
  pool.Submit([ex, result, fn = std::optional<F>(std::move(fn))]() mutable {
    auto value = std::make_shared<R>((*fn)());
    fn.reset();
    ex->PostOrRun([result, value = std::move(value)] { result.Set(std::move(*value)); });
  });
  co_return co_await result.Take();
}

}  // namespace stria
