// Threads that help a LoopExecutor (PostOrRun): one at a time, in place of its own, and nothing is left lying.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "common/exec/loop_executor.h"
#include "common/exec/pool.h"
#include "common/exec/task.h"
#include "common/random.h"

namespace stria {
namespace {

class Loop {
 public:
  Loop() : thread_([this] { executor.Run(); }) {
    std::promise<std::thread::id> id;
    executor.Post([&id] { id.set_value(std::this_thread::get_id()); });
    own = id.get_future().get();
  }
  ~Loop() {
    std::promise<void> done;
    executor.Post([this, &done] {
      scope.CancelAll();
      done.set_value();
    });
    done.get_future().wait();
    executor.Stop();
    thread_.join();
  }
  // When the own thread has surely gone to sleep.
  void Settle() { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }

  LoopExecutor executor;
  TaskScope scope;
  std::thread::id own;

 private:
  std::thread thread_;
};

TEST(Help, WhoBringsWorkDoesItAndWhatFollows) {
  Loop loop;
  std::thread::id after_yield, in_post;
  std::promise<void> done;
  std::thread helper([&] {
    for (int i = 0; i < 100 && after_yield != std::this_thread::get_id(); ++i) {  // a busy machine may wake the own thread
      loop.Settle();
      std::atomic<bool> ran = false;
      loop.executor.PostOrRun([&] {
        loop.scope.Spawn([](std::thread::id* where, std::atomic<bool>* r) -> Task<void> {
          co_await Yield();
          *where = std::this_thread::get_id();
          *r = true;
        }(&after_yield, &ran));
        // Not posts of other threads, which may wait for this thread.
        loop.executor.Post([&] { in_post = std::this_thread::get_id(); });
      });
      while (!ran) std::this_thread::yield();
    }
    EXPECT_EQ(after_yield, std::this_thread::get_id());
    EXPECT_FALSE(Executor::HasCurrent());
    loop.executor.Post([&] { done.set_value(); });
    done.get_future().wait();
    EXPECT_EQ(in_post, loop.own);
  });
  helper.join();
}

TEST(Help, TimersThatAHelperStartsFireInTime) {
  Loop loop;
  for (int i = 0; i < 5; ++i) {
    loop.Settle();  // it sleeps for a second
    std::promise<void> fired;
    const int64_t begun_ns = BoottimeNs();
    std::thread([&] {
      loop.executor.PostOrRun([&] {
        loop.scope.Spawn([](std::promise<void>* f) -> Task<void> {
          co_await Sleep(10 * kMillisecond);
          f->set_value();
        }(&fired));
      });
    }).join();
    ASSERT_EQ(fired.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
    EXPECT_GE(BoottimeNs() - begun_ns, 10 * kMillisecond);
  }
}

TEST(Help, EndsWhereAThreadIsWaitedFor) {
  Loop loop;
  std::thread helper;
  std::promise<void> joined, made;
  helper = std::thread([&] {
    made.get_future().wait();
    loop.Settle();
    loop.executor.PostOrRun([&] {
      loop.scope.Spawn([](std::thread* t, std::promise<void>* j) -> Task<void> {
        Executor::Current().EndHelp();
        while (!Executor::Current().OnOwnThread()) co_await Yield();
        t->join();  // it would wait for itself
        j->set_value();
      }(&helper, &joined));
    });
  });
  made.set_value();
  ASSERT_EQ(joined.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  std::thread::id where;
  std::promise<void> done;
  std::thread([&] {
    loop.Settle();
    loop.executor.PostOrRun([&] {
      where = std::this_thread::get_id();
      done.set_value();
    });
  }).join();
  done.get_future().wait();
  EXPECT_EQ(where, loop.own) << "nobody helps any more";
}

TEST(Help, WhatWasComputedGoesOnWhereItWas) {
  Loop loop;
  ThreadPool pool(1, "pool");
  std::thread::id computed, went_on;
  for (int i = 0; i < 100 && (i == 0 || went_on != computed); ++i) {  // a busy machine may wake the own thread
    std::promise<void> done;
    loop.executor.Post([&] {
      loop.scope.Spawn([](Pool* p, std::thread::id* c, std::thread::id* w, std::promise<void>* d) -> Task<void> {
        *c = co_await RunOn(*p, [] {
          std::this_thread::sleep_for(std::chrono::milliseconds(20));  // until the own thread sleeps
          return std::this_thread::get_id();
        });
        *w = std::this_thread::get_id();
        d->set_value();
      }(&pool, &computed, &went_on, &done));
    });
    done.get_future().wait();
  }
  EXPECT_EQ(went_on, computed);
  EXPECT_NE(went_on, loop.own);
}

// A disk that is given up takes its pool with it, and may do so on that pool's thread.
TEST(Help, APoolMayBeEndedByItsOwnThread) {
  for (int threads = 1; threads <= 2; ++threads) {
    Loop loop;
    bool on_its_own = false;
    for (int i = 0; i < 100 && !on_its_own; ++i) {
      auto pool = std::make_unique<ThreadPool>(threads, "pool");
      std::atomic<int> left = 0;
      std::promise<void> done;
      loop.executor.Post([&] {
        loop.scope.Spawn([](std::unique_ptr<ThreadPool> p, std::atomic<int>* l, bool* own,
                            std::promise<void>* d) -> Task<void> {
          const std::thread::id where = co_await RunOn(*p, [] {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            return std::this_thread::get_id();
          });
          *own = where == std::this_thread::get_id();
          for (int k = 0; k < 20; ++k) p->Submit([l] { ++*l; });
          p.reset();
          EXPECT_EQ(*l, 20) << "all that was submitted is done";
          d->set_value();
        }(std::move(pool), &left, &on_its_own, &done));
      });
      done.get_future().wait();
    }
    EXPECT_TRUE(on_its_own) << threads;
  }
}

// Counters that nothing protects: the thread sanitizer looks on.
TEST(Help, OneThreadAtATime) {
  constexpr int kThreads = 4, kEach = 3000;
  int64_t count = 0, wanted = 0, finished = 0;
  {
    Loop loop;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        Random rng(static_cast<uint64_t>(t) + 1);
        for (int i = 0; i < kEach; ++i) {
          const uint64_t kind = rng.Below(4);
          auto work = [&, kind] {
            ++count;
            if (kind == 0) return;
            loop.scope.Spawn([](uint64_t k, int64_t* f) -> Task<void> {
              if (k == 1) co_await Yield();
              if (k == 2) co_await Sleep(static_cast<int64_t>(k) * kMicrosecond * 50);
              ++*f;
            }(kind, &finished));
          };
          if (rng.OneIn(5)) {
            loop.executor.Post(work);
          } else {
            loop.executor.PostOrRun(work);
          }
          if (rng.OneIn(50)) std::this_thread::sleep_for(std::chrono::microseconds(rng.Below(300)));
        }
      });
    }
    for (std::thread& t : threads) t.join();
    for (int t = 0; t < kThreads; ++t) {
      Random rng(static_cast<uint64_t>(t) + 1);
      for (int i = 0; i < kEach; ++i) {
        wanted += rng.Below(4) != 0;
        (void)rng.OneIn(5);
        if (rng.OneIn(50)) (void)rng.Below(300);
      }
    }
    // All of it ends by itself.
    for (int i = 0; i < 2000; ++i) {
      std::promise<bool> all;
      loop.executor.Post([&] { all.set_value(finished == wanted); });
      if (all.get_future().get()) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  EXPECT_EQ(count, kThreads * kEach);
  EXPECT_EQ(finished, wanted);
}

}  // namespace
}  // namespace stria
