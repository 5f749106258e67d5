// The register as text at the coordinator: one line of JSON, which people can read with the coordinator's own tools, and a MAC by the
// cluster's master key over everything before it. Who has no key of the cluster can stop changes of roles by writing there, and
// nothing worse. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "common/error.h"
#include "common/purpose_mac.h"
#include "meta/replica/register.h"

namespace stria {

inline constexpr std::string_view kRegisterPurpose = "meta register";  // of PurposeMac
inline constexpr uint64_t kRegisterFormat = 1;

// The key of a cluster's register.
std::string RegisterKey(const Uuid& cluster);

// REQUIRES: CheckRegister(r).
std::string EncodeRegister(const Register& r, const PurposeMac& mac);
// kBadToken: the MAC is missing, of another key, or wrong. kVersion: a format of later releases. kCorrupt: anything else, also where
// CheckRegister fails. None of them may be taken for "there is none".
Result<Register> DecodeRegister(std::string_view text, const PurposeMac& mac);

}  // namespace stria
