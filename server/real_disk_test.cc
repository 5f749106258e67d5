// The shard store on a real file system and RocksDB, in real time.
#include <gtest/gtest.h>

#include <unistd.h>

#include <functional>
#include <memory>

#include "common/exec/loop_executor.h"
#include "common/io/posix_disk.h"
#include "common/kv/rocks_kv.h"
#include "common/temp_dir.h"
#include "common/token.h"
#include "server/disk_setup.h"
#include "server/local_opener.h"
#include "server/reindex.h"
#include "server/shard_testing.h"

namespace stria {
namespace {

// One start of the "process": opens everything, runs `body` on the executor, closes everything.
class Process {
 public:
  Process(const std::string& root, const std::string& index, std::function<Task<void>(Process*)> body)
      : sync_pool_(1, "sync") {
    ex_.MakeCurrent();
    disk_ = PosixDisk::Open(root).value();
    RocksKvOptions options;
    options.memory = RocksMemory::Make(16 * kMiB);
    kv_ = RocksKv::Open(index, {"shards", "state"}, options, sync_pool_).value();
    pool_ = std::make_unique<ThreadPool>(2, "index");
    scope_.Spawn([](Process* p, std::function<Task<void>(Process*)> run) -> Task<void> {
      co_await run(p);
      p->ex_.Stop();
    }(this, std::move(body)));
    ex_.Run();
  }
  ~Process() {
    scope_.CancelAll();
    store_.reset();
    pool_.reset();  // before what its work uses
    kv_.reset();
    disk_.reset();
    Executor::ClearCurrent();
  }
  Task<ShardStore*> OpenStore() {
    DiskSetup setup;
    setup.where = "here";
    setup.label = "d1";
    setup.new_uuid = [] { return Uuid{7, 9}; };
    ShardStoreOptions options;
    Result<Superblock> sb = co_await OpenSuperblock(disk_.get(), setup);
    options.disk = sb.value().own;
    store_ = std::make_unique<ShardStore>(disk_.get(), kv_.get(), pool_.get(), pool_.get(), options);
    Result<void> opened = co_await store_->Open();
    opened.value();
    co_return store_.get();
  }
  Disk* disk() { return disk_.get(); }
  KvStore* kv() { return kv_.get(); }
  Pool* pool() { return pool_.get(); }

