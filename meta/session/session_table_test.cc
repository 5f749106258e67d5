#include "meta/session/session_table.h"

#include <gtest/gtest.h>

#include "common/codec.h"

namespace stria {
namespace {

SessionRecord Record(uint64_t id) {
  SessionRecord r;
  r.id = SessionId(id);
  r.epoch = Epoch(7);
  r.client_uuid = Uuid{id, 1};
  r.client = "mount /data on pc" + std::to_string(id);
  r.node_name = "n1";
  return r;
}
const SessionId kS1{1}, kS2{2};

TEST(SessionTable, RecordRoundTripsAndRefusesCuts) {
  SessionRecord r = Record(5);
  r.acked_below = OpSeq(9);
  const std::string bytes = EncodeSessionRecord(r);
  ASSERT_TRUE(DecodeSessionRecord(bytes).ok());
  EXPECT_EQ(*DecodeSessionRecord(bytes), r);
  r.lapsed = r.comes_back = true;
  EXPECT_EQ(*DecodeSessionRecord(EncodeSessionRecord(r)), r);
  for (size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(DecodeSessionRecord(bytes.substr(0, n)).ok()) << n;
}

TEST(SessionTable, LeaseRunsOutUnlessRenewed) {
  SessionTable t;
  t.Open(Record(1), 0, CommitSeq(3), 0);
  t.Open(Record(2), 0, CommitSeq(5), 10);
  EXPECT_EQ(t.NextExpiryNs(), kDefaultLeaseNs);
  EXPECT_EQ(t.MinSeen(), CommitSeq(3));
  t.Renew(kS1, CommitSeq(8), 5 * kSecond);
  EXPECT_EQ(t.MinSeen(), CommitSeq(5));
  EXPECT_TRUE(t.Expired(kDefaultLeaseNs).empty());
  EXPECT_EQ(t.Expired(kDefaultLeaseNs + 10), std::vector<SessionId>{kS2});
  t.Remove(kS2);
  EXPECT_EQ(t.Check(kS2, Epoch(7)).code, FsError::kFenced);
  EXPECT_EQ(t.Check(kS1, Epoch(6)).code, FsError::kFenced);
  EXPECT_TRUE(t.Check(kS1, Epoch(7)).ok());
  EXPECT_EQ(t.MinSeen(), CommitSeq(8));
}

TEST(SessionTable, RecordsOfBeforeHadNotLapsed) {
  SessionRecord r = Record(5);
  std::string bytes = EncodeSessionRecord(r);
  bytes = SealRecord(1, bytes.substr(5, bytes.size() - 5 - 2));  // version and length, and what is new
  ASSERT_TRUE(DecodeSessionRecord(bytes).ok());
  EXPECT_EQ(*DecodeSessionRecord(bytes), r);
}

TEST(SessionTable, WhoHasLapsedHoldsUpNobody) {
  SessionTable t;
  for (uint64_t id : {1, 2}) {
    SessionRecord r = Record(id);
    r.comes_back = true;
    t.Open(r, 0, CommitSeq(id), 0);
  }
  const uint64_t event = t.Push(kS1, SessionEvent());
  EXPECT_NE(event, 0u);
  t.Begin(kS1, OpSeq(1));
  t.Commit(kS1, OpSeq(1), "one");
  t.CommitVolatile(kS1, OpSeq(2), "a lock");
  t.Finish(kS1, OpSeq(1));
  t.Lapse(kS1, 20 * kSecond);
  EXPECT_FALSE(t.Exists(kS1));
  EXPECT_TRUE(t.IsLapsed(kS1));
  EXPECT_EQ(t.Check(kS1, Epoch(7)).code, FsError::kLapsed);
  EXPECT_TRUE(t.Acked(kS1, event));
  EXPECT_EQ(t.Push(kS1, SessionEvent()), 0u);
  EXPECT_EQ(t.MinSeen(), CommitSeq(2));
  EXPECT_EQ(t.All(), std::vector<SessionId>{kS2});
  EXPECT_EQ(t.Expired(INT64_MAX), std::vector<SessionId>{kS2});
  EXPECT_EQ(t.Lookup(kS1, OpSeq(1)), OpState::kDone);
  EXPECT_EQ(t.Lookup(kS1, OpSeq(2)), OpState::kNew) << "in memory only";
  EXPECT_TRUE(t.Forgotten(20 * kSecond + kDefaultRememberNs - 1).empty());
  EXPECT_EQ(t.Forgotten(20 * kSecond + kDefaultRememberNs), std::vector<SessionId>{kS1});

  t.ComeBack(kS1, OpSeq(1), 5, 30 * kSecond);
  EXPECT_TRUE(t.Exists(kS1));
  EXPECT_EQ(t.Attempt(kS1), 5u);
  EXPECT_TRUE(t.Check(kS1, Epoch(8)).ok());
  EXPECT_EQ(t.Check(kS1, Epoch(7)).code, FsError::kRetryLater) << "asked before it lapsed";
  EXPECT_EQ(t.Check(kS1, Epoch(9)).code, FsError::kFenced);
  EXPECT_EQ(t.MinSeen(), CommitSeq(0));
  const uint64_t next = t.Push(kS1, SessionEvent());
  EXPECT_GT(next, event);
  EXPECT_EQ(t.first_event(kS1), next);
  EXPECT_TRUE(t.Ack(kS1, next - 1).ok());
  EXPECT_EQ(t.LeaseLeftNs(kS1, 30 * kSecond), kDefaultLeaseNs);
}

TEST(SessionTable, ARestartKnowsWhoHadLapsed) {
  SessionTable t;
  SessionRecord r = Record(1);
  r.comes_back = r.lapsed = true;
  t.Load(r, 100);
  EXPECT_FALSE(t.reclaiming()) << "nobody waits for it";
  EXPECT_TRUE(t.IsLapsed(kS1));
  t.LoadReply(kS1, OpSeq(4), "four");
  EXPECT_EQ(t.Lookup(kS1, OpSeq(4)), OpState::kDone);
}

TEST(SessionTable, ReclaimWindow) {
  SessionTable t;
  t.Load(Record(1), 100);
  t.Load(Record(2), 100);
  t.LoadReply(kS1, OpSeq(4), "four");
  EXPECT_TRUE(t.reclaiming());
  EXPECT_EQ(t.MinSeen(), CommitSeq(0));
  EXPECT_TRUE(t.Reclaim(kS1, OpSeq(2), CommitSeq(6), 0, 200));
  EXPECT_FALSE(t.Reclaim(kS1, OpSeq(2), CommitSeq(6), 0, 300)) << "a repeated reclaim takes nothing over again";
  EXPECT_EQ(t.Lookup(kS1, OpSeq(1)), OpState::kForgotten);
  EXPECT_EQ(t.Lookup(kS1, OpSeq(4)), OpState::kDone);
  EXPECT_TRUE(t.reclaiming());
  EXPECT_EQ(t.Expired(100 + kDefaultLeaseNs), std::vector<SessionId>{kS2});
  t.Remove(kS2);
  EXPECT_FALSE(t.reclaiming());
}

TEST(SessionTable, RepetitionsHaveTheirTimeAndTheirPlace) {
  SessionTable t;
  t.Load(Record(1), 100);
  t.Load(Record(2), 100);
  EXPECT_FALSE(t.MayRepeat(kS1, 5, 150)) << "not claimed";
  t.Reclaim(kS1, OpSeq(2), CommitSeq(6), 5, 200);
  EXPECT_TRUE(t.MayRepeat(kS1, 5, 200));
  EXPECT_TRUE(t.MayRepeat(kS1, UINT64_MAX, 200));
  EXPECT_FALSE(t.MayRepeat(kS1, 4, 200));
  EXPECT_FALSE(t.MayRepeat(kS2, 5, 200));
  t.ReplayIsAt(kS1, 8);
  EXPECT_FALSE(t.MayRepeat(kS1, 5, 200));
  EXPECT_FALSE(t.MayRepeat(kS1, 8, 200 + kDefaultLeaseNs));
  t.ReplaysBegin(300 + kDefaultLeaseNs);
  EXPECT_TRUE(t.MayRepeat(kS1, 8, 300 + kDefaultLeaseNs));
  t.ReplayIsAt(kS1, 0);
  EXPECT_FALSE(t.MayRepeat(kS1, 8, 300 + kDefaultLeaseNs));
  EXPECT_TRUE(t.MayRepeat(kS1, UINT64_MAX, 300 + kDefaultLeaseNs));
  t.Replayed(kS1);
  t.ReplaysBegin(300 + kDefaultLeaseNs);
  EXPECT_FALSE(t.MayRepeat(kS1, UINT64_MAX, 300 + kDefaultLeaseNs)) << "it has said that it was all";
}

TEST(SessionTable, EventsStayUntilAcknowledged) {
  SessionTableOptions o;
  o.max_events = 3;
  SessionTable t(o);
  t.Open(Record(1), 0, CommitSeq(), 0);
  SessionEvent e;
  for (uint64_t i = 1; i <= 3; ++i) {
    e.ino = InodeId(i);
    EXPECT_EQ(t.Push(kS1, e), i);
  }
  EXPECT_EQ(t.Push(kS1, e), 0u) << "full: the owner fences";
  EXPECT_FALSE(t.Ack(kS1, 1).ok()) << "not delivered yet";
  EXPECT_EQ(t.Take(kS1, 2).size(), 2u);
  EXPECT_EQ(t.delivered(kS1), 2u);
  EXPECT_EQ(t.Take(kS1, 2)[0].seq, 1u) << "a lost reply is given again";
  ASSERT_TRUE(t.Ack(kS1, 1).ok());
  EXPECT_TRUE(t.Acked(kS1, 1));
  EXPECT_FALSE(t.Acked(kS1, 2));
  EXPECT_EQ(t.first_event(kS1), 2u);
  EXPECT_FALSE(t.Ack(kS1, 3).ok());
  EXPECT_EQ(t.Push(kS1, e), 4u);
  EXPECT_EQ(t.Take(kS1).size(), 3u);
  ASSERT_TRUE(t.Ack(kS1, 4).ok());
  EXPECT_FALSE(t.HasEvents(kS1));
  EXPECT_TRUE(t.Acked(kS1, 4));
  EXPECT_FALSE(t.Acked(kS1, 5));
  EXPECT_EQ(t.first_event(kS1), 5u);
  t.Remove(kS1);
  EXPECT_TRUE(t.Acked(kS1, 5)) << "fenced counts as acknowledged";
  EXPECT_EQ(t.Push(kS1, e), 0u);
}

TEST(SessionTable, ExactlyOnce) {
  SessionTableOptions o;
  o.max_replies = 3;
  SessionTable t(o);
  t.Open(Record(1), 0, CommitSeq(), 0);
  EXPECT_EQ(t.Lookup(kS1, OpSeq(1)), OpState::kNew);
  t.Begin(kS1, OpSeq(1));
  EXPECT_EQ(t.Lookup(kS1, OpSeq(1)), OpState::kRunning);
  t.Commit(kS1, OpSeq(1), "one");
  EXPECT_EQ(t.Lookup(kS1, OpSeq(1)), OpState::kRunning) << "not answered before others have been told";
  t.Finish(kS1, OpSeq(1));
  EXPECT_EQ(t.Lookup(kS1, OpSeq(1)), OpState::kDone);
  EXPECT_EQ(t.Reply(kS1, OpSeq(1)), "one");
  t.Begin(kS1, OpSeq(2));
  t.Abandon(kS1, OpSeq(2));
  EXPECT_EQ(t.Lookup(kS1, OpSeq(2)), OpState::kNew) << "an error without effect may be tried again";
  t.Begin(kS1, OpSeq(2));
  t.Begin(kS1, OpSeq(3));
  EXPECT_EQ(t.Lookup(kS1, OpSeq(4)), OpState::kTooMany);
  t.AckReplies(kS1, OpSeq(2));
  EXPECT_EQ(t.Lookup(kS1, OpSeq(1)), OpState::kForgotten);
  EXPECT_EQ(t.Lookup(kS1, OpSeq(4)), OpState::kNew);
  EXPECT_EQ(t.ForgottenReplies(kS1, 10), std::vector<OpSeq>{OpSeq(1)});
  EXPECT_EQ(t.StoredReplies(kS1), std::vector<OpSeq>{OpSeq(1)});
  t.RepliesDeleted(kS1, {OpSeq(1)});
  EXPECT_TRUE(t.StoredReplies(kS1).empty());
}

TEST(SessionTable, VolatileRepliesAreNotDeletedFromTheStore) {
  SessionTable t;
  t.Open(Record(1), 0, CommitSeq(3), 0);
  for (uint64_t i = 1; i <= 2; ++i) {
    t.Begin(kS1, OpSeq(i));
    if (i == 1) t.Commit(kS1, OpSeq(i), "stored");
    else t.CommitVolatile(kS1, OpSeq(i), "in memory");
    t.Finish(kS1, OpSeq(i));
  }
  EXPECT_EQ(t.Lookup(kS1, OpSeq(2)), OpState::kDone);
  EXPECT_EQ(t.Reply(kS1, OpSeq(2)), "in memory");
  t.AckReplies(kS1, OpSeq(3));
  EXPECT_EQ(t.Lookup(kS1, OpSeq(2)), OpState::kForgotten);
  EXPECT_EQ(t.ForgottenReplies(kS1, 10), std::vector<OpSeq>{OpSeq(1)});
}

}  // namespace
}  // namespace stria
