#include "common/bound_token.h"

#include <gtest/gtest.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include "common/random.h"

namespace stria {
namespace {

constexpr ShardId kShard{77};
constexpr TargetId kTarget{5};
constexpr Uuid kNode{1, 2}, kOtherNode{1, 3};
constexpr uint64_t kHolder = 0x1234, kIncarnation = 4;
constexpr int64_t kNow = 1'800'000'000;

ClusterKey Master(uint8_t seed) {
  ClusterKey key;
  key.id = 1;
  for (size_t i = 0; i < key.secret.size(); ++i) key.secret[i] = static_cast<uint8_t>(seed + i);
  return key;
}

BoundToken Grant(uint8_t rights = kTokenRead | kTokenWrite) {
  BoundToken t;
  t.shard = kShard, t.target = kTarget, t.rights = rights;
  t.expiry_s = kNow + 600, t.holder = kHolder, t.most_bytes = 1000, t.incarnation = kIncarnation;
  return t;
}

BoundTokenSigner Signer(int64_t now = kNow) { return BoundTokenSigner(DeriveNodeKey(Master(10), kNode, KeyGeneration(now))); }

BoundTokenVerifier Verifier(int64_t now = kNow) { return BoundTokenVerifier(NodeKeysAround(Master(10), kNode, now), kIncarnation); }

const TokenUse kUse{kShard, kTarget, kTokenWrite, kHolder, false, 1000};

TEST(BoundToken, GoodForExactlyWhatItSays) {
  const std::string token = EncodeBoundToken(Signer().Sign(Grant()));
  const BoundTokenVerifier verifier = Verifier();
  const auto says = [&](auto change, int64_t now = kNow) {
    TokenUse use = kUse;
    change(use);
    return verifier.Check(token, use, now).error().message;
  };
  EXPECT_EQ(says([](TokenUse&) {}), "");
  EXPECT_EQ(says([](TokenUse& u) { u.right = kTokenRead; }), "");
  EXPECT_EQ(says([](TokenUse& u) { u.holder = 1; }), "the shard token is another's");
  EXPECT_EQ(says([](TokenUse& u) { u.holder = 0; }), "the shard token is another's");
  EXPECT_EQ(says([](TokenUse& u) { u.holder = 0; u.any_holder = true; }), "");
  EXPECT_EQ(says([](TokenUse& u) { u.bytes = 1001; }), "the shard token is for fewer bytes");
  EXPECT_EQ(says([](TokenUse& u) { u.bytes = UINT64_MAX; }), "the shard token is for fewer bytes");
  EXPECT_EQ(says([](TokenUse& u) { u.right = kTokenDelete; }), "the shard token does not give the right to do this");
  EXPECT_EQ(says([](TokenUse& u) { u.shard = ShardId(78); }), "the shard token is for another shard or disk");
  EXPECT_EQ(says([](TokenUse& u) { u.target = TargetId(6); }), "the shard token is for another shard or disk");
  EXPECT_EQ(says([](TokenUse&) {}, kNow + 600), "");
  EXPECT_EQ(says([](TokenUse&) {}, kNow + 601), "the shard token has expired");
  EXPECT_EQ(BoundTokenVerifier(NodeKeysAround(Master(10), kNode, kNow), 5).Check(token, kUse, kNow).error().message,
            "the shard token is of another incarnation of the cluster");
  EXPECT_EQ(BoundTokenVerifier(NodeKeysAround(Master(10), kOtherNode, kNow), kIncarnation).Check(token, kUse, kNow).error().message,
            "the shard token is forged or damaged") << "a node's key is good for that node";
  EXPECT_EQ(BoundTokenVerifier(NodeKeysAround(Master(11), kNode, kNow), kIncarnation).Check(token, kUse, kNow).code(), FsError::kBadToken);
}

TEST(BoundToken, KeysRotateWithoutAGap) {
  for (int64_t signed_at = kNow; signed_at < kNow + 2 * kKeyLifeS; signed_at += 3600) {
    BoundToken t = Grant();
    t.expiry_s = signed_at + 10 * kKeyLifeS;
    const std::string token = EncodeBoundToken(Signer(signed_at).Sign(t));
    for (const int64_t off : {-kKeyLifeS, int64_t{-600}, int64_t{0}, int64_t{600}, kKeyLifeS}) {
      EXPECT_TRUE(Verifier(signed_at + off).Check(token, kUse, signed_at).ok()) << signed_at << " " << off;
    }
    EXPECT_FALSE(Verifier(signed_at + 2 * kKeyLifeS).Check(token, kUse, signed_at).ok());
    EXPECT_FALSE(Verifier(signed_at - 2 * kKeyLifeS).Check(token, kUse, signed_at).ok());
  }
  EXPECT_EQ(NodeKeysAround(Master(1), kNode, 0)[0].id, 1u) << "a clock of 1970, too";
}

TEST(BoundToken, EveryFlippedBitIsFound) {
  const std::string good = EncodeBoundToken(Signer().Sign(Grant(kTokenAllRights)));
  const BoundTokenVerifier verifier = Verifier();
  ASSERT_EQ(good.size(), kBoundTokenBytes);
  for (size_t i = 0; i < good.size() * 8; ++i) {
    std::string bad = good;
    bad[i / 8] ^= static_cast<char>(1 << (i % 8));
    EXPECT_EQ(verifier.Check(bad, kUse, 1).code(), FsError::kBadToken) << i;
  }
  for (size_t n = 0; n < good.size(); ++n) EXPECT_EQ(verifier.Check(good.substr(0, n), kUse, 1).code(), FsError::kBadToken);
  EXPECT_EQ(DecodeBoundToken(good + "x").code(), FsError::kBadToken);
  EXPECT_EQ(EncodeBoundToken(DecodeBoundToken(good).value()), good);
}

TEST(BoundToken, TheTwoFormsAreNotTakenForEachOther) {
  const ClusterKey key = DeriveNodeKey(Master(10), kNode, KeyGeneration(kNow));
  const std::string bound = EncodeBoundToken(BoundTokenSigner(key).Sign(Grant()));
  const std::string plain = EncodeToken(TokenSigner(key).Sign(kShard, kTarget, kTokenAllRights, kNow));
  EXPECT_TRUE(IsBoundToken(bound));
  EXPECT_FALSE(IsBoundToken(plain));
  EXPECT_FALSE(IsBoundToken(""));
  EXPECT_EQ(Verifier().Check(plain, kUse, kNow).error().message, "the shard token is bound to no holder, or has an unknown version");
  EXPECT_EQ(TokenVerifier({key}).Check(bound, kShard, kTarget, kTokenRead, kNow).code(), FsError::kBadToken);
}

// The formats may not change: tokens and keys cross versions of the programs.
TEST(BoundToken, IsHmacSha256OfTheFields) {
  const ClusterKey key = Master(0);
  const std::string bytes = EncodeBoundToken(BoundTokenSigner(key).Sign(Grant(kTokenRead)));
  const std::string message = "stria-shard-2" + bytes.substr(1, 49);
  EXPECT_EQ(bytes.substr(1, 8), std::string("\x4d\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(bytes.substr(26, 8), std::string("\x34\x12\0\0\0\0\0\0", 8));
  uint8_t want[32];
  unsigned n = 0;
  HMAC(EVP_sha256(), key.secret.data(), 32, reinterpret_cast<const uint8_t*>(message.data()), message.size(), want, &n);
  EXPECT_EQ(bytes.substr(50), std::string(reinterpret_cast<char*>(want), 16));
}

TEST(BoundToken, KeysAreHkdf) {
  const ClusterKey master = Master(3);
  const ClusterKey key = DeriveNodeKey(master, kNode, 7);
  EVP_KDF* kdf = EVP_KDF_fetch(nullptr, "HKDF", nullptr);
  EVP_KDF_CTX* ctx = EVP_KDF_CTX_new(kdf);
  std::string digest = "SHA256", salt = "stria-node-key-1";
  std::string info("\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x07\0\0\0", 20), secret(master.secret.begin(), master.secret.end());
  const OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest.data(), 0),
                               OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, secret.data(), secret.size()),
                               OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, salt.data(), salt.size()),
                               OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info.data(), info.size()),
                               OSSL_PARAM_construct_end()};
  std::array<uint8_t, 32> want{};
  ASSERT_EQ(EVP_KDF_derive(ctx, want.data(), want.size(), params), 1);
  EVP_KDF_CTX_free(ctx);
  EVP_KDF_free(kdf);
  EXPECT_EQ(key.secret, want);
  EXPECT_EQ(key.id, 7u);
  EXPECT_NE(DeriveNodeKey(master, kNode, 8).secret, key.secret);
  EXPECT_NE(DeriveNodeKey(master, kOtherNode, 7).secret, key.secret);
}

}  // namespace
}  // namespace stria
