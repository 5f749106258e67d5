// Coherence on a core, without a metadata server: sessions that poll by hand.
#include "meta/coherence/coherence.h"

#include "meta/core/core_testing.h"

namespace stria {
namespace {

constexpr InodeId kFile(100);
using Kind = SessionEvent::Kind;

class CoherenceTest : public CoreTest, public CleanerHost {
 protected:
  ~CoherenceTest() override {
    calls.CancelAll();
    if (cleaner) cleaner->Stop();
  }
  bool IsOpen(InodeId ino) const override { return coherence->IsOpen(ino); }
  bool IsWanted(InodeId ino) const override { return coherence->IsWanted(ino); }
  void TellTrimmed(const Touched& t) override { coherence->notices().TellTrimmed(t); }

  void Begin(GivenLife life = {}) {
    calls.CancelAll();
    coherence.reset();
    cleaner.reset();
    Make(std::move(life));
    cleaner = std::make_unique<Cleaner>(core.get(), this);
    coherence = std::make_unique<Coherence>(core.get(), cleaner.get(), options, [this](SessionId s) { ended.insert(s); });
    Start([&](Txn& txn) -> Result<void> {
      RETURN_IF_ERROR(coherence->Load(txn));
      return cleaner->Load(txn);
    });
    if (!coherence->sessions().table().reclaiming()) cleaner->EndClaims();
    cleaner->Start();
  }
  static OpenSessionRequest Opening(uint64_t client, const OpHeader& header) {
    OpenSessionRequest r;
    r.header = header;
    r.client_uuid = Uuid{77, client};
    r.client = "client " + std::to_string(client);
    r.comes_back = true;
    return r;
  }
  OpHeader Open(uint64_t client) {
    const OpenSessionReply reply = RunSim(ex, coherence->OpenSession(Opening(client, Header()))).value();
    OpHeader h = Header();
    h.session = reply.session;
    h.epoch = reply.epoch;
    return h;
  }
  // What the session is told; `acked` is what it has processed.
  std::vector<SessionEvent> Poll(OpHeader h, uint64_t acked = 0) {
    PollRequest r;
    r.header = h;
    r.header.timeout_ns = 0;
    r.acked_event = acked;
    return RunSim(ex, coherence->sessions().Poll(r)).value().events;
  }
  void Renew(const OpHeader& h) {
    RenewRequest r;
    r.header = h;
    EXPECT_TRUE(coherence->Renew(r).ok());
  }
  // Begins the call; `out` has its result when it is done.
  template <class T>
  void Call(Task<T> task, std::optional<T>* out) {
    calls.Spawn([](Task<T> t, std::optional<T>* o) -> Task<void> { o->emplace(co_await std::move(t)); }(std::move(task), out));
    ex.RunFor(kMillisecond);
  }
  Result<LeaseMode> Acquire(const OpHeader& h, InodeId ino, bool for_write) {
    return RunSim(ex, coherence->grants().Acquire(h, ino, for_write, true));
  }
  static Task<bool> Announce(Notices* n, SessionId from, Touched touched) {
    co_await n->Announce(from, touched, {});
    co_return true;
  }

  CoherenceOptions options;
  std::unique_ptr<Cleaner> cleaner;
  std::unique_ptr<Coherence> coherence;
  std::set<SessionId> ended;
  TaskScope calls;
};

TEST_F(CoherenceTest, ASecondWriterWaitsForTheRecallOfTheFirst) {
  Begin();
  const OpHeader a = Open(1), b = Open(2);
  EXPECT_EQ(Acquire(a, kFile, true).value(), LeaseMode::kExclusive);
  std::optional<Result<LeaseMode>> got;
  Call(coherence->grants().Acquire(b, kFile, true, true), &got);
  EXPECT_FALSE(got);
  EXPECT_EQ(coherence->notices().waits().all().size(), 1u);
  const std::vector<SessionEvent> told = Poll(a);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].kind, Kind::kRecall);
  LeaseDoneRequest done;
  done.header = a;
  done.ino = kFile;
  done.lease = told[0].lease;
  done.event_seq = told[0].seq;
  ASSERT_TRUE(coherence->grants().Done(done).ok());
  ex.RunFor(kMillisecond);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->value(), LeaseMode::kShared);
  EXPECT_TRUE(coherence->notices().waits().all().empty());
  EXPECT_EQ(coherence->grants().table().CheckInvariants(), "");
}

