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
  r.owner.name = "pc7";
  r.owner.key[31] = 9;
  r.grant.by = ParseExport("path=/a clients=pc*,10.3.0.0/16 access=ro squash=all uids=5-7").value();
  r.grant.path = "/a/b";
  r.grant.address = "10.3.0.7:1234";
  r.grant.root = InodeId(77);
  const std::string proved = EncodeSessionRecord(r);
  ASSERT_TRUE(DecodeSessionRecord(proved).ok());
  EXPECT_EQ(*DecodeSessionRecord(proved), r);
  for (size_t n = 0; n < proved.size(); ++n) EXPECT_FALSE(DecodeSessionRecord(proved.substr(0, n)).ok()) << n;
  for (size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(DecodeSessionRecord(bytes.substr(0, n)).ok()) << n;
}

// What answers an event of before a restart (LeaseDone, an acknowledgement that comes late) answers none of after it.
TEST(SessionTable, NoNumberOfAnEventComesAgainAfterARestart) {
  constexpr int kEvents = 1000;
  uint64_t last = 0;
  for (uint64_t term : {1, 2, 3, 4}) {
    SessionTable t;
    t.SetTerm(term);
    t.Open(Record(1), 0, CommitSeq(1), 0);
    for (int i = 0; i < kEvents; ++i) {
      const uint64_t event = t.Push(kS1, SessionEvent(), 0);
      ASSERT_GT(event, last) << "in term " << term;
      last = event;
    }
  }
}

TEST(SessionTable, LeaseRunsOutUnlessRenewed) {
  SessionTable t;
  t.Open(Record(1), 0, CommitSeq(3), 0);
  t.Open(Record(2), 0, CommitSeq(5), 10);
  EXPECT_EQ(t.LeaseLeftNs(kS1, 0), kDefaultLeaseNs);
  EXPECT_EQ(t.MinSeen(), CommitSeq(3));
  t.Renew(kS1, CommitSeq(8), 5 * kSecond, {1, 2, 3, 4});
  EXPECT_EQ(t.Io(kS1), (ClientIo{1, 2, 3, 4}));
  EXPECT_EQ(t.Io(kS2), ClientIo());
  EXPECT_EQ(t.MinSeen(), CommitSeq(5));
  EXPECT_TRUE(t.Expired(kDefaultLeaseNs).empty());
  EXPECT_EQ(t.Expired(kDefaultLeaseNs + 10), std::vector<SessionId>{kS2});
  t.Remove(kS2);
  EXPECT_EQ(t.Check(kS2, Epoch(7)).code, FsError::kFenced);
  EXPECT_EQ(t.Check(kS1, Epoch(6)).code, FsError::kFenced);
  EXPECT_TRUE(t.Check(kS1, Epoch(7)).ok());
  EXPECT_EQ(t.MinSeen(), CommitSeq(8));
}

// Version 1, the first of which ended before what is said of lapsing.
TEST(SessionTable, RecordsOfBeforeHadNoOwner) {
  SessionRecord r = Record(5);
  ByteWriter w;
  for (const uint64_t n : {r.id.v, r.epoch.v, r.client_uuid.hi, r.client_uuid.lo}) w.U64(n);
  w.Str(r.client);
  w.Str(r.node_name);
  w.U64(r.acked_below.v);
  w.Bool(r.fenced);
  ASSERT_TRUE(DecodeSessionRecord(SealRecord(1, w.str())).ok());
  EXPECT_EQ(*DecodeSessionRecord(SealRecord(1, w.str())), r);
  w.Bool(true);
  w.Bool(true);
  r.lapsed = r.comes_back = true;
  ASSERT_TRUE(DecodeSessionRecord(SealRecord(1, w.str())).ok());
  EXPECT_EQ(*DecodeSessionRecord(SealRecord(1, w.str())), r);
  EXPECT_TRUE(r.owner.name.empty());
  EXPECT_FALSE(DecodeSessionRecord(SealRecord(2, w.str())).ok()) << "a newer one says whose it is";
}

