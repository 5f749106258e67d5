// An executor with a thread of its own, for programs whose main thread blocks.
#pragma once

#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "common/exec/loop_executor.h"
#include "common/exec/task.h"

namespace stria {

class ExecutorThread {
 public:
  ExecutorThread() : scope_(std::make_unique<TaskScope>()), thread_([this] { executor_.Run(); }) {}
  // Cancels what still runs. Destroy everything that was made on the executor's thread before.
  ~ExecutorThread() {
    Do([this] { scope_.reset(); });
    executor_.Stop();
    thread_.join();
  }
  ExecutorThread(const ExecutorThread&) = delete;
  ExecutorThread& operator=(const ExecutorThread&) = delete;

  LoopExecutor& executor() { return executor_; }
  const LoopExecutor& executor() const { return executor_; }

  // Calls fn on the executor's thread and waits for it. Not from that thread.
  template <class F>
  void Do(F fn) {
    auto done = std::make_shared<std::promise<void>>();
    executor_.Post([&fn, done] {
      fn();
      done->set_value();
    });
    done->get_future().wait();
  }
  // The value of the task that `make` gives, run on the executor's thread. Not from that thread.
  template <class F, class T = typename std::invoke_result_t<F>::value_type>
  T Run(F make) {
    auto result = std::make_shared<std::promise<T>>();
    executor_.Post([this, &make, result] { scope_->Spawn(Fulfil(make(), result)); });
    return result->get_future().get();
  }

 private:
  template <class T>
  static Task<void> Fulfil(Task<T> task, std::shared_ptr<std::promise<T>> result) {
    if constexpr (std::is_void_v<T>) {
      co_await std::move(task);
      result->set_value();
    } else {
      result->set_value(co_await std::move(task));
    }
  }

  LoopExecutor executor_;
  std::unique_ptr<TaskScope> scope_;  // of the executor's thread
  std::thread thread_;
};

}  // namespace stria
