// Each rule of a replicated store alone, and what happens without it.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/sabotage.h"
#include "common/sabotage_testing.h"
#include "meta/backup/archive.h"
#include "meta/replica/replica_world.h"

namespace stria {
namespace {

KvBatch Put(const std::string& key, const std::string& value) {
  KvBatch b;
  b.Put(1, key, value);
  return b;
}

// Three members; nothing is lost, and nobody does anything unasked.
class ReplicaRules : public testing::Test {
 protected:
  using Member = ReplicaWorld::Member;

  void StartAll() {
    for (size_t i = 0; i < w_.size(); ++i) w_.Start(w_.member(i));
  }
  // Member i is the primary of that term; the set is `in_sync`.
  void Lead(size_t i, uint64_t term, MemberSet in_sync) {
    w_.reg().term = term;
    w_.reg().primary = w_.member(i).name;
    w_.reg().in_sync = std::move(in_sync);
    ++w_.reg().version;
    w_.Open(w_.member(i), term);
  }
  bool Follows(Member& m, Member& primary) {
    return w_.RunUntil([&] { return m.store->whole() && m.store->last() == primary.store->last(); }, 10 * kSecond);
  }
  StoreContent Content(Member& m) { return ReplicaWorld::ContentOf(*m.kv); }
  // m0 leads in term 1, the others have caught up, and all are needed.
  void Begin() {
    StartAll();
    Lead(0, 1, {"m0"});
    w_.Write(a_, Put("x", "first"));
    ASSERT_TRUE(w_.Syncs(a_, kSecond));
    ASSERT_TRUE(Follows(b_, a_));
    ASSERT_TRUE(Follows(c_, a_));
    Need({"m0", "m1", "m2"});
  }
  void Need(MemberSet all, size_t min_in_sync = 1) {
    w_.reg().in_sync = all;
    a_.primary->Require(all, all, min_in_sync);
  }
  // Nobody hears m from now on, nor does it hear anybody.
  void CutOff(Member& m, bool cut) {
    for (size_t i = 0; i < w_.size(); ++i) {
      if (&w_.member(i) == &m) continue;
      w_.Cut(m.name, w_.member(i).name, cut);
      w_.Cut(w_.member(i).name, m.name, cut);
    }
  }

