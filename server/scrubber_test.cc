#include "server/scrubber.h"

#include <gtest/gtest.h>

#include "server/shard_testing.h"

namespace stria {
namespace {

constexpr uint64_t kLength = 1 * kMiB;

class ScrubberTest : public ::testing::Test {
 protected:
  ScrubberTest() : ex_(1), sim_(1) {
    sim_.Start(ex_);
    options_.bytes_per_s = 1 * kMiB;
    options_.first_after_ns = 3600 * kSecond;
    for (uint64_t id = 1; id <= 10; ++id) {
      EXPECT_TRUE(RunSim(ex_, StoreWhole(sim_.store.get(), ShardId(id), kLength)).ok());
      known_[ShardId(id)] = DigestOf(ShardId(id), BytesOf(ShardId(id), kLength));
    }
    ScrubHooks hooks;
    hooks.compare = [this](ShardId after, ShardId last, std::vector<HeldShard> held) {
      return Compare(after, last, std::move(held));
    };
    hooks.lost = [this](ShardId shard) { return Lost(shard); };
    hooks.list_parity = [this](ShardId after, ShardId last) { return ListParity(after, last); };
    hooks.check_parity = [this](StripeGrant stripe) { return CheckParity(std::move(stripe)); };
    scrubber_ = std::make_unique<Scrubber>(sim_.store.get(), options_, std::move(hooks));
  }
  // Two at a time.
  Task<Result<ListParityReply>> ListParity(ShardId after, ShardId last) {
    ListParityReply reply;
    reply.last = last;
    for (auto it = parity_.upper_bound(after); it != parity_.end() && it->first <= last; ++it) {
      reply.stripes.emplace_back().info.id = it->second;
      if (reply.stripes.size() < 2) continue;
      reply.last = it->first;
      break;
    }
    co_return reply;
  }
  Task<Result<ParityCheckResult>> CheckParity(StripeGrant stripe) {
    checked_.push_back(stripe.info.id);
    if (away_.count(stripe.info.id)) co_return Error(FsError::kUnavailable);
    ParityCheckResult r;
    r.bytes_read = 3 * kMiB;
    r.fits = !unfit_.count(stripe.info.id);
    if (damaged_.count(stripe.info.id)) r.wrong = {1};
    co_return r;
  }
  // As the metadata server answers.
  Task<Result<CompareShardsReply>> Compare(ShardId after, ShardId last, std::vector<HeldShard> held) {
    CompareShardsReply reply;
    std::map<ShardId, uint64_t> there;
    for (const HeldShard& h : held) there[h.shard] = h.digest;
    for (const auto& [shard, digest] : known_) {
      if (shard <= after || shard > last) continue;
      if (!there.count(shard)) reply.missing.push_back(shard);
      else if (there[shard] != digest) reply.wrong.push_back(shard);
    }
    co_return reply;
  }
  Task<Result<void>> Lost(ShardId shard) {
    lost_.push_back(shard);
    co_return Ok();
  }
  std::vector<ShardId> Bad() { return sim_.store->TakeBadShards(100); }

