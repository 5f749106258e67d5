#include "common/exec/pool.h"

#include <pthread.h>

namespace stria {

ThreadPool::ThreadPool(int threads, const std::string& name) : state_(std::make_shared<State>()) {
  CHECK(threads >= 1);
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([state = state_] { Loop(state); });
    pthread_setname_np(threads_.back().native_handle(), (name.substr(0, 12) + std::to_string(i)).c_str());
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(state_->mu);
    state_->stop = true;
  }
  state_->cv.notify_all();
  for (std::thread& t : threads_) {
    if (t.get_id() == std::this_thread::get_id()) t.detach();
    else t.join();
  }
  // This thread alone would do the remaining work only when it comes back: too late for the owner of the data.
  while (std::function<void()> work = Next(*state_)) work();
}

void ThreadPool::Submit(std::function<void()> work) {
  {
    std::lock_guard<std::mutex> lock(state_->mu);
    state_->queue.push_back(std::move(work));
  }
  state_->cv.notify_one();
}

std::function<void()> ThreadPool::Next(State& state) {
  std::unique_lock<std::mutex> lock(state.mu);
  state.cv.wait(lock, [&state] { return state.stop || !state.queue.empty(); });
  if (state.queue.empty()) return nullptr;
  std::function<void()> work = std::move(state.queue.front());
  state.queue.pop_front();
  return work;
}

void ThreadPool::Loop(std::shared_ptr<State> state) {
  while (std::function<void()> work = Next(*state)) work();
}

}  // namespace stria
