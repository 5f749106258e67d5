#include "meta/core/term_proof.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

constexpr Uuid kCluster{1, 2};

ClusterKey Key(uint32_t id) {
  ClusterKey key;
  key.id = id;
  key.secret.fill(static_cast<uint8_t>(id));
  return key;
}

TEST(TermProofTest, OnlyWhoHasTheKeyProvesALife) {
  const TermProof proof({Key(1)});
  const SaidTerm said = proof.Of(kCluster, 7);
  EXPECT_EQ(said.term, 7u);
  EXPECT_TRUE(proof.Is(kCluster, said));
  EXPECT_FALSE(proof.Is(kCluster, {8, said.proof}));
  EXPECT_FALSE(proof.Is(kCluster, {7, said.proof ^ 1}));
  EXPECT_FALSE(proof.Is(kCluster, {7, 0}));
  EXPECT_FALSE(proof.Is(Uuid{1, 3}, said)) << "it is of another cluster";
  EXPECT_FALSE(TermProof({Key(2)}).Is(kCluster, said));
  EXPECT_NE(proof.Of(kCluster, 8).proof, said.proof);
}

TEST(TermProofTest, KeysThatAreBeingReplacedVerify) {
  const SaidTerm before = TermProof({Key(1)}).Of(kCluster, 7);
  const TermProof both({Key(2), Key(1)});
  EXPECT_TRUE(both.Is(kCluster, before));
  EXPECT_EQ(both.Of(kCluster, 7), TermProof({Key(2)}).Of(kCluster, 7));
}

}  // namespace
}  // namespace stria
