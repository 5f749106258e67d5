// Signs what lets clients and data servers touch a shard, by the server's time.
//
// A caller whose connection has proved who it is gets tokens that only it can use (common/bound_token.h), signed with a key of the
// shard's node. Others get tokens that are good for whoever has them (common/token.h), signed with the cluster's key.
//
// Owns the clock by which tokens expire, the signers of the nodes' keys of now, and which holders may not use what they were given
// before (common/fenced_holders.h). Called by every room that hands out stripes
// or work. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/meta_api.h"
#include "common/bound_token.h"
#include "common/fenced_holders.h"
#include "common/token.h"
#include "common/token_clock.h"
#include "common/units.h"
#include "meta/core/token_targets.h"

namespace stria {

// For whom a token is: 0, nobody has proved anything.
inline uint64_t HolderOf(const OpHeader& h) { return h.peer ? h.peer->Holder() : 0; }

inline constexpr int64_t kBoundWriteTtlNs = 600 * kSecond;

class TokenMint {
 public:
  // `signer` outlives it. `master`: what the nodes' keys are derived from.
  TokenMint(const TokenSigner* signer, const ClusterKey& master, int64_t ttl_ns)
      : signer_(signer), master_(master), ttl_ns_(ttl_ns) {}

  // The server starts: its time is the executor's wall clock of now, and goes on from there without jumps.
  void Begin(Executor* executor);
  // The time does not begin before this one, that others have gone by.
  void AtLeast(int64_t token_ns) {
    if (TimeNs() < token_ns) clock_.Set(token_ns, executor_->NowNs());
  }
  // What tokens that are bound to a holder need. `targets` outlives it. Before this there are none of them.
  void Bind(const TokenTargets* targets, uint64_t incarnation) {
    targets_ = targets;
    incarnation_ = incarnation;
  }
  int64_t TimeNs() const { return clock_.At(*executor_); }
  // `rights`: TokenRight bits. `most_bytes`: of a shard's payload that may be written. "" for a disk that no node has.
  std::string Sign(ShardId shard, TargetId target, uint8_t rights, uint64_t holder, uint64_t most_bytes = kMaxStripeBytes) const;
  // One token for each column that has a shard. `most_bytes`: of a column that is not written yet; others get their length.
  void SignGrant(StripeGrant* grant, uint8_t rights, uint64_t holder, uint64_t most_bytes = kMaxStripeBytes) const;
  // The target of a token that `holder` was given to read `shard`; one that has expired meanwhile says as much. kBadToken.
  Result<TargetId> TargetOf(const std::string& token, ShardId shard, uint64_t holder) const;
  // For the node: what it judges tokens by.
  std::vector<NodeTokenKey> KeysOf(const Uuid& node) const;
  // What this holder was given up to now is not to be used any more (its sessions were ended, or its certificate was revoked): data
  // servers hear of it with their next heartbeats. What it is given from the next second on is good. A restart of this server forgets it,
  // and is told again of those that were revoked (TrustRooms). Of an evicted one a data server that has heard of it remembers it; one
  // that has not takes such a token until it ends: to write kBoundWriteTtlNs at most, into a stripe that no file will show.
  void CutOff(uint64_t holder);
  std::vector<FencedHolder> Fenced();

 private:
  // Of a token that is signed now.
  int64_t ExpiryS(bool writes) const;
  const BoundTokenSigner& SignerOf(const Uuid& node, uint32_t generation) const;

  const TokenSigner* const signer_;
  const ClusterKey master_;
  const int64_t ttl_ns_;
  Executor* executor_ = nullptr;
  const TokenTargets* targets_ = nullptr;
  uint64_t incarnation_ = 0;
  TokenClock clock_;
  mutable std::map<std::pair<Uuid, uint32_t>, std::unique_ptr<const BoundTokenSigner>> signers_;  // of a few generations
  FencedHolders fenced_;
};

}  // namespace stria