  ReplicaWorld w_{1, 3};
  Member& a_ = w_.member(0);
  Member& b_ = w_.member(1);
  Member& c_ = w_.member(2);
};

// ---- When a batch is committed

TEST_F(ReplicaRules, ABatchIsCommittedWhenAllOfTheSetHaveIt) {
  Begin();
  w_.Write(a_, Put("x", "1"));
  EXPECT_TRUE(w_.Syncs(a_, kSecond));
  CutOff(c_, true);
  w_.Write(a_, Put("x", "2"));
  EXPECT_FALSE(w_.Syncs(a_, 2 * kSecond)) << "m2 does not have it";
  // The primary asks for its going, again and again, and does not let it go by itself.
  EXPECT_NE(a_.asked_drop["m2"], "");
  EXPECT_EQ(a_.asked_drop.count("m1"), 0u);
  EXPECT_LT(a_.primary->committed(), a_.store->last().seq);
  Need({"m0", "m1"});
  EXPECT_TRUE(w_.Syncs(a_, kSecond));
  EXPECT_EQ(a_.primary->committed(), a_.store->last().seq);
}

TEST_F(ReplicaRules, WhatAMajorityHasIsNotCommitted) {
  const ScopedSabotage on(Sabotage::kCommitByMajority);
  Begin();
  CutOff(c_, true);
  w_.Write(a_, Put("x", "2"));
  EXPECT_TRUE(w_.Syncs(a_, 2 * kSecond)) << "so the test above would fail";
}

// What a member has to have before it enters the set is not measured by what this life has committed.
TEST_F(ReplicaRules, ANewLifeTakesAllThatItBeganWithForAcknowledged) {
  Begin();
  w_.Write(a_, Put("x", "1"));
  ASSERT_TRUE(w_.Syncs(a_, kSecond));
  const CommitSeq acked = a_.primary->committed();
  EXPECT_EQ(a_.primary->may_be_committed(), acked);
  w_.Crash(a_, false);
  Lead(1, 2, {"m1", "m2"});
  EXPECT_EQ(b_.primary->committed(), CommitSeq());
  EXPECT_EQ(b_.primary->may_be_committed(), acked);
  w_.Write(b_, Put("x", "2"));
  EXPECT_EQ(b_.primary->may_be_committed(), acked) << "nobody has waited for it";
  ASSERT_TRUE(w_.Syncs(b_, kSecond));
  EXPECT_EQ(b_.primary->may_be_committed(), b_.store->last().seq);
}

TEST_F(ReplicaRules, ASetThatIsTooSmallCommitsNothing) {
  Begin();
  Need({"m0"}, 2);
  w_.Write(a_, Put("x", "1"));
  EXPECT_FALSE(w_.Syncs(a_, kSecond));
  Need({"m0", "m1"}, 2);
  EXPECT_TRUE(w_.Syncs(a_, kSecond));
}

TEST(CommitRule, NeverGoesBackAndForgetsWhatItIsTold) {
  CommitRule rule("a");
  rule.Durable("a", CommitSeq(5));
  EXPECT_EQ(rule.committed(), CommitSeq(5));
  rule.Require({"a", "b"}, {"a", "b"}, 1);
  EXPECT_EQ(rule.committed(), CommitSeq(5)) << "it was committed by the set of then";
  rule.Durable("a", CommitSeq(9));
  rule.Durable("b", CommitSeq(7));
  rule.Durable("b", CommitSeq(6));
  EXPECT_EQ(rule.committed(), CommitSeq(7));
  rule.Forget("b");
  rule.Durable("a", CommitSeq(10));
  EXPECT_EQ(rule.committed(), CommitSeq(7));
  // One that is to enter is needed before it is in the set.
  rule.Durable("b", CommitSeq(10));
  rule.Require({"a", "b"}, {"a", "b", "c"}, 1);
  rule.Durable("a", CommitSeq(20));
  rule.Durable("b", CommitSeq(20));
  EXPECT_EQ(rule.committed(), CommitSeq(10));
  EXPECT_TRUE(rule.required("c"));
  EXPECT_FALSE(rule.in_sync("c"));
  rule.Durable("c", CommitSeq(15));
  EXPECT_EQ(rule.committed(), CommitSeq(15));
}

// A follower whose disk is slow: nothing is committed that a power cut would take from it.
TEST_F(ReplicaRules, AFollowerSaysDurableOnlyOfWhatItHasSynced) {
  w_.Start(a_);
  w_.settings().max_sync_ns = 50 * kMicrosecond;
  w_.Start(b_);
  Lead(0, 1, {"m0"});
  w_.Write(a_, Put("x", "first"));
  ASSERT_TRUE(w_.Syncs(a_, kSecond));
  ASSERT_TRUE(Follows(b_, a_));
  Need({"m0", "m1"});
  w_.Write(a_, Put("x", "1"));
  ASSERT_TRUE(w_.Syncs(a_, kSecond));
  const LogPoint acked = a_.store->last();
  w_.Crash(b_, true);
  w_.Start(b_);
  EXPECT_TRUE(b_.store->Has(acked));
}

TEST_F(ReplicaRules, WithoutTheSyncAPowerCutTakesWhatWasAcknowledged) {
  const ScopedSabotage on(Sabotage::kFollowUnsynced);
  Begin();
  Need({"m0", "m1"});
  int lost = 0;
  for (int i = 0; i < 20; ++i) {
    w_.Write(a_, Put("x", std::to_string(i)));
    ASSERT_TRUE(w_.Syncs(a_, 5 * kSecond));
    const LogPoint acked = a_.store->last();
    w_.Crash(b_, true);
    w_.Start(b_);
    lost += b_.store->Has(acked) ? 0 : 1;
    Need({"m0"});  // it may have to copy again
    ASSERT_TRUE(Follows(b_, a_));
    Need({"m0", "m1"});
  }
  EXPECT_GT(lost, 0) << "so the random test would fail";
}

// ---- What a follower takes

TEST_F(ReplicaRules, AFollowerRefusesGapsOtherPastsAndLowerTerms) {
  Begin();
  w_.reg().term = 5;
  w_.Follow(a_);  // nobody ships any more
  const LogPoint last = b_.store->last();
  const auto append = [&](uint64_t term, const LogPoint& prev, uint64_t seq) {
    const std::string bytes = EncodeArchivedBatch(CommitSeq(seq), 1, Put("y", "z"));
    AppendRequest r;
    r.term = term;
    r.primary = "m0";
    r.follows = true;
    r.prev = prev;
    r.batches = {{term, bytes.size()}};
    r.payload = BufferChain(Buffer::FromString(bytes));
    std::optional<Result<AppendReply>> out;
    TaskScope scope;
    scope.Spawn(b_.follower->Append(std::move(r)), [&out](Result<AppendReply> got) { out.emplace(std::move(got)); });
    w_.RunUntil([&] { return out.has_value(); }, kSecond);
    return std::move(*out);
  };
  EXPECT_EQ(append(5, {CommitSeq(last.seq.v + 1), 5, 77}, last.seq.v + 2)->result, AppendResult::kMismatch) << "a gap";
  EXPECT_EQ(append(5, {last.seq, last.term, last.chain + 1}, last.seq.v + 1)->result, AppendResult::kMismatch) << "another past";
  EXPECT_EQ(append(5, last, last.seq.v + 2).code(), FsError::kCorrupt) << "not the batch that follows";
  EXPECT_EQ(b_.store->last(), last);
  EXPECT_EQ(append(5, last, last.seq.v + 1)->result, AppendResult::kTaken);
  EXPECT_EQ(append(5, last, last.seq.v + 1)->result, AppendResult::kTaken) << "the same again";
  EXPECT_EQ(b_.store->last().seq.v, last.seq.v + 1);
  const Result<AppendReply> old = append(4, last, last.seq.v + 1);
  EXPECT_EQ(old->result, AppendResult::kOldTerm);
  EXPECT_EQ(old->term, 5u);
  EXPECT_EQ(append(6, last, last.seq.v + 1)->result, AppendResult::kMismatch) << "another batch in the place of one";
  {
    const ScopedSabotage on(Sabotage::kFollowBlindly);
    const LogPoint mine = b_.store->last();
    EXPECT_EQ(append(6, {mine.seq, mine.term, mine.chain + 1}, mine.seq.v + 1)->result, AppendResult::kTaken);
  }
  b_.follower->SetCandidate(true);
  EXPECT_EQ(append(6, b_.store->last(), b_.store->last().seq.v + 1).code(), FsError::kNotReady);
}

TEST_F(ReplicaRules, AnAppendThatDoesNotAddUpIsRefused) {
  Begin();
  w_.Follow(a_);
  AppendRequest r;
  r.term = 9;
  r.primary = "m0";
  r.follows = true;
  r.prev = b_.store->last();
  r.batches = {{9, 100}};
  r.payload = BufferChain(Buffer::FromString("short"));
  std::optional<Result<AppendReply>> out;
  TaskScope scope;
  scope.Spawn(b_.follower->Append(std::move(r)), [&out](Result<AppendReply> got) { out.emplace(std::move(got)); });
  ASSERT_TRUE(w_.RunUntil([&] { return out.has_value(); }, kSecond));
  EXPECT_EQ(out->code(), FsError::kBadRequest);
}

TEST_F(ReplicaRules, AFollowerKnowsWhatIsCommitted) {
  Begin();
  w_.Write(a_, Put("x", "1"));
  ASSERT_TRUE(w_.Syncs(a_, kSecond));
  const CommitSeq committed = a_.primary->committed();
  w_.Write(a_, Put("x", "2"));  // brings the news
  ASSERT_TRUE(Follows(b_, a_));
  EXPECT_GE(b_.follower->committed(), committed);
}

// ---- The end of a primary

TEST_F(ReplicaRules, ADeposedPrimaryWritesAndAcknowledgesNothing) {
  Begin();
  w_.reg().term = 2;
  b_.follower->SawTerm(2);
  w_.Write(a_, Put("x", "1"));
  EXPECT_FALSE(w_.Syncs(a_, kSecond));
  EXPECT_TRUE(a_.deposed);
  EXPECT_TRUE(a_.primary->deposed());
  EXPECT_EQ(a_.top->Write(Put("x", "2")).code(), FsError::kNotLeader);
}

// It has batches that nobody else has. They go, and with them what they wrote.
TEST_F(ReplicaRules, ADeposedPrimaryRewindsAndIsEqualAgain) {
  Begin();
  CutOff(a_, true);
  w_.Write(a_, Put("only", "a"));
  w_.Write(a_, Put("x", "a"));
  w_.RunFor(100 * kMillisecond);
  Lead(1, 2, {"m1"});
  w_.Write(b_, Put("y", "b"));
  ASSERT_TRUE(w_.Syncs(b_, kSecond));
  CutOff(a_, false);
  ASSERT_TRUE(w_.RunUntil([&] { return a_.deposed; }, 5 * kSecond));
  w_.Follow(a_);
  ASSERT_TRUE(Follows(a_, b_)) << a_.joiner->problem();
  EXPECT_EQ(a_.joiner->rewinds(), 1u);
  EXPECT_EQ(a_.joiner->copies(), 0u);
  EXPECT_EQ(Content(a_), Content(b_));
  EXPECT_EQ(w_.problem(), "");
}

TEST_F(ReplicaRules, WhatIsTooMuchForARewindIsCopied) {
  w_.settings().max_rewind_bytes = 20;
  Begin();
  CutOff(a_, true);
  w_.Write(a_, Put("x", "a"));
  w_.RunFor(100 * kMillisecond);
  Lead(1, 2, {"m1"});
  w_.Write(b_, Put("x", std::string(100, 'b')));
  ASSERT_TRUE(w_.Syncs(b_, kSecond));
  CutOff(a_, false);
  ASSERT_TRUE(w_.RunUntil([&] { return a_.deposed; }, 5 * kSecond));
  w_.Follow(a_);
  ASSERT_TRUE(Follows(a_, b_)) << a_.joiner->problem();
  EXPECT_EQ(a_.joiner->rewinds(), 0u);
  EXPECT_EQ(a_.joiner->copies(), 1u);
  EXPECT_EQ(Content(a_), Content(b_));
}

TEST_F(ReplicaRules, RewindingOnlyTheLogLeavesWhatTheBatchesWrote) {
  const ScopedSabotage on(Sabotage::kRewindLogOnly);
  Begin();
  CutOff(a_, true);
  w_.Write(a_, Put("only", "a"));
  w_.RunFor(100 * kMillisecond);
  Lead(1, 2, {"m1"});
  w_.Write(b_, Put("y", "b"));
  ASSERT_TRUE(w_.Syncs(b_, kSecond));
  CutOff(a_, false);
  w_.RunUntil([&] { return a_.deposed; }, 5 * kSecond);
  w_.Follow(a_);
  ASSERT_TRUE(Follows(a_, b_));
  EXPECT_NE(Content(a_), Content(b_)) << "so the test above would fail";
}

// m0 goes back to what it shares with m1, with m1's values; m1 then dies with all that followed, and m2 leads, which never had
// it. m0's log is the beginning of m2's: only the marker says that its store is not.
class FetchedFromTheDead : public ReplicaRules {
 protected:
  void Play() {
    Begin();
    w_.RunFor(100 * kMillisecond);
    for (Member* m : {&a_, &b_, &c_}) {
      w_.RunUntil([&] { return m->store->last() == a_.store->last(); }, kSecond);
    }
    CutOff(a_, true);
    CutOff(c_, true);
    w_.Write(a_, Put("only", "a"));
    w_.Follow(a_);
    Lead(1, 2, {"m1"});
    w_.Write(b_, Put("only", "b"));
    for (int i = 0; i < 5; ++i) w_.Write(b_, Put("more", std::to_string(i)));
    // By hand: m0 fetches from m1, and hears nothing more of it.
    const LogPoint common = c_.store->last();
    ASSERT_TRUE(a_.store->Has(common));
    const std::vector<FetchKey> keys = a_.store->KeysBeyond(common.seq).value();
    FetchKeysRequest fetch;
    fetch.term = 2;
    fetch.keys = keys;
    const FetchKeysReply got = b_.source->FetchKeys(fetch).value();
    const KvBatch values = DecodeArchivedBatch(got.payload.Flatten().view())->batch;
    ASSERT_TRUE(a_.store->Rewind(common, values, got.at, keys).ok());
    ASSERT_FALSE(a_.store->whole());
    ASSERT_EQ(*a_.kv->Get(1, "only").value(), "b") << "of a history that is about to end";
    w_.Crash(a_, false);
    w_.Start(a_);
    EXPECT_FALSE(a_.store->whole()) << "the marker outlives a crash";
    w_.Crash(b_, true);
    Lead(2, 3, {"m2"});
    w_.Write(c_, Put("y", "c"));
    CutOff(a_, false);
    CutOff(c_, false);
    w_.RunUntil([&] { return a_.store->whole() && a_.store->last() == c_.store->last(); }, 3 * kSecond);
  }
};

TEST_F(FetchedFromTheDead, IsFetchedAgain) {
  Play();
  EXPECT_TRUE(a_.store->whole()) << a_.joiner->problem();
  EXPECT_EQ(Content(a_), Content(c_));
  EXPECT_EQ(a_.kv->Get(1, "only").value(), std::nullopt);
}

TEST_F(FetchedFromTheDead, StaysIfThePointIsIgnored) {
  const ScopedSabotage on(Sabotage::kIgnoreFetched);
  Play();
  EXPECT_NE(Content(a_), Content(c_)) << "so the test above would fail";
}

TEST_F(FetchedFromTheDead, StaysIfTheMarkersKeysAreForgotten) {
  const ScopedSabotage on(Sabotage::kForgetMarker);
  Play();
  EXPECT_NE(Content(a_), Content(c_)) << "so the test above would fail";
}

TEST_F(ReplicaRules, NothingCommittedIsEverRewound) {
  Begin();
  CutOff(c_, true);
  Need({"m0", "m1"});
  for (int i = 0; i < 3; ++i) {
    w_.Write(a_, Put("x", std::to_string(i)));
    ASSERT_TRUE(w_.Syncs(a_, kSecond));
  }
  w_.Write(a_, Put("x", "news"));
  ASSERT_TRUE(Follows(b_, a_));
  const LogPoint last = b_.store->last();
  w_.Crash(a_, false);
  // An unclean election: m2 lacks what was committed.
  CutOff(c_, false);
  w_.reg().term = 2;
  w_.reg().in_sync = {"m2"};
  w_.reg().primary = "m2";
  w_.Open(c_, 2);
  EXPECT_NE(w_.problem(), "") << "the world sees it, too";
  w_.Write(c_, Put("y", "c"));
  w_.RunUntil([&] { return !b_.joiner->problem().empty(); }, 3 * kSecond);
  EXPECT_NE(b_.joiner->problem().find("refused"), std::string::npos) << b_.joiner->problem();
  EXPECT_EQ(b_.store->last(), last);
}

// ---- Copies

TEST_F(ReplicaRules, AnEmptyMemberCopiesAndACrashBeginsTheCopyAnew) {
  w_.settings().source.reply_bytes = 200;
  w_.Start(a_);
  Lead(0, 1, {"m0"});
  for (int i = 0; i < 200; ++i) w_.Write(a_, Put("k" + std::to_string(i), std::string(50, 'v')));
  ASSERT_TRUE(w_.Syncs(a_, kSecond));
  w_.Start(b_);
  ASSERT_TRUE(w_.RunUntil([&] { return b_.joiner->copied_bytes() > 2000; }, 5 * kSecond));
  EXPECT_FALSE(b_.store->begun());
  w_.Crash(b_, true);
  w_.Start(b_);
  EXPECT_FALSE(b_.store->whole());
  // The store goes on changing.
  for (int i = 0; i < 50; ++i) {
    w_.Write(a_, Put("k" + std::to_string(i * 3), "new"));
    KvBatch gone;
    gone.Delete(1, "k" + std::to_string(i * 4));
    w_.Write(a_, gone);
    w_.RunFor(3 * kMillisecond);
  }
  ASSERT_TRUE(Follows(b_, a_)) << b_.joiner->problem();
  EXPECT_EQ(b_.joiner->copies(), 1u);
  EXPECT_EQ(Content(b_), Content(a_));
}

TEST_F(ReplicaRules, WhoLacksMoreThanTheLogKeepsCopiesAndHasNothingOfBefore) {
  w_.settings().store.keep_bytes = 1000;
  w_.settings().store.recent_bytes = 500;
  Begin();
  Need({"m0"});
  CutOff(b_, true);
  KvBatch gone;
  gone.Delete(1, "x");
  w_.Write(a_, gone);
  for (int i = 0; i < 100; ++i) w_.Write(a_, Put("k" + std::to_string(i % 7), std::string(50, 'v')));
  ASSERT_TRUE(w_.Syncs(a_, kSecond));
  EXPECT_GT(a_.store->first(), b_.store->last().seq);
  const uint64_t copies = b_.joiner->copies();
  CutOff(b_, false);
  ASSERT_TRUE(Follows(b_, a_)) << b_.joiner->problem();
  EXPECT_GT(b_.joiner->copies(), copies);
  EXPECT_EQ(Content(b_), Content(a_));
}

TEST_F(ReplicaRules, AMemberOfTheSetLeavesItBeforeItsLogIsChanged) {
  w_.settings().store.keep_bytes = 1000;
  Begin();
  CutOff(b_, true);
  a_.caught_up.clear();
  for (int i = 0; i < 100; ++i) w_.Write(a_, Put("k" + std::to_string(i % 7), std::string(50, 'v')));
  CutOff(b_, false);
  const LogPoint last = b_.store->last();
  w_.RunFor(2 * kSecond);
  EXPECT_EQ(b_.store->last(), last);
  EXPECT_NE(a_.asked_drop["m1"], "");
  Need({"m0", "m2"});
  ASSERT_TRUE(Follows(b_, a_)) << b_.joiner->problem();
  EXPECT_TRUE(w_.RunUntil([&] { return a_.caught_up.contains("m1"); }, 5 * kSecond)) << "it may enter the set again";
}

// ---- Bounds

TEST_F(ReplicaRules, NoMoreIsInFlightThanTheWindow) {
  w_.settings().shipper.window_bytes = 5000;
  w_.settings().shipper.append_bytes = 1000;
  Begin();
  ASSERT_TRUE(w_.RunUntil([&] { return a_.primary->shipper("m1")->knows(); }, kSecond)) << "nothing is sent before";
  w_.settings().max_delay_ns = 200 * kMillisecond;  // the network is slow
  size_t most = 0;
  for (int i = 0; i < 300; ++i) {
    w_.Write(a_, Put("k" + std::to_string(i), std::string(300, 'v')));
    if (i % 10 == 0) w_.RunFor(kMillisecond);
    most = std::max(most, a_.primary->shipper("m1")->bytes_in_flight());
  }
  EXPECT_GT(most, 1000u);
  EXPECT_LE(most, 5000u + 1000u + 500u);
  EXPECT_GT(a_.primary->unreceived_bytes(), 10'000u) << "what the bound on plain changes is about";
  EXPECT_GT(a_.primary->unreceived_ns(), 0);
  w_.settings().max_delay_ns = kMillisecond;
  ASSERT_TRUE(Follows(b_, a_));
  ASSERT_TRUE(Follows(c_, a_));
  ASSERT_TRUE(w_.RunUntil([&] { return a_.primary->unreceived_bytes() == 0; }, 5 * kSecond));
}

// Nothing is written any more, so nothing would show that the follower has lost its tail.
TEST_F(ReplicaRules, AFollowerThatLostItsTailGetsItAgainWithoutNewBatches) {
  Begin();
  Need({"m0"});
  for (int i = 0; i < 10; ++i) w_.Write(a_, Put("x", std::to_string(i)));
  ASSERT_TRUE(Follows(b_, a_));
  w_.Crash(b_, true);
  w_.Start(b_);
  EXPECT_TRUE(Follows(b_, a_));
  EXPECT_EQ(Content(b_), Content(a_));
}

}  // namespace
}  // namespace stria
