#include "meta/core/token_mint.h"

#include "common/units.h"

namespace stria {

void TokenMint::Begin(Executor* executor) {
  executor_ = executor;
  clock_.Set(executor->WallNs(), executor->NowNs());
}

std::string TokenMint::Sign(ShardId shard, TargetId target, uint8_t rights) const {
  const int64_t expiry_s = (TimeNs() + ttl_ns_) / kSecond;
  return EncodeToken(signer_->Sign(shard, target, rights, expiry_s));
}

void TokenMint::SignGrant(StripeGrant* grant, uint8_t rights) const {
  grant->tokens.assign(grant->info.columns.size(), "");
  for (size_t i = 0; i < grant->info.columns.size(); ++i) {
    const Column& c = grant->info.columns[i];
    if (c.shard) grant->tokens[i] = Sign(c.shard, c.target, rights);
  }
}

}  // namespace stria
