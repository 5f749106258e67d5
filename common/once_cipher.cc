#include "common/once_cipher.h"

#include <openssl/evp.h>

#include <climits>
#include <cstdint>
#include <memory>

#include "common/check.h"

namespace stria {
namespace {

constexpr uint8_t kNonce[12] = {};

struct FreeContext {
  void operator()(EVP_CIPHER_CTX* c) const { EVP_CIPHER_CTX_free(c); }
};

const uint8_t* Bytes(std::string_view s) { return reinterpret_cast<const uint8_t*>(s.data()); }
uint8_t* Bytes(std::string& s) { return reinterpret_cast<uint8_t*>(s.data()); }

int Length(std::string_view s) {
  CHECK(s.size() <= INT_MAX, "a message of AES-GCM is shorter");
  return static_cast<int>(s.size());
}

}  // namespace

std::string EncryptOnce(const PurposeTag& key, std::string_view beside, std::string_view plain) {
  const std::unique_ptr<EVP_CIPHER_CTX, FreeContext> c(EVP_CIPHER_CTX_new());
  std::string out(plain.size() + kOnceTagBytes, '\0');
  int n = 0, last = 0;
  const bool done = c && EVP_EncryptInit_ex(c.get(), EVP_aes_256_gcm(), nullptr, key.data(), kNonce) == 1 &&
                    EVP_EncryptUpdate(c.get(), nullptr, &n, Bytes(beside), Length(beside)) == 1 &&
                    EVP_EncryptUpdate(c.get(), Bytes(out), &n, Bytes(plain), Length(plain)) == 1 &&
                    EVP_EncryptFinal_ex(c.get(), Bytes(out) + n, &last) == 1 &&
                    EVP_CIPHER_CTX_ctrl(c.get(), EVP_CTRL_GCM_GET_TAG, kOnceTagBytes, Bytes(out) + plain.size()) == 1;
  CHECK(done, "OpenSSL cannot encrypt with AES-256-GCM");
  return out;
}

std::optional<std::string> DecryptOnce(const PurposeTag& key, std::string_view beside, std::string_view encrypted) {
  if (encrypted.size() < kOnceTagBytes) return std::nullopt;
  const std::unique_ptr<EVP_CIPHER_CTX, FreeContext> c(EVP_CIPHER_CTX_new());
  const std::string_view text = encrypted.substr(0, encrypted.size() - kOnceTagBytes);
  std::string tag(encrypted.substr(text.size()));
  std::string out(text.size(), '\0');
  int n = 0, last = 0;
  const bool done = c && EVP_DecryptInit_ex(c.get(), EVP_aes_256_gcm(), nullptr, key.data(), kNonce) == 1 &&
                    EVP_DecryptUpdate(c.get(), nullptr, &n, Bytes(beside), Length(beside)) == 1 &&
                    EVP_DecryptUpdate(c.get(), Bytes(out), &n, Bytes(text), Length(text)) == 1 &&
                    EVP_CIPHER_CTX_ctrl(c.get(), EVP_CTRL_GCM_SET_TAG, kOnceTagBytes, tag.data()) == 1 &&
                    EVP_DecryptFinal_ex(c.get(), Bytes(out) + n, &last) == 1;
  if (!done) return std::nullopt;
  return out;
}

}  // namespace stria