 private:
  LoopExecutor ex_;
  ThreadPool sync_pool_;
  std::unique_ptr<PosixDisk> disk_;
  std::unique_ptr<RocksKv> kv_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<ShardStore> store_;
  TaskScope scope_;
};

constexpr uint64_t kShards = 60;

uint64_t LengthOf(uint64_t id) { return id % 3 == 0 ? 300'000 + id * 7777 : 1 + id * 2221; }

Task<void> ExpectShards(ShardStore* store) {
  for (uint64_t id = 1; id <= kShards; ++id) {
    const Result<ShardBytes> got = co_await store->Read(ShardId(id), 0, LengthOf(id));
    if (id % 10 == 0) {
      EXPECT_EQ(got.code(), FsError::kNoSuchShard);
    } else {
      EXPECT_TRUE(got.ok()) << got.error();
      if (got.ok()) EXPECT_TRUE(Flat(got->bytes) == BytesOf(ShardId(id), LengthOf(id))) << id;
    }
  }
}

Task<void> DeleteTens(ShardStore* store) {
  std::vector<ShardId> dead;
  for (uint64_t id = 10; id <= kShards; id += 10) dead.push_back(ShardId(id));
  Result<void> deleted = co_await store->Delete(dead);
  EXPECT_TRUE(deleted.ok()) << deleted.error();
}

Task<void> FirstRun(Process* p) {
  ShardStore* store = co_await p->OpenStore();
  std::vector<Task<Result<Sealed>>> tasks;
  for (uint64_t id = 1; id <= kShards; ++id) tasks.push_back(StoreWhole(store, ShardId(id), LengthOf(id)));
  for (const Result<Sealed>& s : co_await WhenAll(std::move(tasks))) EXPECT_TRUE(s.ok()) << s.error();
  co_await DeleteTens(store);
  Result<void> unsealed = co_await WriteBlocksOf(store, ShardId(5000), 900'000, 0, 14);
  EXPECT_TRUE(unsealed.ok()) << unsealed.error();
  co_await ExpectShards(store);
}

Task<void> SecondRun(Process* p) {
  ShardStore* store = co_await p->OpenStore();
  co_await ExpectShards(store);
  Result<Sealed> lost = co_await store->Seal(ShardId(5000), 900'000);
  EXPECT_EQ(lost.code(), FsError::kNoSuchShard);
  const DiskUsage usage = store->Usage();
  EXPECT_EQ(usage.shards, kShards - kShards / 10);
  EXPECT_GT(usage.capacity_bytes, usage.free_bytes);
}

Task<void> ReindexRun(Process* p) {
  const Result<ReindexResult> r = co_await Reindex(p->disk(), p->kv(), p->pool(), Uuid{7, 9});
  EXPECT_GE(r.value().shards, kShards - kShards / 10);
  ShardStore* store = co_await p->OpenStore();
  co_await DeleteTens(store);  // packed ones have come back
  co_await ExpectShards(store);
}

// A raw shard's file is its bytes; there is none for packed shards, or for callers who may not read.
Task<void> LocalRun(Process* p) {
  ShardStore* store = co_await p->OpenStore();
  constexpr uint64_t kLength = 700'001;
  const ShardId raw(1), packed(2), deleted(3);
  for (const ShardId s : {raw, deleted}) EXPECT_TRUE((co_await StoreWhole(store, s, kLength)).ok());
  EXPECT_TRUE((co_await StoreWhole(store, packed, 1000)).ok());
  std::vector<ShardId> gone = {deleted};
  EXPECT_TRUE((co_await store->Delete(gone)).ok());
  const ClusterKey key{1, {42}};
  TokenGate verifier({key});
  const TokenSigner signer(key);
  DataServer server(&verifier);
  server.SetTarget(TargetId(5), store);
  LocalOpener opener(&verifier, &server, {{store, p->disk()}});
  const int64_t later_s = Executor::Current().WallNs() / kSecond + 3600;
  const auto token = [&](ShardId s, uint32_t target, uint8_t rights) {
    return EncodeToken(signer.Sign(s, TargetId(target), rights, later_s));
  };
  Result<LocalShard> got = co_await opener.OpenLocal(raw, TargetId(5), token(raw, 5, kTokenRead));
  EXPECT_TRUE(got.ok()) << got.error();
  if (got.ok()) {
    const std::string want = BytesOf(raw, kLength);
    EXPECT_EQ(got->length, kLength);
    EXPECT_EQ(got->crcs, TableOf(raw, want));
    std::string bytes(kLength + 10, ' ');
    EXPECT_EQ(pread(got->file->get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(kLength));
    EXPECT_TRUE(bytes.substr(0, kLength) == want);
    EXPECT_LT(write(got->file->get(), "x", 1), 0);
  }
  const auto code = [&](ShardId s, uint32_t target, std::string t) -> Task<FsError> {
    co_return (co_await opener.OpenLocal(s, TargetId(target), std::move(t))).code();
  };
  EXPECT_EQ(co_await code(packed, 5, token(packed, 5, kTokenRead)), FsError::kNotSupported);
  EXPECT_EQ(co_await code(deleted, 5, token(deleted, 5, kTokenRead)), FsError::kNoSuchShard);
  EXPECT_EQ(co_await code(raw, 6, token(raw, 6, kTokenRead)), FsError::kNoSuchShard);
  EXPECT_EQ(co_await code(raw, 5, token(raw, 5, kTokenWrite)), FsError::kBadToken);
  EXPECT_EQ(co_await code(raw, 5, token(packed, 5, kTokenRead)), FsError::kBadToken);
  EXPECT_EQ(co_await code(raw, 5, "nonsense"), FsError::kBadToken);
}

TEST(RealDiskTest, ReadersOnThisMachineGetDescriptors) {
  TempDir dir, index;
  Process p(dir.path(), index.path() + "/1", LocalRun);
}

TEST(RealDiskTest, ShardsSurviveRestartsAndAreReindexed) {
  TempDir dir, indexes;
  { Process p(dir.path(), indexes.path() + "/1", FirstRun); }
  { Process p(dir.path(), indexes.path() + "/1", SecondRun); }
  { Process p(dir.path(), indexes.path() + "/2", ReindexRun); }
}

}  // namespace
}  // namespace stria
