// A data server does nothing for a former life of the metadata server.
#include <gtest/gtest.h>

#include "server/agent.h"
#include "server/fake_meta.h"
#include "server/node_testing.h"

namespace stria {
namespace {

constexpr SaidTerm kNow{5, 50}, kLater{6, 60};

class AgentTermsTest : public ::testing::Test {
 protected:
  AgentTermsTest()
      : ex_(1), nodes_(ex_, 9, 2), meta_(nodes_.map), meta_connector_(&meta_), link_(&meta_connector_, {"meta"}), connector_(&nodes_) {
    someone_.key_hash.fill(3);
  }

  void Start() {
    Serves(kNow);
    AgentDisk disk;
    disk.store = nodes_.store(1);
    disk.uuid = Uuid{7, 9};
    disk.label = "d1";
    AgentOptions options;
    options.cluster = kTestCluster;
    options.node = Uuid{1, 1};
    options.name = "n1";
    options.address = "node1";
    options.scrub = false;
    options.keep_terms = [this](HeardTerms::Kept kept) -> Task<Result<void>> {
      co_await Sleep(kMillisecond);
      kept_ = kept;
      had_when_kept_ = nodes_.store(1)->Usage().used_bytes == 1000;
      co_return Ok();
    };
    agent_ = std::make_unique<Agent>(&link_, &connector_, &server(), &nodes_.verifier, &codecs_, &pool_,
                                     std::vector<AgentDisk>{disk}, options);
    agent_->Start();
    ex_.RunFor(3 * kSecond);
    ASSERT_TRUE(agent_->registered());
  }
  void Serves(const SaidTerm& said) {
    meta_.map.term = said.term;
    meta_.map.term_proof = said.proof;
  }
  // Wants shard 5 deleted.
  void Delete() { meta_.deletes[ShardId(5)] = {ShardId(5), TargetId(1), nodes_.Token(ShardId(5), 1, kTokenDelete)}; }
  bool Has(uint64_t id) { return RunSim(ex_, nodes_.store(1)->index().Get(ShardId(id))).value() != nullptr; }
  DataServer& server() { return *nodes_.nodes.at(1).server; }
  // As a client does that was told of this life.
  FsError Ask(const SaidTerm& seen) {
    InventoryRequest r;
    r.header = nodes_.Header();
    r.header.seen_term = seen.term;
    r.header.seen_proof = seen.proof;
    r.header.peer = std::make_shared<const Peer>(someone_);
    r.target = TargetId(1);
    return RunSim(ex_, server().Inventory(std::move(r))).code();
  }

  SimExecutor ex_;
  SimNodes nodes_;
  FakeMetaService meta_;
  FakeMetaConnector meta_connector_;
  MetaLink link_;
  SimConnector connector_;
  CodecSet codecs_;
  InlinePool pool_;
  Peer someone_;
  HeardTerms::Kept kept_;
  bool had_when_kept_ = false;
  std::unique_ptr<Agent> agent_;
};

TEST_F(AgentTermsTest, AFormerLifeIsNotObeyed) {
  ASSERT_TRUE(RunSim(ex_, StoreWhole(nodes_.store(1), ShardId(5), 1000)).ok());
  Start();
  EXPECT_EQ(kept_.known, kNow);
  Serves({4, 40});
  Delete();
  ex_.RunFor(20 * kSecond);
  EXPECT_TRUE(Has(5));
  EXPECT_EQ(meta_.beat.header.seen_term, kNow.term);
  EXPECT_EQ(meta_.beat.header.seen_proof, kNow.proof);
  Serves(kNow);
  ex_.RunFor(5 * kSecond);
  EXPECT_FALSE(Has(5)) << "it goes on with the right one";
}

TEST_F(AgentTermsTest, ANewLifeIsNotedBeforeItIsObeyed) {
  ASSERT_TRUE(RunSim(ex_, StoreWhole(nodes_.store(1), ShardId(5), 1000)).ok());
  Start();
  Serves(kLater);
  Delete();
  ex_.RunFor(5 * kSecond);
  EXPECT_FALSE(Has(5));
  EXPECT_EQ(kept_, (HeardTerms::Kept{kLater, {}}));
  EXPECT_TRUE(had_when_kept_);
  EXPECT_EQ(agent_->map()->said(), kLater) << "though the map's version is the same";
}

// The metadata server is one of a former life, and has not heard it: it does when the node asks it.
TEST_F(AgentTermsTest, WhatAClientHasHeardIsAskedOfFirst) {
  ASSERT_TRUE(RunSim(ex_, StoreWhole(nodes_.store(1), ShardId(5), 1000)).ok());
  Start();
  meta_.believes = kLater;
  Delete();
  EXPECT_EQ(Ask(kLater), FsError::kOk);
  ex_.RunFor(20 * kSecond);
  EXPECT_TRUE(Has(5));
  EXPECT_EQ(kept_, (HeardTerms::Kept{kNow, kLater}));
  meta_.believes = {};
  Serves(kLater);
  ex_.RunFor(5 * kSecond);
  EXPECT_FALSE(Has(5));
  EXPECT_EQ(kept_, (HeardTerms::Kept{kLater, {}}));
}

// A client that makes up a life keeps nobody from work.
TEST_F(AgentTermsTest, WhatIsNotTrueIsForgotten) {
  ASSERT_TRUE(RunSim(ex_, StoreWhole(nodes_.store(1), ShardId(5), 1000)).ok());
  Start();
  for (uint64_t n = 1; n <= 20; ++n) {
    EXPECT_EQ(Ask({UINT64_MAX - 50 + n, n}), FsError::kOk);
    ex_.RunFor(kSecond / 4);
  }
  Delete();
  ex_.RunFor(5 * kSecond);
  EXPECT_FALSE(Has(5));
  EXPECT_EQ(kept_, (HeardTerms::Kept{kNow, {}}));
  EXPECT_EQ(server().terms().Highest(), kNow.term);
}

// Two that have heard of different lives, of servers that were restarted twice, while there is something to report.
TEST_F(AgentTermsTest, SeveralClaimsDoNotKeepItFromItsHeartbeat) {
  ASSERT_TRUE(RunSim(ex_, StoreWhole(nodes_.store(1), ShardId(5), 1000)).ok());
  Start();
  Delete();
  ex_.RunUntil([&] { return !Has(5); }, ex_.NowNs() + 5 * kSecond);
  const int beats = meta_.beats;
  someone_.key_hash.fill(4);
  EXPECT_EQ(Ask(kLater), FsError::kOk);
  someone_.key_hash.fill(5);
  EXPECT_EQ(Ask({7, 70}), FsError::kOk);
  Serves({7, 70});
  ex_.RunFor(20 * kSecond);
  EXPECT_GT(meta_.beats, beats + 3);
  EXPECT_FALSE(server().terms().HasClaims());
  EXPECT_EQ(kept_, (HeardTerms::Kept{{7, 70}, {}}));
}

}  // namespace
}  // namespace stria
