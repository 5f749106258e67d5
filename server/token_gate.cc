#include "server/token_gate.h"

#include <algorithm>

#include "common/sabotage.h"

namespace stria {

void TokenGate::TakeKeys(const std::vector<NodeTokenKey>& keys, uint64_t incarnation) {
  std::vector<ClusterKey> taken;
  for (const NodeTokenKey& k : keys) {
    ClusterKey key;
    const bool twice = std::any_of(taken.begin(), taken.end(), [&](const ClusterKey& o) { return o.id == k.id; });
    if (k.secret.size() != key.secret.size() || twice || taken.size() == kMaxClusterKeys) continue;
    key.id = k.id;
    std::copy(k.secret.begin(), k.secret.end(), key.secret.begin());
    taken.push_back(key);
  }
  for (const ClusterKey& k : keys_) {
    const bool known = std::any_of(taken.begin(), taken.end(), [&](const ClusterKey& o) { return o.id == k.id; });
    if (Sabotaged(Sabotage::kKeepOldKeys) && !known && taken.size() < kMaxClusterKeys) taken.push_back(k);
  }
  const auto same = [](const ClusterKey& a, const ClusterKey& b) { return a.id == b.id && a.secret == b.secret; };
  if (taken.empty() || (incarnation == incarnation_ && std::equal(taken.begin(), taken.end(), keys_.begin(), keys_.end(), same))) return;
  keys_ = std::move(taken);
  incarnation_ = incarnation;
  bound_ = std::make_unique<const BoundTokenVerifier>(keys_, incarnation_);
}

Result<void> TokenGate::CheckBound(const std::string& token, const TokenUse& use, int64_t now_s) const {
  if (!IsBoundToken(token)) return Error(FsError::kBadToken, "the shard token is not bound to a holder, as it has to be here");
  if (bound_ == nullptr) return Error(FsError::kNotReady, "this data server has not heard its keys from the metadata server yet");
  RETURN_IF_ERROR(bound_->Check(token, use, now_s));
  return fenced_.empty() || Sabotaged(Sabotage::kTakeFencedTokens) ? Ok() : CheckFenced(token);
}

// REQUIRES: the token is genuine.
Result<void> TokenGate::CheckFenced(const std::string& token) const {
  ASSIGN_OR_RETURN(const BoundToken t, DecodeBoundToken(token));
  if (!fenced_.Has(t.holder, (t.rights & kTokenWrite) != 0, t.expiry_s)) return Ok();
  return Error(FsError::kBadToken, "the shard token is fenced: the session that it was given to is over");
}

void TokenGate::TakeFenced(const std::vector<FencedHolder>& fenced, int64_t now_s) {
  for (const FencedHolder& f : fenced) fenced_.Note(f);
  fenced_.Forget(now_s);
}

Result<void> TokenGate::Check(const std::string& token, TokenUse use, const Peer* peer, int64_t now_s) const {
  if (peer == nullptr) return cluster_.Check(token, use.shard, use.target, static_cast<TokenRight>(use.right), now_s);
  use.holder = peer->Holder();
  if (use.holder == 0) return Error(FsError::kBadToken, peer->ToString() + " has no key that a shard token could be bound to");
  Result<void> good = CheckBound(token, use, now_s);
  if (good.ok() || good.code() == FsError::kNotReady) return good;
  return Error(good.code(), good.error().message + "; " + peer->ToString() + " has shown it");
}

Result<void> TokenGate::CheckHere(const std::string& token, TokenUse use, int64_t now_s) const {
  if (!IsBoundToken(token)) return cluster_.Check(token, use.shard, use.target, static_cast<TokenRight>(use.right), now_s);
  use.any_holder = true;
  return CheckBound(token, use, now_s);
}

}  // namespace stria
