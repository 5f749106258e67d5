#include "server/token_gate.h"

#include <gtest/gtest.h>

#include "common/units.h"

namespace stria {
namespace {

constexpr int64_t kNowS = 20'000 * kKeyLifeS + 1000;
constexpr Uuid kNode{1, 2};
constexpr uint64_t kIncarnation = 3;

ClusterKey Master() {
  ClusterKey key;
  key.id = 1;
  key.secret.fill(0x33);
  return key;
}
Peer PeerOf(uint8_t key) {
  Peer p;
  p.role = Role::kClient;
  p.name = "pc7";
  p.address = "10.0.0.7:40112";
  p.key_hash.fill(key);
  return p;
}
std::vector<NodeTokenKey> Keys(int64_t now_s, const Uuid& node = kNode) {
  std::vector<NodeTokenKey> out;
  for (const ClusterKey& k : NodeKeysAround(Master(), node, now_s)) out.push_back({k.id, std::string(k.secret.begin(), k.secret.end())});
  return out;
}

class TokenGateTest : public testing::Test {
 protected:
  TokenGateTest() : gate_({Master()}) { gate_.TakeKeys(Keys(kNowS), kIncarnation); }

  BoundToken Plain() const {
    BoundToken t;
    t.shard = ShardId(5);
    t.target = TargetId(6);
    t.rights = kTokenWrite;
    t.expiry_s = kNowS + 600;
    t.holder = PeerOf(1).Holder();
    t.most_bytes = kMiB;
    t.incarnation = kIncarnation;
    return t;
  }
  static std::string Signed(const BoundToken& t, const Uuid& node = kNode, int64_t at_s = kNowS) {
    return EncodeBoundToken(BoundTokenSigner(DeriveNodeKey(Master(), node, KeyGeneration(at_s))).Sign(t));
  }
  FsError Check(const std::string& token, const Peer* peer, int64_t now_s = kNowS, uint64_t bytes = kMiB) const {
    return gate_.Check(token, {.shard = ShardId(5), .target = TargetId(6), .right = kTokenWrite, .bytes = bytes}, peer, now_s).code();
  }

