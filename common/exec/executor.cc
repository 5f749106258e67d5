#include "common/exec/executor.h"

#include <utility>

namespace stria {

namespace {
thread_local Executor* current = nullptr;
}  // namespace

Executor& Executor::Current() {
  CHECK(current != nullptr, "no executor on this thread");
  return *current;
}

bool Executor::HasCurrent() { return current != nullptr; }
void Executor::MakeCurrent() { current = this; }
void Executor::ClearCurrent() { current = nullptr; }

Executor::~Executor() {
  for (auto& [key, timer] : timers_) timer->executor_ = nullptr;
  if (current == this) current = nullptr;
}

void Timer::Cancel() {
  if (!executor_) return;
  executor_->timers_.erase(key_);
  executor_ = nullptr;
  fire_ = nullptr;
}

void Executor::StartTimer(Timer* t, int64_t when_ns, std::function<void()> fire) {
  t->Cancel();
  t->executor_ = this;
  t->key_ = {when_ns, ++timer_seq_};
  t->fire_ = std::move(fire);
  timers_.emplace(t->key_, t);
}

bool Executor::RunOneReady() {
  if (ready_.empty()) return false;
  const size_t window = PickWindow();
  ListNode* node = window <= 1 ? ready_.front() : ready_.at(PickReady(ready_.CountUpTo(window)));
  auto* w = static_cast<Waiter*>(node);
  w->Unlink();
  w->handle.resume();
  return true;
}

bool Executor::RunDueTimers(int64_t now) {
  bool fired = false;
  // Timers started while firing wait for the next call, so a zero-delay timer cannot starve others.
  const uint64_t last_seq = timer_seq_;
  auto it = timers_.begin();
  while (it != timers_.end() && it->first.first <= now) {
    if (it->first.second > last_seq) {
      ++it;
      continue;
    }
    Timer* t = it->second;
    timers_.erase(it);
    t->executor_ = nullptr;
    auto fire = std::move(t->fire_);
    t->fire_ = nullptr;
    fire();  // may destroy *t and change timers_
    fired = true;
    it = timers_.begin();
  }
  return fired;
}

}  // namespace stria
