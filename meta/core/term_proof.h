// Proofs that a life of the metadata server has been: MACs of the cluster's number and the term, by a key that is derived from the
// cluster's. Each life gives its own to all who talk with it (ClusterMap::term_proof), and they hand it on with what they have
// heard. So a metadata server believes nobody that it has been succeeded, but the proof: a client or a data server cannot end it
// by a number that it makes up. Who knows the proof of a life can say with it only what is true. Immutable; any thread.
#pragma once

#include <vector>

#include "api/types.h"
#include "common/ids.h"
#include "common/purpose_mac.h"
#include "common/token.h"

namespace stria {

class TermProof {
 public:
  // `keys`: the first makes proofs, all of them verify.
  explicit TermProof(const std::vector<ClusterKey>& keys);
  // REQUIRES: term > 0.
  SaidTerm Of(const Uuid& cluster, uint64_t term) const;
  bool Is(const Uuid& cluster, const SaidTerm& said) const;

 private:
  std::vector<PurposeMac> macs_;
};

}  // namespace stria