// Another metadata server that goes on without the fence lets the session come back, with what it held.
TEST_F(CoherenceTest, AmongSeveralAGrantWaitsUntilTheFenceItRestsOnIsDurable) {
  GivenLife life;
  life.term = 50;
  Begin(life);
  const OpHeader a = Open(1), b = Open(2);
  ASSERT_EQ(Acquire(a, kFile, true).value(), LeaseMode::kExclusive);
  ASSERT_TRUE(RunSim(ex, core->Sync()).ok());
  ASSERT_TRUE(coherence->EvictClient(a.session).ok());
  const CommitSeq fenced = core->store().last_seq();
  ASSERT_LT(core->store().durable_seq(), fenced);
  EXPECT_EQ(Acquire(b, kFile, true).value(), LeaseMode::kExclusive);
  EXPECT_GE(core->store().durable_seq(), fenced);
}

TEST_F(CoherenceTest, AloneAGrantWaitsForNoDisk) {
  Begin();
  const OpHeader a = Open(1), b = Open(2);
  ASSERT_EQ(Acquire(a, kFile, true).value(), LeaseMode::kExclusive);
  ASSERT_TRUE(coherence->EvictClient(a.session).ok());
  const CommitSeq fenced = core->store().last_seq();
  EXPECT_EQ(Acquire(b, kFile, true).value(), LeaseMode::kExclusive);
  EXPECT_LT(core->store().durable_seq(), fenced);
}

TEST_F(CoherenceTest, AChangeWaitsUntilWhoCachedItHasForgottenIt) {
  Begin();
  const OpHeader a = Open(1), b = Open(2);
  coherence->notices().MayCache(a.session).Attr(kFile);
  Touched changed;
  changed.attrs.insert(kFile);
  std::optional<bool> announced;
  Call(Announce(&coherence->notices(), b.session, changed), &announced);
  EXPECT_FALSE(announced);
  EXPECT_TRUE(coherence->notices().IsUntold(a.session, kFile));
  EXPECT_FALSE(coherence->notices().IsUntold(b.session, kFile));
  EXPECT_TRUE(coherence->notices().IsUntoldToOthers(b.session, kFile));
  const std::vector<SessionEvent> told = Poll(a);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].kind, Kind::kInvalidateAttr);
  Poll(a, told[0].seq);
  ex.RunFor(kMillisecond);
  EXPECT_TRUE(announced);
  EXPECT_FALSE(coherence->notices().HasUntold(kFile));
  // It caches nothing of it any more: nobody is waited for.
  announced.reset();
  Call(Announce(&coherence->notices(), b.session, changed), &announced);
  EXPECT_TRUE(announced);
}

TEST_F(CoherenceTest, ALeaseThatOthersAreBeingToldOfIsNotYetAlone) {
  Begin();
  const OpHeader a = Open(1), b = Open(2);
  coherence->notices().MayCache(a.session).Attr(kFile);
  std::optional<Result<LeaseMode>> got;
  Call(coherence->grants().Acquire(b, kFile, true, true), &got);
  EXPECT_FALSE(got);
  EXPECT_EQ(coherence->grants().table().ModeOf(b.session, kFile), LeaseMode::kExclusive) << "decided";
  EXPECT_FALSE(coherence->grants().HasAlone(b.session, kFile)) << "a may still show what it cached";
  const std::vector<SessionEvent> told = Poll(a);
  ASSERT_EQ(told.size(), 1u);
  Poll(a, told[0].seq);
  ex.RunFor(kSecond);
  ASSERT_TRUE(got);
  EXPECT_TRUE(coherence->grants().HasAlone(b.session, kFile));
  EXPECT_FALSE(coherence->grants().HasAlone(a.session, kFile));
}

