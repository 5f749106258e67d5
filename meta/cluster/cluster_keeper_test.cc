// The keeper of the cluster on a store, without a metadata server.
#include "meta/cluster/cluster_keeper.h"

#include "meta/core/core_testing.h"

namespace stria {
namespace {

class ClusterKeeperTest : public CoreTest, public ClusterHost {
 protected:
  void MapChanged() override { ++changes; }
  void Moved(Txn&, const std::set<TargetId>& targets) override { moved.insert(targets.begin(), targets.end()); }
  void Restarted(const std::set<TargetId>& here) override { restarted.insert(here.begin(), here.end()); }

  void Begin() {
    keeper = std::make_unique<ClusterKeeper>(core.get(), this, ClusterOptions());
    Start([&](Txn& txn) { return keeper->Load(txn); });
    keeper->Begin();
  }
  void Restart() {
    keeper.reset();
    Make();
    Begin();
  }
  RegisterNodeReply Register(uint32_t n, uint32_t disk = 0, uint64_t incarnation = 0) {
    return RunSim(ex, keeper->Register(Hello(n, disk, incarnation))).value();
  }
  static RegisterNodeRequest Hello(uint32_t n, uint32_t disk = 0, uint64_t incarnation = 0) {
    RegisterNodeRequest r;
    r.uuid = Uuid{500, n};
    r.name = "n" + std::to_string(n);
    r.address = r.name + ":7001";
    r.incarnation = incarnation;
    r.disks = {Disk(disk == 0 ? n : disk)};
    return r;
  }
  static DiskHello Disk(uint32_t n) {
    DiskHello d;
    d.uuid = Uuid{1000, n};
    d.label = "d1";
    d.capacity_bytes = 1000 * kGiB;
    d.free_bytes = 900 * kGiB;
    return d;
  }
  Result<std::vector<TargetId>> Beat(const RegisterNodeReply& node, uint32_t n, HeartbeatReply* reply) {
    HeartbeatRequest r;
    r.node = node.node;
    r.epoch = node.epoch;
    r.disks = {Disk(n)};
    return keeper->TakeBeat(r, reply);
  }
  // A stripe with a shard on each target becomes garbage. Gives the shards.
  std::vector<ShardId> MakeGarbage(const std::vector<TargetId>& targets) {
    OpCtx ctx;
    ctx.session = SessionId(7);
    ctx.touched = &touched;
    MakeNodeRequest make;
    make.parent = kRootInode;
    make.name = "f";
    make.mode = 0644;
    const InodeId ino = Do([&](Txn& t) { return OpMakeNode(t, ctx, make); }).value().node.attr.ino;
    Layout layout;
    layout.k = static_cast<uint8_t>(targets.size());
    layout.m = 0;
    layout.codec = Codec::kNone;
    layout.stripe_bytes = targets.size() * kMiB;
    NewStripe s;
    s.shape.k = layout.k;
    s.shape.unit_bytes = layout.unit_bytes;
    s.targets = targets;
    const StripeInfo info = Do([&](Txn& t) { return OpAllocate(t, ctx, ino, layout, {s}); }).value()[0];
    (void)Do([&](Txn& t) { return OpFreeStripe(t, info.id, &touched); });
    CHECK(RunSim(ex, core->Sync()).ok());
    std::vector<ShardId> shards;
    for (const Column& c : info.columns) shards.push_back(c.shard);
    return shards;
  }
  GarbageUpTo All() const { return {CommitSeq(UINT64_MAX), core->store().durable_seq(), core->started_seq()}; }

