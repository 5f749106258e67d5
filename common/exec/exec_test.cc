#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>

#include "common/exec/loop_executor.h"
#include "common/exec/pool.h"
#include "common/exec/sim_executor.h"
#include "common/exec/task.h"

namespace stria {
namespace {

struct Counted {
  explicit Counted(int* n) : n_(n) { ++*n_; }
  Counted(const Counted& o) : n_(o.n_) { ++*n_; }
  ~Counted() { --*n_; }
  int* n_;
};

Task<int> Add(int a, int b, int64_t delay_ns) {
  co_await Sleep(delay_ns);
  co_return a + b;
}

template <class F>
void RunSim(SimExecutor& ex, F f) {
  TaskScope scope;
  bool done = false;
  auto body = [](F fn, bool* flag) -> Task<void> {
    co_await fn();
    *flag = true;
  };
  scope.Spawn(body(std::move(f), &done));
  EXPECT_TRUE(ex.RunUntil([&] { return done; }, ex.NowNs() + 3600 * kSecond));
}

TEST(Exec, AwaitsInVirtualTime) {
  SimExecutor ex(1);
  const int64_t start = ex.NowNs();
  RunSim(ex, [&]() -> Task<void> {
    EXPECT_EQ(co_await Add(1, 2, kSecond), 3);
    EXPECT_EQ(ex.NowNs() - start, kSecond);
    std::vector<Task<int>> tasks;
    for (int i = 0; i < 10; ++i) tasks.push_back(Add(i, i, (10 - i) * kMillisecond));
    const std::vector<int> sums = co_await WhenAll(std::move(tasks));
    for (int i = 0; i < 10; ++i) EXPECT_EQ(sums[static_cast<size_t>(i)], 2 * i);
    EXPECT_EQ(ex.NowNs() - start, kSecond + 10 * kMillisecond);
  });
}

Task<int> Holding(int* alive, int64_t ns) {
  Counted c(alive);
  co_await Sleep(ns);
  co_return 7;
}

TEST(Exec, TimeoutDestroysTheLoser) {
  SimExecutor ex(1);
  int alive = 0;
  RunSim(ex, [&]() -> Task<void> {
    auto late = co_await WithTimeout(kSecond, Holding(&alive, 2 * kSecond));
    EXPECT_FALSE(late.has_value());
    EXPECT_EQ(alive, 0);
    auto early = co_await WithTimeout(2 * kSecond, Holding(&alive, kSecond));
    EXPECT_EQ(early.value_or(0), 7);
    EXPECT_EQ(alive, 0);
  });
}

// The task's end and the timer's in every order, also when both are about to resume the waiting coroutine.
TEST(Exec, TimeoutAndEndAtTheSameMoment) {
  int in_time = 0, late = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SimExecutor ex(seed, 4);
    int alive = 0;
    RunSim(ex, [&]() -> Task<void> {
      TaskScope scope;
      Event ev;
      const auto set = [](Event* e) -> Task<void> {
        co_await Sleep(kSecond);
        e->Set();
      };
      const auto await_it = [](Event* e, int* n) -> Task<int> {
        Counted c(n);
        co_await e->Wait();
        co_return 7;
      };
      if (seed % 2 == 0) scope.Spawn(set(&ev));
      const int64_t start_ns = ex.NowNs();
      const std::optional<int> got = co_await WithTimeout(kSecond, await_it(&ev, &alive));
      EXPECT_EQ(ex.NowNs() - start_ns, kSecond);
      EXPECT_EQ(alive, 0);
      EXPECT_EQ(got.value_or(7), 7);
      ++(got ? in_time : late);
      // Nothing of it comes again.
      if (seed % 2 != 0) ev.Set();
      co_await Sleep(kSecond);
    });
  }
  EXPECT_GT(in_time, 0);
  EXPECT_GT(late, 0);
}

TEST(Exec, WhatAnEndedTaskHeldIsGoneAtOnce) {
  SimExecutor ex(1);
  int alive = 0;
  int sum = 0;
  TaskScope scope;
  const auto nothing = [](Counted held) -> Task<void> { co_await Sleep(kSecond); };
  const auto seven = [](Counted held) -> Task<int> {
    co_await Sleep(kSecond);
    co_return 7;
  };
  scope.Spawn(nothing(Counted(&alive)));
  scope.Spawn(seven(Counted(&alive)), [held = Counted(&alive), &sum](int value) { sum += value; });
  EXPECT_EQ(scope.running(), 2u);
  EXPECT_EQ(alive, 3);
  EXPECT_TRUE(ex.RunUntil([&] { return scope.running() == 0; }, ex.NowNs() + 2 * kSecond));
  EXPECT_EQ(alive, 0);
  EXPECT_EQ(sum, 7);
}

TEST(Exec, DestroyingAScopeAtAnyPointFreesEverything) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SimExecutor ex(seed, 4);
    int alive = 0;
    Semaphore sem(2);
    Event ev;
    {
      TaskScope scope;
      for (int i = 0; i < 8; ++i) {
        auto worker = [](SimExecutor* e, Semaphore* s, Event* evt, int* n, int id) -> Task<void> {
          for (int round = 0; round < 20; ++round) {
            Counted c(n);
            auto held = co_await Hold(*s, 1 + id % 2);
            co_await Sleep(static_cast<int64_t>(e->rng().Below(1000)));
            if (e->rng().OneIn(3)) evt->Pulse();
            held.Release();
            if (e->rng().OneIn(5)) (void)co_await WithTimeout(500, [](Event* x) -> Task<int> {
              co_await x->Wait();
              co_return 1;
            }(evt));
            co_await Yield();
          }
        };
        scope.Spawn(worker(&ex, &sem, &ev, &alive, i));
      }
      const uint64_t stop_at = ex.rng().Below(600);
      ex.RunUntil([&] { return ex.steps() >= stop_at; }, ex.NowNs() + kSecond);
    }
    EXPECT_EQ(alive, 0) << "seed " << seed;
    EXPECT_EQ(sem.available(), 2) << "seed " << seed;
  }
}

