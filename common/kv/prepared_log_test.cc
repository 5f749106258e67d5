// Logs that are written over zeros: a crash leaves a prefix of the batches, whichever unsynced pages have reached the disk.
#include "common/kv/prepared_log.h"

#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "common/exec/loop_executor.h"
#include "common/exec/pool.h"
#include "common/exec/sim_run.h"
#include "common/kv/rocks_kv.h"
#include "common/random.h"
#include "common/temp_dir.h"

namespace stria {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kFamilies = {"one"};

std::string Noise(Random& rng, size_t n) {
  std::string s(n, 0);
  for (char& c : s) c = static_cast<char>(rng.Below(256));
  return s;
}

std::string ReadFile(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}
void WriteFile(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

class PreparedLogTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) { return dir_.path() + "/" + name; }
  RocksKvOptions Options(bool prepared = true) {
    RocksKvOptions options;
    options.memory = RocksMemory::Make(8 * kMiB);
    options.prepare_log = prepared;
    return options;
  }
  std::unique_ptr<RocksKv> Open(const std::string& name, bool prepared = true) {
    auto kv = RocksKv::Open(Path(name), kFamilies, Options(prepared), pool_);
    EXPECT_TRUE(kv.ok()) << kv.error();
    return kv.ok() ? std::move(*kv) : nullptr;
  }
  // As a kill leaves it: everything of one moment, so it is copied again if RocksDB flushed meanwhile, which removes logs and
  // writes in the manifest.
  void CopyOpen(const std::string& from, const std::string& to) {
    for (int tries = 0; tries < 1000; ++tries) {
      fs::remove_all(Path(to));
      std::error_code error;
      const auto before = State(from);
      fs::copy(Path(from), Path(to), error);
      if (!error && !before.empty() && State(from) == before) {
        fs::remove(Path(to) + "/LOCK");
        return;
      }
    }
    FAIL() << "no two looks at " << from << " are alike";
  }
  // The names, and how much is in the manifest; empty if it changes while one looks.
  std::map<std::string, uintmax_t> State(const std::string& name) {
    std::map<std::string, uintmax_t> state;
    std::error_code error;
    for (fs::directory_iterator at(Path(name), error), end; !error && at != end; at.increment(error)) {
      const std::string file = at->path().filename();
      state[file] = file.starts_with("MANIFEST") ? fs::file_size(at->path(), error) : 0;
    }
    if (error) state.clear();
    return state;
  }
  fs::path Log(const std::string& name) {
    fs::path newest;
    for (const auto& e : fs::directory_iterator(Path(name))) {
      if (e.path().extension() == ".log" && (newest.empty() || e.path() > newest)) newest = e.path();
    }
    return newest;
  }
  static std::string Key(int i) { return "k" + std::to_string(100'000 + i); }
  void Put(RocksKv& kv, int i, size_t bytes) {
    KvBatch b;
    b.Put(0, Key(i), Noise(rng_, bytes));
    ASSERT_TRUE(kv.Write(b).ok());
  }
  Result<void> Sync(RocksKv& kv) { return RunSim(ex_, kv.Sync()); }
  // How many of the keys are there from the first on; ADD_FAILURE if another is there behind them.
  int Prefix(RocksKv& kv, int count) {
    int n = 0;
    while (n < count && kv.Get(0, Key(n)).value()) ++n;
    for (int i = n; i < count; ++i) EXPECT_FALSE(kv.Get(0, Key(i)).value()) << i << " is there, and " << n << " is not";
    return n;
  }

  SimExecutor ex_{1};
  TempDir dir_;
  InlinePool pool_;
  Random rng_{7};
};

TEST_F(PreparedLogTest, IsPreparedAtOnceAndBySyncs) {
  for (int i = 0; i < 2; ++i) {  // also of a store that was there
    auto kv = Open("kv");
    struct stat st;
    ASSERT_EQ(::stat(Log("kv").c_str(), &st), 0);
    EXPECT_GE(st.st_size, static_cast<off_t>(kPreparedLogBytes));
    EXPECT_GE(st.st_blocks * 512, st.st_size) << "of a part nobody has room yet";
  }
  auto kv = Open("kv");
  Put(*kv, 0, 100);
  // It stays ahead of a log that is written and synced, and does not lengthen one that is not.
  uint64_t written = 0;
  for (int i = 1; i < 150; ++i) {  // one log
    Put(*kv, i, 5000);
    written += 5000;
    ASSERT_TRUE(Sync(*kv).ok());
    ASSERT_GE(fs::file_size(Log("kv")), written + kPreparedLogBytes / 4);
    ASSERT_LE(fs::file_size(Log("kv")), written + 3 * kPreparedLogBytes);
  }
  CopyOpen("kv", "killed");
  auto killed = Open("killed");
  EXPECT_EQ(Prefix(*killed, 151), 150);
  kv.reset();
  kv = Open("kv");
  EXPECT_EQ(Prefix(*kv, 151), 150);
}

TEST_F(PreparedLogTest, IsCutWhenItIsClosed) {
  auto kv = Open("kv");
  Put(*kv, 0, 3000);
  ASSERT_TRUE(Sync(*kv).ok());
  const fs::path log = Log("kv");
  EXPECT_GE(fs::file_size(log), kPreparedLogBytes);
  kv.reset();
  EXPECT_LT(fs::file_size(log), 10 * kKiB);
  EXPECT_GT(fs::file_size(log), 3000u);
}

TEST_F(PreparedLogTest, ACheckpointTakesWhatWasWritten) {
  auto kv = Open("kv");
  int n = 0;
  for (; n < 50; ++n) Put(*kv, n, 3000);
  ASSERT_TRUE(Sync(*kv).ok());
  ASSERT_TRUE(kv->Checkpoint(Path("copy")).ok());
  for (; n < 60; ++n) Put(*kv, n, 3000);
  uint64_t bytes = 0;
  for (const auto& e : fs::directory_iterator(Path("copy"))) bytes += e.file_size();
  EXPECT_LT(bytes, kPreparedLogBytes);
  auto copy = Open("copy");
  ASSERT_TRUE(copy);
  EXPECT_EQ(Prefix(*copy, n), 50);
}

// Stores of releases before, and for them.
TEST_F(PreparedLogTest, WithAndWithoutReadEachOther) {
  int n = 0;
  for (const bool prepared : {false, true, false, true, true, false}) {
    auto kv = Open("kv", prepared);
    EXPECT_EQ(Prefix(*kv, n + 1), n);
    for (int i = 0; i < 20; ++i) Put(*kv, n++, 3000);
    ASSERT_TRUE(Sync(*kv).ok());
    Put(*kv, n++, 10);
    CopyOpen("kv", "killed");
    auto killed = Open("killed", !prepared);
    EXPECT_EQ(Prefix(*killed, n + 1), n);
  }
}

// A power cut: of the pages that were not synced some have come to the disk, of the others it has the zeros from before. Each round opens
// three stores, which waits for the disk: STRIA_TEST_ROUNDS=N does more of them.
TEST_F(PreparedLogTest, PagesThatAreMissingEndIt) {
  // Of records of a page each, only the beginning of one is zeros, and the next block begins with a record.
  uint64_t page = 0;
  {
    auto kv = Open("kv", /*prepared=*/false);
    Put(*kv, 0, 2000);
    page = 4096 - (fs::file_size(Log("kv")) - 2000);
  }
  size_t passed_over = 0;
  const char* const asked = std::getenv("STRIA_TEST_ROUNDS");
  const int rounds = asked != nullptr ? std::atoi(asked) : 24;
  for (int round = 0; round < rounds; ++round) {
    fs::remove_all(Path("kv"));
    auto kv = Open("kv");
    int n = 0;
    const bool pages = rng_.OneIn(2);
    const int synced = static_cast<int>(rng_.Between(1, 30));
    while (n < synced) Put(*kv, n++, pages ? page : rng_.Below(4000));
    ASSERT_TRUE(Sync(*kv).ok());
    CopyOpen("kv", "before");
    const int more = static_cast<int>(rng_.Between(1, 40));
    for (int i = 0; i < more; ++i) Put(*kv, n++, pages ? page : rng_.Below(20'000));
    CopyOpen("kv", "cut");
    const std::string before = ReadFile(Log("before"));
    std::string after = ReadFile(Log("cut"));
    ASSERT_GE(after.size(), before.size());
    for (size_t at = 0; at < before.size(); at += 4096) {
      const size_t length = std::min<size_t>(4096, before.size() - at);
      if (after.compare(at, length, before, at, length) != 0 && rng_.OneIn(3)) after.replace(at, length, before, at, length);
    }
    WriteFile(Log("cut"), after);
    CopyOpen("cut", "plain");
    {
      auto cut = Open("cut");
      ASSERT_TRUE(cut);
      EXPECT_GE(Prefix(*cut, n), synced) << round;
    }
    // RocksDB by itself passes over the zeros: if it did not, all this were for nothing.
    rocksdb::DBOptions options;
    options.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
    const rocksdb::ColumnFamilyOptions family;
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    rocksdb::DB* raw = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open(options, Path("plain"), {{"default", family}, {"one", family}}, &handles, &raw).ok());
    const std::unique_ptr<rocksdb::DB> plain(raw);
    for (int i = 0, gone = 0; i < n; ++i) {
      std::string value;
      if (!plain->Get(rocksdb::ReadOptions(), handles[1], Key(i), &value).ok()) gone = 1;
      else passed_over += gone;
    }
    for (auto* h : handles) ASSERT_TRUE(plain->DestroyColumnFamilyHandle(h).ok());
  }
  EXPECT_GT(passed_over, 0u);
}

// A log of nothing but noise, zeros and cut records does no harm.
TEST_F(PreparedLogTest, TheEndOfAnyBytesIsFound) {
  class Text final : public LogBytes {
   public:
    explicit Text(std::string bytes) : bytes_(std::move(bytes)) {}
    Result<size_t> Read(uint64_t offset, char* to, size_t length) override {
      if (offset >= bytes_.size()) return size_t{0};
      const size_t n = std::min<size_t>(length, bytes_.size() - offset);
      bytes_.copy(to, n, offset);
      return n;
    }

   private:
    const std::string bytes_;
  };
  const auto end = [](std::string bytes) {
    Text text(std::move(bytes));
    return LogEnd(text).value();
  };
  const auto record = [&](size_t payload, char type = 1) {
    std::string r = "crcc";
    r += static_cast<char>(payload & 0xff);
    r += static_cast<char>(payload >> 8);
    r += type;
    if (type >= 5 && type <= 8) r += "numb";
    return r + Noise(rng_, payload);
  };
  EXPECT_EQ(end(""), 0u);
  EXPECT_EQ(end(std::string(3, 'x')), 3u);
  EXPECT_EQ(end(std::string(100'000, '\0')), 0u);
  EXPECT_EQ(end(record(10) + record(0) + std::string(50, '\0')), 24u);
  EXPECT_EQ(end(record(10, 5) + std::string(70'000, '\0') + record(5)), 21u);
  // The end of a block is padded; the next begins with a record.
  const std::string block = record(32 * 1024 - 7 - 5) + std::string(5, '\0');
  EXPECT_EQ(end(block + record(3) + std::string(40, '\0')), 32 * 1024 + 10u);
  EXPECT_EQ(end(block + std::string(40, '\0')), 32 * 1024u);
  EXPECT_EQ(end(block), 32 * 1024u);
  for (int i = 0; i < 300; ++i) {
    const std::string noise = Noise(rng_, rng_.Below(100'000));
    EXPECT_LE(end(noise), noise.size());
  }
}

// Writers and syncs beside the thread that writes zeros.
TEST_F(PreparedLogTest, IsWrittenWhileItIsPrepared) {
  LoopExecutor ex;
  ex.MakeCurrent();
  ThreadPool pool(2, "sync");
  auto kv = RocksKv::Open(Path("kv"), kFamilies, Options(), pool).value();
  int n = 0;
  TaskScope scope;
  scope.Spawn([](PreparedLogTest_IsWrittenWhileItIsPrepared_Test* t, RocksKv& store, int* count, LoopExecutor& e) -> Task<void> {
    Random rng(5);
    for (; *count < 400; ++*count) {
      KvBatch b;
      b.Put(0, Key(*count), Noise(rng, rng.OneIn(3) ? 200'000 : 1000));  // faster than zeros are written, now and then
      EXPECT_TRUE(store.Write(b).ok());
      if (rng.OneIn(2)) EXPECT_TRUE((co_await store.Sync()).ok());
    }
    t->CopyOpen("kv", "killed");
    e.Stop();
  }(this, *kv, &n, ex));
  ex.Run();
  ASSERT_EQ(n, 400);
  kv.reset();
  for (const char* name : {"kv", "killed"}) {
    auto again = Open(name);
    ASSERT_TRUE(again);
    EXPECT_EQ(Prefix(*again, n + 1), n) << name;
  }
}

}  // namespace
}  // namespace stria
