// Executor, pools, PosixDisk and RocksKv together on real threads, for a few seconds. Meant for
// --config=tsan as well (RocksDB is not instrumented there, so it is left out).
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>

#include "common/exec/loop_executor.h"
#include "common/exec/pool.h"
#include "common/exec/task.h"
#include "common/io/posix_disk.h"
#include "common/kv/mem_kv.h"
#include "common/kv/rocks_kv.h"
#include "common/random.h"
#include "common/temp_dir.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define STRIA_TSAN 1
#endif
#endif

namespace stria {
namespace {

constexpr int kWorkers = 16;
constexpr int kRounds = 40;

struct World {
  explicit World(const std::string& root) {
    disk = PosixDisk::Open(root + "/disk", {.threads = 3, .sync_threads = 2, .max_open_files = 32}).value();
#ifdef STRIA_TSAN
    kv = std::make_unique<MemKv>(std::make_shared<MemKvMedia>(1));
#else
    RocksKvOptions options;
    options.memory = RocksMemory::Make(8 * kMiB);
    kv = RocksKv::Open(root + "/kv", {"main"}, options, sync_pool).value();
#endif
  }
  ThreadPool sync_pool{1, "sync"};
  std::unique_ptr<PosixDisk> disk;
  std::unique_ptr<KvStore> kv;
  ThreadPool compute{2, "compute"};  // joined first: its work reads the store
  std::map<std::string, std::string> files;  // what each should hold; a worker touches only its own
  AsyncMutex one_at_a_time;
  int inside = 0;
  int cancelled = 0;
};

BufferChain Bytes(const std::string& s) { return BufferChain(Buffer::FromString(s)); }

Task<void> FileWork(World& w, Random& rng, const std::string& name) {
  std::string& want = w.files[name];
  const uint64_t kind = rng.Below(4);
  if (kind == 0) {
    want = std::string(rng.Below(20'000), static_cast<char>('a' + rng.Below(26)));
    EXPECT_TRUE((co_await w.disk->ReplaceFile(name, Buffer::FromString(want))).ok());
  } else if (kind == 1) {
    const std::string more(rng.Between(1, 20'000), static_cast<char>('A' + rng.Below(26)));
    EXPECT_TRUE((co_await w.disk->Write(name, want.size(), Bytes(more))).ok());
    want += more;
    EXPECT_TRUE((co_await w.disk->SyncFiles({name})).ok());
  } else if (w.disk->OpenForRead(name).ok() == false) {
    EXPECT_TRUE(want.empty());
  }
  // The compute pool checks the read bytes, and shares them.
  auto back = co_await w.disk->Read(name, 0, 1 << 22);
  if (back.code() == FsError::kNoEnt) {
    EXPECT_TRUE(want.empty());
    co_return;
  }
  const bool same = co_await RunOn(w.compute, [bytes = *back, want] { return bytes.view() == want; });
  EXPECT_TRUE(same) << name;
}

Task<void> KvWork(World& w, Random& rng, const std::string& key) {
  KvBatch b;
  const std::string value = std::to_string(rng.Next());
  b.Put(0, key, value);
  EXPECT_TRUE(w.kv->Write(b).ok());
  EXPECT_TRUE((co_await w.kv->Sync()).ok());
  EXPECT_EQ(w.kv->Get(0, key).value(), value);
  // Reads may come from any thread.
  const bool there = co_await RunOn(w.compute, [kv = w.kv.get(), key] { return kv->Get(0, key).ok(); });
  EXPECT_TRUE(there);
}

// Waits that end early: their work goes on and must do no harm.
Task<void> CancelWork(World& w, Random& rng, const std::string& name) {
  const auto timeout = static_cast<int64_t>(rng.Below(300)) * kMicrosecond;
  auto r = co_await WithTimeout(timeout, w.disk->Write(name, 0, Bytes(std::string(50'000, 'c'))));
  w.cancelled += !r.has_value();
  auto s = co_await WithTimeout(timeout, w.kv->Sync());
  w.cancelled += !s.has_value();
  auto lock = co_await w.one_at_a_time.Lock();
  EXPECT_EQ(++w.inside, 1);
  co_await Yield();
  EXPECT_EQ(w.inside--, 1);
}

Task<void> Worker(World& w, uint64_t seed, std::atomic<int>* finished) {
  Random rng(seed);
  const std::string me = "w" + std::to_string(seed);
  for (int i = 0; i < kRounds; ++i) {
    switch (rng.Below(4)) {
      case 0:
      case 1:
        co_await FileWork(w, rng, me + "/f" + std::to_string(rng.Below(3)));
        break;
      case 2:
        co_await KvWork(w, rng, me);
        break;
      case 3:
        co_await CancelWork(w, rng, me + "/cancelled");
        break;
    }
  }
  ++*finished;
}

TEST(Stress, EverythingAtOnce) {
  TempDir dir;
  ASSERT_EQ(mkdir((dir.path() + "/disk").c_str(), 0700), 0);
  LoopExecutor ex;
  ex.MakeCurrent();
  World w(dir.path());
  std::atomic<int> finished{0}, posted{0};
  std::atomic<bool> stop{false};
  TaskScope workers;
  for (uint64_t seed = 1; seed <= kWorkers; ++seed) workers.Spawn(Worker(w, seed, &finished));
  // Other threads post all the while.
  std::vector<std::thread> posters;
  for (int i = 0; i < 2; ++i) {
    posters.emplace_back([&] {
      while (!stop) {
        ex.Post([&] { ++posted; });
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    });
  }
  TaskScope ender;
  ender.Spawn([](TaskScope& all, LoopExecutor& e) -> Task<void> {
    co_await all.Join();
    e.Stop();
  }(workers, ex));
  ex.Run();
  stop = true;
  for (auto& t : posters) t.join();
  EXPECT_EQ(finished, kWorkers);
  EXPECT_GT(posted, 0);
  EXPECT_GT(w.cancelled, 0);
}

// A process that is told to stop in the middle of everything.
TEST(Stress, StoppedInTheMiddle) {
  for (uint64_t round = 1; round <= 5; ++round) {
    TempDir dir;
    ASSERT_EQ(mkdir((dir.path() + "/disk").c_str(), 0700), 0);
    LoopExecutor ex;
    ex.MakeCurrent();
    World w(dir.path());
    std::atomic<int> finished{0};
    {
      TaskScope workers;
      for (uint64_t seed = 1; seed <= kWorkers; ++seed) workers.Spawn(Worker(w, seed * round, &finished));
      std::thread stopper([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(5 * round));
        ex.Stop();
      });
      ex.Run();
      stopper.join();
    }
  }
}

}  // namespace
}  // namespace stria
