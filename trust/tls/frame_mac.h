// Tags of frames in the modes `integrity` and `auth`: AES-128-GMAC under keys that the handshake exports, one per direction.
//
// The nonce of a frame is its number in its direction, from 0, mixed with 96 secret bits as TLS does; numbers have 64 bits and are
// not sent. So a frame that is left out, repeated, moved or from another connection has a wrong tag, and no nonce comes twice.
// (Ceph's first secure mode had nonces of 32 bits that came round: CVE-2020-1759.)
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "common/error.h"

struct evp_cipher_ctx_st;

namespace stria {

struct FrameKey {
  std::array<uint8_t, 16> key{};
  std::array<uint8_t, 12> salt{};
};

// One direction. One thread at a time.
class FrameMac {
 public:
  using Tag = std::array<uint8_t, 16>;
  explicit FrameMac(const FrameKey& key);
  ~FrameMac();
  FrameMac(FrameMac&&) noexcept;
  FrameMac& operator=(FrameMac&&) noexcept;

  // The bytes of the frame under way, in any pieces.
  void Add(std::span<const uint8_t> bytes);
  // Its tag; the next frame begins.
  Tag End();
  // The same, true if `tag` is it. After a wrong one nothing of the connection is to be believed.
  bool EndsWith(const Tag& tag);

 private:
  struct Free {
    void operator()(evp_cipher_ctx_st* p) const;
  };
  void Begin();
  std::array<uint8_t, 12> salt_;
  uint64_t next_ = 0;
  std::unique_ptr<evp_cipher_ctx_st, Free> ctx_;
};

}  // namespace stria
