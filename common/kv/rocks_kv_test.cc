#include "common/kv/rocks_kv.h"

#include <rocksdb/perf_context.h>
#include <rocksdb/perf_level.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "common/exec/loop_executor.h"
#include "common/exec/sim_run.h"
#include "common/kv/kv_conformance.h"
#include "common/sanitized.h"
#include "common/temp_dir.h"

namespace stria {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kFamilies = {"one", "two", "three"};

RocksKvOptions SmallOptions(std::vector<size_t> prefix_bytes = {}, bool wal_compression = false,
                            bool prepare_log = false) {
  RocksKvOptions options;
  options.memory = RocksMemory::Make(8 * kMiB);
  options.prefix_bytes = std::move(prefix_bytes);
  options.wal_compression = wal_compression;
  options.prepare_log = prepare_log;
  return options;
}

class RocksHarness final : public KvHarness {
 public:
  explicit RocksHarness(RocksKvOptions options) : options_(std::move(options)) { Reopen(); }
  KvStore& kv() override { return *kv_; }
  void Reopen() override {
    kv_.reset();
    kv_ = RocksKv::Open(dir_.path() + "/kv", kFamilies, options_, pool_).value();
  }

 private:
  TempDir dir_;
  InlinePool pool_;
  RocksKvOptions options_;
  std::unique_ptr<RocksKv> kv_;
};

INSTANTIATE_TEST_SUITE_P(
    Rocks, KvConformance,
    testing::Values(KvMaker{"Plain", [] { return std::make_unique<RocksHarness>(SmallOptions()); }},
                    KvMaker{"Prefixes",
                            [] {
                              return std::make_unique<RocksHarness>(SmallOptions({1, 2, 0}));
                            }},
                    KvMaker{"Prepared", [] { return std::make_unique<RocksHarness>(SmallOptions({}, false, true)); }},
                    KvMaker{"WalZstd",
                            [] { return std::make_unique<RocksHarness>(SmallOptions({}, true, true)); }}),
    [](const testing::TestParamInfo<KvMaker>& info) { return info.param.name; });

class RocksKvTest : public testing::Test {
 protected:
  std::unique_ptr<RocksKv> Open(const std::string& name, RocksKvOptions options = SmallOptions({1})) {
    return RocksKv::Open(Path(name), kFamilies, std::move(options), pool_).value();
  }
  std::string Path(const std::string& name) { return dir_.path() + "/" + name; }
  static KvBatch One(std::string key, std::string value) {
    KvBatch b;
    b.Put(0, std::move(key), std::move(value));
    return b;
  }
  // Deletions that are still there, and were in its way.
  static uint64_t Passed(const std::function<void()>& fn) {
    rocksdb::SetPerfLevel(rocksdb::PerfLevel::kEnableCount);
    const uint64_t before = rocksdb::get_perf_context()->internal_delete_skipped_count;
    fn();
    rocksdb::SetPerfLevel(rocksdb::PerfLevel::kDisable);
    return rocksdb::get_perf_context()->internal_delete_skipped_count - before;
  }
  static std::string Noise(Random& rng, size_t n) {
    std::string s(n, 0);
    for (char& c : s) c = static_cast<char>(rng.Below(256));
    return s;
  }
  static std::vector<fs::path> FilesWith(const std::string& dir, const std::string& extension) {
    std::vector<fs::path> out;
    for (const auto& e : fs::directory_iterator(dir)) {
      if (e.path().extension() == extension) out.push_back(e.path());
    }
    std::sort(out.begin(), out.end());
    return out;
  }
  SimExecutor ex_{1};
  TempDir dir_;
  InlinePool pool_;
};

// The pattern of sparse files that are cut and written: keys come and go at random, and their neighbours are looked for. As
// long as the deletions are in the write buffer, each search would pass all of them.
TEST_F(RocksKvTest, WhatWasDeletedIsPassedOnceAndNotAtEachSearch) {
  auto kv = Open("kv");
  Random rng(1);
  std::map<std::string, std::string> model;
  const auto key = [](uint64_t n) { return "k" + std::to_string(1'000'000 + n); };
  const uint64_t passed = Passed([&] {
    for (int i = 0; i < 4000; ++i) {
      const std::string at = key(rng.Below(1'000'000));
      auto above = model.upper_bound(at);
      const auto below = kv->Last(0, "k", at).value();
      ASSERT_EQ(below.has_value(), above != model.begin()) << i;
      if (below) ASSERT_EQ(*below, KvEntry(*std::prev(above))) << i;
      const auto rest = kv->Scan(0, at, "l", 3).value();
      size_t n = 0;
      for (auto it = model.lower_bound(at); it != model.end() && n < 3; ++it, ++n) ASSERT_EQ(rest.at(n), KvEntry(*it)) << i;
      ASSERT_EQ(rest.size(), n) << i;
      KvBatch batch;
      const std::string cut = key(rng.Below(1'000'000));
      for (auto it = model.lower_bound(cut); it != model.end(); it = model.erase(it)) batch.Delete(0, it->first);
      if (rng.OneIn(50)) batch.Delete(0, at);  // keys that may come again in one batch
      if (at < cut || rng.OneIn(2)) batch.Put(0, at, std::to_string(i)), model[at] = std::to_string(i);
      ASSERT_TRUE(kv->Write(batch).ok());
    }
  });
  EXPECT_LT(passed, 200'000u) << "of some 3,900 deletions, in 8,000 searches";
}

// One key moves about among deleted ones: a reader beside that finds it, and once.
TEST_F(RocksKvTest, WhoReadsBesideWritesSeesEachBatchWhole) {
  if (kThreadSanitizer) GTEST_SKIP() << "reads beside writes: RocksDB is not instrumented, and its own order of memory is not seen";
  auto kv = Open("kv");
  const auto key = [](uint64_t n) { return "k" + std::to_string(1000 + n); };
  for (const bool there : {true, false}) {
    KvBatch all;
    for (uint64_t n = 0; n < 500; ++n) there ? all.Put(0, key(n), "v") : all.Delete(0, key(n));
    ASSERT_TRUE(kv->Write(all).ok());
  }
  ASSERT_TRUE(kv->Write(One(key(0), "v")).ok());
  std::atomic<bool> done = false;
  std::vector<std::thread> readers;
  std::atomic<int> wrong = 0;
  for (int r = 0; r < 2; ++r) {
    readers.emplace_back([&] {
      while (!done) {
        wrong += kv->Scan(0, "k", "l", 10).value().size() != 1;
        wrong += !kv->Last(0, "k", "l").value();
      }
    });
  }
  Random rng(1);
  for (uint64_t i = 0, at = 0; i < 3000; ++i) {
    KvBatch move;
    move.Delete(0, key(at));
    at = (at + 1 + rng.Below(499)) % 500;
    move.Put(0, key(at), "v");
    ASSERT_TRUE(kv->Write(move).ok());
  }
  done = true;
  for (std::thread& t : readers) t.join();
  EXPECT_EQ(wrong, 0);
}

// Runs work when told to.
class ManualPool final : public Pool {
 public:
  void Submit(std::function<void()> work) override { queue_.push_back(std::move(work)); }
  size_t Run() {
    const auto batch = std::move(queue_);
    queue_.clear();
    for (const auto& work : batch) work();
    return batch.size();
  }

 private:
  std::vector<std::function<void()>> queue_;
};

TEST_F(RocksKvTest, SyncsCoalesce) {
  ManualPool pool;
  auto kv = RocksKv::Open(Path("kv"), kFamilies, SmallOptions(), pool).value();
  TaskScope scope;
  for (int i = 0; i < 100; ++i) {
    scope.Spawn([](RocksKv& store, int n) -> Task<void> {
      EXPECT_TRUE(store.Write(One(std::to_string(n), "v")).ok());
      EXPECT_TRUE((co_await store.Sync()).ok());
    }(*kv, i));
  }
  ex_.RunFor(kSecond);
  EXPECT_EQ(pool.Run(), 1u);  // the first caller's
  ex_.RunFor(kSecond);
  EXPECT_EQ(scope.running(), 99u);
  EXPECT_EQ(pool.Run(), 1u);  // one for all calls that came while it ran
  ex_.RunFor(kSecond);
  EXPECT_EQ(scope.running(), 0u);
  EXPECT_EQ(kv->syncs(), 2u);
}

TEST_F(RocksKvTest, ReadsTablesAndBuffersAlike) {
  auto kv = Open("kv", SmallOptions({2}));
  for (int i = 0; i < 300; ++i) {
    const std::string key = {static_cast<char>('a' + i % 7), static_cast<char>('a' + i % 5), 'k',
                             static_cast<char>(i % 256)};
    ASSERT_TRUE(kv->Write(One(key, std::to_string(i))).ok());
    if (i % 100 == 50) ASSERT_TRUE(kv->Flush().ok());
  }
  EXPECT_GT(kv->disk_bytes(), 0u);
  EXPECT_TRUE(kv->VerifyChecksums().ok());
  const auto all = kv->Scan(0, "", "", 1000).value();
  EXPECT_EQ(all.size(), 300u);
  size_t in_prefixes = 0;
  for (char a = 'a'; a <= 'z'; ++a) {
    for (char b = 'a'; b <= 'z'; ++b) {
      const std::string prefix = {a, b};
      const auto part = kv->Scan(0, prefix, prefix + "\xff", 1000).value();
      in_prefixes += part.size();
      const auto last = kv->Last(0, prefix, prefix + "\xff").value();
      ASSERT_EQ(last.has_value(), !part.empty());
      if (last) {
        ASSERT_EQ(last->first, part.back().first);
      }
    }
  }
  EXPECT_EQ(in_prefixes, 300u);
}

TEST_F(RocksKvTest, WhatIsCachedIsKnownAtOnce) {
  auto kv = Open("db");
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(kv->Write(One("k" + std::to_string(i), std::to_string(i))).ok());
  EXPECT_EQ(kv->GetIfCached(0, "k7")->value(), "7");  // in the write buffer
  EXPECT_EQ(kv->GetIfCached(0, "none")->value(), std::nullopt);
  ASSERT_TRUE(kv->Flush().ok());
  kv.reset();
  kv = Open("db");
  EXPECT_FALSE(kv->GetIfCached(0, "k7").has_value());  // in a table that was not read yet
  EXPECT_EQ(kv->Get(0, "k7").value(), "7");
  EXPECT_EQ(kv->GetIfCached(0, "k7")->value(), "7");
}

TEST_F(RocksKvTest, APageDoesNotPassWhatWasDeletedBehindIt) {
  auto kv = Open("kv");
  for (int i = 1000; i < 3000; ++i) ASSERT_TRUE(kv->Write(One(std::to_string(i), "v")).ok());
  for (int i = 1010; i < 3000; ++i) {
    KvBatch b;
    b.Delete(0, std::to_string(i));
    ASSERT_TRUE(kv->Write(b).ok());
  }
  const auto passed = [&](size_t limit) {
    return Passed([&] { EXPECT_EQ(kv->Scan(0, "", "", limit)->size(), 10u); });
  };
  EXPECT_EQ(passed(10), 0u);
  EXPECT_EQ(passed(11), 1990u) << "there may be more";
}

TEST_F(RocksKvTest, TheLastOfARangeDoesNotPassWhatWasDeletedBeforeIt) {
  auto kv = Open("kv", SmallOptions());
  ASSERT_TRUE(kv->Write(One("a", "v")).ok());
  for (int i = 1000; i < 2000; ++i) {
    ASSERT_TRUE(kv->Write(One("b" + std::to_string(i), "v")).ok());
    KvBatch b;
    b.Delete(0, "b" + std::to_string(i));
    ASSERT_TRUE(kv->Write(b).ok());
  }
  EXPECT_EQ(Passed([&] { EXPECT_FALSE(kv->Last(0, "c", "c5").value()); }), 0u);
  EXPECT_EQ(Passed([&] { EXPECT_EQ(kv->Last(0, "a", "c5").value()->first, "a"); }), 1000u);
}

// As in a directory after a million names were removed.
TEST_F(RocksKvTest, WhatWasDeletedDoesNotStayInTheWay) {
  if (kThreadSanitizer) GTEST_SKIP() << "reads beside a compaction: RocksDB is not instrumented, and its own locks are not seen";
  auto kv = Open("kv");
  const auto name = [](int i) { return "x" + std::to_string(10'000 + i); };
  for (int i = 0; i < 5'000; ++i) ASSERT_TRUE(kv->Write(One(name(i), "v")).ok());
  ASSERT_TRUE(kv->Flush().ok());
  for (int i = 0; i < 5'000; ++i) {
    KvBatch b;
    b.Delete(0, name(i));
    ASSERT_TRUE(kv->Write(b).ok());
  }
  ASSERT_TRUE(kv->Flush().ok());
  const auto list = [&] { return Passed([&] { EXPECT_TRUE(kv->Scan(0, "x", "y", 10)->empty()); }); };
  uint64_t passed = list();
  for (int i = 0; passed > 0 && i < 1000; ++i) {  // in the background
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    passed = list();
  }
  EXPECT_EQ(passed, 0u);
}

// A kill -9 leaves what the kernel has of the running store.
TEST_F(RocksKvTest, AKilledProcessLosesNothing) {
  auto kv = Open("kv");
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(kv->Write(One(std::to_string(i), "v")).ok());
  fs::copy(Path("kv"), Path("copy"));
  EXPECT_EQ(Open("copy")->Scan(0, "", "", 1000)->size(), 100u);
}

// A power cut may shorten the log anywhere: the rest is a prefix over all families.
TEST_F(RocksKvTest, AShorterLogIsAPrefix) {
  {
    auto kv = Open("kv");
    for (int i = 1; i <= 200; ++i) {
      KvBatch b;
      b.Put(0, "count", std::to_string(i));
      b.Put(static_cast<KvFamily>(i % 3), "k" + std::to_string(i), std::string(50, 'v'));
      ASSERT_TRUE(kv->Write(b).ok());
    }
  }
  Random rng(1);
  for (int round = 0; round < 8; ++round) {
    const std::string copy = "copy" + std::to_string(round);
    fs::copy(Path("kv"), Path(copy));
    const auto logs = FilesWith(Path(copy), ".log");
    ASSERT_FALSE(logs.empty());
    fs::resize_file(logs.back(), rng.Below(fs::file_size(logs.back())));
    auto kv = Open(copy);
    const int count = std::stoi(kv->Get(0, "count").value().value_or("0"));
    EXPECT_LT(count, 200);
    for (int i = 1; i <= 200; ++i) {
      const bool there = kv->Get(static_cast<KvFamily>(i % 3), "k" + std::to_string(i)).value().has_value();
      ASSERT_EQ(there, i <= count) << i;
    }
  }
}

TEST_F(RocksKvTest, DamageIsFoundAndNamed) {
  Random rng(1);
  {
    auto kv = Open("kv");
    for (int i = 0; i < 200; ++i) ASSERT_TRUE(kv->Write(One(std::to_string(i), Noise(rng, 1000))).ok());
    ASSERT_TRUE(kv->Flush().ok());
  }
  const auto tables = FilesWith(Path("kv"), ".sst");
  ASSERT_FALSE(tables.empty());
  {
    std::fstream f(tables.back(), std::ios::in | std::ios::out | std::ios::binary);
    f.seekp(50'000);
    f.write("damage", 6);
  }
  auto kv = Open("kv");
  EXPECT_EQ(kv->Damage(), "");
  const auto r = kv->Scan(0, "", "", 1000);
  EXPECT_EQ(r.code(), FsError::kCorrupt);
  EXPECT_EQ(kv->Damage(), r.error().message);
  EXPECT_NE(r.error().message.find(Path("kv")), std::string::npos) << r.error();
  EXPECT_EQ(kv->VerifyChecksums().code(), FsError::kCorrupt);
}

TEST_F(RocksKvTest, ADamagedManifestIsRefused) {
  { auto kv = Open("kv"); }
  for (const auto& e : fs::directory_iterator(Path("kv"))) {
    if (e.path().filename().string().starts_with("MANIFEST")) {
      std::ofstream(e.path(), std::ios::binary) << "garbage garbage garbage";
    }
  }
  auto r = RocksKv::Open(Path("kv"), kFamilies, SmallOptions(), pool_);
  EXPECT_EQ(r.code(), FsError::kCorrupt) << r.error();
}

TEST_F(RocksKvTest, RefusesToOpen) {
  auto kv = Open("kv");
  EXPECT_EQ(RocksKv::Open(Path("kv"), kFamilies, SmallOptions(), pool_).code(), FsError::kBusy);
  kv.reset();
  EXPECT_EQ(RocksKv::Open(Path("kv"), {"one"}, SmallOptions(), pool_).code(), FsError::kVersion);
  RocksKvOptions options = SmallOptions();
  options.create_if_missing = false;
  EXPECT_EQ(RocksKv::Open(Path("none"), kFamilies, options, pool_).code(), FsError::kNoEnt);
  EXPECT_TRUE(RocksKv::Open(Path("kv"), {"one", "two", "three", "four"}, SmallOptions(), pool_).ok());
}

// RocksDB's own log would be there, too, and ends the process when it cannot be written.
TEST_F(RocksKvTest, ADiskThatTakesNothingMoreEndsNoProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [this] {
    auto kv = Open("kv", SmallOptions({1}, false, true));
    signal(SIGXFSZ, SIG_IGN);
    const rlimit nothing = {0, 0};
    if (setrlimit(RLIMIT_FSIZE, &nothing) != 0) _exit(2);
    if (kv->Write(One("k", "v")).ok()) _exit(3);
    if (RunSim(ex_, kv->Sync()).ok()) _exit(4);
    if (kv->Write(One("k", "v")).ok()) _exit(5);
    kv.reset();
    _exit(0);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
}

TEST_F(RocksKvTest, SpareFamiliesStayAsTheyAre) {
  std::vector<std::string> more = kFamilies;
  more.push_back("spare");
  {
    auto kv = RocksKv::Open(Path("kv"), more, SmallOptions(), pool_).value();
    KvBatch batch;
    batch.Put(0, "a", "1");
    batch.Put(static_cast<KvFamily>(kFamilies.size()), "b", "2");
    ASSERT_TRUE(kv->Write(batch).ok());
  }
  EXPECT_EQ(RocksKv::Open(Path("kv"), kFamilies, SmallOptions(), pool_).code(), FsError::kVersion);
  RocksKvOptions options = SmallOptions();
  options.spare_families = {"spare", "not there"};
  for (int i = 0; i < 2; ++i) {
    auto kv = RocksKv::Open(Path("kv"), kFamilies, options, pool_);
    ASSERT_TRUE(kv.ok()) << kv.error();
    EXPECT_EQ(*(*kv)->Get(0, "a"), "1");
    ASSERT_TRUE((*kv)->Flush().ok());
  }
  auto again = RocksKv::Open(Path("kv"), more, options, pool_);
  ASSERT_TRUE(again.ok()) << again.error();
  EXPECT_EQ(*(*again)->Get(static_cast<KvFamily>(kFamilies.size()), "b"), "2");
}

TEST_F(RocksKvTest, CheckpointsAreStoresOfTheirOwn) {
  auto kv = Open("kv");
  ASSERT_TRUE(kv->Write(One("a", "1")).ok());
  ASSERT_TRUE(kv->Checkpoint(Path("backup")).ok());
  ASSERT_TRUE(kv->Write(One("a", "2")).ok());
  EXPECT_EQ(Open("backup")->Get(0, "a").value(), "1");
  EXPECT_EQ(kv->Checkpoint(Path("backup")).code(), FsError::kIo);
}

TEST(RocksKvLoop, SyncsOnAPool) {
  TempDir dir;
  LoopExecutor ex;
  ThreadPool pool(1, "sync");
  ex.MakeCurrent();
  auto kv = RocksKv::Open(dir.path(), kFamilies, SmallOptions(), pool).value();
  TaskScope scope;
  for (int i = 0; i < 50; ++i) {
    scope.Spawn([](RocksKv& store, int n) -> Task<void> {
      KvBatch b;
      b.Put(0, std::to_string(n), "v");
      EXPECT_TRUE(store.Write(b).ok());
      EXPECT_TRUE((co_await store.Sync()).ok());
    }(*kv, i));
  }
  TaskScope stopper;
  stopper.Spawn([](TaskScope& s, LoopExecutor& e) -> Task<void> {
    co_await s.Join();
    e.Stop();
  }(scope, ex));
  ex.Run();
  EXPECT_EQ(scope.running(), 0u);
  EXPECT_LE(kv->syncs(), 10u);
  // Destroyed with a sync under way: waits for it.
  scope.Spawn([](RocksKv& store) -> Task<void> { (void)co_await store.Sync(); }(*kv));
  scope.CancelAll();
  kv.reset();
}

}  // namespace
}  // namespace stria