  std::unique_ptr<ClusterKeeper> keeper;
  int changes = 0;
  std::set<TargetId> moved, restarted;
};

TEST_F(ClusterKeeperTest, ANodeKeepsItsNumbersOverARestart) {
  Begin();
  const RegisterNodeReply first = Register(1);
  ASSERT_EQ(first.targets.size(), 1u);
  EXPECT_EQ(changes, 1);
  EXPECT_EQ(restarted, std::set<TargetId>{first.targets[0]});
  const uint64_t version = keeper->state().version();
  Restart();
  EXPECT_GT(keeper->state().version(), version);
  EXPECT_TRUE(keeper->state().AwaitsFirstBeats());
  const RegisterNodeReply again = Register(1);
  EXPECT_EQ(again.node, first.node);
  EXPECT_EQ(again.targets, first.targets);
  EXPECT_NE(again.epoch, first.epoch);
  EXPECT_FALSE(keeper->state().AwaitsFirstBeats());
}

TEST_F(ClusterKeeperTest, ABeatSaysWhichDisksWorkAndAnUnknownNodeRegistersAgain) {
  Begin();
  const RegisterNodeReply node = Register(1);
  HeartbeatReply reply;
  EXPECT_EQ(Beat(node, 1, &reply).value(), node.targets);
  EXPECT_FALSE(reply.register_again);
  EXPECT_EQ(reply.term, core->term());
  EXPECT_EQ(reply.map_version, keeper->state().version());
  RegisterNodeReply other = node;
  other.node = NodeId(99);
  HeartbeatReply unknown;
  EXPECT_TRUE(Beat(other, 1, &unknown).value().empty());
  EXPECT_TRUE(unknown.register_again);
  // A newer registration of the same node.
  Register(1);
  EXPECT_EQ(Beat(node, 1, &reply).code(), FsError::kFenced);
}

TEST_F(ClusterKeeperTest, AnOldCopyOfTheMetadataRefusesNodesThatSawANewerOne) {
  Begin();
  const uint64_t own = core->store().super()->incarnation;
  EXPECT_EQ(RunSim(ex, keeper->Register(Hello(1, 0, own + 1))).code(), FsError::kWrongCluster);
  EXPECT_TRUE(keeper->state().Map().nodes.empty());
}

TEST_F(ClusterKeeperTest, ANodeThatIsNotHeardAnyMoreIsTold) {
  Begin();
  Register(1);
  ex.RunFor(60 * kSecond);
  changes = 0;
  keeper->Tick();
  keeper->Tick();
  EXPECT_GE(changes, 1);
  EXPECT_EQ(keeper->state().Map().nodes[0].state, NodeState::kDown);
}

TEST_F(ClusterKeeperTest, GarbageIsDeletedByItsOwnNodeAndWhenNobodyNeedsIt) {
  Begin();
  const RegisterNodeReply one = Register(1), two = Register(2);
  const std::vector<ShardId> shards = MakeGarbage({one.targets[0], two.targets[0]});
  ASSERT_EQ(core->store().Count(Counter::kGarbageShards), 2u);
  GarbageUpTo none = All();
  none.acked = none.durable = CommitSeq(1);
  EXPECT_TRUE(keeper->DeletesFor(one.targets, none, 0).value().empty());
  const auto work = keeper->DeletesFor(one.targets, All(), 0).value();
  ASSERT_EQ(work.size(), 1u);
  EXPECT_EQ(work[0].shard, shards[0]);
  EXPECT_FALSE(work[0].token.empty());
  // Another node's word is nothing; nor is a report of what was not handed out.
  ASSERT_TRUE(keeper->TakeDeleted(two.node, shards).ok());
  EXPECT_EQ(core->store().Count(Counter::kGarbageShards), 2u);
  ASSERT_TRUE(keeper->TakeDeleted(one.node, shards).ok());
  EXPECT_EQ(core->store().Count(Counter::kGarbageShards), 1u);
  // A disk that leaves needs nobody.
  keeper->SetTargetState(two.targets[0], TargetState::kRemoved);
  ASSERT_TRUE(keeper->Publish().ok());
  ASSERT_TRUE(RunSim(ex, keeper->DropGarbage(two.targets[0])).ok());
  EXPECT_EQ(core->store().Count(Counter::kGarbageShards), 0u);
}

}  // namespace
}  // namespace stria
