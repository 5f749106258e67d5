#include "common/purpose_mac.h"

#include <gtest/gtest.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <string>

namespace stria {
namespace {

ClusterKey Master(uint8_t fill) {
  ClusterKey key;
  key.id = fill;
  key.secret.fill(fill);
  return key;
}
std::string Text(const PurposeTag& tag) { return {tag.begin(), tag.end()}; }

TEST(PurposeMac, IsHmacByAKeyOfHkdf) {
  std::array<uint8_t, 32> key;
  const ClusterKey master = Master(7);
  std::string purpose = "a purpose";
  EVP_KDF* kdf = EVP_KDF_fetch(nullptr, "HKDF", nullptr);
  EVP_KDF_CTX* ctx = EVP_KDF_CTX_new(kdf);
  std::string digest = "SHA256";
  std::string secret(master.secret.begin(), master.secret.end());
  OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest.data(), 0),
                         OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, secret.data(), secret.size()),
                         OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_SALT, purpose.data(), purpose.size()), OSSL_PARAM_construct_end()};
  ASSERT_EQ(EVP_KDF_derive(ctx, key.data(), key.size(), params), 1);
  EVP_KDF_CTX_free(ctx);
  EVP_KDF_free(kdf);
  const std::string message = "what is said";
  PurposeTag want;
  unsigned int length = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(message.data()), message.size(), want.data(), &length);
  ASSERT_EQ(length, want.size());
  EXPECT_EQ(PurposeMac(master, purpose).Of(message), want);
}

TEST(PurposeMac, AnotherKeyPurposeOrMessageGivesAnother) {
  const PurposeMac mac(Master(1), "purpose one");
  const std::string tag = Text(mac.Of("message"));
  EXPECT_EQ(mac.key_id(), 1u);
  EXPECT_TRUE(mac.Is("message", tag));
  EXPECT_FALSE(mac.Is("messagE", tag));
  EXPECT_FALSE(mac.Is("message", tag.substr(0, 31)));
  EXPECT_FALSE(mac.Is("message", tag + "x"));
  EXPECT_FALSE(mac.Is("message", ""));
  EXPECT_FALSE(PurposeMac(Master(2), "purpose one").Is("message", tag));
  EXPECT_FALSE(PurposeMac(Master(1), "purpose two").Is("message", tag));
}

}  // namespace
}  // namespace stria