// What it has buffered may be asked for meanwhile, and committing that waits for nobody (docs/waits.md).
TEST_F(CoherenceTest, WhoHasAFileAloneHasSoWhileItOpensItOnceMore) {
  Begin();
  const OpHeader a = Open(1), b = Open(2), c = Open(3);
  ASSERT_EQ(Acquire(b, kFile, true).value(), LeaseMode::kExclusive);
  coherence->notices().MayCache(a.session).Attr(kFile);
  Touched changed;
  changed.attrs.insert(kFile);
  std::optional<bool> announced;
  Call(Announce(&coherence->notices(), c.session, changed), &announced);  // its mode, say
  ASSERT_TRUE(coherence->notices().IsUntold(a.session, kFile));
  std::optional<Result<LeaseMode>> got;
  Call(coherence->grants().Acquire(b, kFile, false, true), &got);
  EXPECT_FALSE(got) << "a may still show the old mode";
  EXPECT_TRUE(coherence->grants().HasAlone(b.session, kFile));
  const std::vector<SessionEvent> told = Poll(a);
  ASSERT_FALSE(told.empty());
  Poll(a, told.back().seq);
  const std::vector<SessionEvent> own = Poll(b);
  if (!own.empty()) Poll(b, own.back().seq);
  ex.RunFor(kSecond);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->value(), LeaseMode::kExclusive);
}

TEST_F(CoherenceTest, WhoDoesNotAnswerLosesWhatItHoldsAndNoMore) {
  Begin();
  const OpHeader a = Open(1), b = Open(2);
  coherence->notices().MayCache(a.session).Attr(kFile);
  Touched changed;
  changed.attrs.insert(kFile);
  std::optional<bool> announced;
  Call(Announce(&coherence->notices(), b.session, changed), &announced);
  for (int i = 0; i < 100 && !announced; ++i) {  // it renews its lease, and polls nothing
    Renew(a), Renew(b);
    Poll(b);
    ex.RunFor(kSecond);
    coherence->Tick();
    ex.RunFor(kMillisecond);
  }
  EXPECT_TRUE(announced);
  EXPECT_TRUE(coherence->sessions().table().IsLapsed(a.session));
  EXPECT_TRUE(coherence->sessions().table().Exists(b.session));
  EXPECT_EQ(coherence->sessions().CheckSession(a).code(), FsError::kLapsed);
  EXPECT_TRUE(ended.empty());
}

TEST_F(CoherenceTest, ASessionThatLapsedComesBackUnderANewEpochWithoutLeases) {
  Begin();
  const OpHeader a = Open(1);
  ASSERT_TRUE(Acquire(a, kRootInode, false).ok());
  coherence->grants().NoteReader(a.session, kRootInode);
  const std::string proof = coherence->ProofOfOpen(a, kRootInode);
  ex.RunFor(60 * kSecond);
  coherence->Tick();
  ASSERT_TRUE(coherence->sessions().table().IsLapsed(a.session));
  EXPECT_TRUE(coherence->IsOpen(kRootInode));  // it is not freed
  EXPECT_EQ(coherence->grants().table().ModeOf(a.session, kRootInode), LeaseMode::kNone);
  OpenSessionRequest r = Opening(1, a);
  HeldInode held;
  held.ino = kRootInode;
  held.proof = proof;
  HeldInode unproved;
  unproved.ino = kFile;
  r.held = {held, unproved};
  const OpenSessionReply back = RunSim(ex, coherence->OpenSession(r)).value();
  EXPECT_TRUE(back.lapsed);
  EXPECT_EQ(back.session, a.session);
  EXPECT_NE(back.epoch, a.epoch);
  ASSERT_EQ(back.not_taken.size(), 1u);
  EXPECT_EQ(back.not_taken[0].ino, kFile);
  EXPECT_TRUE(coherence->grants().table().IsOpenBy(a.session, kRootInode));
  EXPECT_EQ(coherence->sessions().CheckSession(a).code(), FsError::kRetryLater);  // asked before
}

