#include "server/agent.h"

#include <gtest/gtest.h>

#include "server/fake_meta.h"
#include "server/node_testing.h"

namespace stria {
namespace {

class AgentTest : public ::testing::Test {
 protected:
  AgentTest()
      : ex_(1),
        nodes_(ex_, 9, 4),
        meta_(nodes_.map),
        meta_connector_(&meta_),
        link_(&meta_connector_, {"meta"}),
        connector_(&nodes_) {}

  void Start() {
    AgentDisk disk;
    disk.store = nodes_.store(1);
    disk.uuid = Uuid{7, 9};
    disk.label = "d1";
    AgentOptions options;
    options.cluster = kTestCluster;
    options.node = Uuid{1, 1};
    options.name = "n1";
    options.address = "node1";
    options.proof = nodes_.signer.ProveNode(options.node, options.name);
    options.scrub_options.first_after_ns = 600 * kSecond;
    options.sweep_period_ns = 60 * kSecond;
    options.quarantine_hold_ns = 24 * 60 * kSecond;
    agent_ = std::make_unique<Agent>(&link_, &connector_, nodes_.nodes.at(1).server.get(), &nodes_.verifier,
                                     &codecs_, &pool_, std::vector<AgentDisk>{disk}, options);
    agent_->Start();
  }
  void Put(size_t node, uint64_t id, uint64_t length) {
    ASSERT_TRUE(RunSim(ex_, StoreWhole(nodes_.store(node), ShardId(id), length)).ok());
  }
  bool Has(size_t node, uint64_t id) {
    return RunSim(ex_, nodes_.store(node)->index().Get(ShardId(id))).value() != nullptr;
  }