TEST(SessionTable, AClientsNumberFindsSessionsOfTheOwnerOnly) {
  SessionTable t;
  SessionRecord r = Record(1);
  r.owner.name = "pc7";
  t.Open(r, 0, CommitSeq(), 0);
  EXPECT_EQ(t.FindByClient(r.client_uuid, r.owner), kS1);
  EXPECT_EQ(t.FindByClient(r.client_uuid, SessionOwner()), std::nullopt);
  SessionOwner other = r.owner;
  other.key[0] = 1;
  EXPECT_EQ(t.FindByClient(r.client_uuid, other), std::nullopt);
  SessionGrant ro;
  ro.by = Export();
  ro.by->read_only = true;
  t.Rebind(kS1, ro);
  EXPECT_TRUE(t.Find(kS1)->grant.read_only());
}

TEST(SessionTable, WhoHasLapsedHoldsUpNobody) {
  SessionTable t;
  for (uint64_t id : {1, 2}) {
    SessionRecord r = Record(id);
    r.comes_back = true;
    t.Open(r, 0, CommitSeq(id), 0);
  }
  const uint64_t event = t.Push(kS1, SessionEvent(), 0);
  EXPECT_NE(event, 0u);
  t.ops(kS1).Commit(OpSeq(1), "one");
  t.ops(kS1).CommitVolatile(OpSeq(2), "a lock");
  t.Lapse(kS1, 20 * kSecond);
  EXPECT_FALSE(t.Exists(kS1));
  EXPECT_TRUE(t.IsLapsed(kS1));
  EXPECT_EQ(t.Check(kS1, Epoch(7)).code, FsError::kLapsed);
  EXPECT_TRUE(t.Acked(kS1, event));
  EXPECT_EQ(t.Push(kS1, SessionEvent(), 0), 0u);
  EXPECT_EQ(t.MinSeen(), CommitSeq(2));
  EXPECT_EQ(t.All(), std::vector<SessionId>{kS2});
  EXPECT_EQ(t.Expired(INT64_MAX), std::vector<SessionId>{kS2});
  EXPECT_EQ(t.ops(kS1).Lookup(OpSeq(1)), OpState::kDone);
  EXPECT_EQ(t.ops(kS1).Lookup(OpSeq(2)), OpState::kNew) << "in memory only";
  EXPECT_TRUE(t.Forgotten(20 * kSecond + kDefaultRememberNs - 1).empty());
  EXPECT_EQ(t.Forgotten(20 * kSecond + kDefaultRememberNs), std::vector<SessionId>{kS1});

  t.ComeBack(kS1, OpSeq(1), 5, 30 * kSecond);
  EXPECT_TRUE(t.Exists(kS1));
  EXPECT_EQ(t.Attempt(kS1), 5u);
  EXPECT_TRUE(t.Check(kS1, Epoch(8)).ok());
  EXPECT_EQ(t.Check(kS1, Epoch(7)).code, FsError::kRetryLater) << "asked before it lapsed";
  EXPECT_EQ(t.Check(kS1, Epoch(9)).code, FsError::kFenced);
  EXPECT_EQ(t.MinSeen(), CommitSeq(0));
  const uint64_t next = t.Push(kS1, SessionEvent(), 0);
  EXPECT_GT(next, event);
  EXPECT_EQ(t.events(kS1).first(), next);
  EXPECT_TRUE(t.events(kS1).Ack(next - 1).ok());
  EXPECT_EQ(t.LeaseLeftNs(kS1, 30 * kSecond), kDefaultLeaseNs);
}

TEST(SessionTable, ARestartKnowsWhoHadLapsed) {
  SessionTable t;
  SessionRecord r = Record(1);
  r.comes_back = r.lapsed = true;
  t.Load(r, 100);
  EXPECT_FALSE(t.reclaiming()) << "nobody waits for it";
  EXPECT_TRUE(t.IsLapsed(kS1));
  t.ops(kS1).Load(OpSeq(4), "four");
  EXPECT_EQ(t.ops(kS1).Lookup(OpSeq(4)), OpState::kDone);
}