TEST_F(CoherenceTest, ADirectoryThatOneHasToItselfIsRecalledForAVisit) {
  Begin();
  const OpHeader a = Open(1), b = Open(2);
  bool had = true;
  ASSERT_TRUE(coherence->grants().TakeAlone(a, kRootInode, &had));
  EXPECT_FALSE(had);
  {
    std::optional<Result<Grants::DirVisit>> visit;
    Call(coherence->grants().Visit(b, kRootInode), &visit);
    EXPECT_FALSE(visit);
    EXPECT_TRUE(coherence->grants().OthersVisit(kRootInode, a.session));
    ASSERT_EQ(Poll(a).size(), 1u);
    coherence->grants().GiveBack(a, kRootInode);
    ex.RunFor(kMillisecond);
    ASSERT_TRUE(visit);
    EXPECT_TRUE(visit->ok());
  }
  EXPECT_FALSE(coherence->grants().OthersVisit(kRootInode, a.session));
}

TEST_F(CoherenceTest, AfterARestartCallsWaitUntilAllHaveReclaimed) {
  Begin();
  const OpHeader a = Open(1), b = Open(2);
  ASSERT_TRUE(Acquire(a, kRootInode, true).ok());
  const std::string proof = coherence->ProofOfOpen(a, kRootInode);
  Begin();
  EXPECT_EQ(coherence->sessions().CheckSession(a).code(), FsError::kRetryLater);
  OpenSessionRequest r;
  r.header = a;
  r.client_uuid = Uuid{77, 1};
  r.client = "client 1";
  HeldInode held;
  held.ino = kRootInode;
  held.proof = proof;
  held.lease = LeaseMode::kExclusive;
  held.for_write = true;
  r.held = {held};
  EXPECT_TRUE(RunSim(ex, coherence->OpenSession(r)).value().reclaimed);
  EXPECT_EQ(coherence->grants().table().ModeOf(a.session, kRootInode), LeaseMode::kExclusive);
  std::optional<Result<void>> gated;
  Call(coherence->sessions().Gate(a), &gated);
  EXPECT_FALSE(gated);  // the other has said nothing
  ASSERT_TRUE(coherence->CloseSession(b).ok());
  ex.RunFor(2 * kSecond);
  coherence->sessions().Replayed(a.session);
  ex.RunFor(2 * kSecond);
  ASSERT_TRUE(gated);
  EXPECT_TRUE(gated->ok());
  EXPECT_EQ(ended, std::set<SessionId>{b.session});
}

// One claim that is not proved costs the others their leases, and nothing more.
TEST_F(CoherenceTest, OfAClaimThatIsRefusedWhatIsProvedStaysOpen) {
  Begin();
  const OpHeader a = Open(1);
  ASSERT_TRUE(Acquire(a, kRootInode, false).ok());
  coherence->grants().NoteReader(a.session, kRootInode);
  const std::string proof = coherence->ProofOfOpen(a, kRootInode);
  Begin();
  OpenSessionRequest r = Opening(1, a);
  HeldInode unproved, held;
  unproved.ino = kFile;
  held.ino = kRootInode;
  held.proof = proof;
  r.held = {unproved, held};
  const OpenSessionReply back = RunSim(ex, coherence->OpenSession(r)).value();
  EXPECT_TRUE(back.lapsed);
  ASSERT_EQ(back.not_taken.size(), 1u);
  EXPECT_EQ(back.not_taken[0].ino, kFile);
  EXPECT_TRUE(coherence->grants().table().IsOpenBy(a.session, kRootInode));
}

TEST_F(CoherenceTest, WhoMakesRoomInTheTableIsToldToForget) {
  options.max_interests = 2;
  Begin();
  const OpHeader a = Open(1), b = Open(2);
  coherence->notices().MayCache(a.session).Attr(InodeId(11)).Attr(InodeId(12));
  EXPECT_TRUE(Poll(a).empty());
  coherence->notices().MayCache(b.session).Attr(InodeId(13));
  const std::vector<SessionEvent> told = Poll(a);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].ino, InodeId(11));
  EXPECT_TRUE(coherence->notices().IsUntold(a.session, InodeId(99)));  // until it has acknowledged that
  Poll(a, told[0].seq);
  EXPECT_FALSE(coherence->notices().IsUntold(a.session, InodeId(99)));
}

