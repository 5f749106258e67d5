// For tests: a formatted metadata store in memory or on RocksDB, that can crash and open again.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/exec/pool.h"
#include "common/exec/sim_run.h"
#include "common/kv/mem_kv.h"
#include "common/kv/rocks_kv.h"
#include "common/temp_dir.h"
#include "meta/ops/fsck.h"
#include "meta/ops/ops.h"

namespace stria {

enum class StoreKind { kMemory, kRocks };

class TestStore {
 public:
  explicit TestStore(StoreKind kind = StoreKind::kMemory, uint64_t seed = 1)
      : kind_(kind), ex_(seed), rng_(seed), media_(std::make_shared<MemKvMedia>(kFamilies)) {
    Open();
    Txn txn(*store_);
    FormatParams params{Uuid{1, 2}, Uuid{3, 4}, Layout(), 1000};
    EXPECT_TRUE(FormatStore(txn, params).ok());
    EXPECT_TRUE(txn.Commit().ok());
    Sync();
  }

  void Open() {
    std::unique_ptr<KvStore> kv;
    if (kind_ == StoreKind::kMemory) {
      kv = std::make_unique<MemKv>(media_);
    } else {
      RocksKvOptions options;
      options.memory = RocksMemory::Make(8 * kMiB);
      options.prefix_bytes = FamilyPrefixBytes();
      kv = RocksKv::Open(dir_.path() + "/kv", FamilyNames(), options, pool_).value();
    }
    store_ = RunSim(ex_, MetaStore::Open(std::move(kv))).value();
  }
  void Sync() { ASSERT_TRUE(RunSim(ex_, store_->Sync()).ok()); }
  // The process ends; with lose_unsynced (memory only) the machine's power fails too.
  void Crash(bool lose_unsynced) {
    store_.reset();
    if (kind_ == StoreKind::kMemory) media_->Crash(rng_, lose_unsynced);
    Open();
  }
  std::vector<std::string> Fsck() { return CheckStore(store_->kv()).value().problems; }

  MetaStore& store() { return *store_; }
  MemKvMedia& media() { return *media_; }
  SimExecutor& ex() { return ex_; }

 private:
  const StoreKind kind_;
  SimExecutor ex_;
  Random rng_;
  const std::shared_ptr<MemKvMedia> media_;
  TempDir dir_;
  InlinePool pool_;
  std::unique_ptr<MetaStore> store_;
};

}  // namespace stria
