// Shard tokens that are good for one holder only: the second form, beside that of token.h. Its holder is named by the first 8 bytes of
// the hash of its public key, which the connection has proved (trust/identity.h), so a token that somebody else comes by is worth
// nothing to it. It also says how many bytes may be written, and the incarnation of the cluster.
//
// Each node has its own keys, derived from the cluster's master secret, another one each day: who breaks a PC signs for that PC only,
// and for two days. Data servers get the keys of yesterday, today and tomorrow with heartbeats, so that no clock has to be right.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/token.h"

namespace stria {

struct BoundToken {
  ShardId shard;
  TargetId target;
  uint8_t rights = 0;     // TokenRight
  int64_t expiry_s = 0;   // as ShardToken's
  uint32_t key_id = 0;    // the key's generation
  uint64_t holder = 0;    // Peer::Holder(), never 0
  uint64_t most_bytes = 0;  // of the shard's payload that may be written; 0 with rights other than to write
  uint64_t incarnation = 0;
  std::array<uint8_t, 16> mac{};
  bool operator==(const BoundToken&) const = default;
};
inline constexpr size_t kBoundTokenBytes = 66;
std::string EncodeBoundToken(const BoundToken& token);
// kBadToken unless `bytes` are of an encoded one (its MAC is not looked at).
Result<BoundToken> DecodeBoundToken(std::string_view bytes);
// Which of the two forms it is, by its first byte.
bool IsBoundToken(std::string_view bytes);

// Keys have a generation: the day, by the time that tokens expire by.
inline constexpr int64_t kKeyLifeS = 24 * 3600;
uint32_t KeyGeneration(int64_t now_s);
// HKDF-SHA256 of the master secret; `id` of what it gives is the generation.
ClusterKey DeriveNodeKey(const ClusterKey& master, const Uuid& node, uint32_t generation);
// Of yesterday, today and tomorrow: what the node gets.
std::vector<ClusterKey> NodeKeysAround(const ClusterKey& master, const Uuid& node, int64_t now_s);

// Of one node and one generation. Immutable; any thread.
class BoundTokenSigner {
 public:
  explicit BoundTokenSigner(const ClusterKey& node_key);
  ~BoundTokenSigner();
  // Gives `token` its key and MAC. REQUIRES: a holder, known rights.
  BoundToken Sign(BoundToken token) const;
  uint32_t generation() const { return generation_; }

 private:
  const uint32_t generation_;
  std::unique_ptr<const token_internal::Hmac> hmac_;
};

// What a request wants to do.
struct TokenUse {
  ShardId shard;
  TargetId target;
  uint8_t right = 0;    // one TokenRight
  uint64_t holder = 0;  // whose connection it came over
  bool any_holder = false;  // it came over no connection that proves one
  uint64_t bytes = 0;   // for kTokenWrite: the end of what it writes, in the shard's payload
};

// Immutable; any thread. Made anew when keys or incarnation change.
class BoundTokenVerifier {
 public:
  // REQUIRES: at most kMaxClusterKeys, of different ids.
  BoundTokenVerifier(const std::vector<ClusterKey>& node_keys, uint64_t incarnation);
  ~BoundTokenVerifier();
  // kBadToken: forged, of an unknown key, or for something or somebody else. kTokenExpired.
  Result<void> Check(std::string_view token, const TokenUse& use, int64_t now_s) const;

 private:
  const uint64_t incarnation_;
  std::vector<std::pair<uint32_t, std::unique_ptr<const token_internal::Hmac>>> keys_;
};

}  // namespace stria
