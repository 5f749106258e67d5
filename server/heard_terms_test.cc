#include "server/heard_terms.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

constexpr SaidTerm k5{5, 50}, k6{6, 60}, k7{7, 70};

Peer Someone(uint8_t n) {
  Peer peer;
  peer.role = Role::kClient;
  peer.key_hash.fill(n);
  return peer;
}

class HeardTermsTest : public testing::Test {
 protected:
  HeardTermsTest() {
    terms.OnClaim([this] { ++claims; });
    terms.Learn(k5);
  }
  HeardTerms terms;
  int claims = 0;
  const Peer alice = Someone(1), bob = Someone(2);
};

TEST_F(HeardTermsTest, FormerServersAreNotHeard) {
  EXPECT_TRUE(terms.Answered(terms.ToAsk(), 5).ok());
  EXPECT_TRUE(terms.Answered(terms.ToAsk(), 6).ok()) << "it has restarted";
  EXPECT_EQ(terms.Answered(terms.ToAsk(), 4).code, FsError::kNotLeader);
  EXPECT_TRUE(terms.Answered(terms.ToAsk(), 0).ok()) << "answers without a term are of who was shown it";
  terms.Learn({4, 40});
  EXPECT_EQ(terms.known(), k5);
  EXPECT_EQ(terms.ToAsk().said, k5);
}

TEST_F(HeardTermsTest, AClaimIsAskedOfBeforeAnAnswerCounts) {
  const HeardTerms::Asked before = terms.ToAsk();
  EXPECT_TRUE(terms.Claim(&alice, k6));
  EXPECT_EQ(claims, 1);
  EXPECT_EQ(terms.Highest(), 6u);
  EXPECT_EQ(terms.known(), k5);
  // Sent before it came.
  EXPECT_EQ(terms.Answered(before, 5).code, FsError::kRetryLater);
  EXPECT_EQ(terms.Answered(before, 0).code, FsError::kRetryLater);
  EXPECT_EQ(terms.ToAsk().said, k6);
  EXPECT_TRUE(terms.Answered(terms.ToAsk(), 6).ok());
  EXPECT_EQ(terms.ToAsk().said, k5) << "nothing is claimed any more";
}

TEST_F(HeardTermsTest, WhatTheServerDoesNotBelieveIsForgottenAndSoIsWhoSaidIt) {
  EXPECT_TRUE(terms.Claim(&alice, {UINT64_MAX, 1}));
  const HeardTerms::Asked asked = terms.ToAsk();
  EXPECT_TRUE(terms.Claim(&bob, k6)) << "true or not, it waits for its turn";
  EXPECT_EQ(terms.Answered(asked, 5).code, FsError::kRetryLater);
  EXPECT_EQ(terms.ToAsk().said, k6);
  EXPECT_TRUE(terms.Answered(terms.ToAsk(), 5).ok());
  EXPECT_EQ(terms.Highest(), 5u);
  const int before = claims;
  EXPECT_TRUE(terms.Claim(&alice, {UINT64_MAX, 2}));
  EXPECT_EQ(terms.Highest(), 5u);
  EXPECT_EQ(claims, before);
  // A newer life: everybody is heard again.
  terms.Learn(k6);
  EXPECT_TRUE(terms.Claim(&alice, k7));
  EXPECT_EQ(terms.Highest(), 7u);
}

// One that makes a new claim while the last is asked of delays the node once.
TEST_F(HeardTermsTest, ALiarCostsOneQuestion) {
  EXPECT_TRUE(terms.Claim(&alice, {100, 1}));
  const HeardTerms::Asked asked = terms.ToAsk();
  EXPECT_TRUE(terms.Claim(&alice, {101, 1}));
  EXPECT_TRUE(terms.Answered(asked, 5).ok());
  EXPECT_TRUE(terms.Claim(&alice, {102, 1}));
  EXPECT_EQ(terms.Highest(), 5u);
}

TEST_F(HeardTermsTest, OldWordAndWordWithoutProofIsNoClaim) {
  EXPECT_TRUE(terms.Claim(&alice, k5));
  EXPECT_TRUE(terms.Claim(&alice, {9, 0}));
  EXPECT_TRUE(terms.Claim(nullptr, {0, 0}));
  EXPECT_EQ(claims, 0);
  EXPECT_EQ(terms.Highest(), 5u);
}

TEST_F(HeardTermsTest, ClaimsAreBounded) {
  for (uint8_t n = 0; n < kMaxTermClaims; ++n) {
    const Peer peer = Someone(n);
    EXPECT_TRUE(terms.Claim(&peer, {uint64_t{100} + n, 1}));
  }
  const Peer last = Someone(200);
  EXPECT_FALSE(terms.Claim(&last, {300, 1}));
  terms.Learn({200, 1});
  EXPECT_TRUE(terms.Claim(&last, {300, 1}));
}

TEST_F(HeardTermsTest, ARestartForgetsNothing) {
  EXPECT_TRUE(terms.Claim(&alice, k7));
  HeardTerms again;
  again.Load({{3, 30}, {4, 40}});  // a disk that was away
  again.Load(terms.ToKeep());
  EXPECT_EQ(again.Highest(), 7u);
  EXPECT_EQ(again.ToAsk().said, k7);
  // Life 7 is not true: what the node had heard itself is asked of next.
  EXPECT_EQ(again.Answered(again.ToAsk(), 4).code, FsError::kRetryLater);
  EXPECT_EQ(again.ToAsk().said, k5);
  again.Learn(k7);
  EXPECT_EQ(again.ToKeep(), (HeardTerms::Kept{k7, {}}));
}

// A disk that was another machine's, or that somebody has written on.
TEST_F(HeardTermsTest, WhatADiskSaysKeepsNobodyFromTheServer) {
  HeardTerms again;
  again.Load({{UINT64_MAX, 1}, {UINT64_MAX - 1, 1}});
  again.Load({k5, {}});
  again.Load({k5, {}});
  EXPECT_EQ(again.known(), SaidTerm());
  int answers = 1;
  while (!again.Answered(again.ToAsk(), 6).ok()) ASSERT_LT(++answers, 4);
  again.Learn(k6);
  EXPECT_FALSE(again.HasClaims());
  EXPECT_EQ(again.known(), k6);
  again.Load({{UINT64_MAX, 1}, {}});  // it comes while the node runs
  EXPECT_EQ(again.known(), k6);
  EXPECT_TRUE(again.Answered(again.ToAsk(), 6).ok());
  EXPECT_EQ(again.Highest(), 6u);
  again.Load({{9, 0}, {}});
  EXPECT_FALSE(again.HasClaims()) << "it has no proof";
}

TEST_F(HeardTermsTest, AProofThatComesLaterIsTaken) {
  terms.Learn({6, 0});
  terms.Learn(k6);
  EXPECT_EQ(terms.known(), k6);
  terms.Learn({6, 61});
  EXPECT_EQ(terms.known(), k6);
}

}  // namespace
}  // namespace stria
