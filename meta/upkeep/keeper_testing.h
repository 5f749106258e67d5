// For tests of keepers without a metadata server: a store with stripes, nodes with disks, and a host that counts.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/exec/sim_run.h"
#include "common/kv/mem_kv.h"
#include "common/token.h"
#include "meta/ops/fsck.h"
#include "meta/ops/ops.h"
#include "meta/upkeep/keeper.h"
#include "stripe/checksum_testing.h"
#include "stripe/layout.h"

namespace stria {

class TestHost final : public KeeperHost {
 public:
  void Committed() override { ++commits; }
  void Committed(const Touched& touched) override {
    ++commits;
    freed.insert(touched.freed.begin(), touched.freed.end());
  }
  bool AreClaimsOver() const override { return claims_over; }
  Task<void> Announce(Touched touched) override {
    told.insert(touched.data.begin(), touched.data.end());
    co_return;
  }
  void Fail(Error error) override { failed = std::move(error); }
  bool HasFailed() const override { return !failed.ok(); }

  int commits = 0;
  std::set<StripeId> freed;
  std::set<InodeId> told;
  bool claims_over = true;
  Error failed;
};

// Nodes 1.. with one disk each (of the same number), all heard; every test ends with fsck.
class KeeperTest : public testing::Test {
 protected:
  explicit KeeperTest(uint32_t nodes = 6) : ex(1), media(std::make_shared<MemKvMedia>(kFamilies)) {
    store = RunSim(ex, MetaStore::Open(std::make_unique<MemKv>(media))).value();
    FormatParams params{Uuid{1, 2}, Uuid{3, 4}, Layout(), 1000};
    {
      Txn txn(*store);
      CHECK(FormatStore(txn, params).ok() && txn.Commit().ok());
    }
    Sync();
    for (uint32_t n = 1; n <= nodes; ++n) AddNode();
    key.id = 1;
    key.secret.fill(0x5a);
    signer = std::make_unique<TokenSigner>(key);
    tokens = std::make_unique<TokenMint>(signer.get(), key, 3600 * kSecond);
    tokens->Begin(&ex);
    ctx.session = SessionId(7);
    ctx.now_ns = 5000;
    ctx.touched = &touched;
  }
  ~KeeperTest() override {
    scope.CancelAll();
    const auto checked = CheckStore(store->kv());
    EXPECT_TRUE(checked.ok());
    for (const std::string& problem : checked.value().problems) ADD_FAILURE() << problem;
  }

  KeeperEnv Env() {
    KeeperEnv env;
    env.executor = &ex;
    env.store = store.get();
    env.cluster = &cluster;
    env.tokens = tokens.get();
    env.seeds = &seeds;
    env.host = &host;
    env.work = &wake;
    env.scope = &scope;
    return env;
  }
  NodeId AddNode() {
    const uint32_t n = ++nodes_;
    RegisterNodeRequest r;
    r.uuid = Uuid{500, n};
    r.name = "n" + std::to_string(n);
    r.address = r.name + ":7001";
    DiskHello d;
    d.uuid = Uuid{1000, n};
    d.label = "d1";
    d.capacity_bytes = 1000 * kGiB;
    d.free_bytes = 900 * kGiB;
    r.disks = {d};
    CHECK(cluster.Register(r, ex.NowNs(), ex.WallNs(), [&] { return NodeId(n); }, [&] { return TargetId(n); }).ok());
    return NodeId(n);
  }
  void Sync() { CHECK(RunSim(ex, store->Sync()).ok()); }
  // Runs an operation in a transaction of its own.
  template <class F>
  auto Do(F fn) {
    touched = Touched();
    Txn txn(*store);
    auto result = fn(txn);
    EXPECT_TRUE(result.ok()) << result.error();
    EXPECT_TRUE(txn.Commit().ok());
    return result;
  }
  // Goes on with the keeper as Upkeep does.
  void Ask(Keeper& keeper) {
    EXPECT_TRUE(RunSim(ex, keeper.Scan()).ok());
    EXPECT_TRUE(RunSim(ex, keeper.PlanSome()).ok());
  }
  NodeWork WorkFor(Keeper& keeper, uint32_t node, uint32_t slots = 4) {
    NodeWork work;
    EXPECT_TRUE(keeper.WorkFor({TargetId(node)}, slots, &work).ok());
    return work;
  }
  static RebuildResult Made(const RebuildWork& w) {
    RebuildResult r;
    r.task = w.task;
    r.length = w.stripe.info.columns[w.column].length;
    r.digest = TestDigest(w.new_shard, r.length);
    r.table = TestTable(w.new_shard, r.length);
    return r;
  }
  // A file with one stripe of `bytes`, a column on each of `targets`. `layout` is what it should be.
  StripeInfo WriteStripe(const Layout& layout, uint8_t k, uint8_t m, const std::vector<uint32_t>& targets, uint64_t bytes,
                         bool narrow = false, bool crowded = false) {
    MakeNodeRequest make;
    make.parent = kRootInode;
    make.name = "f" + std::to_string(++files_);
    make.mode = 0644;
    ino = Do([&](Txn& t) { return OpMakeNode(t, ctx, make); }).value().node.attr.ino;
    NewStripe s;
    s.shape.k = k;
    s.shape.m = m;
    s.shape.groups = layout.groups;
    s.shape.codec = DefaultCodec(k, m);
    s.shape.unit_bytes = layout.unit_bytes;
    if (layout.arrangement == Arrangement::kGathered) s.shape.column_bytes = std::vector<uint64_t>(k);
    s.narrow = narrow;
    s.crowded = crowded;
    for (const uint32_t t : targets) s.targets.push_back(TargetId(t));
    StripeInfo info = Do([&](Txn& t) { return OpAllocate(t, ctx, ino, layout, {s}); }).value()[0];
    info.shape.payload_bytes = bytes;
    if (info.shape.gathered()) info.shape.column_bytes = {bytes};
    for (uint16_t i = 0; i < info.columns.size(); ++i) {
      Column& c = info.columns[i];
      c.length = ColumnBytes(info.shape, ColumnIndex(i));
      c.digest = TestDigest(c.shard, c.length);
    }
    CommitRequest r;
    r.ino = ino;
    r.stripes = {info};
    r.extents = {{.file_offset = 0, .length = bytes, .stripe = info.id}};
    EXPECT_TRUE(Do([&](Txn& t) { return OpCommit(t, ctx, r); }).ok());
    return info;
  }
  static Layout Raid(uint8_t k, uint8_t m) {
    Layout l;
    l.k = k;
    l.m = m;
    l.codec = DefaultCodec(k, m);
    l.unit_bytes = kDefaultUnitBytes;
    l.stripe_bytes = uint64_t{k} * kMiB;
    return l;
  }
  std::optional<StripeRecord> Record(StripeId id) {
    Txn txn(*store);
    return GetStripeRecord(txn, id).value();
  }

  SimExecutor ex;
  std::shared_ptr<MemKvMedia> media;
  std::unique_ptr<MetaStore> store;
  ClusterState cluster{ClusterOptions(), Uuid{1, 2}, 1};
  ClusterKey key;
  std::unique_ptr<TokenSigner> signer;
  std::unique_ptr<TokenMint> tokens;
  PlaceSeeds seeds;
  TestHost host;
  Event wake;
  TaskScope scope;
  OpCtx ctx;
  Touched touched;
  InodeId ino;  // of the last WriteStripe

 private:
  uint32_t nodes_ = 0;
  int files_ = 0;
};

}  // namespace stria