// A clock that begins anew with each event would let notice k wait k times as long.
TEST_F(CoherenceTest, WhoAcknowledgesOneByOneLapsesLikeOneThatAcknowledgesNothing) {
  Begin();
  const OpHeader a = Open(1), b = Open(2);
  constexpr uint64_t kFiles = 200;
  std::vector<std::optional<bool>> announced(kFiles);
  for (uint64_t i = 0; i < kFiles; ++i) {
    const InodeId ino(1000 + i);
    coherence->notices().MayCache(a.session).Attr(ino);
    Touched changed;
    changed.attrs.insert(ino);
    calls.Spawn([](Task<bool> t, std::optional<bool>* o) -> Task<void> { o->emplace(co_await std::move(t)); }(
        Announce(&coherence->notices(), b.session, changed), &announced[i]));
  }
  ex.RunFor(kMillisecond);
  const uint64_t first = Poll(a).at(0).seq;
  uint64_t acked = 0;
  const int64_t start_ns = ex.NowNs();
  const int64_t end_ns = start_ns + options.answer_timeout_ns + 5 * kSecond;
  for (int64_t next_ns = start_ns + 60 * kSecond; ex.NowNs() < end_ns && coherence->sessions().table().Exists(a.session);) {
    Renew(a), Renew(b);
    Poll(b);
    if (ex.NowNs() >= next_ns) {
      Poll(a, first + acked++);
      next_ns += 60 * kSecond;
    }
    ex.RunFor(kSecond);
    coherence->Tick();
    ex.RunFor(kMillisecond);
  }
  EXPECT_TRUE(coherence->sessions().table().IsLapsed(a.session)) << acked << " acknowledged";
  EXPECT_GE(ex.NowNs() - start_ns, options.answer_timeout_ns - kSecond);
  EXPECT_TRUE(announced.back());
}

// As long as it needs for a queue that is long through no fault of its own.
TEST_F(CoherenceTest, WhoWorksThroughALongQueueDoesNotLapse) {
  Begin();
  const OpHeader a = Open(1);
  constexpr uint64_t kFiles = 6000, kInASecond = 55;
  for (uint64_t i = 0; i < kFiles; ++i) {
    const InodeId ino(1000 + i);
    coherence->notices().MayCache(a.session).Attr(ino);
    coherence->notices().TellData(ino, SessionId());
  }
  uint64_t done = 0;
  while (done < kFiles) {
    const std::vector<SessionEvent> told = Poll(a);
    ASSERT_FALSE(told.empty());
    const size_t now = std::min<size_t>(kInASecond, told.size());
    Poll(a, told[now - 1].seq);
    done += now;
    Renew(a);
    ex.RunFor(kSecond);
    coherence->Tick();
    ASSERT_TRUE(coherence->sessions().table().Exists(a.session)) << done;
  }
  EXPECT_GT(static_cast<int64_t>(kFiles / kInASecond) * kSecond, options.answer_timeout_ns) << "or it says nothing";
}

TEST_F(CoherenceTest, WhatOneForgetsToMakeRoomHoldsOnlyWhoChangesThat) {
  options.max_interests = 16;
  Begin();
  const OpHeader a = Open(1), b = Open(2);
  for (int i = 0; i < 100; ++i) coherence->notices().MayCache(a.session).Entry(InodeId(11), "no" + std::to_string(i));
  ASSERT_FALSE(Poll(a).empty());  // and it says nothing to that
  Touched other;
  other.attrs.insert(kFile);
  std::optional<bool> announced;
  Call(Announce(&coherence->notices(), b.session, other), &announced);
  EXPECT_TRUE(announced);
  Touched names;
  names.entries.insert({InodeId(11), "no1"});
  announced.reset();
  Call(Announce(&coherence->notices(), b.session, names), &announced);
  EXPECT_FALSE(announced) << "it may still show the name as it was";
  const std::vector<SessionEvent> told = Poll(a);
  Poll(a, told.back().seq);
  ex.RunFor(kMillisecond);
  EXPECT_TRUE(announced);
}

