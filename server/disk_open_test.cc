#include "server/disk_open.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <set>

#include "common/exec/loop_executor.h"
#include "common/temp_dir.h"
#include "server/shard_testing.h"

namespace stria {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kShards = 40;
uint64_t LengthOf(uint64_t id) { return id % 4 == 0 ? 300'000 + id * 7777 : 1 + id * 2221; }

// One start of a "process" on one disk.
class Process {
 public:
  Process(const std::string& path, std::function<Task<void>(Process*)> body) : path_(path), sync_pool_(1, "sync") {
    ex_.MakeCurrent();
    env = {&sync_pool_, RocksMemory::Make(16 * kMiB)};
    scope_.Spawn([](Process* p, std::function<Task<void>(Process*)> run) -> Task<void> {
      co_await run(p);
      p->ex_.Stop();
    }(this, std::move(body)));
    ex_.Run();
    scope_.CancelAll();
    store.reset();
    disk.reset();
    Executor::ClearCurrent();
  }
  Task<Result<OpenDisk>> OpenAgain(bool may_make = true) { return OpenDataDisk({path_, "d1", ""}, env, may_make); }
  Task<void> Open() {
    Result<OpenDisk> opened = co_await OpenAgain();
    disk = std::make_unique<OpenDisk>(std::move(opened).value());
  }
  Task<void> OpenStore() {
    ShardStoreOptions options;
    options.disk = disk->superblock.own;
    store = std::make_unique<ShardStore>(disk->disk.get(), disk->index.get(), disk->index_pool.get(),
                                         disk->index_pool.get(), options);
    Result<void> opened = co_await store->Open();
    opened.value();
  }

  DiskEnv env;
  std::unique_ptr<OpenDisk> disk;
  std::unique_ptr<ShardStore> store;

 private:
  const std::string path_;
  LoopExecutor ex_;
  ThreadPool sync_pool_;
  TaskScope scope_;
};

Task<void> WriteShards(Process* p) {
  co_await p->Open();
  EXPECT_TRUE(p->disk->problem.ok()) << p->disk->problem;
  co_await p->OpenStore();
  for (uint64_t id = 1; id <= kShards; ++id) {
    Result<Sealed> sealed = co_await StoreWhole(p->store.get(), ShardId(id), LengthOf(id));
    EXPECT_TRUE(sealed.ok()) << sealed.error();
  }
}

Task<void> ReadShards(ShardStore* store, std::set<uint64_t> missing) {
  for (uint64_t id = 1; id <= kShards; ++id) {
    const Result<ShardBytes> got = co_await store->Read(ShardId(id), 0, LengthOf(id));
    EXPECT_EQ(got.code(), missing.contains(id) ? FsError::kNoSuchShard : FsError::kOk) << id;
    if (got.ok()) EXPECT_TRUE(Flat(got->bytes) == BytesOf(ShardId(id), LengthOf(id))) << id;
  }
}

// As stria-data does it.
Task<void> MakeIndexAgain(Process* p) {
  co_await p->Open();
  EXPECT_TRUE(p->disk->reindex) << p->disk->problem;
  EXPECT_FALSE(p->disk->give_up);
  EXPECT_NE(p->disk->problem.message.find("is being made again"), std::string::npos);
  Result<ReindexResult> made = co_await MakeIndex(p->disk.get(), p->env);
  EXPECT_TRUE(made.ok()) << made.error();
  if (!made.ok()) co_return;
  EXPECT_EQ(made->shards, kShards);
  EXPECT_TRUE(made->unproved.empty());
  const Result<void> taken = TakeIndex(p->disk.get(), p->env);
  EXPECT_TRUE(taken.ok()) << taken.error();
  co_await p->OpenStore();
  co_await ReadShards(p->store.get(), {});
}

Task<void> ReadAll(Process* p) {
  co_await p->Open();
  EXPECT_TRUE(p->disk->problem.ok()) << p->disk->problem;
  co_await p->OpenStore();
  co_await ReadShards(p->store.get(), {});
}

TEST(DiskOpenTest, ALostIndexIsMadeAgain) {
  TempDir dir;
  const std::string path = dir.path() + "/d1";
  fs::create_directory(path);
  Process(path, WriteShards);
  fs::remove_all(path + "/index");
  Process(path, MakeIndexAgain);
  Process(path, ReadAll);
}

TEST(DiskOpenTest, ADamagedIndexIsMadeAgainAndKeptAside) {
  TempDir dir;
  const std::string path = dir.path() + "/d1";
  fs::create_directory(path);
  Process(path, WriteShards);
  for (const auto& file : fs::directory_iterator(path + "/index")) {
    if (file.path().filename().string().starts_with("MANIFEST")) {
      std::fstream f(file.path(), std::ios::in | std::ios::out | std::ios::binary);
      f.seekp(20);
      f << "this is not what RocksDB wrote";
    }
  }
  Process(path, MakeIndexAgain);
  EXPECT_TRUE(fs::exists(path + "/index.old"));
  Process(path, ReadAll);
}

TEST(DiskOpenTest, AnIndexThatWasBegunIsNotBelieved) {
  TempDir dir;
  const std::string path = dir.path() + "/d1";
  fs::create_directory(path);
  Process(path, WriteShards);
  fs::remove_all(path + "/index");
  Process(path, [](Process* p) -> Task<void> {  // killed before it was done
    co_await p->Open();
    Result<ReindexResult> made = co_await MakeIndex(p->disk.get(), p->env);
    EXPECT_TRUE(made.ok()) << made.error();
  });
  Process(path, MakeIndexAgain);
}

TEST(DiskOpenTest, LargeShardsWithoutTheirSegmentAreNotForgotten) {
  TempDir dir;
  const std::string path = dir.path() + "/d1";
  fs::create_directory(path);
  Process(path, WriteShards);
  fs::remove_all(path + "/index");
  fs::remove_all(path + "/segments");
  Process(path, [](Process* p) -> Task<void> {
    co_await p->Open();
    EXPECT_TRUE(p->disk->reindex) << "files without an index are not an empty disk";
    Result<ReindexResult> made = co_await MakeIndex(p->disk.get(), p->env);
    EXPECT_EQ(made->unproved.size(), kShards / 4);
    for (const UnprovedShard& u : made->unproved) {
      EXPECT_EQ(u.record.digest, DigestOf(u.shard, BytesOf(u.shard, LengthOf(u.shard.v))));
    }
    std::set<uint64_t> missing;
    for (uint64_t id = 1; id <= kShards; ++id) {
      if (id % 4 != 0) missing.insert(id);
    }
    Result<void> put = co_await IndexProved(p->disk->index.get(), p->disk->index_pool.get(), std::move(made->unproved));
    EXPECT_TRUE(put.ok()) << put.error();
    EXPECT_TRUE(TakeIndex(p->disk.get(), p->env).ok());
    co_await p->OpenStore();
    co_await ReadShards(p->store.get(), missing);
  });
}

TEST(DiskOpenTest, NothingIsWrittenWhereADiskMayNotBeMounted) {
  TempDir dir;
  const std::string path = dir.path() + "/d1";
  fs::create_directory(path);
  Process(path, [&](Process* p) -> Task<void> {
    Result<OpenDisk> d = co_await p->OpenAgain(false);
    EXPECT_TRUE(d.ok() && d->is_new && !d->reindex && !d->give_up);
    EXPECT_EQ(d->problem.message, "disk " + path + " is empty");
    EXPECT_EQ(d->ForNode().disk, nullptr);
    EXPECT_TRUE(fs::is_empty(path));
    Result<OpenDisk> made = co_await p->OpenAgain(true);  // not locked by the first
    EXPECT_TRUE(made.ok() && made->problem.ok() && !made->is_new);
  });
  Process(path, [](Process* p) -> Task<void> {
    Result<OpenDisk> d = co_await p->OpenAgain(false);
    EXPECT_TRUE(d.ok() && d->problem.ok() && !d->is_new) << "it is there now";
  });
}

TEST(DiskOpenTest, SaysWhatIsWrong) {
  TempDir dir;
  const std::string path = dir.path() + "/d1";
  const auto open = [&](bool give_up, const std::string& words) {
    Process(path, [&](Process* p) -> Task<void> {
      co_await p->Open();
      EXPECT_FALSE(p->disk->problem.ok());
      EXPECT_EQ(p->disk->give_up, give_up) << p->disk->problem;
      EXPECT_FALSE(p->disk->reindex);
      EXPECT_NE(p->disk->problem.message.find(words), std::string::npos) << p->disk->problem;
      EXPECT_NE(p->disk->problem.message.find(path), std::string::npos) << p->disk->problem;
    });
  };
  open(false, "d1");  // perhaps it is not mounted yet
  fs::create_directory(path);
  Process(path, WriteShards);
  Process(path, [](Process* p) -> Task<void> {
    co_await p->Open();
    const Result<OpenDisk> twice = co_await p->OpenAgain();
    EXPECT_EQ(twice.code(), FsError::kBusy) << "another server has it";
  });
  std::ofstream(path + "/superblock") << "nothing";
  open(true, "superblock");
}

}  // namespace
}  // namespace stria
