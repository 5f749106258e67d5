#include "meta/core/token_mint.h"

#include <algorithm>

#include "common/units.h"

namespace stria {

void TokenMint::Begin(Executor* executor) {
  executor_ = executor;
  clock_.Set(executor->WallNs(), executor->NowNs());
}

const BoundTokenSigner& TokenMint::SignerOf(const Uuid& node, uint32_t generation) const {
  std::unique_ptr<const BoundTokenSigner>& signer = signers_[{node, generation}];
  if (signer) return *signer;
  signer = std::make_unique<const BoundTokenSigner>(DeriveNodeKey(master_, node, generation));
  std::erase_if(signers_, [generation](const auto& s) { return s.first.second + 2 < generation; });
  return *signers_.at({node, generation});
}

std::string TokenMint::Sign(ShardId shard, TargetId target, uint8_t rights, uint64_t holder, uint64_t most_bytes) const {
  const bool writes = (rights & kTokenWrite) != 0;
  if (holder == 0 || targets_ == nullptr) {
    return EncodeToken(signer_->Sign(shard, target, rights, (TimeNs() + ttl_ns_) / kSecond));
  }
  const Uuid node = targets_->NodeOf(target);
  if (!node) return "";
  const int64_t now_ns = TimeNs();
  BoundToken t;
  t.shard = shard;
  t.target = target;
  t.rights = rights;
  t.expiry_s = (now_ns + (writes ? std::min(ttl_ns_, kBoundWriteTtlNs) : ttl_ns_)) / kSecond;
  t.holder = holder;
  t.most_bytes = writes ? most_bytes : 0;
  t.incarnation = incarnation_;
  return EncodeBoundToken(SignerOf(node, KeyGeneration(now_ns / kSecond)).Sign(t));
}

void TokenMint::SignGrant(StripeGrant* grant, uint8_t rights, uint64_t holder) const {
  // What is short of space may not be written beyond it: the disk has promised no more.
  const uint64_t most = grant->max_column_bytes != 0 ? grant->max_column_bytes : kMaxStripeBytes;
  grant->tokens.assign(grant->info.columns.size(), "");
  for (size_t i = 0; i < grant->info.columns.size(); ++i) {
    const Column& c = grant->info.columns[i];
    if (c.shard) grant->tokens[i] = Sign(c.shard, c.target, rights, holder, most);
  }
}

Result<TargetId> TokenMint::TargetOf(const std::string& token, ShardId shard, uint64_t holder) const {
  const Error other(FsError::kBadToken, "the token is not one that was given to its holder to read this shard");
  ASSIGN_OR_RETURN(const BoundToken t, DecodeBoundToken(token));
  const Uuid node = targets_ == nullptr ? Uuid() : targets_->NodeOf(t.target);
  const uint32_t today = KeyGeneration(TimeNs() / kSecond);
  const bool ours = t.key_id + 1 == today || t.key_id == today;
  if (!node || !ours || holder == 0 || t.holder != holder || t.shard != shard || (t.rights & kTokenRead) == 0) return other;
  if (SignerOf(node, t.key_id).Sign(t).mac != t.mac) return other;
  return t.target;
}

std::vector<NodeTokenKey> TokenMint::KeysOf(const Uuid& node) const {
  std::vector<NodeTokenKey> out;
  for (const ClusterKey& k : NodeKeysAround(master_, node, TimeNs() / kSecond)) {
    out.push_back({k.id, std::string(k.secret.begin(), k.secret.end())});
  }
  return out;
}

}  // namespace stria
