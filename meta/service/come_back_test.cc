// Sessions whose lease runs out, and what they get back.
#include "meta/service/service_testing.h"

namespace stria {
namespace {

using enum LockType;

FileLock WriteLock(InodeId ino, uint64_t owner = 1) { return {ino, LockKind::kPosix, owner, kWrite, 0, 9, 7}; }

class ComeBack : public testing::Test {
 protected:
  ComeBack() {
    a.comes_back = b.comes_back = true;
    a.Open(), b.Open();
  }
  void RunFor(int64_t ns) { h.ex.RunFor(ns); }
  // As long as its lease, and longer.
  void Silence(TestClient* c) {
    c->Stop();
    RunFor(20 * kSecond);
    EXPECT_TRUE(h.server->sessions().IsLapsed(c->session));
  }
  InodeId Make(const std::string& name) {
    const auto made = a.Make(kRootInode, name);
    EXPECT_TRUE(made.ok()) << made.error();
    return made.ok() ? made->node.attr.ino : InodeId();
  }
  HeldInode Held(InodeId ino) { return {ino, LeaseMode::kExclusive, true, false}; }
  Result<LockReply> Lock(TestClient* c, FileLock lock, LockOp op = LockOp::kTry) {
    LockRequest r;
    r.header = c->Mutation();
    r.header.term = h.server->term();
    r.op = op;
    r.lock = lock;
    return c->Run(h.server->Lock(r));
  }
  Result<CommitReply> Commit(TestClient* c, InodeId ino, const std::string& bytes, uint64_t known = 0) {
    CommitRequest r = c->InlineCommit(ino, 0, bytes);
    r.known_version = known;
    r.only_known = known != 0;
    return c->Run(h.server->Commit(r));
  }