TEST_F(CoherenceTest, WhoCachesMoreThanItsShareForgetsItsOwnFirst) {
  options.max_interests = 64;
  Begin();
  const OpHeader a = Open(1), b = Open(2);
  coherence->notices().MayCache(b.session).Attr(InodeId(1));
  for (uint64_t i = 0; i < 200; ++i) coherence->notices().MayCache(a.session).Attr(InodeId(1000 + i));
  EXPECT_TRUE(Poll(b).empty()) << "it was there before, and has little";
  EXPECT_EQ(Poll(a).size(), 137u);
  coherence->notices().MayCache(b.session).Attr(InodeId(2));
  EXPECT_TRUE(Poll(b).empty());
  EXPECT_EQ(Poll(a).size(), 138u);
}

// Those who read wait only for who has to forget something for what they read.
TEST_F(CoherenceTest, ADeafOneThatCachesTooMuchDoesNotKeepOthersFromReading) {
  options.max_interests = 64;
  options.sessions.max_events = 400;
  Begin();
  const OpHeader a = Open(1), b = Open(2);
  const auto reads = [this](SessionId s, std::optional<bool>* done) {
    Call([](Notices* n, SessionId who) -> Task<bool> {
      co_await n->WaitEvictions(who);
      co_return true;
    }(&coherence->notices(), s), done);
  };
  for (uint64_t i = 0; i < 200; ++i) coherence->notices().MayCache(a.session).Attr(InodeId(1000 + i));
  std::optional<bool> mine, others;
  reads(a.session, &mine);
  EXPECT_FALSE(mine) << "it has to forget some first";
  reads(b.session, &others);
  for (int64_t end_ns = ex.NowNs() + options.sessions.lease_ns + 2 * kSecond; !others && ex.NowNs() < end_ns;) {
    Renew(a), Renew(b);
    ex.RunFor(kSecond);
    coherence->Tick();
    ex.RunFor(kMillisecond);
  }
  EXPECT_TRUE(others);
  EXPECT_TRUE(coherence->sessions().table().IsLapsed(a.session));
}

// Lapse, come back, hold again.
TEST_F(CoherenceTest, WhoHasLapsedForItsSilenceIsWaitedForNoLongerThanItsLease) {
  Begin();
  OpHeader a = Open(1);
  const OpHeader b = Open(2);
  OpenSessionRequest back;
  back.client_uuid = Uuid{77, 1};
  back.client = "client 1";
  back.comes_back = true;
  // How long the others wait for it.
  const auto holds = [&](InodeId ino) {
    coherence->notices().MayCache(a.session).Attr(ino);
    Touched changed;
    changed.attrs.insert(ino);
    std::optional<bool> announced;
    const int64_t start_ns = ex.NowNs();
    Call(Announce(&coherence->notices(), b.session, changed), &announced);
    while (!announced && ex.NowNs() < start_ns + 200 * kSecond) {
      Renew(a), Renew(b);
      Poll(b);
      ex.RunFor(kSecond);
      coherence->Tick();
      ex.RunFor(kMillisecond);
    }
    EXPECT_TRUE(coherence->sessions().table().IsLapsed(a.session));
    return ex.NowNs() - start_ns;
  };
  EXPECT_GE(holds(InodeId(1001)), options.answer_timeout_ns - kSecond);
  back.header = a;
  const Result<OpenSessionReply> first = RunSim(ex, coherence->OpenSession(back));
  ASSERT_TRUE(first.ok()) << "the first time it may come back at once";
  a.epoch = first->epoch;
  EXPECT_EQ(Acquire(a, kFile, true).value(), LeaseMode::kShared) << "nobody has to recall it";
  EXPECT_LE(holds(InodeId(1002)), options.sessions.lease_ns + 2 * kSecond);
  back.header = a;
  EXPECT_EQ(RunSim(ex, coherence->OpenSession(back)).code(), FsError::kRetryLater);
  ex.RunFor(options.sessions.lease_ns);
  const Result<OpenSessionReply> second = RunSim(ex, coherence->OpenSession(back));
  ASSERT_TRUE(second.ok()) << second.error();
  a.epoch = second->epoch;
  EXPECT_LE(holds(InodeId(1003)), options.sessions.lease_ns + 2 * kSecond);
  back.header = a;
  ex.RunFor(options.sessions.lease_ns);
  EXPECT_EQ(RunSim(ex, coherence->OpenSession(back)).code(), FsError::kRetryLater) << "each time it takes twice as long";
}

}  // namespace
}  // namespace stria