  const Peer pc7_ = PeerOf(1);
  TokenGate gate_;
};

TEST_F(TokenGateTest, ItsHolderMayUseIt) {
  EXPECT_EQ(Check(Signed(Plain()), &pc7_), FsError::kOk);
}

TEST_F(TokenGateTest, NobodyElseMay) {
  const Peer other = PeerOf(2);
  EXPECT_EQ(Check(Signed(Plain()), &other), FsError::kBadToken);
  EXPECT_EQ(Check(Signed(Plain()), nullptr), FsError::kBadToken);
  const Peer without_key = PeerOf(0);  // whose holder is the number that stands for nobody
  EXPECT_EQ(Check(Signed(Plain()), &without_key), FsError::kBadToken);
}

TEST_F(TokenGateTest, NotForMoreBytesNorLaterNorInAnotherIncarnation) {
  EXPECT_EQ(Check(Signed(Plain()), &pc7_, kNowS, kMiB + 1), FsError::kBadToken);
  EXPECT_EQ(Check(Signed(Plain()), &pc7_, kNowS + 601), FsError::kTokenExpired);
  BoundToken old = Plain();
  old.incarnation = kIncarnation - 1;
  EXPECT_EQ(Check(Signed(old), &pc7_), FsError::kBadToken);
  BoundToken read = Plain();
  read.rights = kTokenRead;
  EXPECT_EQ(Check(Signed(read), &pc7_), FsError::kBadToken);
}

TEST_F(TokenGateTest, KeysOfOtherNodesAndDaysSignNothingHere) {
  EXPECT_EQ(Check(Signed(Plain(), Uuid{1, 3}), &pc7_), FsError::kBadToken);
  EXPECT_EQ(Check(Signed(Plain(), kNode, kNowS - kKeyLifeS), &pc7_), FsError::kOk);
  EXPECT_EQ(Check(Signed(Plain(), kNode, kNowS + kKeyLifeS), &pc7_), FsError::kOk);
  EXPECT_EQ(Check(Signed(Plain(), kNode, kNowS - 2 * kKeyLifeS), &pc7_), FsError::kBadToken);
  EXPECT_EQ(Check(Signed(Plain(), kNode, kNowS + 2 * kKeyLifeS), &pc7_), FsError::kBadToken);
}

TEST_F(TokenGateTest, KeysChangeWithTheDays) {
  const std::string today = Signed(Plain());
  gate_.TakeKeys(Keys(kNowS + kKeyLifeS), kIncarnation);
  EXPECT_EQ(Check(today, &pc7_), FsError::kOk);
  gate_.TakeKeys({}, kIncarnation);  // nothing was said
  EXPECT_EQ(Check(today, &pc7_), FsError::kOk);
  gate_.TakeKeys(Keys(kNowS + 2 * kKeyLifeS), kIncarnation);
  EXPECT_EQ(Check(today, &pc7_), FsError::kBadToken);
}

// What its session was given up to the fence ends by these times; what a later one is given ends later.
TEST_F(TokenGateTest, WhatAFencedHolderWasGivenBeforeIsNotTaken) {
  const uint64_t holder = pc7_.Holder();
  BoundToken write = Plain(), read = Plain();
  read.rights = kTokenRead;
  read.most_bytes = 0;
  read.expiry_s = kNowS + 3600;
  const TokenUse reads{.shard = ShardId(5), .target = TargetId(6), .right = kTokenRead};
  const auto check_read = [&] { return gate_.Check(Signed(read), reads, &pc7_, kNowS).code(); };
  gate_.TakeFenced({{holder + 1, kNowS + 9999, kNowS + 9999}}, kNowS);
  EXPECT_EQ(Check(Signed(write), &pc7_), FsError::kOk) << "another is fenced";
  gate_.TakeFenced({{holder, kNowS + 600, kNowS + 3600}}, kNowS);
  EXPECT_EQ(Check(Signed(write), &pc7_), FsError::kBadToken);
  EXPECT_EQ(check_read(), FsError::kBadToken);
  const Result<void> here = gate_.CheckHere(Signed(read), reads, kNowS);
  EXPECT_EQ(here.code(), FsError::kBadToken) << "nor on the Unix socket";
  EXPECT_NE(here.error().message.find("fenced"), std::string::npos) << here.error();
  ++write.expiry_s;
  EXPECT_EQ(Check(Signed(write), &pc7_), FsError::kOk) << "its new session";
  EXPECT_EQ(check_read(), FsError::kBadToken);
  ++read.expiry_s;
  EXPECT_EQ(check_read(), FsError::kOk);
}

TEST_F(TokenGateTest, AFenceLastsAsLongAsTheTokens) {
  const uint64_t holder = pc7_.Holder();
  BoundToken read = Plain();
  read.rights = kTokenRead;
  read.expiry_s = kNowS + 3600;
  const TokenUse reads{.shard = ShardId(5), .target = TargetId(6), .right = kTokenRead};
  gate_.TakeFenced({{holder, kNowS + 600, kNowS + 3600}}, kNowS);
  gate_.TakeFenced({}, kNowS + 3600);  // the metadata server has restarted
  EXPECT_EQ(gate_.Check(Signed(read), reads, &pc7_, kNowS + 3600).code(), FsError::kBadToken);
  // As many others as there is room for, that are over later: it goes.
  std::vector<FencedHolder> many;
  for (uint64_t i = 1; i <= kMaxFencedHolders; ++i) many.push_back({holder + i, 0, kNowS + 9999});
  gate_.TakeFenced(many, kNowS);
  EXPECT_EQ(gate_.Check(Signed(read), reads, &pc7_, kNowS).code(), FsError::kOk);
  // What is over is forgotten, and is no longer in the way of others.
  gate_.TakeFenced({{holder, kNowS + 20000, kNowS + 20000}}, kNowS + 10000);
  EXPECT_EQ(gate_.Check(Signed(read), reads, &pc7_, kNowS).code(), FsError::kBadToken);
}

TEST_F(TokenGateTest, ARefusalNamesWhoShowedTheToken) {
  const Peer pc8 = PeerOf(2);
  const TokenUse use{.shard = ShardId(5), .target = TargetId(6), .right = kTokenWrite, .bytes = 1};
  EXPECT_EQ(gate_.Check(Signed(Plain()), use, &pc8, kNowS).error().message,
            "the shard token is another's; client pc7 at 10.0.0.7:40112 has shown it");
  EXPECT_EQ(gate_.Check("nonsense", use, &pc8, kNowS).error().message,
            "the shard token is not bound to a holder, as it has to be here; client pc7 at 10.0.0.7:40112 has shown it");
}

TEST_F(TokenGateTest, MalformedKeysAreNotTaken) {
  TokenGate gate({Master()});
  gate.TakeKeys({{7, "short"}}, kIncarnation);
  const TokenUse use{.shard = ShardId(5), .target = TargetId(6), .right = kTokenWrite, .bytes = 1};
  EXPECT_EQ(gate.Check(Signed(Plain()), use, &pc7_, kNowS).code(), FsError::kNotReady);
  std::vector<NodeTokenKey> twice = Keys(kNowS);
  for (NodeTokenKey& k : twice) k.id = 9;
  gate.TakeKeys(twice, kIncarnation);
  EXPECT_EQ(gate.Check(Signed(Plain()), use, &pc7_, kNowS).code(), FsError::kBadToken);
}

TEST_F(TokenGateTest, TheClustersTokensAreForThoseWhoProveNothing) {
  const std::string token = EncodeToken(TokenSigner(Master()).Sign(ShardId(5), TargetId(6), kTokenWrite, kNowS + 600));
  EXPECT_EQ(Check(token, nullptr), FsError::kOk);
  EXPECT_EQ(Check(token, &pc7_), FsError::kBadToken);
}

TEST_F(TokenGateTest, OnTheUnixSocketAnyHolderOfAGoodTokenIsTaken) {
  const TokenUse use{.shard = ShardId(5), .target = TargetId(6), .right = kTokenWrite, .bytes = 1};
  EXPECT_TRUE(gate_.CheckHere(Signed(Plain()), use, kNowS).ok());
  EXPECT_FALSE(gate_.CheckHere(Signed(Plain(), Uuid{1, 3}), use, kNowS).ok());
  std::string forged = Signed(Plain());
  forged.back() ^= 1;
  EXPECT_EQ(gate_.CheckHere(forged, use, kNowS).code(), FsError::kBadToken);
  EXPECT_FALSE(gate_.CheckHere("", use, kNowS).ok());
}

}  // namespace
}  // namespace stria