  MetaHarness h;
  TestClient a{&h, 1}, b{&h, 2};
};

TEST_F(ComeBack, ItGoesOnWithWhatItHadOpen) {
  const InodeId ino = Make("f");
  const SessionId s = a.session;
  Silence(&a);
  EXPECT_EQ(a.GetAttr(ino).code(), FsError::kLapsed);
  EXPECT_TRUE(h.server->leases().OpenBy(s).empty());
  EXPECT_TRUE(a.Reclaim({Held(ino)}));
  EXPECT_TRUE(a.lapsed);
  EXPECT_EQ(a.session, s);
  EXPECT_TRUE(a.not_taken.empty());
  EXPECT_TRUE(h.server->leases().IsWriter(s, ino));
  EXPECT_EQ(h.server->leases().ModeOf(s, ino), LeaseMode::kNone);
  EXPECT_TRUE(Commit(&a, ino, "text").ok());
  RunFor(60 * kSecond);
  EXPECT_TRUE(h.server->sessions().Exists(s));
}

// It takes up what it was given, as it was given it.
TEST_F(ComeBack, ItProvesWhatItHadOpen) {
  const InodeId ino = Make("f"), other = Make("g"), never = b.Make(kRootInode, "h")->node.attr.ino;
  const SessionId s = a.session;
  for (const bool restart : {false, true}) {
    Silence(&a);
    if (restart) {
      h.Crash(false);
      b.Stop();
      EXPECT_TRUE(b.Reclaim({Held(never)}));
    }
    HeldInode bare = Held(ino), reads = Held(other), others = Held(never);
    reads.proof = a.Proof(other, kOpenRead);
    others.proof = b.Proof(never);
    EXPECT_TRUE(a.ReclaimAs({bare, reads, others}));
    EXPECT_TRUE(a.lapsed);
    EXPECT_EQ(a.not_taken, (std::vector<NotTaken>{{ino, false}, {never, false}})) << restart;
    EXPECT_FALSE(h.server->leases().IsOpenBy(s, ino));
    EXPECT_FALSE(h.server->leases().IsOpenBy(s, never));
    EXPECT_TRUE(h.server->leases().IsReader(s, other));
    EXPECT_FALSE(h.server->leases().IsWriter(s, other));
  }
}

TEST_F(ComeBack, OthersHaveWhatTheyWantMeanwhile) {
  const InodeId ino = Make("f");
  ASSERT_TRUE(Lock(&a, WriteLock(ino)).value().granted);
  Silence(&a);
  const int64_t start_ns = h.ex.NowNs();
  EXPECT_EQ(b.OpenFile(ino, true).value().lease, LeaseMode::kExclusive);
  EXPECT_TRUE(Lock(&b, WriteLock(ino)).value().granted);
  EXPECT_LT(h.ex.NowNs() - start_ns, kSecond);
}

TEST_F(ComeBack, BytesAreCommittedOverTheVersionThatTheyWereWrittenOver) {
  const InodeId ino = Make("f"), other = Make("g");
  const uint64_t version = Commit(&a, ino, "old").value().attr.data_version;
  const uint64_t other_version = Commit(&a, other, "old").value().attr.data_version;
  Silence(&a);
  EXPECT_TRUE(b.OpenFile(ino, true).ok());
  EXPECT_TRUE(Commit(&b, ino, "theirs").ok());
  EXPECT_EQ(b.OpenFile(other, true).value().lease, LeaseMode::kExclusive);  // and changes nothing
  ASSERT_TRUE(a.Reclaim({Held(ino), Held(other)}));
  EXPECT_TRUE(a.not_taken.empty());
  EXPECT_EQ(Commit(&a, ino, "mine", version).code(), FsError::kStale);
  EXPECT_TRUE(Commit(&a, other, "mine", other_version).ok());
  EXPECT_EQ(Commit(&a, other, "mine", other_version).code(), FsError::kStale);
}

TEST_F(ComeBack, ALockThatNobodyWantedIsStillHeld) {
  const InodeId ino = Make("f"), other = Make("g");
  ASSERT_TRUE(Lock(&a, WriteLock(ino)).value().granted);
  ASSERT_TRUE(Lock(&a, WriteLock(other)).value().granted);
  Silence(&a);
  ASSERT_TRUE(Lock(&b, WriteLock(other)).value().granted);
  ASSERT_TRUE(Lock(&b, WriteLock(other), LockOp::kUnlock).ok());
  ASSERT_TRUE(a.Reclaim({Held(ino), Held(other)}, {WriteLock(ino), WriteLock(other)}));
  EXPECT_EQ(a.not_taken, (std::vector<NotTaken>{{other, true}})) << "what it guarded may have been changed";
  EXPECT_FALSE(Lock(&b, WriteLock(ino)).value().granted);
  EXPECT_TRUE(Lock(&b, WriteLock(other)).value().granted);
}

TEST_F(ComeBack, AnUnlinkedFileIsKeptForIt) {
  const InodeId ino = Make("f"), gone = Make("g");
  Silence(&a);
  EXPECT_TRUE(b.Unlink("f").ok());
  EXPECT_TRUE(b.Unlink("g").ok());
  RunFor(60 * kSecond);
  ASSERT_TRUE(a.Reclaim({Held(ino)}));
  EXPECT_TRUE(a.not_taken.empty());
  EXPECT_TRUE(Commit(&a, ino, "text").ok());
  RunFor(5 * kSecond);
  EXPECT_FALSE(a.GetAttr(gone).ok()) << "it was not claimed";
  a.Release(ino);
  RunFor(5 * kSecond);
  EXPECT_FALSE(b.GetAttr(ino).ok());
}

TEST_F(ComeBack, WhatItDoesNotComeBackForIsFreed) {
  const InodeId ino = Make("f");
  Silence(&a);
  EXPECT_TRUE(b.Unlink("f").ok());
  RunFor(h.options.sessions.remember_ns - 30 * kSecond);
  EXPECT_TRUE(b.GetAttr(ino).ok());
  RunFor(60 * kSecond);
  EXPECT_FALSE(b.GetAttr(ino).ok());
  EXPECT_FALSE(a.Reclaim({Held(ino)}));
}

TEST_F(ComeBack, WhatWasAskedBeforeIsDoneOnce) {
  MakeNodeRequest r;
  r.header = a.Mutation();
  r.parent = kRootInode;
  r.name = "d";
  r.type = FileType::kDirectory;
  const InodeId made = a.Run(h.server->MakeNode(r)).value().node.attr.ino;
  Silence(&a);
  EXPECT_EQ(a.Run(h.server->MakeNode(r)).code(), FsError::kLapsed);
  ASSERT_TRUE(a.Reclaim());
  EXPECT_EQ(a.Run(h.server->MakeNode(r)).code(), FsError::kRetryLater) << "its epoch is over";
  r.header.epoch = a.epoch;
  const auto again = a.Run(h.server->MakeNode(r));
  ASSERT_TRUE(again.ok()) << again.error();
  EXPECT_EQ(again->node.attr.ino, made);
}

// As what it says is in nobody's memory any more.
TEST_F(ComeBack, ALockWhoseAnswerWasLostIsAskedForAgain) {
  const InodeId ino = Make("f");
  LockRequest r;
  r.header = a.Mutation();
  r.header.term = h.server->term();
  r.op = LockOp::kTry;
  r.lock = WriteLock(ino);
  ASSERT_TRUE(a.Run(h.server->Lock(r)).value().granted);
  Silence(&a);
  ASSERT_TRUE(Lock(&b, WriteLock(ino)).value().granted);
  ASSERT_TRUE(a.Reclaim({Held(ino)}));
  r.header.epoch = a.epoch;
  EXPECT_FALSE(a.Run(h.server->Lock(r)).value().granted);
}

TEST_F(ComeBack, TheAnswerThatWasLostIsGivenAgain) {
  const InodeId ino = Make("f");
  Silence(&a);
  const Epoch before = a.epoch;
  a.attempt = 17;
  ASSERT_TRUE(a.Reclaim({Held(ino)}));
  const Epoch after = a.epoch;
  EXPECT_NE(after, before);
  a.epoch = before;
  ASSERT_TRUE(a.Reclaim({Held(ino)}));
  EXPECT_EQ(a.epoch, after);
  EXPECT_TRUE(a.lapsed);
  // Nor is it lost if its lease runs out once more before it hears it.
  a.epoch = before;
  Silence(&a);
  ASSERT_TRUE(a.Reclaim({Held(ino)}));
  EXPECT_GT(a.epoch, after);
  EXPECT_TRUE(h.server->leases().IsWriter(a.session, ino));
}

TEST_F(ComeBack, ARestartKnowsWhoHadLapsed) {
  const InodeId ino = Make("f");
  ASSERT_TRUE(Lock(&a, WriteLock(ino)).value().granted);
  Silence(&a);
  EXPECT_EQ(b.OpenFile(ino, true).value().lease, LeaseMode::kExclusive);
  a.Stop(), b.Stop();
  RunFor(kSecond);
  h.Crash(true);
  ASSERT_TRUE(b.Reclaim({Held(ino)}));
  EXPECT_FALSE(b.lapsed);
  ASSERT_TRUE(a.Reclaim({Held(ino)}, {WriteLock(ino)}));
  EXPECT_TRUE(a.lapsed) << "else both would have it to themselves";
  EXPECT_EQ(a.not_taken, (std::vector<NotTaken>{{ino, true}})) << "nobody knows who had it meanwhile";
  EXPECT_EQ(h.server->leases().ModeOf(b.session, ino), LeaseMode::kExclusive);
  EXPECT_EQ(h.server->leases().ModeOf(a.session, ino), LeaseMode::kNone);
}

// A client does not repeat a change up to `survived`, so that must not count further than the store that was found.
TEST(Survived, IsTheLastChangeThatARestartHasFound) {
  MetaServerOptions options;
  options.group_sync_ns = 3600 * kSecond;  // a power cut loses some of the last changes, or none
  size_t found = 0, lost = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    MetaHarness h(seed, options);
    TestClient a(&h, 1), b(&h, 2);
    a.comes_back = true;
    a.Open();
    ASSERT_TRUE(RunSim(h.ex, h.server->store()->Sync()).ok());
    std::vector<CommitSeq> made;
    for (int i = 0; i < 3; ++i) {
      const auto reply = a.Make(kRootInode, "f" + std::to_string(i));
      ASSERT_TRUE(reply.ok()) << reply.error();
      made.push_back(reply->node.seq);
    }
    a.Stop();
    h.Crash(true);
    h.ex.RunFor(20 * kSecond);
    ASSERT_TRUE(a.Reclaim());
    ASSERT_TRUE(a.lapsed);
    b.Open();
    for (size_t i = 0; i < made.size(); ++i) {
      const bool there = b.Lookup("f" + std::to_string(i)).ok();
      EXPECT_EQ(made[i] <= a.survived, there) << i << " of seed " << seed;
      ++(there ? found : lost);
    }
  }
  EXPECT_GT(found, 0u);
  EXPECT_GT(lost, 0u);
}

TEST_F(ComeBack, WhoMissesTheWindowOfReclaimsComesBackLater) {
  const InodeId ino = Make("f");
  a.Stop(), b.Stop();
  RunFor(kSecond);
  h.Crash(false);
  ASSERT_TRUE(b.Reclaim());
  RunFor(20 * kSecond);
  EXPECT_TRUE(h.server->sessions().IsLapsed(a.session));
  EXPECT_EQ(b.OpenFile(ino, true).value().lease, LeaseMode::kExclusive);
  ASSERT_TRUE(a.Reclaim({Held(ino)}));
  EXPECT_TRUE(a.lapsed);
  EXPECT_TRUE(a.not_taken.empty());
}

TEST_F(ComeBack, WhoIsSilentLosesWhatOthersWaitForAndNoMore) {
  const InodeId ino = Make("f");
  a.answers = false;
  const auto opened = b.Run(b.OpenTask(ino, true));  // a does not give it up
  EXPECT_EQ(opened.code(), FsError::kDeadline);
  RunFor(h.options.answer_timeout_ns + 10 * kSecond);
  EXPECT_TRUE(h.server->sessions().IsLapsed(a.session));
  EXPECT_TRUE(b.OpenFile(ino, true).ok());
  ASSERT_TRUE(a.Reclaim({Held(ino)}));
  EXPECT_TRUE(a.not_taken.empty());
}

TEST_F(ComeBack, GarbageDoesNotWaitForIt) {
  RunFor(10 * kSecond);
  const CommitSeq before = h.server->sessions().MinSeen();
  Silence(&a);
  ASSERT_TRUE(b.Make(kRootInode, "f").ok());
  RunFor(10 * kSecond);
  EXPECT_GT(h.server->sessions().MinSeen(), before);
}

TEST_F(ComeBack, ItKeepsTheStripesThatItWasGiven) {
  const InodeId ino = Make("f");
  Silence(&a);
  ASSERT_TRUE(a.Reclaim({Held(ino)}));
  EXPECT_TRUE(h.Fsck().empty());
}

TEST_F(ComeBack, ItIsOverWhenItsClientOpensANewOneOrCloses) {
  Silence(&a);
  const SessionId first = a.session;
  a.Open();
  EXPECT_NE(a.session, first);
  EXPECT_EQ(h.server->sessions().Find(first), nullptr);
  Silence(&a);
  EXPECT_TRUE(a.Run(h.server->CloseSession(a.Ino(InodeId()))).ok());
  EXPECT_EQ(h.server->sessions().Find(a.session), nullptr);
}

class Forgetful : public testing::Test {
 protected:
  static MetaServerOptions Options() {
    MetaServerOptions o;
    o.sessions.max_lapsed = 2;
    return o;
  }
  MetaHarness h{1, Options()};
};

TEST_F(Forgetful, TooManyAreNotRemembered) {
  std::vector<std::unique_ptr<TestClient>> all;
  for (uint64_t i = 1; i <= 4; ++i) {
    all.push_back(std::make_unique<TestClient>(&h, i));
    all.back()->comes_back = true;
    all.back()->Open();
    all.back()->Stop();
    h.ex.RunFor(kSecond);
  }
  h.ex.RunFor(30 * kSecond);
  EXPECT_FALSE(all[0]->Reclaim());
  EXPECT_TRUE(all[2]->Reclaim());
  EXPECT_TRUE(all[3]->Reclaim());
}

}  // namespace
}  // namespace stria
