// Judges shard tokens for everything on this node that takes them.
//
// A caller whose connection has proved who it is needs a token that is bound to it and signed with one of the node's own keys
// (common/bound_token.h). Where nothing is proved, tokens are good for whoever has them, and signed with the cluster's key.
//
// Owns: the cluster's keys (none where everybody proves who they are), and the node's keys as last heard. For the executor's
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/cluster_api.h"
#include "common/bound_token.h"
#include "common/token.h"
#include "trust/identity.h"

namespace stria {

class TokenGate {
 public:
  explicit TokenGate(const std::vector<ClusterKey>& cluster_keys) : cluster_(cluster_keys) {}

  // The node's keys, as the metadata server gave them with a registration or a heartbeat; none: nothing changes.
  void TakeKeys(const std::vector<NodeTokenKey>& keys, uint64_t incarnation);

  // May `peer` (null: it has proved nothing) do this? `use.holder` is filled in here. kBadToken, kTokenExpired; kNotReady: this
  // node has no keys yet.
  Result<void> Check(const std::string& token, TokenUse use, const Peer* peer, int64_t now_s) const;
  // The same for a reader on this machine who came over the Unix socket: the socket's mode says who may, and nothing there
  // proves a holder. Either form of token is taken.
  Result<void> CheckHere(const std::string& token, TokenUse use, int64_t now_s) const;
  // For callers who have proved nothing.
  const TokenVerifier& cluster() const { return cluster_; }

 private:
  Result<void> CheckBound(const std::string& token, const TokenUse& use, int64_t now_s) const;

  const TokenVerifier cluster_;
  std::vector<ClusterKey> keys_;
  uint64_t incarnation_ = 0;
  std::unique_ptr<const BoundTokenVerifier> bound_;  // null: no keys yet
};

}  // namespace stria