  SimExecutor ex_;
  SimStore sim_;
  ScrubOptions options_;
  std::map<ShardId, uint64_t> known_;
  std::vector<ShardId> lost_;
  std::map<ShardId, StripeId> parity_;
  std::vector<StripeId> checked_;
  std::set<StripeId> unfit_, damaged_, away_;
  std::unique_ptr<Scrubber> scrubber_;
  TaskScope scope_;
};

TEST_F(ScrubberTest, CountsWhatItReads) {
  ASSERT_TRUE(RunSim(ex_, scrubber_->Pass()).ok());
  EXPECT_EQ(scrubber_->progress().shards, 10u);
  EXPECT_EQ(scrubber_->progress().bytes_done, 10 * kLength);
  EXPECT_EQ(scrubber_->progress().damaged, 0u);
  EXPECT_GT(scrubber_->progress().finished_s, 0);
  EXPECT_TRUE(Bad().empty());
  EXPECT_GE(ex_.NowNs(), 10 * kSecond) << "1 MiB/s";
}

TEST_F(ScrubberTest, FindsRotStaleAndMissingShards) {
  sim_.disk_media->FlipBit(RawShardName(ShardId(3)), 500'000, 2);
  known_[ShardId(5)] ^= 1;            // the disk has an older copy
  known_[ShardId(20)] = 1;            // its record is gone
  known_.erase(ShardId(7));           // unknown ones are the quarantine's business
  ASSERT_TRUE(RunSim(ex_, scrubber_->Pass()).ok());
  EXPECT_EQ(scrubber_->progress().damaged, 3u);
  EXPECT_EQ(Bad(), (std::vector<ShardId>{ShardId(3), ShardId(5)}));
  EXPECT_EQ(lost_, std::vector<ShardId>{ShardId(20)});
}

TEST_F(ScrubberTest, ComparesParity) {
  for (uint64_t i = 1; i <= 5; ++i) parity_[ShardId(2 * i)] = StripeId(i);
  unfit_ = {StripeId(2), StripeId(3)};
  damaged_ = {StripeId(3)};  // the column that is wrong is known, and made again
  away_ = {StripeId(4)};
  ASSERT_TRUE(RunSim(ex_, scrubber_->Pass()).ok());
  EXPECT_EQ(checked_, (std::vector<StripeId>{StripeId(1), StripeId(2), StripeId(3), StripeId(4), StripeId(5)}));
  EXPECT_EQ(scrubber_->progress().stripes, 4u);
  EXPECT_EQ(scrubber_->progress().unfit, std::vector<StripeId>{StripeId(2)});
  EXPECT_GE(ex_.NowNs(), (10 + 4 * 3) * kSecond) << "at the same pace of 1 MiB/s";
}

TEST_F(ScrubberTest, BeginsWhenToldAndPauses) {
  scope_.Spawn(scrubber_->Run());
  ex_.RunFor(5 * kSecond);
  EXPECT_FALSE(scrubber_->progress().running);
  ScrubOrder order;
  order.start_s = 77;
  order.bytes_per_s = 2 * kMiB;
  scrubber_->Obey(order, true);
  ex_.RunFor(2 * kSecond);
  EXPECT_TRUE(scrubber_->progress().running);
  EXPECT_EQ(scrubber_->progress().order_s, 77);
  order.paused = true;
  scrubber_->Obey(order, true);
  ex_.RunFor(kSecond);
  const uint64_t done = scrubber_->progress().bytes_done;
  EXPECT_GT(done, 0u);
  EXPECT_LT(done, 10 * kLength);
  ex_.RunFor(60 * kSecond);
  EXPECT_EQ(scrubber_->progress().bytes_done, done);
  order.paused = false;
  scrubber_->Obey(order, true);
  ex_.RunFor(10 * kSecond);
  EXPECT_FALSE(scrubber_->progress().running);
  EXPECT_EQ(scrubber_->progress().shards, 10u);
  const int64_t finished_s = scrubber_->progress().finished_s;
  scrubber_->Obey(order, true);
  ex_.RunFor(30 * kSecond);
  EXPECT_EQ(scrubber_->progress().finished_s, finished_s) << "one pass for one order";
  order.start_s = 78;
  scrubber_->Obey(order, true);
  ex_.RunFor(30 * kSecond);
  EXPECT_GT(scrubber_->progress().finished_s, finished_s);
}

TEST_F(ScrubberTest, TheRateChangesMeanwhile) {
  scope_.Spawn(scrubber_->Run());
  ScrubOrder order;
  order.start_s = 77;
  scrubber_->Obey(order, true);
  ex_.RunFor(2 * kSecond);
  EXPECT_TRUE(scrubber_->progress().running);
  EXPECT_LT(scrubber_->progress().bytes_done, 5 * kLength);
  scrubber_->SetRate(10 * kMiB);
  ex_.RunFor(3 * kSecond);
  EXPECT_FALSE(scrubber_->progress().running);
  EXPECT_EQ(scrubber_->progress().shards, 10u);
}

TEST_F(ScrubberTest, BeginsByItself) {
  scope_.Spawn(scrubber_->Run());
  ex_.RunFor(3620 * kSecond);
  EXPECT_GT(scrubber_->progress().finished_s, 0);
  EXPECT_EQ(scrubber_->progress().order_s, 0);
}

}  // namespace
}  // namespace stria
