#include "meta/core/term_proof.h"

#include <string>

#include "common/codec.h"

namespace stria {
namespace {

// The first 8 bytes of the tag; never 0, which says that there is none. It can be tried only by asking a server.
uint64_t Proof(const PurposeMac& mac, const Uuid& cluster, uint64_t term) {
  ByteWriter message;
  message.U64(cluster.hi);
  message.U64(cluster.lo);
  message.U64(term);
  const PurposeTag tag = mac.Of(message.str());
  uint64_t out = 0;
  for (size_t i = 0; i < 8; ++i) out = out << 8 | tag[i];
  return out == 0 ? 1 : out;
}

}  // namespace

TermProof::TermProof(const std::vector<ClusterKey>& keys) {
  for (const ClusterKey& key : keys) macs_.emplace_back(key, "stria-term-1");
}

SaidTerm TermProof::Of(const Uuid& cluster, uint64_t term) const { return {term, Proof(macs_.at(0), cluster, term)}; }

bool TermProof::Is(const Uuid& cluster, const SaidTerm& said) const {
  bool is = false;
  for (const PurposeMac& mac : macs_) is = is || ((Proof(mac, cluster, said.term) ^ said.proof) == 0);
  return said.proof != 0 && is;
}

}  // namespace stria
