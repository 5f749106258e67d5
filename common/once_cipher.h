// AES-256-GCM for keys that encrypt one message each, so that no nonce is needed: it is zero.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/purpose_mac.h"

namespace stria {

inline constexpr size_t kOnceTagBytes = 16;

// Longer than `plain` by kOnceTagBytes. `beside` is not in it, and cannot be changed either. REQUIRES: the key is never used for
// another message (nor for this one with another `beside`).
std::string EncryptOnce(const PurposeTag& key, std::string_view beside, std::string_view plain);
// nullopt: `encrypted` was made with another key or another `beside`, or was changed since.
std::optional<std::string> DecryptOnce(const PurposeTag& key, std::string_view beside, std::string_view encrypted);

}  // namespace stria
