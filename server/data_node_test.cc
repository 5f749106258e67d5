#include "server/data_node.h"

#include <gtest/gtest.h>

#include "server/fake_meta.h"
#include "server/node_testing.h"

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
      d.superblock = RunSim(ex, OpenSuperblock(d.disk, setup)).value();
      d.where = setup.where;
      list.push_back(std::move(d));
    }
    DataNodeOptions options;
    options.name = "n1";
    options.address = "node1";
    options.meta_addresses = {"m1", "m2"};
    options.keys = {TestKey()};
    options.new_node = Uuid{5, ++node_uuids};
    Result<std::unique_ptr<DataNode>> opened =
        RunSim(ex, DataNode::Open(std::move(list), {meta, &connector, &pool}, std::move(options)));
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
};

// Nobody is there.
class NoMeta final : public MetaConnector {
 public:
  NoMeta() : meta_({}) {}
  std::shared_ptr<MetaService> Connect(const std::string&) override {
    meta_.away = true;
    return {std::shared_ptr<void>(), &meta_};
  }

 private:
  FakeMeta meta_;
};

ClusterMap TestMap() {
  ClusterMap map;
  map.version = 1;
  map.cluster = kTestCluster;
  map.incarnation = kTestIncarnation;
  return map;
}

TEST(DataNodeTest, RegistersAndServesAgainWithoutAMetadataServer) {
  SimExecutor ex(1);
  SimMachine machine(ex);
  machine.AddDisk(1);
  machine.AddDisk(2);
  FakeMeta meta(TestMap());
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

TEST(DataNodeTest, DisksOfOthersAreRefused) {
  SimExecutor ex(1);
  FakeMeta meta(TestMap());
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
  std::swap(one.disk_media[1], two.disk_media[1]);
  std::swap(one.kv_media[1], two.kv_media[1]);
  EXPECT_EQ(one.Start(&connector).code(), FsError::kInval);

  // A metadata server of another cluster.
  std::swap(one.disk_media[1], two.disk_media[1]);
  std::swap(one.kv_media[1], two.kv_media[1]);
  one.Crash(rng);
  FakeMeta other(TestMap());
  other.map.cluster = Uuid{9, 9};
  FakeMetaConnector other_connector(&other);
  ASSERT_TRUE(one.Start(&other_connector).ok());
  ex.RunFor(3 * kSecond);
  EXPECT_FALSE(one.node->agent().registered());
}

}  // namespace
}  // namespace stria
