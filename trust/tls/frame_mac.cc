#include "trust/tls/frame_mac.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>

namespace stria {
namespace {
constexpr size_t kMaxUpdate = size_t{1} << 30;  // OpenSSL counts in int
}  // namespace

void FrameMac::Free::operator()(evp_cipher_ctx_st* p) const { EVP_CIPHER_CTX_free(p); }

FrameMac::FrameMac(const FrameKey& key) : salt_(key.salt), ctx_(EVP_CIPHER_CTX_new()) {
  CHECK(ctx_ != nullptr && EVP_EncryptInit_ex(ctx_.get(), EVP_aes_128_gcm(), nullptr, key.key.data(), nullptr) == 1);
  Begin();
}
FrameMac::~FrameMac() = default;
FrameMac::FrameMac(FrameMac&&) noexcept = default;
FrameMac& FrameMac::operator=(FrameMac&&) noexcept = default;

void FrameMac::Begin() {
  CHECK(next_ != UINT64_MAX, "a connection does not send so many frames");
  std::array<uint8_t, 12> nonce = salt_;
  for (size_t i = 0; i < 8; ++i) nonce[11 - i] ^= static_cast<uint8_t>(next_ >> (8 * i));
  ++next_;
  CHECK(EVP_EncryptInit_ex(ctx_.get(), nullptr, nullptr, nullptr, nonce.data()) == 1);
}

void FrameMac::Add(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const size_t n = std::min(bytes.size(), kMaxUpdate);
    int none = 0;
    CHECK(EVP_EncryptUpdate(ctx_.get(), nullptr, &none, bytes.data(), static_cast<int>(n)) == 1);
    bytes = bytes.subspan(n);
  }
}

FrameMac::Tag FrameMac::End() {
  Tag tag;
  uint8_t nothing[16];
  int none = 0;
  CHECK(EVP_EncryptFinal_ex(ctx_.get(), nothing, &none) == 1 && none == 0 &&
        EVP_CIPHER_CTX_ctrl(ctx_.get(), EVP_CTRL_AEAD_GET_TAG, static_cast<int>(tag.size()), tag.data()) == 1);
  Begin();
  return tag;
}

bool FrameMac::EndsWith(const Tag& tag) {
  const Tag want = End();
  return CRYPTO_memcmp(want.data(), tag.data(), tag.size()) == 0;
}

}  // namespace stria
