#include "meta/core/token_mint.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/exec/sim_executor.h"

namespace stria {
namespace {

constexpr Uuid kNode{1, 2}, kOther{1, 3};
constexpr uint64_t kIncarnation = 4, kHolder = 77;
constexpr int64_t kTtlNs = 3600 * kSecond;
constexpr ShardId kShard(5);
constexpr TargetId kTarget(6), kOthersTarget(7), kNobodys(8);

class TokenMintTest : public testing::Test, public TokenTargets {
 protected:
  TokenMintTest() : ex(1), signer(Key()), mint(&signer, Key(), kTtlNs) {
    mint.Begin(&ex);
    mint.Bind(this, kIncarnation);
  }
  Uuid NodeOf(TargetId t) const override { return t == kTarget ? kNode : t == kOthersTarget ? kOther : Uuid(); }
  static ClusterKey Key() {
    ClusterKey key;
    key.id = 1;
    key.secret.fill(0x21);
    return key;
  }
  int64_t NowS() const { return mint.TimeNs() / kSecond; }
  // As the node does it with the keys that it is given now.
  BoundTokenVerifier VerifierOf(const Uuid& node) const {
    std::vector<ClusterKey> keys;
    for (const NodeTokenKey& k : mint.KeysOf(node)) {
      ClusterKey key;
      key.id = k.id;
      CHECK(k.secret.size() == key.secret.size());
      std::copy(k.secret.begin(), k.secret.end(), key.secret.begin());
      keys.push_back(key);
    }
    return BoundTokenVerifier(keys, kIncarnation);
  }
  FsError Check(const std::string& token, const Uuid& node = kNode, uint8_t right = kTokenRead, uint64_t holder = kHolder,
                TargetId target = kTarget) const {
    return VerifierOf(node).Check(token, {.shard = kShard, .target = target, .right = right, .holder = holder}, NowS()).code();
  }
  std::string Read() const { return mint.Sign(kShard, kTarget, kTokenRead, kHolder); }

