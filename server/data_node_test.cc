#include "server/data_node.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "server/fake_admin.h"
#include "server/fake_meta.h"
#include "server/node_testing.h"
#include "server/term_file.h"

namespace stria {
namespace {

// Disks that outlive the node on them.
struct SimMachine {
  explicit SimMachine(SimExecutor& executor) : ex(executor), nodes(executor, 1, 0), connector(&nodes) {}

  void AddDisk(uint64_t seed) {
    disk_media.push_back(std::make_shared<SimDiskMedia>(seed));
    kv_media.push_back(std::make_shared<MemKvMedia>(kIndexFamilies));
    uuids.push_back(Uuid{77, seed});
  }
  Result<void> Start(MetaConnector* meta) {
    std::vector<DataNodeDisk> list;
    for (size_t i = 0; i < disk_media.size(); ++i) {
      disks.push_back(std::make_unique<SimDisk>(disk_media[i]));
      kvs.push_back(std::make_unique<MemKv>(kv_media[i]));
      DiskSetup setup;
      setup.where = "disk " + std::to_string(i);
      setup.label = "d" + std::to_string(i);
      setup.new_uuid = [this, i] { return uuids[i]; };
      DataNodeDisk d;
      d.disk = disks[i].get();
      d.kv = kvs[i].get();
      d.index_pool = &pool;
      d.where = setup.where;
      d.label = setup.label;
      if (unmounted.contains(i)) {
        d.disk = nullptr;
        d.kv = nullptr;
        d.is_new = true;
        d.problem = Error(FsError::kNoEnt, d.where + " is empty");
        list.push_back(std::move(d));
        continue;
      }
      d.superblock = RunSim(ex, OpenSuperblock(d.disk, setup)).value();
      if (broken.contains(i)) {
        d.kv = nullptr;
        d.problem = Error(FsError::kCorrupt, d.where + " has no usable index");
      }
      list.push_back(std::move(d));
    }
    DataNodeOptions options;
    options.name = name;
    options.address = "node1";
    options.meta_addresses = {"m1", "m2"};
    options.keys = {TestKey()};
    options.new_node = Uuid{5, ++node_uuids};
    Result<std::unique_ptr<DataNode>> opened =
        RunSim(ex, DataNode::Open(std::move(list), {meta, &connector, &pool, &admin}, std::move(options)));
    if (!opened.ok()) return opened.error();
    node = std::move(*opened);
    node->Start();
    return Ok();
  }
  void Crash(Random& rng) {
    node.reset();
    disks.clear();
    kvs.clear();
    for (auto& m : disk_media) m->Crash(rng);
    for (auto& m : kv_media) m->Crash(rng, true);
  }

  SimExecutor& ex;
  InlinePool pool;
  SimNodes nodes;  // for tokens
  SimConnector connector;
  std::vector<std::shared_ptr<SimDiskMedia>> disk_media;
  std::vector<std::shared_ptr<MemKvMedia>> kv_media;
  std::vector<Uuid> uuids;
  std::vector<std::unique_ptr<SimDisk>> disks;
  std::vector<std::unique_ptr<MemKv>> kvs;
  std::unique_ptr<DataNode> node;
  uint64_t node_uuids = 0;
  std::string name = "n1";
  FakeAdmin admin;
  std::set<size_t> broken;  // disks that cannot be used
  std::set<size_t> unmounted;  // disks whose directory is empty
};

// No server answers there.
class NoMeta final : public MetaConnector {
 public:
  NoMeta() : meta_({}) {}
  std::shared_ptr<MetaService> Connect(const std::string&) override {
    meta_.away = true;
    return {std::shared_ptr<void>(), &meta_};
  }

 private:
  FakeMetaService meta_;
};

ClusterMap TestMap() {
  ClusterMap map;
  map.version = 1;
  map.cluster = kTestCluster;
  map.incarnation = kTestIncarnation;
  return map;
}

// Two disks, and a metadata server in its seventh life, which the node has heard.
class DataNodeOfALifeTest : public testing::Test {
 protected:
  DataNodeOfALifeTest() {
    machine_.AddDisk(1);
    machine_.AddDisk(2);
    meta_.map.term = 7;
    meta_.map.term_proof = 70;
  }
  void SetUp() override {
    ASSERT_TRUE(machine_.Start(&connector_).ok());
    ex_.RunFor(3 * kSecond);
    ASSERT_TRUE(machine_.node->agent().registered());
  }

