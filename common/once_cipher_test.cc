#include "common/once_cipher.h"

#include <gtest/gtest.h>

#include <string>

namespace stria {
namespace {

std::string Hex(std::string_view s) {
  std::string out;
  for (const char c : s) {
    out += "0123456789abcdef"[static_cast<uint8_t>(c) >> 4];
    out += "0123456789abcdef"[static_cast<uint8_t>(c) & 15];
  }
  return out;
}

// Test cases 13 and 14 of the paper of GCM.
TEST(OnceCipher, IsAes256Gcm) {
  const PurposeTag key{};
  EXPECT_EQ(Hex(EncryptOnce(key, "", "")), "530f8afbc74536b9a963b4f1c4cb738b");
  EXPECT_EQ(Hex(EncryptOnce(key, "", std::string(16, '\0'))), "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919");
}

TEST(OnceCipher, ReadsBackWhatIsWholeOnly) {
  PurposeTag key;
  key.fill(7);
  for (const size_t n : {size_t{0}, size_t{1}, size_t{16}, size_t{5000}}) {
    const std::string plain(n, 'p');
    const std::string text = EncryptOnce(key, "beside", plain);
    ASSERT_EQ(text.size(), n + kOnceTagBytes);
    EXPECT_EQ(DecryptOnce(key, "beside", text), plain);
    EXPECT_FALSE(DecryptOnce(key, "besides", text));
    PurposeTag other = key;
    other[31] ^= 1;
    EXPECT_FALSE(DecryptOnce(other, "beside", text));
    for (size_t i = 0; i < text.size(); i += 1 + text.size() / 50) {
      std::string hurt = text;
      hurt[i] = static_cast<char>(hurt[i] ^ 1);
      EXPECT_FALSE(DecryptOnce(key, "beside", hurt)) << i;
      EXPECT_FALSE(DecryptOnce(key, "beside", text.substr(0, i))) << i;
    }
  }
}

}  // namespace
}  // namespace stria
