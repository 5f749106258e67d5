// MACs by a key that is derived from the cluster's master key for one purpose (HKDF-SHA256, RFC 5869): who has one of these keys
// learns neither the master key nor those of other purposes. HMAC-SHA256, whole.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "common/token.h"

namespace stria {

using PurposeTag = std::array<uint8_t, 32>;

// Immutable; any thread.
class PurposeMac {
 public:
  // `purpose`: 1 to 32 bytes, and never one of before for something else.
  PurposeMac(const ClusterKey& master, std::string_view purpose);
  ~PurposeMac();
  PurposeMac(PurposeMac&&) noexcept;
  PurposeTag Of(std::string_view message) const;
  // In constant time for tags of the right length.
  bool Is(std::string_view message, std::string_view tag) const;
  uint32_t key_id() const { return key_id_; }  // the master key's

 private:
  uint32_t key_id_;
  std::unique_ptr<const token_internal::Hmac> hmac_;
};

}  // namespace stria
