// HMAC-SHA256 with its keyed states made once. For the .cc files of tokens; the first include of each.
//
// The one-shot functions of libcrypto 3 fetch and allocate for every call; the plain SHA-256 ones are ten times faster. They are
// not going away.
#pragma once

#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace stria {
namespace token_internal {

using Digest = std::array<uint8_t, SHA256_DIGEST_LENGTH>;

// RFC 2104.
class Hmac {
 public:
  explicit Hmac(const std::array<uint8_t, 32>& key) {
    uint8_t pad[SHA256_CBLOCK] = {};
    std::memcpy(pad, key.data(), key.size());
    for (uint8_t& b : pad) b ^= 0x36;
    SHA256_Init(&inner_);
    SHA256_Update(&inner_, pad, sizeof pad);
    for (uint8_t& b : pad) b ^= 0x36 ^ 0x5c;
    SHA256_Init(&outer_);
    SHA256_Update(&outer_, pad, sizeof pad);
    OPENSSL_cleanse(pad, sizeof pad);
  }
  ~Hmac() {
    OPENSSL_cleanse(&inner_, sizeof inner_);
    OPENSSL_cleanse(&outer_, sizeof outer_);
  }
  Digest Of(std::string_view message) const {
    Digest d;
    SHA256_CTX c = inner_;
    SHA256_Update(&c, message.data(), message.size());
    SHA256_Final(d.data(), &c);
    c = outer_;
    SHA256_Update(&c, d.data(), d.size());
    SHA256_Final(d.data(), &c);
    return d;
  }

 private:
  SHA256_CTX inner_;
  SHA256_CTX outer_;
};

}  // namespace token_internal

}  // namespace stria