  SimExecutor ex;
  TokenSigner signer;
  TokenMint mint;
};

TEST_F(TokenMintTest, WhoHasProvedNothingGetsTheClustersTokens) {
  const std::string token = mint.Sign(kShard, kTarget, kTokenWrite, 0);
  EXPECT_FALSE(IsBoundToken(token));
  const TokenVerifier cluster({Key()});
  EXPECT_TRUE(cluster.Check(token, kShard, kTarget, kTokenWrite, NowS() + kTtlNs / kSecond).ok());
  EXPECT_EQ(cluster.Check(token, kShard, kTarget, kTokenWrite, NowS() + kTtlNs / kSecond + 2).code(), FsError::kTokenExpired);
  EXPECT_EQ(HolderOf(OpHeader()), 0u);
}

TEST_F(TokenMintTest, WhoHasGetsThoseThatTheShardsNodeTakesFromItAlone) {
  EXPECT_EQ(Check(Read()), FsError::kOk);
  EXPECT_EQ(Check(Read(), kOther), FsError::kBadToken) << "another node has other keys";
  EXPECT_EQ(Check(Read(), kNode, kTokenRead, kHolder + 1), FsError::kBadToken);
  EXPECT_EQ(Check(Read(), kNode, kTokenWrite), FsError::kBadToken);
  const std::string others = mint.Sign(kShard, kOthersTarget, kTokenRead, kHolder);
  EXPECT_EQ(Check(others, kOther, kTokenRead, kHolder, kOthersTarget), FsError::kOk);
  EXPECT_EQ(Check(others, kNode, kTokenRead, kHolder, kOthersTarget), FsError::kBadToken);
  EXPECT_EQ(mint.Sign(kShard, kNobodys, kTokenRead, kHolder), "");
}

TEST_F(TokenMintTest, AWriteTokenIsShortAndForSoManyBytes) {
  const BoundToken read = DecodeBoundToken(Read()).value();
  EXPECT_EQ(read.expiry_s, NowS() + kTtlNs / kSecond);
  EXPECT_EQ(read.most_bytes, 0u);
  const BoundToken write = DecodeBoundToken(mint.Sign(kShard, kTarget, kTokenWrite, kHolder, 1000)).value();
  EXPECT_EQ(write.expiry_s, NowS() + kBoundWriteTtlNs / kSecond);
  EXPECT_EQ(write.most_bytes, 1000u);

  StripeGrant grant;
  grant.info.columns = {{kShard, kTarget, 300, 0}, {ShardId(9), kOthersTarget, 0, 0}, {ShardId(), kTarget, 0, 0}};
  mint.SignGrant(&grant, kTokenWrite, kHolder, 5000);
  ASSERT_EQ(grant.tokens.size(), 3u);
  EXPECT_EQ(DecodeBoundToken(grant.tokens[0])->most_bytes, 300u) << "it is known how long it will be";
  EXPECT_EQ(DecodeBoundToken(grant.tokens[1])->most_bytes, 5000u);
  EXPECT_EQ(grant.tokens[2], "") << "there is no shard";
}

TEST_F(TokenMintTest, ANodeKnowsTheKeysOfTheDaysAround) {
  for (int day = 0; day < 10; ++day) {
    const BoundTokenVerifier yesterday = VerifierOf(kNode);
    ex.RunFor(kKeyLifeS * kSecond);
    const TokenUse use{.shard = kShard, .target = kTarget, .right = kTokenRead, .holder = kHolder};
    EXPECT_TRUE(yesterday.Check(Read(), use, NowS()).ok()) << "a node that was not reached for a day";
    EXPECT_EQ(Check(Read()), FsError::kOk);
  }
  const BoundTokenVerifier old = VerifierOf(kNode);
  const std::string token = Read();
  ex.RunFor(2 * kKeyLifeS * kSecond);
  EXPECT_EQ(old.Check(Read(), {.shard = kShard, .target = kTarget, .right = kTokenRead, .holder = kHolder}, NowS()).code(),
            FsError::kBadToken);
  EXPECT_EQ(Check(token), FsError::kBadToken) << "its key is of two days ago";
}

// A token lives no longer than the node has its key.
TEST_F(TokenMintTest, NoTokenOutlivesItsKey) {
  TokenMint lasting(&signer, Key(), 10 * kKeyLifeS * kSecond);
  lasting.Begin(&ex);
  lasting.Bind(this, kIncarnation);
  const std::string token = lasting.Sign(kShard, kTarget, kTokenRead, kHolder);
  ex.RunFor(kKeyLifeS * kSecond - kSecond);
  EXPECT_EQ(Check(token), FsError::kOk);
  ex.RunFor(3 * kSecond);
  EXPECT_EQ(Check(token), FsError::kTokenExpired);
}

TEST_F(TokenMintTest, AReaderShowsWhatItWasGiven) {
  const std::string token = Read();
  ASSERT_TRUE(mint.TargetOf(token, kShard, kHolder).ok());
  EXPECT_EQ(*mint.TargetOf(token, kShard, kHolder), kTarget);
  EXPECT_EQ(mint.TargetOf(token, kShard, kHolder + 1).code(), FsError::kBadToken);
  EXPECT_EQ(mint.TargetOf(token, kShard, 0).code(), FsError::kBadToken);
  EXPECT_EQ(mint.TargetOf(token, ShardId(kShard.v + 1), kHolder).code(), FsError::kBadToken);
  EXPECT_EQ(mint.TargetOf(mint.Sign(kShard, kTarget, kTokenWrite, kHolder), kShard, kHolder).code(), FsError::kBadToken);
  EXPECT_EQ(mint.TargetOf(mint.Sign(kShard, kTarget, kTokenRead, 0), kShard, kHolder).code(), FsError::kBadToken);
  EXPECT_EQ(mint.TargetOf("", kShard, kHolder).code(), FsError::kBadToken);
  std::string forged = token;
  forged.back() = static_cast<char>(forged.back() ^ 1);
  EXPECT_EQ(mint.TargetOf(forged, kShard, kHolder).code(), FsError::kBadToken);
  ex.RunFor(2 * kTtlNs);
  EXPECT_TRUE(mint.TargetOf(token, kShard, kHolder).ok()) << "one that has expired says as much";
  ex.RunFor(2 * kKeyLifeS * kSecond);
  EXPECT_EQ(mint.TargetOf(token, kShard, kHolder).code(), FsError::kBadToken);
}

TEST_F(TokenMintTest, WhoIsCutOffHasTheTokensOfBeforeNoMore) {
  const auto sign = [&](uint8_t right) { return DecodeBoundToken(mint.Sign(kShard, kTarget, right, kHolder)).value(); };
  FencedHolders fenced;
  const auto is_fenced = [&](const BoundToken& t) { return fenced.Has(t.holder, (t.rights & kTokenWrite) != 0, t.expiry_s); };
  const BoundToken read = sign(kTokenRead), write = sign(kTokenWrite), del = sign(kTokenDelete);
  EXPECT_TRUE(mint.Fenced().empty());
  ex.RunFor(100 * kSecond);
  const BoundToken latest = sign(kTokenWrite);
  mint.CutOff(kHolder);
  for (const FencedHolder& f : mint.Fenced()) fenced.Note(f);
  for (const BoundToken& t : {read, write, del, latest}) EXPECT_TRUE(is_fenced(t)) << int{t.rights};
  ex.RunFor(kSecond);
  for (const BoundToken& t : {sign(kTokenRead), sign(kTokenWrite), sign(kTokenDelete)}) EXPECT_FALSE(is_fenced(t)) << int{t.rights};
  mint.CutOff(0);
  EXPECT_EQ(mint.Fenced().size(), 1u) << "nobody is no holder";
  ex.RunFor(kTtlNs);
  EXPECT_TRUE(mint.Fenced().empty()) << "all of them are over";
}

}  // namespace
}  // namespace stria
