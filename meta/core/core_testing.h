// For tests of rooms without a metadata server: a core on the store of an empty cluster. Every test ends with fsck.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/exec/sim_run.h"
#include "common/kv/mem_kv.h"
#include "meta/core/meta_core.h"
#include "meta/ops/fsck.h"
#include "meta/ops/ops.h"

namespace stria {

class CoreTest : public testing::Test {
 protected:
  CoreTest() : ex(1), media(std::make_shared<MemKvMedia>(kFamilies)) {
    key.id = 1;
    key.secret.fill(0x5a);
    auto store = RunSim(ex, MetaStore::Open(std::make_unique<MemKv>(media))).value();
    FormatParams params{Uuid{1, 2}, Uuid{3, 4}, Layout(), 1000};
    {
      Txn txn(*store);
      CHECK(FormatStore(txn, params).ok() && txn.Commit().ok());
    }
    CHECK(RunSim(ex, store->Sync()).ok());
    store.reset();
    Make();
  }
  ~CoreTest() override {
    if (!core || !core->is_open() || core->HasFailed()) return;
    const auto checked = CheckStore(core->store().kv());
    EXPECT_TRUE(checked.ok());
    for (const std::string& problem : checked.value().problems) ADD_FAILURE() << problem;
  }

  // A new life on the same store. Rooms of the former one are gone by then.
  void Make(GivenLife life = {}) {
    core.reset();
    MetaCoreOptions options;
    options.version = "1.2 (commit c)";
    options.life = std::move(life);
    core = std::make_unique<MetaCore>(options, std::make_unique<MemKv>(media), Random(1),
                                      std::vector<ClusterKey>{key});
  }
  // Opens, has the rooms `load` in one transaction, and serves.
  template <class F>
  void Start(F load) {
    ASSERT_TRUE(RunSim(ex, core->Open()).ok());
    {
      Txn txn(core->store());
      ASSERT_TRUE(core->NextTerm(txn).ok());
      const Result<void> loaded = load(txn);
      ASSERT_TRUE(loaded.ok()) << loaded.error();
      ASSERT_TRUE(txn.Commit().ok());
    }
    ASSERT_TRUE(RunSim(ex, core->BeginServing()).ok());
    core->StartSync();
  }
  void Start() {
    Start([](Txn&) { return Ok(); });
  }
  // Runs an operation in a transaction of its own.
  template <class F>
  auto Do(F fn) {
    touched = Touched();
    Txn txn(core->store());
    auto result = fn(txn);
    EXPECT_TRUE(result.ok()) << result.error();
    EXPECT_TRUE(txn.Commit().ok());
    return result;
  }
  OpHeader Header() {
    OpHeader h;
    h.protocol = kProtocolVersion;
    h.cluster = Uuid{1, 2};
    h.timeout_ns = 10 * kSecond;
    return h;
  }

  SimExecutor ex;
  std::shared_ptr<MemKvMedia> media;
  ClusterKey key;
  std::unique_ptr<MetaCore> core;
  Touched touched;
};

}  // namespace stria
