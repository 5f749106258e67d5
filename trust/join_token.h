// Tokens with which a machine that is not of the cluster yet becomes so. What an admin makes is two things:
//
//   stria-join:HOST:PORT:sha256=HASH:SECRET   for the new machine: where to, whose hash the cluster's authority has, a secret
//   JoinGrant                                 for the metadata server: who may use it, for what, how often, until when
//
// The secret is a seed of 128 bits for an Ed25519 key. The grant keeps the public key only, and the new machine proves the secret by
// a signature: nothing that can be used to join is stored, goes into a backup, or over the wire.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trust/identity.h"
#include "trust/network.h"

namespace stria {

using JoinSecret = std::array<uint8_t, 16>;
using JoinVerifier = std::array<uint8_t, 32>;  // the public key
inline constexpr size_t kJoinProofBytes = 64;
inline constexpr char kJoinTokenPrefix[] = "stria-join:";

struct JoinToken {
  std::string host;
  uint16_t port = 0;
  Sha256Hash authority{};
  JoinSecret secret{};
  bool operator==(const JoinToken&) const = default;
};
std::string FormatJoinToken(const JoinToken& token);
// kBadRequest with a sentence, which does not repeat what was given: it may have the secret in it.
Result<JoinToken> ParseJoinToken(std::string_view text);

JoinSecret NewJoinSecret();
JoinVerifier VerifierOf(const JoinSecret& secret);
// A signature of `message` that only who knows the secret can make.
std::string ProveJoin(const JoinSecret& secret, std::string_view message);
bool CheckJoinProof(const JoinVerifier& verifier, std::string_view message, std::string_view proof);

inline constexpr uint32_t kMaxJoinUses = 4096;
inline constexpr size_t kMaxJoinNetworks = 32;

struct JoinGrant {
  JoinVerifier verifier{};
  Role role = Role::kClient;
  std::string name;                // empty: the machine says its own
  std::string names;               // that they may say, with '*' and '?'; empty: any
  uint32_t uses = 1;
  std::vector<Network> networks;   // from where; empty: anywhere
  int64_t expires_s = 0;
  bool trusted_root = false;       // of clients: their root is not squashed
  std::vector<Sha256Hash> used;    // hashes of the keys that were given certificates
  bool operator==(const JoinGrant&) const = default;

  // For `stria token ls|revoke`: eight hex digits, from the verifier.
  std::string Id() const;
};
// kInval with a sentence: a role that nobody joins as, a name for many, bounds.
Result<void> CheckNewGrant(const JoinGrant& grant);
// The same of one that was made, as releases before `names` did, too: for many machines, with any names.
Result<void> CheckJoinGrant(const JoinGrant& grant);
std::string EncodeJoinGrant(const JoinGrant& grant);
Result<JoinGrant> DecodeJoinGrant(std::string_view record);

}  // namespace stria