TEST(Exec, SemaphoreIsFirstComeFirstServed) {
  SimExecutor ex(1);
  Semaphore sem(3);
  std::string order;
  RunSim(ex, [&]() -> Task<void> {
    TaskScope scope;
    auto take = [](Semaphore* s, std::string* o, char name, int64_t n) -> Task<void> {
      co_await s->Acquire(n);
      *o += name;
      co_await Sleep(kSecond);
      s->Release(n);
    };
    scope.Spawn(take(&sem, &order, 'a', 2));
    scope.Spawn(take(&sem, &order, 'b', 3));  // must not be starved by c
    scope.Spawn(take(&sem, &order, 'c', 1));
    co_await scope.Join();
  });
  EXPECT_EQ(order, "abc");
}

TEST(Exec, SameSeedSameOrder) {
  auto run = [](uint64_t seed) {
    SimExecutor ex(seed, 8);
    std::string order;
    TaskScope scope;
    for (char c = 'a'; c < 'k'; ++c) {
      scope.Spawn([](std::string* o, char name) -> Task<void> {
        for (int i = 0; i < 5; ++i) {
          *o += name;
          co_await Yield();
        }
      }(&order, c));
    }
    ex.RunFor(kSecond);
    return order;
  };
  EXPECT_EQ(run(5), run(5));
  EXPECT_NE(run(5), run(6));
}

TEST(Exec, LoopExecutorTakesPostsAndPools) {
  LoopExecutor ex;
  ThreadPool pool(3, "test");
  std::atomic<int> posted{0};
  std::vector<std::thread> posters;
  for (int i = 0; i < 4; ++i) {
    posters.emplace_back([&] {
      for (int j = 0; j < 1000; ++j) ex.Post([&] { posted.fetch_add(1, std::memory_order_relaxed); });
    });
  }
  int64_t sum = 0;
  ex.Post([&] {
    // The scope lives on the loop's thread.
    auto scope = std::make_shared<TaskScope>();
    scope->Spawn([](LoopExecutor* e, Pool* p, int64_t* out, std::atomic<int>* n,
                    std::shared_ptr<TaskScope>) -> Task<void> {
      for (int i = 0; i < 200; ++i) *out += co_await RunOn(*p, [i] { return int64_t{i}; });
      co_await Sleep(kMillisecond);
      while (n->load() < 4000) co_await Sleep(kMillisecond);
      e->Stop();
    }(&ex, &pool, &sum, &posted, nullptr));
    static std::shared_ptr<TaskScope> keep;
    keep = scope;
  });
  ex.Run();
  for (auto& t : posters) t.join();
  EXPECT_EQ(sum, 199 * 200 / 2);
  EXPECT_EQ(posted.load(), 4000);
}

}  // namespace
}  // namespace stria
