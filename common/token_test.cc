#include "common/token.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <chrono>

#include "common/random.h"

namespace stria {
namespace {

ClusterKey Key(uint32_t id, uint8_t seed) {
  ClusterKey key;
  key.id = id;
  for (size_t i = 0; i < key.secret.size(); ++i) key.secret[i] = static_cast<uint8_t>(seed + i);
  return key;
}

constexpr ShardId kShard{77};
constexpr TargetId kTarget{5};

TEST(Token, GoodForExactlyWhatItSays) {
  const TokenSigner signer(Key(1, 10));
  const TokenVerifier verifier({Key(2, 99), Key(1, 10)});
  const ShardToken t = signer.Sign(kShard, kTarget, kTokenRead | kTokenWrite, 1000);
  EXPECT_TRUE(verifier.Check(t, kShard, kTarget, kTokenRead, 999).ok());
  EXPECT_TRUE(verifier.Check(t, kShard, kTarget, kTokenWrite, 1000).ok());
  EXPECT_EQ(verifier.Check(t, kShard, kTarget, kTokenRead, 1001).code(), FsError::kTokenExpired);
  EXPECT_EQ(verifier.Check(t, kShard, kTarget, kTokenDelete, 1).code(), FsError::kBadToken);
  EXPECT_EQ(verifier.Check(t, ShardId(78), kTarget, kTokenRead, 1).code(), FsError::kBadToken);
  EXPECT_EQ(verifier.Check(t, kShard, TargetId(6), kTokenRead, 1).code(), FsError::kBadToken);
  EXPECT_EQ(TokenVerifier({Key(2, 10)}).Check(t, kShard, kTarget, kTokenRead, 1).code(), FsError::kBadToken);
  EXPECT_EQ(TokenVerifier({Key(1, 11)}).Check(t, kShard, kTarget, kTokenRead, 1).code(), FsError::kBadToken);
}

TEST(Token, EveryFlippedBitIsFound) {
  const TokenSigner signer(Key(1, 10));
  const TokenVerifier verifier({Key(1, 10)});
  const std::string good = EncodeToken(signer.Sign(kShard, kTarget, kTokenAllRights, 1000));
  ASSERT_EQ(good.size(), kTokenBytes);
  EXPECT_TRUE(verifier.Check(good, kShard, kTarget, kTokenRead, 1).ok());
  for (size_t i = 0; i < good.size() * 8; ++i) {
    std::string bad = good;
    bad[i / 8] ^= static_cast<char>(1 << (i % 8));
    EXPECT_EQ(verifier.Check(bad, kShard, kTarget, kTokenRead, 1).code(), FsError::kBadToken) << i;
  }
  for (size_t n = 0; n < good.size(); ++n) {
    EXPECT_EQ(verifier.Check(good.substr(0, n), kShard, kTarget, kTokenRead, 1).code(), FsError::kBadToken);
  }
  EXPECT_EQ(DecodeToken(good + "x").code(), FsError::kBadToken);
  EXPECT_EQ(EncodeToken(DecodeToken(good).value()), good);
}

// The format may not change: tokens cross versions of the programs.
TEST(Token, IsHmacSha256OfTheFields) {
  const ClusterKey key = Key(3, 0);
  const std::string bytes =
      EncodeToken(TokenSigner(key).Sign(ShardId(0x0102030405060708), TargetId(9), kTokenRead, 10));
  const std::string body = bytes.substr(1, 25);
  EXPECT_EQ(body,
            std::string("\x08\x07\x06\x05\x04\x03\x02\x01\x09\0\0\0\x01\x0a\0\0\0\0\0\0\0\x03\0\0\0", 25));
  const std::string message = "stria-shard-1" + body;
  uint8_t want[32];
  unsigned n = 0;
  HMAC(EVP_sha256(), key.secret.data(), 32, reinterpret_cast<const uint8_t*>(message.data()), message.size(),
       want, &n);
  EXPECT_EQ(bytes.substr(26), std::string(reinterpret_cast<char*>(want), 16));
}

TEST(Token, NodesProveThatTheyKnowTheKey) {
  const Uuid uuid{1, 2};
  const std::string proof = TokenSigner(Key(1, 10)).ProveNode(uuid, "pc7");
  const TokenVerifier verifier({Key(1, 10)});
  EXPECT_TRUE(verifier.CheckNode(proof, uuid, "pc7").ok());
  EXPECT_EQ(verifier.CheckNode(proof, uuid, "pc8").code(), FsError::kBadToken);
  EXPECT_EQ(verifier.CheckNode(proof, Uuid{1, 3}, "pc7").code(), FsError::kBadToken);
  EXPECT_EQ(verifier.CheckNode("", uuid, "pc7").code(), FsError::kBadToken);
  EXPECT_EQ(verifier.CheckNode(proof + "x", uuid, "pc7").code(), FsError::kBadToken);
  EXPECT_EQ(TokenVerifier({Key(1, 11)}).CheckNode(proof, uuid, "pc7").code(), FsError::kBadToken);
}

TEST(Token, DisksHaveWhatTheirNodeWasGiven) {
  const Uuid disk{1, 2};
  const std::string proof = TokenSigner(Key(1, 10)).ProveDisk(disk, NodeId(3));
  const TokenVerifier verifier({Key(2, 11), Key(1, 10)});
  EXPECT_TRUE(verifier.KnowsDisk(proof, disk, NodeId(3)));
  EXPECT_FALSE(verifier.KnowsDisk(proof, disk, NodeId(4))) << "a former node's";
  EXPECT_FALSE(verifier.KnowsDisk(proof, Uuid{1, 3}, NodeId(3)));
  EXPECT_FALSE(verifier.KnowsDisk("", disk, NodeId(3)));
  EXPECT_FALSE(verifier.KnowsDisk(proof + "x", disk, NodeId(3)));
  EXPECT_FALSE(verifier.KnowsDisk(TokenSigner(Key(1, 10)).ProveNode(disk, "n3"), disk, NodeId(3))) << "it proves something else";
  EXPECT_FALSE(TokenVerifier({Key(1, 11)}).KnowsDisk(proof, disk, NodeId(3)));
}

TEST(Token, SessionsProveWhatTheyWereGiven) {
  ClusterKey key, other;
  key.id = 1, other.id = 2;
  key.secret.fill(1), other.secret.fill(2);
  const TokenVerifier verifier({other, key});
  const OpenProof what{SessionId(7), InodeId(100), 3, kOpenRead | kOpenNumber};
  const std::string proof = TokenSigner(key).ProveOpen(what);
  for (uint64_t ino = 100; ino < 103; ++ino) {
    EXPECT_EQ(verifier.OpenRights(proof, SessionId(7), InodeId(ino)), kOpenRead | kOpenNumber);
  }
  EXPECT_EQ(verifier.OpenRights(proof, SessionId(7), InodeId(99)), 0);
  EXPECT_EQ(verifier.OpenRights(proof, SessionId(7), InodeId(103)), 0);
  EXPECT_EQ(verifier.OpenRights(proof, SessionId(6), InodeId(100)), 0);
  EXPECT_EQ(RightsIn(proof), kOpenRead | kOpenNumber);
  EXPECT_EQ(RightsIn(""), 0);
  EXPECT_EQ(verifier.OpenRights("", SessionId(7), InodeId(100)), 0);
  EXPECT_EQ(verifier.OpenRights(proof + "x", SessionId(7), InodeId(100)), 0);
  EXPECT_EQ(TokenVerifier({other}).OpenRights(proof, SessionId(7), InodeId(100)), 0);
  for (size_t bit = 0; bit < proof.size() * 8; ++bit) {
    std::string flipped = proof;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    EXPECT_EQ(verifier.OpenRights(flipped, SessionId(7), InodeId(100)), 0) << bit;
  }
  EXPECT_NE(TokenSigner(key).SecretEpoch(SessionId(7), 1), TokenSigner(other).SecretEpoch(SessionId(7), 1));
  EXPECT_NE(TokenSigner(key).SecretEpoch(SessionId(7), 1), TokenSigner(key).SecretEpoch(SessionId(7), 2));
}

TEST(Token, KeyFiles) {
  const std::string text =
      "# of the cluster in room 3\n" + FormatClusterKey(Key(2, 9)) + "\n" + FormatClusterKey(Key(1, 1));
  const auto keys = ParseClusterKeys(text);
  ASSERT_TRUE(keys.ok()) << keys.error();
  ASSERT_EQ(keys->size(), 2u);
  EXPECT_EQ((*keys)[0].id, 2u);
  EXPECT_EQ((*keys)[0].secret, Key(2, 9).secret);
  for (const std::string bad : {"", "# nothing", "1 abc", "0 ", "x 00"})
    EXPECT_FALSE(ParseClusterKeys(bad).ok()) << bad;
  EXPECT_FALSE(ParseClusterKeys(FormatClusterKey(Key(1, 1)) + FormatClusterKey(Key(1, 2))).ok());
  EXPECT_FALSE(ParseClusterKeys(FormatClusterKey(Key(0, 1))).ok());
}

TEST(Token, IsCheap) {
  const TokenSigner signer(Key(1, 10));
  const TokenVerifier verifier({Key(1, 10)});
  const std::string token = EncodeToken(signer.Sign(kShard, kTarget, kTokenRead, 1000));
  const auto start = std::chrono::steady_clock::now();
  constexpr int kRounds = 20'000;
  for (int i = 0; i < kRounds; ++i) ASSERT_TRUE(verifier.Check(token, kShard, kTarget, kTokenRead, 1).ok());
  const auto ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start);
  RecordProperty("check_ns", static_cast<int>(ns.count() / kRounds));
  std::printf("one check: %d ns\n", static_cast<int>(ns.count() / kRounds));
  EXPECT_LT(ns.count() / kRounds, 50'000);
}

}  // namespace
}  // namespace stria
