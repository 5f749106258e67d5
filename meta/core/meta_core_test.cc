// The core without a metadata server.
#include "meta/core/core_testing.h"

namespace stria {
namespace {

TEST_F(CoreTest, EachLifeHasATermOfItsOwn) {
  Start();
  EXPECT_EQ(core->term(), 1u);
  Make();
  Start();
  EXPECT_EQ(core->term(), 2u);
}

TEST_F(CoreTest, CallsAreAnsweredOnlyWhileItServes) {
  EXPECT_EQ(core->CheckHeader(Header()).code(), FsError::kNotReady);
  Start();
  EXPECT_TRUE(core->CheckHeader(Header()).ok());
  OpHeader other = Header();
  other.cluster = Uuid{9, 9};
  EXPECT_EQ(core->CheckHeader(other).code(), FsError::kWrongCluster);
  other = Header();
  other.protocol = other.oldest_protocol = kProtocolVersion + 1;
  EXPECT_EQ(core->CheckHeader(other).code(), FsError::kVersion);
  core->EndServing();
  EXPECT_EQ(core->CheckHeader(Header()).code(), FsError::kNotReady);
}

TEST_F(CoreTest, TheFirstErrorEndsItAndIsToldOnce) {
  Start();
  int told = 0;
  core->OnFail([&] { ++told; });
  core->Fail(Error(FsError::kIo, "the disk is gone"));
  core->Fail(Error(FsError::kIo, "another"));
  EXPECT_EQ(told, 1);
  EXPECT_EQ(core->CheckHeader(Header()).code(), FsError::kUnavailable);
  EXPECT_EQ(RunSim(ex, core->WaitFatal()).message, "the disk is gone");
}

// A header of somebody who has heard of that life.
OpHeader Heard(OpHeader h, const SaidTerm& said) {
  h.seen_term = said.term;
  h.seen_proof = said.proof;
  return h;
}

TEST_F(CoreTest, ALaterLifeIsBelievedByItsProofOnly) {
  Start();
  const SaidTerm own = core->said();
  EXPECT_EQ(own.term, 1u);
  EXPECT_TRUE(core->CheckHeader(Heard(Header(), own)).ok());
  EXPECT_TRUE(core->CheckHeader(Heard(Header(), {7, 0})).ok());
  EXPECT_TRUE(core->CheckHeader(Heard(Header(), {7, own.proof})).ok()) << "that proves another life";
  EXPECT_FALSE(core->HasFailed());
}

TEST_F(CoreTest, AfterALaterLifeNothingIsAnsweredNorServedAgain) {
  Start();
  const SaidTerm later = TermProof({key}).Of(Uuid{1, 2}, 7);
  int told = 0;
  core->OnFail([&] { ++told; });
  EXPECT_EQ(core->CheckHeader(Heard(Header(), later)).code(), FsError::kNotLeader);
  EXPECT_EQ(told, 1);
  EXPECT_EQ(core->CheckHeader(Header()).code(), FsError::kNotLeader);
  EXPECT_EQ(RunSim(ex, core->Sync()).code(), FsError::kNotLeader);
  EXPECT_EQ(RunSim(ex, core->WaitDurable(core->store().last_seq())).code(), FsError::kNotLeader);
  {
    Txn txn(core->store());
    EXPECT_EQ(core->Commit(txn).code(), FsError::kNotLeader);
  }
  EXPECT_EQ(RunSim(ex, core->WaitFatal()).code, FsError::kNotLeader);
  // Its store remembers, also over a power cut.
  core.reset();
  Random rng(1);
  media->Crash(rng, true);
  for (int start = 0; start < 10; ++start) {
    Make();
    ASSERT_TRUE(RunSim(ex, core->Open()).ok());
    Txn txn(core->store());
    const Result<void> next = core->NextTerm(txn);
    EXPECT_EQ(next.code(), FsError::kNotLeader);
    EXPECT_NE(next.error().message.find("life 7"), std::string::npos) << next.error();
  }
  core.reset();
}

// One of several metadata servers is told its term, and the time that the one before it went by.
TEST_F(CoreTest, ALifeThatIsGivenHasTheTermOfTheRegister) {
  const int64_t later_ns = ex.WallNs() + 3600 * kSecond;
  Make({.term = 40, .token_time_ns = later_ns});
  Start();
  EXPECT_EQ(core->term(), 40u);
  EXPECT_GE(core->tokens().TimeNs(), later_ns);
  for (const uint64_t term : {39u, 40u}) {
    Make({.term = term});
    ASSERT_TRUE(RunSim(ex, core->Open()).ok());
    Txn txn(core->store());
    EXPECT_EQ(core->NextTerm(txn).code(), FsError::kNotLeader) << term;
  }
  Make();
  Start();
  EXPECT_EQ(core->term(), 41u);
}

// It tells of a later life, and its store is not marked: another life of it may be later still.
TEST_F(CoreTest, ALifeThatIsGivenTellsOfALaterOne) {
  uint64_t told = 0;
  Make({.term = 5, .overtaken = [&](uint64_t term) { told = term; }});
  Start();
  EXPECT_EQ(core->CheckHeader(Heard(Header(), TermProof({key}).Of(Uuid{1, 2}, 7))).code(), FsError::kNotLeader);
  EXPECT_EQ(told, 7u);
  EXPECT_EQ(core->CheckHeader(Header()).code(), FsError::kNotLeader);
  EXPECT_EQ(RunSim(ex, core->WaitFatal()).code, FsError::kNotLeader);
  Make({.term = 8});
  Start();
  EXPECT_TRUE(core->CheckHeader(Header()).ok());
}

TEST_F(CoreTest, WhatIsCommittedIsDurableSoonWithoutBeingAskedFor) {
  Start();
  {
    Txn txn(core->store());
    txn.Put(Family::kRepairs, "Sx", "y");
    ASSERT_TRUE(core->Commit(txn).ok());
  }
  EXPECT_LT(core->store().durable_seq(), core->store().last_seq());
  core->Committed();
  ex.RunFor(kSecond);
  EXPECT_EQ(core->store().durable_seq(), core->store().last_seq());
  {
    Txn txn(core->store());
    txn.Delete(Family::kRepairs, "Sx");
    ASSERT_TRUE(core->Commit(txn).ok());
  }
}

TEST_F(CoreTest, ACallWaitsForProgressOrItsTime) {
  Start();
  const int64_t begin = core->Now();
  RunSim(ex, [](MetaCore* c) -> Task<int> {
    co_await c->WaitProgress(c->Now() + kSecond);
    co_return 0;
  }(core.get()));
  EXPECT_GE(core->Now(), begin + kSecond);
  bool resumed = false;
  TaskScope scope;
  scope.Spawn([](MetaCore* c, bool* out) -> Task<void> {
    co_await c->WaitProgress(c->Now() + 1000 * kSecond);
    *out = true;
  }(core.get(), &resumed));
  ex.RunFor(kSecond);
  EXPECT_FALSE(resumed);
  core->Pulse();
  ex.RunFor(kSecond);
  EXPECT_TRUE(resumed);
}

}  // namespace
}  // namespace stria
