#include "common/token_hmac.h"

#include "common/purpose_mac.h"

#include <string>

#include "common/check.h"

namespace stria {
namespace {

using token_internal::Digest;
using token_internal::Hmac;

// One block of output.
std::unique_ptr<const Hmac> Derive(const ClusterKey& master, std::string_view purpose) {
  std::array<uint8_t, 32> salt{};  // HMAC pads keys with zeros: the same key
  CHECK(!purpose.empty() && purpose.size() <= salt.size(), "a purpose is 1 to 32 bytes long");
  std::memcpy(salt.data(), purpose.data(), purpose.size());
  Digest extracted = Hmac(salt).Of({reinterpret_cast<const char*>(master.secret.data()), master.secret.size()});
  Digest key = Hmac(extracted).Of(std::string(1, '\x01'));
  auto out = std::make_unique<const Hmac>(key);
  OPENSSL_cleanse(extracted.data(), extracted.size());
  OPENSSL_cleanse(key.data(), key.size());
  return out;
}

}  // namespace

PurposeMac::PurposeMac(const ClusterKey& master, std::string_view purpose) : key_id_(master.id), hmac_(Derive(master, purpose)) {}
PurposeMac::~PurposeMac() = default;
PurposeMac::PurposeMac(PurposeMac&&) noexcept = default;

PurposeTag PurposeMac::Of(std::string_view message) const { return hmac_->Of(message); }

bool PurposeMac::Is(std::string_view message, std::string_view tag) const {
  const PurposeTag right = Of(message);
  return tag.size() == right.size() && CRYPTO_memcmp(right.data(), tag.data(), tag.size()) == 0;
}

}  // namespace stria