  SimExecutor ex_;
  SimNodes nodes_;
  FakeMetaService meta_;
  FakeMetaConnector meta_connector_;
  MetaLink link_;
  SimConnector connector_;
  CodecSet codecs_;
  InlinePool pool_;
  std::unique_ptr<Agent> agent_;
};

TEST_F(AgentTest, RegistersBeatsAndRegistersAgainWhenFenced) {
  Put(1, 5, 100'000);
  Start();
  ex_.RunFor(5 * kSecond + kSecond / 2);
  EXPECT_TRUE(agent_->registered());
  EXPECT_EQ(meta_.registrations, 1);
  EXPECT_GE(meta_.beats, 5);
  EXPECT_LE(meta_.beats, 7);
  EXPECT_TRUE(nodes_.verifier.cluster().CheckNode(meta_.hello.proof, meta_.hello.uuid, meta_.hello.name).ok());
  EXPECT_EQ(meta_.beat.disks.at(0).used_bytes, 100'000u);
  EXPECT_EQ(meta_.beat.disks[0].target, TargetId(1));
  EXPECT_EQ(meta_.beat.rebuild_slots, kMaxRebuilds);
  ++meta_.epoch;
  ex_.RunFor(3 * kSecond);
  EXPECT_EQ(meta_.registrations, 2);
}

// The node goes on with what it had, whether the new place is empty or not; and the reason is told.
TEST_F(AgentTest, ARegistrationThatIsRefusedForANewDiskStopsNoBeats) {
  Start();
  ex_.RunFor(3 * kSecond);
  ASSERT_TRUE(agent_->registered());
  meta_.refused_label = "d2";
  const auto goes_on = [&] {
    const int before = meta_.beats;
    ex_.RunFor(10 * kSecond);
    EXPECT_TRUE(agent_->registered());
    EXPECT_GT(meta_.beats, before + 5);
    ASSERT_EQ(meta_.beat.disks.size(), 2u);
    EXPECT_FALSE(meta_.beat.disks[0].absent);
    EXPECT_EQ(meta_.beat.disks[0].target, TargetId(1));
    EXPECT_TRUE(meta_.beat.disks[1].absent);
    EXPECT_NE(meta_.beat.disks[1].problem.find("as many disks as it can have"), std::string::npos) << meta_.beat.disks[1].problem;
    EXPECT_EQ(meta_.hello.disks.size(), 1u);
  };
  AgentDisk place;
  place.label = "d2";
  place.problem = "nothing is there yet";
  agent_->AddDisk(place);
  goes_on();
  agent_->Attach(1, nodes_.store(2), Uuid{7, 10});
  goes_on();
  // Fenced meanwhile, it registers without it as well.
  ++meta_.epoch;
  goes_on();
  meta_.refused_label = "";
  ex_.RunFor(kTryHeldBackNs + 10 * kSecond);
  EXPECT_EQ(meta_.hello.disks.size(), 2u);
  ASSERT_EQ(meta_.beat.disks.size(), 2u);
  EXPECT_FALSE(meta_.beat.disks[1].absent);
  EXPECT_EQ(meta_.beat.disks[1].problem, "");
  EXPECT_EQ(meta_.beat.disks[1].target, TargetId(2));
}

TEST_F(AgentTest, DeletesAreDoneAndReportedOnce) {
  for (uint64_t id = 1; id <= 50; ++id) {
    Put(1, id, 1000 * id);
    meta_.deletes[ShardId(id)] = {ShardId(id), TargetId(1), nodes_.Token(ShardId(id), 1, kTokenDelete)};
  }
  meta_.deletes[ShardId(99)] = {ShardId(99), TargetId(1),
                                nodes_.Token(ShardId(99), 1, kTokenDelete)};  // not there
  Put(1, 60, 10);
  meta_.deletes[ShardId(60)] = {ShardId(60), TargetId(1), "forged"};
  meta_.lose_reports = 1;
  Start();
  ex_.RunFor(5 * kSecond);
  EXPECT_EQ(meta_.deletes.size(), 1u);
  EXPECT_TRUE(Has(1, 60));
  for (uint64_t id = 1; id <= 50; ++id) EXPECT_FALSE(Has(1, id));
}

TEST_F(AgentTest, RebuildsAreDoneAndReported) {
  constexpr uint64_t kLength = 700'000;
  for (uint64_t i = 0; i < 6; ++i) {  // mirrored stripes with one copy left, on node 2
    const ShardId lost(100 + i), left(200 + i);
    const std::string bytes = BytesOf(left, kLength);
    Put(2, left.v, kLength);
    RebuildWork w;
    w.task = i + 1;
    w.stripe.info.id = StripeId(i + 1);
    w.stripe.info.shape.m = 1;
    w.stripe.info.shape.codec = Codec::kCopy;
    w.stripe.info.shape.payload_bytes = kLength;
    w.stripe.info.columns = {Column{lost, TargetId(3), kLength, DigestOf(lost, bytes)},
                             Column{left, TargetId(2), kLength, DigestOf(left, bytes)}};
    w.stripe.tokens = {"", nodes_.Token(left, 2, kTokenRead)};
    w.lost = {0};
    w.new_shard = ShardId(300 + i);
    w.new_target = TargetId(1);
    w.write_token = i == 5 ? "forged" : nodes_.Token(w.new_shard, 1, kTokenWrite);
    meta_.rebuilds[w.task] = w;
  }
  meta_.lose_reports = 2;
  Start();
  ex_.RunFor(20 * kSecond);
  EXPECT_TRUE(meta_.rebuilds.empty());
  ASSERT_EQ(meta_.rebuilt.size(), 6u);
  for (const RebuildResult& r : meta_.rebuilt) {
    if (r.task == 6) {
      EXPECT_EQ(r.result.code, FsError::kBadToken);
      continue;
    }
    EXPECT_EQ(r.result.code, FsError::kOk) << r.result.message;
    EXPECT_EQ(r.digest, DigestOf(ShardId(299 + r.task), BytesOf(ShardId(199 + r.task), kLength)));
    EXPECT_EQ(r.bytes_read, kLength);
  }
}

TEST_F(AgentTest, LooksAtShardsThatAReaderCouldNotUse) {
  constexpr uint64_t kLength = 500'000;
  for (uint64_t id : {1, 2, 3, 5}) {
    Put(1, id, kLength);
    meta_.known.insert(ShardId(id));
  }
  nodes_.nodes.at(1).sim->disk_media->FlipBit(RawShardName(ShardId(2)), 123'456, 5);
  const auto ask = [&](uint64_t id, TargetId target, uint64_t wrong = 0) {
    const ShardId shard(id);
    meta_.checks[shard] = {shard, target, DigestOf(shard, BytesOf(shard, kLength)) + wrong};
  };
  ask(1, TargetId(1));
  ask(2, TargetId(1));     // a bit has flipped
  ask(3, TargetId(1), 1);  // others than were written
  ask(4, TargetId(1));     // not there
  ask(5, TargetId(77));    // on a disk that is not here
  meta_.lose_reports = 1;
  Start();
  ex_.RunFor(8 * kSecond);
  EXPECT_TRUE(meta_.checks.empty());
  const auto told = [&](uint64_t id) { return meta_.checked.at(ShardId(id)); };
  EXPECT_EQ(told(1), std::vector<FsError>{FsError::kOk}) << "once, though it was asked several times";
  EXPECT_EQ(told(2), std::vector<FsError>{FsError::kChecksum});
  EXPECT_EQ(told(3), std::vector<FsError>{FsError::kChecksum});
  EXPECT_EQ(told(4), std::vector<FsError>{FsError::kNoSuchShard});
  EXPECT_EQ(told(5), std::vector<FsError>{FsError::kUnavailable});
  // Asked anew it looks anew.
  nodes_.nodes.at(1).sim->disk_media->FlipBit(RawShardName(ShardId(1)), 77, 1);
  ask(1, TargetId(1));
  ex_.RunFor(3 * kSecond);
  EXPECT_EQ(told(1), (std::vector<FsError>{FsError::kOk, FsError::kChecksum}));
}

TEST_F(AgentTest, UnknownShardsAreQuarantinedThenDeleted) {
  Put(1, 1, 100);
  Put(1, 2, 100);
  meta_.known = {ShardId(1)};
  meta_.beat_ns = 10 * kSecond;
  Start();
  ex_.RunFor(12 * 60 * kSecond);
  EXPECT_TRUE(Has(1, 2));
  // The metadata is restored from a backup: the quarantine begins anew.
  ++meta_.map.incarnation;
  ++meta_.map.version;
  ex_.RunFor(20 * 60 * kSecond);
  EXPECT_TRUE(Has(1, 2));
  EXPECT_EQ(nodes_.nodes.at(1).server->incarnation(), kTestIncarnation + 1);
  ex_.RunFor(6 * 60 * kSecond);
  EXPECT_FALSE(Has(1, 2));
  EXPECT_TRUE(Has(1, 1));
}

TEST(QuarantineTest, Decisions) {
  using S = QuarantineStep;
  const QuarantineMark mark{100, 5};
  EXPECT_EQ(DecideQuarantine(std::nullopt, false, 5, 1000, 50), S::kNothing);
  EXPECT_EQ(DecideQuarantine(std::nullopt, true, 5, 1000, 50), S::kMark);
  EXPECT_EQ(DecideQuarantine(mark, false, 5, 1000, 50), S::kUnmark);
  EXPECT_EQ(DecideQuarantine(mark, true, 5, 149, 50), S::kNothing);
  EXPECT_EQ(DecideQuarantine(mark, true, 5, 150, 50), S::kDelete);
  EXPECT_EQ(DecideQuarantine(mark, true, 6, 150, 50), S::kMark);
  EXPECT_EQ(DecideQuarantine(mark, true, 5, 99, 50), S::kMark);
}

TEST_F(AgentTest, ScrubFindsRotAndReportsIt) {
  Put(1, 1, 500'000);
  Put(1, 2, 500'000);
  meta_.known = {ShardId(1), ShardId(2)};
  nodes_.nodes.at(1).sim->disk_media->FlipBit(RawShardName(ShardId(2)), 123'456, 5);
  Start();
  ex_.RunFor(500 * kSecond);
  EXPECT_TRUE(meta_.bad.empty());
  ex_.RunFor(200 * kSecond);
  EXPECT_EQ(meta_.bad, std::set<ShardId>{ShardId(2)});
  EXPECT_EQ(meta_.beat.disks.at(0).checksum_errors, 1u);
}

TEST_F(AgentTest, ScrubFindsADamagedIndexRecordThoughACopyIsInMemory) {
  Put(1, 5, 100'000);
  Put(1, 6, 100'000);
  meta_.known = {ShardId(5), ShardId(6)};
  Start();
  ex_.RunFor(2 * kSecond);
  Random rng(4);
  ASSERT_TRUE(nodes_.nodes.at(1).sim->kv_media->CorruptValue(kIndexShards, ShardKey(ShardId(6)), rng));
  ASSERT_TRUE(Has(1, 6)) << "in memory";
  ex_.RunFor(700 * kSecond);
  EXPECT_EQ(meta_.bad, std::set<ShardId>{ShardId(6)});
}

TEST_F(AgentTest, AFailedDiskIsReported) {
  Start();
  ex_.RunFor(2 * kSecond);
  EXPECT_FALSE(meta_.beat.disks.at(0).failed);
  nodes_.nodes.at(1).sim->disk_media->faults.fail_sync_in = 1;
  EXPECT_FALSE(RunSim(ex_, StoreWhole(nodes_.store(1), ShardId(1), 400'000)).ok());
  ex_.RunFor(2 * kSecond);
  EXPECT_TRUE(meta_.beat.disks.at(0).failed);
}

}  // namespace
}  // namespace stria