  SimExecutor ex_{1};
  SimMachine machine_{ex_};
  FakeMetaService meta_{TestMap()};
  FakeMetaConnector connector_{&meta_};
};

TEST_F(DataNodeOfALifeTest, ARestartDoesNotForgetWhichLifeWasHeard) {
  Random rng(3);
  for (const bool one_disk : {false, true}) {
    machine_.Crash(rng);
    if (one_disk) machine_.broken = {0};
    meta_.map.term = 6;
    meta_.believes = {7, 70};
    ASSERT_TRUE(machine_.Start(&connector_).ok());
    EXPECT_EQ(machine_.node->server().terms().ToAsk().said, (SaidTerm{7, 70}));
    ex_.RunFor(10 * kSecond);
    EXPECT_FALSE(machine_.node->agent().registered()) << "an old copy of the metadata is served there";
    meta_.map.term = 7;
    meta_.believes = {};
    ex_.RunFor(5 * kSecond);
    EXPECT_TRUE(machine_.node->agent().registered());
  }
}

// Somebody has put a disk in that says more than there has been. It must not make the node deaf, nor forget what the others say.
TEST_F(DataNodeOfALifeTest, ALifeThatOnlyADiskKnowsIsNotBelieved) {
  ASSERT_TRUE(RunSim(ex_, WriteTerms(machine_.disks[1].get(), {{UINT64_MAX, 1}, {}})).ok());
  Random rng(3);
  machine_.Crash(rng);
  NoMeta nobody;
  ASSERT_TRUE(machine_.Start(&nobody).ok());
  ex_.RunFor(5 * kSecond);
  EXPECT_EQ(RunSim(ex_, ReadTerms(machine_.disks[0].get())).value().known, (SaidTerm{7, 70}));
  machine_.Crash(rng);
  ASSERT_TRUE(machine_.Start(&connector_).ok());
  ex_.RunFor(10 * kSecond);
  EXPECT_TRUE(machine_.node->agent().registered());
  EXPECT_EQ(machine_.node->server().terms().Highest(), 7u);
  EXPECT_EQ(RunSim(ex_, ReadTerms(machine_.disks[1].get())).value(), (HeardTerms::Kept{{7, 70}, {}}));
}

TEST(DataNodeTest, RegistersAndServesAgainWithoutAMetadataServer) {
  SimExecutor ex(1);
  SimMachine machine(ex);
  machine.AddDisk(1);
  machine.AddDisk(2);
  FakeMetaService meta(TestMap());
  FakeMetaConnector connector(&meta);
  ASSERT_TRUE(machine.Start(&connector).ok());
  ReadRequest read;
  read.header.cluster = kTestCluster;
  read.header.incarnation = kTestIncarnation;
  read.items.push_back({ShardId(1), TargetId(2), machine.nodes.Token(ShardId(1), 2, kTokenRead), 0, 1000});
  EXPECT_EQ(RunSim(ex, machine.node->server().Read(read)).code(), FsError::kNotReady);
  ex.RunFor(3 * kSecond);
  EXPECT_TRUE(machine.node->agent().registered());
  const Uuid node = meta.hello.uuid;
  EXPECT_EQ(meta.hello.disks.at(1).uuid, machine.uuids[1]);
  ASSERT_TRUE(RunSim(ex, StoreWhole(machine.node->stores()[1].get(), ShardId(1), 1000)).ok());

  Random rng(3);
  machine.Crash(rng);
  NoMeta nobody;
  ASSERT_TRUE(machine.Start(&nobody).ok());
  ex.RunFor(3 * kSecond);
  EXPECT_FALSE(machine.node->agent().registered());
  const Result<ReadReply> reply = RunSim(ex, machine.node->server().Read(read));
  ASSERT_TRUE(reply.ok()) << reply.error();
  EXPECT_TRUE(Flat(reply->payload) == BytesOf(ShardId(1), 1000));

  machine.Crash(rng);
  ASSERT_TRUE(machine.Start(&connector).ok());
  ex.RunFor(3 * kSecond);
  EXPECT_EQ(meta.hello.uuid, node);
  EXPECT_EQ(meta.hello.disks.at(0).target, TargetId(1));
  EXPECT_EQ(meta.hello.incarnation, kTestIncarnation);
}

TEST(DataNodeTest, ADiskThatCannotBeUsedIsReportedAndTheOthersServe) {
  SimExecutor ex(1);
  SimMachine machine(ex);
  for (uint64_t seed : {1, 2, 3}) machine.AddDisk(seed);
  FakeMetaService meta(TestMap());
  FakeMetaConnector connector(&meta);
  ASSERT_TRUE(machine.Start(&connector).ok());
  ex.RunFor(3 * kSecond);
  for (size_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(RunSim(ex, StoreWhole(machine.node->stores()[i].get(), ShardId(i + 1), 1000)).ok());
    meta.known.insert(ShardId(i + 1));
  }
  Random rng(3);
  machine.Crash(rng);

  machine.broken = {1};
  machine.disk_media[2]->faults.fail_read_in = 2;  // after the superblock
  ASSERT_TRUE(machine.Start(&connector).ok());
  ex.RunFor(3 * kSecond);
  ASSERT_TRUE(machine.node->agent().registered());
  ASSERT_EQ(meta.beat.disks.size(), 3u);
  EXPECT_FALSE(meta.beat.disks[0].absent);
  EXPECT_TRUE(meta.beat.disks[1].absent);
  EXPECT_FALSE(meta.beat.disks[1].failed) << "it may be back soon";
  EXPECT_EQ(meta.beat.disks[1].uuid, machine.uuids[1]);
  EXPECT_EQ(meta.beat.disks[1].problem, "disk 1 has no usable index");
  EXPECT_TRUE(meta.beat.disks[2].absent);
  EXPECT_TRUE(meta.beat.disks[2].failed);
  EXPECT_NE(meta.beat.disks[2].problem.find("disk 2"), std::string::npos);
  const auto read = [&](uint64_t disk) {
    ReadRequest r;
    r.header.cluster = kTestCluster;
    r.header.incarnation = kTestIncarnation;
    const ShardId shard(disk + 1);
    const auto target = static_cast<uint32_t>(disk + 1);
    r.items.push_back({shard, TargetId(target), machine.nodes.Token(shard, target, kTokenRead), 0, 1000});
    return RunSim(ex, machine.node->server().Read(r)).value().items.at(0).result.code;
  };
  EXPECT_EQ(read(0), FsError::kOk);
  EXPECT_EQ(read(1), FsError::kNoSuchShard);

  // Its index is made again; one of its shards is gone.
  machine.admin.live[TargetId(2)] = {{ShardId(2), DigestOf(ShardId(2), BytesOf(ShardId(2), 1000))}, {ShardId(77), 1}};
  DataNodeDisk back;
  back.disk = machine.disks[1].get();
  back.kv = machine.kvs[1].get();
  back.index_pool = &machine.pool;
  back.superblock.own = machine.uuids[1];
  back.where = "disk 1";
  back.label = "d1";
  const int registrations = meta.registrations;
  ASSERT_TRUE(RunSim(ex, machine.node->Attach(1, back)).ok());
  EXPECT_EQ(read(1), FsError::kOk);
  ex.RunFor(5 * kSecond);
  EXPECT_EQ(meta.registrations, registrations + 1);
  EXPECT_FALSE(meta.beat.disks[1].absent);
  EXPECT_EQ(meta.beat.disks[1].problem, "");
  EXPECT_EQ(meta.bad, std::set<ShardId>{ShardId(77)}) << "reported without waiting for a scrub";
}

TEST(DataNodeTest, AnEmptyDirectoryIsNoNewDiskWhileTheClusterKnowsOneThere) {
  SimExecutor ex(1);
  SimMachine machine(ex);
  machine.AddDisk(1);
  machine.AddDisk(2);
  machine.unmounted = {1};
  FakeMetaService meta(TestMap());
  TargetInfo known;  // the last answer about the second disk
  known.id = TargetId(2);
  known.node = NodeId(1);
  known.disk_uuid = Uuid{8, 8};
  known.label = "d1";
  known.used_bytes = 3 * kMiB - 5;
  const auto become = [&](TargetState state, const std::string& label) {
    known.state = state;
    known.label = label;
    meta.map.targets = {known};
    ++meta.map.version;
  };
  meta.map.nodes.push_back(NodeInfo{NodeId(1), Uuid{5, 1}, "n1", "node1"});
  meta.map.targets = {known};
  FakeMetaConnector connector(&meta);
  ASSERT_TRUE(machine.Start(&connector).ok());
  EXPECT_FALSE(machine.node->PlaceIsFree(1)) << "nobody was asked yet";
  EXPECT_TRUE(meta.hello.disks.empty());
  ex.RunFor(3 * kSecond);
  EXPECT_FALSE(meta.hello.disks.at(1).uuid);
  EXPECT_TRUE(meta.hello.disks.at(1).absent);
  EXPECT_FALSE(machine.node->PlaceIsFree(1));
  ex.RunFor(2 * kSecond);
  EXPECT_EQ(meta.beat.disks.at(1).uuid, known.disk_uuid) << "it is the known one that is absent";
  EXPECT_EQ(meta.beat.disks[1].target, known.id);
  EXPECT_EQ(meta.beat.disks[1].problem,
            "disk 1 is empty, but the cluster knows n1:d1 in its place with 3 MiB of shards: mount it, and it is used at "
            "once; if there is a new disk in its place, give the old one up with `stria disk out n1:d1`");
  EXPECT_NE(machine.node->stores()[0], nullptr);
  for (const TargetState held : {TargetState::kDraining, TargetState::kFailed}) {
    become(held, "d1");
    ex.RunFor(2 * kSecond);
    EXPECT_FALSE(machine.node->PlaceIsFree(1));
  }
  become(TargetState::kUp, "d1-2");  // came when the label was not free
  ex.RunFor(2 * kSecond);
  EXPECT_FALSE(machine.node->PlaceIsFree(1));
  become(TargetState::kUp, "d1-2b");
  ex.RunFor(2 * kSecond);
  EXPECT_TRUE(machine.node->PlaceIsFree(1));
  become(TargetState::kOut, "d1");
  ex.RunFor(2 * kSecond);
  ASSERT_TRUE(machine.node->PlaceIsFree(1));

  DiskSetup setup;
  setup.where = "disk 1";
  setup.label = "d1";
  setup.new_uuid = [&] { return machine.uuids[1]; };
  DataNodeDisk made;
  made.disk = machine.disks[1].get();
  made.kv = machine.kvs[1].get();
  made.index_pool = &machine.pool;
  made.superblock = RunSim(ex, OpenSuperblock(made.disk, setup)).value();
  made.where = "disk 1";
  made.label = "d1";
  ASSERT_TRUE(RunSim(ex, machine.node->Attach(1, made)).ok());
  ex.RunFor(5 * kSecond);
  EXPECT_EQ(meta.hello.disks.at(1).uuid, machine.uuids[1]);
  EXPECT_FALSE(meta.hello.disks[1].target) << "it is not the former one";
  EXPECT_FALSE(meta.beat.disks.at(1).absent);
}

TEST(DataNodeTest, AfterARestoreOfTheMetadataEveryDiskIsComparedWithIt) {
  SimExecutor ex(1);
  SimMachine machine(ex);
  machine.AddDisk(1);
  machine.AddDisk(2);
  FakeMetaService meta(TestMap());
  FakeMetaConnector connector(&meta);
  ASSERT_TRUE(machine.Start(&connector).ok());
  ex.RunFor(3 * kSecond);
  machine.admin.live[TargetId(1)] = {{ShardId(76), 1}};
  machine.admin.live[TargetId(2)] = {{ShardId(77), 1}};
  ex.RunFor(10 * kSecond);
  EXPECT_TRUE(meta.bad.empty()) << "no scrub is due";
  ++meta.map.incarnation;
  ++meta.map.version;
  ex.RunFor(10 * kSecond);
  EXPECT_EQ(meta.bad, (std::set<ShardId>{ShardId(76), ShardId(77)}));
  EXPECT_EQ(machine.node->server().incarnation(), kTestIncarnation + 1);
}

TEST(DataNodeTest, WhatTheMetadataKnowsIsProved) {
  SimExecutor ex(1);
  SimMachine machine(ex);
  machine.AddDisk(1);
  FakeMetaService meta(TestMap());
  FakeMetaConnector connector(&meta);
  machine.admin.away = true;
  ASSERT_TRUE(machine.Start(&connector).ok());
  machine.admin.live[TargetId(1)] = {{ShardId(1), 11}, {ShardId(2), 12}};
  std::vector<UnprovedShard> shards(3);
  for (uint64_t i = 0; i < 3; ++i) {
    shards[i].shard = ShardId(i + 1);
    shards[i].record.digest = i == 1 ? 99 : 11;
  }
  std::optional<std::vector<UnprovedShard>> proved;
  TaskScope scope;
  scope.Spawn([](DataNode* node, std::vector<UnprovedShard> all,
                 std::optional<std::vector<UnprovedShard>>* out) -> Task<void> {
    *out = co_await node->Prove(0, std::move(all));
  }(machine.node.get(), std::move(shards), &proved));
  ex.RunFor(20 * kSecond);
  EXPECT_FALSE(proved.has_value()) << "nobody can be asked";
  machine.admin.away = false;
  ex.RunFor(20 * kSecond);
  ASSERT_TRUE(proved.has_value());
  ASSERT_EQ(proved->size(), 1u);
  EXPECT_EQ(proved->front().shard, ShardId(1));
}

TEST(DataNodeTest, ADiskCarriedToAnotherNodeIsTakenAlong) {
  SimExecutor ex(1);
  FakeMetaService meta(TestMap());
  FakeMetaConnector connector(&meta);
  SimMachine one(ex), two(ex), fresh(ex);
  two.name = "n2";
  fresh.name = "n3";
  Random rng(3);
  for (SimMachine* m : {&one, &two}) {
    m->node_uuids = m == &one ? 100 : 200;
    m->AddDisk(m->node_uuids + 1);
    m->AddDisk(m->node_uuids + 2);
    ASSERT_TRUE(m->Start(&connector).ok());
    ex.RunFor(3 * kSecond);
    m->Crash(rng);
  }
  for (SimMachine* to : {&two, &fresh}) {
    SimMachine& from = to == &two ? one : two;
    to->disk_media.insert(to->disk_media.begin(), from.disk_media[0]);
    to->kv_media.insert(to->kv_media.begin(), from.kv_media[0]);
    to->uuids.insert(to->uuids.begin(), from.uuids[0]);
    from.disk_media.erase(from.disk_media.begin());
    from.kv_media.erase(from.kv_media.begin());
    to->node_uuids = 300;
    ASSERT_TRUE(to->Start(&connector).ok());
    ex.RunFor(3 * kSecond);
    // n2 is the same as before; n3 is new although its only disk was another's.
    EXPECT_EQ(meta.hello.uuid, (Uuid{5, to == &two ? 201u : 301u}));
    EXPECT_EQ(meta.hello.disks.at(0).uuid, to->uuids[0]);
    EXPECT_EQ(meta.hello.disks.at(0).label, "d0") << "of its new slot";
    EXPECT_EQ(meta.hello.disks.at(0).proof, "of disk " + std::to_string(to->uuids[0].lo)) << "that its former node has left on it";
    to->Crash(rng);
  }
}

TEST(DataNodeTest, DisksOfOthersAreRefused) {
  SimExecutor ex(1);
  FakeMetaService meta(TestMap());
  FakeMetaConnector connector(&meta);
  SimMachine one(ex), two(ex);
  Random rng(3);
  for (SimMachine* m : {&one, &two}) {
    m->node_uuids = m == &one ? 100 : 200;
    m->AddDisk(m->node_uuids + 1);
    m->AddDisk(m->node_uuids + 2);
    ASSERT_TRUE(m->Start(&connector).ok());
    ex.RunFor(3 * kSecond);
    m->Crash(rng);
  }
  // A metadata server of another cluster.
  FakeMetaService other(TestMap());
  other.map.cluster = Uuid{9, 9};
  FakeMetaConnector other_connector(&other);
  ASSERT_TRUE(one.Start(&other_connector).ok());
  ex.RunFor(3 * kSecond);
  EXPECT_FALSE(one.node->agent().registered());
}

}  // namespace
}  // namespace stria
