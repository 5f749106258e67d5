// Signs what lets clients and data servers touch a shard, with the server's key and by the server's time.
//
// Owns the clock by which tokens expire. Called by every room that hands out stripes or work. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "api/meta_api.h"
#include "common/token.h"
#include "common/token_clock.h"

namespace stria {

class TokenMint {
 public:
  // `signer` outlives it.
  TokenMint(const TokenSigner* signer, int64_t ttl_ns) : signer_(signer), ttl_ns_(ttl_ns) {}

  // The server starts: its time is the executor's wall clock of now, and goes on from there without jumps.
  void Begin(Executor* executor);
  int64_t TimeNs() const { return clock_.At(*executor_); }
  // `rights`: TokenRight bits.
  std::string Sign(ShardId shard, TargetId target, uint8_t rights) const;
  // One token for each column that has a shard.
  void SignGrant(StripeGrant* grant, uint8_t rights) const;

 private:
  const TokenSigner* const signer_;
  const int64_t ttl_ns_;
  Executor* executor_ = nullptr;
  TokenClock clock_;
};

}  // namespace stria