TEST(SessionTable, ReclaimWindow) {
  SessionTable t;
  t.Load(Record(1), 100);
  t.Load(Record(2), 100);
  t.ops(kS1).Load(OpSeq(4), "four");
  EXPECT_TRUE(t.reclaiming());
  EXPECT_EQ(t.MinSeen(), CommitSeq(0));
  EXPECT_TRUE(t.Reclaim(kS1, OpSeq(2), CommitSeq(6), 0, 200));
  EXPECT_FALSE(t.Reclaim(kS1, OpSeq(2), CommitSeq(6), 0, 300)) << "a repeated reclaim takes nothing over again";
  EXPECT_EQ(t.ops(kS1).Lookup(OpSeq(1)), OpState::kForgotten);
  EXPECT_EQ(t.ops(kS1).Lookup(OpSeq(4)), OpState::kDone);
  EXPECT_TRUE(t.reclaiming());
  EXPECT_EQ(t.Expired(100 + kDefaultLeaseNs), std::vector<SessionId>{kS2});
  t.Remove(kS2);
  EXPECT_FALSE(t.reclaiming());
}

TEST(SessionTable, WhoReclaimsMayRepeatForALease) {
  SessionTable t;
  t.Load(Record(1), 100);
  t.Load(Record(2), 100);
  EXPECT_FALSE(t.replays().MayRepeat(kS1, 5, 150)) << "not claimed";
  t.Reclaim(kS1, OpSeq(2), CommitSeq(6), 5, 200);
  EXPECT_TRUE(t.replays().MayRepeat(kS1, 5, 200));
  EXPECT_FALSE(t.replays().MayRepeat(kS1, 5, 200 + kDefaultLeaseNs));
  EXPECT_FALSE(t.replays().MayRepeat(kS2, 5, 200));
  t.Remove(kS1);
  EXPECT_FALSE(t.replays().MayRepeat(kS1, 5, 200));
}

TEST(SessionTable, WhoHasTooManyEventsOrIsGoneGetsNoMore) {
  SessionTableOptions o;
  o.max_events = 3;
  SessionTable t(o);
  t.Open(Record(1), 0, CommitSeq(), 0);
  SessionEvent e;
  for (uint64_t i = 1; i <= 3; ++i) EXPECT_EQ(t.Push(kS1, e, 0), i);
  EXPECT_EQ(t.Push(kS1, e, 0), 0u) << "full: the owner fences";
  EXPECT_FALSE(t.Acked(kS1, 1));
  EXPECT_EQ(t.events(kS1).Take(1).size(), 1u);
  ASSERT_TRUE(t.events(kS1).Ack(1).ok());
  EXPECT_TRUE(t.Acked(kS1, 1));
  EXPECT_EQ(t.Push(kS1, e, 0), 4u);
  t.Remove(kS1);
  EXPECT_TRUE(t.Acked(kS1, 5)) << "fenced counts as acknowledged";
  EXPECT_EQ(t.Push(kS1, e, 0), 0u);
  EXPECT_EQ(t.FindEvents(kS1), nullptr);
  EXPECT_EQ(t.FindOps(kS1), nullptr);
}

TEST(SessionTable, RepliesThatHaveArrivedAreInItsRecord) {
  SessionTable t;
  t.Open(Record(1), 0, CommitSeq(), 0);
  t.ops(kS1).Commit(OpSeq(1), "one");
  t.AckReplies(kS1, OpSeq(2));
  EXPECT_EQ(t.ops(kS1).Lookup(OpSeq(1)), OpState::kForgotten);
  EXPECT_EQ(t.Find(kS1)->acked_below, OpSeq(2));
  t.AckReplies(kS1, OpSeq(1));
  EXPECT_EQ(t.Find(kS1)->acked_below, OpSeq(2));
}

}  // namespace
}  // namespace stria
