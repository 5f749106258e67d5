#include "meta/session/lease_table.h"

#include <gtest/gtest.h>

#include <deque>

#include "common/random.h"

namespace stria {
namespace {

const SessionId kA{1}, kB{2}, kC{3};
const InodeId kIno{10};
using Kind = SessionEvent::Kind;

// Opens, answering recalls at once; the mode granted.
LeaseMode OpenAll(LeaseTable& t, SessionId s, bool write, std::vector<LeaseDemand>* seen = nullptr) {
  static uint64_t event = 0;
  bool first = true;
  while (true) {
    auto o = t.Open(s, kIno, write, true, first);
    first = false;
    for (const LeaseDemand& d : o.demands) {
      if (seen) seen->push_back(d);
      t.NoteDemand(d, ++event);
      EXPECT_TRUE(t.LeaseDone(d.session, d.ino, d.to, event).ok());
    }
    if (o.granted) return o.mode;
  }
}

TEST(LeaseTable, TruthTable) {
  struct Row {
    std::vector<bool> others;  // opens of B, C ...: for writing?
    bool write;
    LeaseMode mine;
    LeaseMode theirs;  // of each after
  };
  const Row rows[] = {
      {{}, false, LeaseMode::kRead, LeaseMode::kNone},
      {{}, true, LeaseMode::kExclusive, LeaseMode::kNone},
      {{false}, false, LeaseMode::kRead, LeaseMode::kRead},
      {{false, false}, false, LeaseMode::kRead, LeaseMode::kRead},
      {{false}, true, LeaseMode::kShared, LeaseMode::kShared},
      {{false, false}, true, LeaseMode::kShared, LeaseMode::kShared},
      {{true}, false, LeaseMode::kShared, LeaseMode::kShared},
      {{true}, true, LeaseMode::kShared, LeaseMode::kShared},
      {{true, false}, false, LeaseMode::kShared, LeaseMode::kShared},
      {{true, true}, true, LeaseMode::kShared, LeaseMode::kShared},
  };
  int n = 0;
  for (const Row& row : rows) {
    SCOPED_TRACE(n++);
    LeaseTable t;
    for (size_t i = 0; i < row.others.size(); ++i) OpenAll(t, SessionId(2 + i), row.others[i]);
    EXPECT_EQ(OpenAll(t, kA, row.write), row.mine);
    for (size_t i = 0; i < row.others.size(); ++i) EXPECT_EQ(t.ModeOf(SessionId(2 + i), kIno), row.theirs);
    EXPECT_EQ(t.CheckInvariants(), "");
  }
}

// The session that asked does not wait for it any more, and has said so.
TEST(LeaseTable, WhatWasReleasedWhileItsOpenWaitedIsNotGranted) {
  LeaseTable t;
  EXPECT_EQ(OpenAll(t, kA, true), LeaseMode::kExclusive);
  const auto asked = t.Open(kB, kIno, false, true, true, 5);
  ASSERT_EQ(asked.demands.size(), 1u);
  t.NoteDemand(asked.demands[0], 50);
  t.Release(kB, kIno, 6);
  EXPECT_TRUE(t.LeaseDone(kA, kIno, LeaseMode::kShared, 50).ok());
  const auto again = t.Open(kB, kIno, false, true, false, 5);
  EXPECT_FALSE(again.granted);
  EXPECT_TRUE(again.late);
  EXPECT_FALSE(t.IsOpenBy(kB, kIno));
  t.Release(kA, kIno, 100);
  EXPECT_FALSE(t.IsOpen(kIno)) << "nor does it wait";
  EXPECT_TRUE(t.Open(kB, kIno, false, true, true, 7).granted);
}

TEST(LeaseTable, OpenWaitsForTheRecall) {
  LeaseTable t;
  EXPECT_EQ(OpenAll(t, kA, true), LeaseMode::kExclusive);
  auto o = t.Open(kB, kIno, false, true, true);
  EXPECT_FALSE(o.granted);
  ASSERT_EQ(o.demands.size(), 1u);
  EXPECT_EQ(o.demands[0], (LeaseDemand{kA, kIno, Kind::kRecall, LeaseMode::kShared}));
  t.NoteDemand(o.demands[0], 50);
  EXPECT_TRUE(t.Open(kB, kIno, false, true, false).demands.empty()) << "pushed once";
  EXPECT_FALSE(t.LeaseDone(kA, kIno, LeaseMode::kRead, 50).ok()) << "more than asked";
  EXPECT_TRUE(t.LeaseDone(kA, kIno, LeaseMode::kShared, 49).ok());
  EXPECT_EQ(t.LeaseDone(kA, kIno, LeaseMode::kNone, 49).code, FsError::kStale) << "it is still taken to be open";
  EXPECT_EQ(t.ModeOf(kA, kIno), LeaseMode::kExclusive) << "an answer to something else changes nothing";
  EXPECT_TRUE(t.LeaseDone(kA, kIno, LeaseMode::kShared, 50).ok());
  o = t.Open(kB, kIno, false, true, false);
  EXPECT_TRUE(o.granted);
  EXPECT_EQ(o.mode, LeaseMode::kShared);
}

// A client that has given up opening for writing opens for reading, while the server still waits for the first.
TEST(LeaseTable, WhatIsWaitedForIsNotGrantedToAnother) {
  LeaseTable t;
  EXPECT_EQ(OpenAll(t, kB, true), LeaseMode::kExclusive);
  EXPECT_FALSE(t.Open(kA, kIno, true, true, true, 1).granted);
  EXPECT_FALSE(t.Open(kA, kIno, false, true, true, 2).granted);
  t.Release(kB, kIno);
  EXPECT_EQ(t.Open(kA, kIno, false, true, false, 2).mode, LeaseMode::kRead);
  t.AbandonOpen(kA, kIno);
  EXPECT_EQ(t.CheckInvariants(), "");
  EXPECT_EQ(t.Open(kB, kIno, false, true, true, 3).mode, LeaseMode::kRead);
  EXPECT_EQ(t.CheckInvariants(), "");
}

TEST(LeaseTable, ReleaseAndDropAnswerRecallsToo) {
  for (bool drop : {false, true}) {
    LeaseTable t;
    OpenAll(t, kA, true);
    auto o = t.Open(kB, kIno, true, true, true);
    t.NoteDemand(o.demands[0], 50);
    if (drop) EXPECT_EQ(t.Drop(kA), std::vector<InodeId>{kIno});
    else t.Release(kA, kIno);
    o = t.Open(kB, kIno, true, true, false);
    EXPECT_TRUE(o.granted);
    EXPECT_EQ(o.mode, LeaseMode::kExclusive);
    EXPECT_TRUE(t.LeaseDone(kA, kIno, LeaseMode::kShared, 50).ok()) << "late answers are harmless";
  }
}

// No session writes while another shows pages without asking, not even while that one opens the file anew: it answers recalls
// during its own opens.
TEST(LeaseTable, TwoReadersThatBothUpgradeWaitForRecallsOnly) {
  LeaseTable t;
  OpenAll(t, kA, false);
  OpenAll(t, kB, false);
  auto a = t.Open(kA, kIno, true, true, true);
  EXPECT_FALSE(a.granted);
  ASSERT_EQ(a.demands.size(), 1u);
  t.NoteDemand(a.demands[0], 1);
  auto b = t.Open(kB, kIno, true, true, true);
  EXPECT_FALSE(b.granted) << "A still shows what it has read";
  ASSERT_EQ(b.demands.size(), 1u) << "A's kRead is recalled; B's own recall is pending already";
  t.NoteDemand(b.demands[0], 2);
  EXPECT_TRUE(t.LeaseDone(kB, kIno, LeaseMode::kShared, 1).ok());
  a = t.Open(kA, kIno, true, true, false);
  EXPECT_TRUE(a.granted);
  EXPECT_EQ(a.mode, LeaseMode::kShared);
  EXPECT_EQ(t.ModeOf(kA, kIno), LeaseMode::kRead) << "until A has said that it stopped caching";
  EXPECT_FALSE(t.Open(kB, kIno, true, true, false).granted);
  EXPECT_TRUE(t.LeaseDone(kA, kIno, LeaseMode::kShared, 2).ok());
  b = t.Open(kB, kIno, true, true, false);
  EXPECT_TRUE(b.granted);
  EXPECT_EQ(b.mode, LeaseMode::kShared);
  EXPECT_EQ(t.ModeOf(kA, kIno), LeaseMode::kShared);
  EXPECT_EQ(t.CheckInvariants(), "");
}

// A session that changes a file without opening it also waits for those whose kernels show its pages.
TEST(LeaseTable, AChangeRecallsReaders) {
  LeaseTable t;
  OpenAll(t, kA, false);
  OpenAll(t, kB, false);
  auto change = t.ClearForChange(kA, kIno);
  EXPECT_FALSE(change.clear);
  ASSERT_EQ(change.demands.size(), 1u) << "B's, and not its own";
  EXPECT_EQ(change.demands[0].to, LeaseMode::kShared);
  t.NoteDemand(change.demands[0], 1);
  EXPECT_TRUE(t.LeaseDone(kB, kIno, LeaseMode::kShared, 1).ok());
  EXPECT_TRUE(t.ClearForChange(kA, kIno).clear);
}

TEST(LeaseTable, LateAnswerDoesNotLowerANewGrant) {
  LeaseTable t;
  OpenAll(t, kA, true);
  auto b = t.Open(kB, kIno, false, true, true);
  t.NoteDemand(b.demands[0], 5);
  t.AbandonOpen(kB, kIno);
  EXPECT_EQ(t.Open(kA, kIno, true, true, true).mode, LeaseMode::kExclusive);
  EXPECT_TRUE(t.LeaseDone(kA, kIno, LeaseMode::kShared, 5).ok());
  EXPECT_EQ(t.ModeOf(kA, kIno), LeaseMode::kExclusive);
  b = t.Open(kB, kIno, false, true, true);
  EXPECT_EQ(b.demands.size(), 1u) << "recalled again";
}

TEST(LeaseTable, FlushKeepsTheLease) {
  LeaseTable t;
  OpenAll(t, kA, true);
  EXPECT_EQ(t.DirtyHolder(kB, kIno), kA);
  EXPECT_EQ(t.DirtyHolder(kA, kIno), SessionId());
  t.NoteDemand({kA, kIno, Kind::kFlush, LeaseMode::kNone}, 3);
  t.NoteDemand({kA, kIno, Kind::kFlush, LeaseMode::kNone}, 4);
  EXPECT_EQ(t.NewestFlush(kA, kIno), 4u);
  EXPECT_TRUE(t.LeaseDone(kA, kIno, LeaseMode::kExclusive, 4).ok());
  EXPECT_TRUE(t.FlushDone(kA, kIno, 3));
  EXPECT_TRUE(t.FlushDone(kA, kIno, 4));
  EXPECT_EQ(t.ModeOf(kA, kIno), LeaseMode::kExclusive);
  t.NoteDemand({kA, kIno, Kind::kFlush, LeaseMode::kNone}, 6);
  EXPECT_FALSE(t.FlushDone(kA, kIno, 6));
  t.Release(kA, kIno);
  EXPECT_TRUE(t.FlushDone(kA, kIno, 6));
  EXPECT_FALSE(t.IsOpen(kIno));
}

TEST(LeaseTable, ChangeByAStrangerRecalls) {
  LeaseTable t;
  EXPECT_TRUE(t.ClearForChange(kB, kIno).clear);
  OpenAll(t, kA, true);
  EXPECT_TRUE(t.ClearForChange(kA, kIno).clear);
  auto c = t.ClearForChange(kB, kIno);
  EXPECT_FALSE(c.clear);
  ASSERT_EQ(c.demands.size(), 1u);
  t.NoteDemand(c.demands[0], 8);
  EXPECT_TRUE(t.ClearForChange(kB, kIno).demands.empty());
  EXPECT_TRUE(t.LeaseDone(kA, kIno, LeaseMode::kShared, 8).ok());
  EXPECT_TRUE(t.ClearForChange(kB, kIno).clear);
}

TEST(LeaseTable, WhatBeganBeforeAnOpenDoesNotUndoIt) {
  LeaseTable t;
  EXPECT_TRUE(t.Open(kA, kIno, false, true, true, 10).granted);
  t.Release(kA, kIno, 9);
  EXPECT_EQ(t.ModeOf(kA, kIno), LeaseMode::kRead);
  t.Release(kA, kIno, 11);
  EXPECT_FALSE(t.IsOpen(kIno));
  // A recall answered with "I have nothing" by a client that then opened the inode.
  EXPECT_TRUE(t.Open(kA, kIno, false, true, true, 12).granted);
  const auto demanded = t.Open(kB, kIno, true, true, true, 1);
  ASSERT_EQ(demanded.demands.size(), 1u);
  t.NoteDemand(demanded.demands[0], 7);
  EXPECT_TRUE(t.Open(kA, kIno, false, true, true, 14).granted);
  EXPECT_TRUE(t.LeaseDone(kA, kIno, LeaseMode::kNone, 7, 13).ok());
  EXPECT_TRUE(t.IsOpenBy(kA, kIno));
  EXPECT_EQ(t.ModeOf(kA, kIno), LeaseMode::kShared);
}

TEST(LeaseTable, ACopyOfAnOpenThatComesAfterTheReleaseOpensNothing) {
  LeaseTable t;
  EXPECT_TRUE(t.Open(kA, kIno, true, true, true, 5).granted);
  t.Release(kA, kIno, 9);
  EXPECT_TRUE(t.Open(kA, kIno, true, true, true, 5).late);
  EXPECT_FALSE(t.IsOpen(kIno));
  EXPECT_TRUE(t.Open(kB, kIno, true, true, true, 5).granted) << "numbers are each session's own";
  t.Release(kB, kIno, 6);
  EXPECT_TRUE(t.Open(kA, kIno, true, true, true, 10).granted);
}

TEST(LeaseTable, AnsweringARecallWithNothingReleases) {
  LeaseTable t;
  EXPECT_TRUE(t.Open(kA, kIno, false, true, true, 1).granted);
  const auto demanded = t.Open(kB, kIno, true, true, true, 1);
  ASSERT_EQ(demanded.demands.size(), 1u);
  t.NoteDemand(demanded.demands[0], 7);
  EXPECT_TRUE(t.LeaseDone(kA, kIno, LeaseMode::kNone, 7, 2).ok());
  EXPECT_FALSE(t.IsOpenBy(kA, kIno));
  const auto alone = t.Open(kB, kIno, true, true, false, 1);
  EXPECT_TRUE(alone.granted);
  EXPECT_EQ(alone.mode, LeaseMode::kExclusive);
}

TEST(LeaseTable, ItIsReadByWhoOpenedItForThat) {
  LeaseTable t;
  t.NoteReader(kA, kIno);
  EXPECT_FALSE(t.IsReader(kA, kIno)) << "not open";
  EXPECT_TRUE(t.Open(kA, kIno, true, true, true).granted);
  EXPECT_FALSE(t.IsReader(kA, kIno));
  t.NoteReader(kA, kIno);
  EXPECT_TRUE(t.Open(kA, kIno, true, true, true).granted);
  EXPECT_TRUE(t.IsReader(kA, kIno));
  EXPECT_FALSE(t.IsReader(kB, kIno));
  t.Release(kA, kIno);
  EXPECT_TRUE(t.Open(kA, kIno, true, true, true).granted);
  EXPECT_FALSE(t.IsReader(kA, kIno));
}

TEST(LeaseTable, ReclaimRefusesConflicts) {
  LeaseTable t;
  EXPECT_TRUE(t.Reclaim(kA, kIno, LeaseMode::kRead, false));
  EXPECT_TRUE(t.Reclaim(kB, kIno, LeaseMode::kRead, false));
  EXPECT_FALSE(t.Reclaim(kC, kIno, LeaseMode::kExclusive, true));
  EXPECT_FALSE(t.Reclaim(kC, kIno, LeaseMode::kShared, true));
  EXPECT_TRUE(t.Reclaim(kC, kIno, LeaseMode::kShared, false));
  EXPECT_EQ(t.CheckInvariants(), "");
}

// Clients that follow the rules of lease_table.h, over a network that delays everything: their beliefs must never conflict.
class Model {
 public:
  explicit Model(uint64_t seed) : rng_(seed) {}
  void Step() {
    const SessionId s(1 + rng_.Below(4));
    Client& c = clients_[s];
    Act(s, c);
    ASSERT_EQ(t_.CheckInvariants(), "");
    CheckBeliefs();
  }
  // When everything has arrived, only inodes in use are taken for open.
  void Settle() {
    for (bool idle = false; !idle;) {
      idle = true;
      for (auto& [s, c] : clients_) {
        if (c.opening && !c.granted) Ask(s, c, false);
        DeliverReply(c);
        DeliverEvent(s, c);
        DeliverAnswer(s, c);
        DeliverRelease(s, c);
        idle = idle && !c.opening && c.events.empty() && c.answers.empty() && c.releases.empty();
      }
    }
    for (const auto& [s, c] : clients_) ASSERT_EQ(t_.IsOpenBy(s, kIno), c.mode != LeaseMode::kNone) << s;
  }

 private:
  struct Client {
    LeaseMode mode = LeaseMode::kNone;
    bool writes = false;
    bool opening = false, granted = false, want_write = false;
    LeaseMode reply = LeaseMode::kNone;
    LeaseMode cap = LeaseMode::kExclusive;
    std::deque<std::pair<uint64_t, LeaseMode>> events;
    struct Answer {
      uint64_t event = 0;
      LeaseMode mode = LeaseMode::kNone;
      uint64_t call = 0;
    };
    std::deque<Answer> answers;
    uint64_t calls = 0;       // begun
    uint64_t open_call = 0;   // of the open under way
    std::deque<uint64_t> releases;  // under way, by their calls
  };
  static int Rank(LeaseMode m) {
    return m == LeaseMode::kNone ? 0 : m == LeaseMode::kShared ? 1 : m == LeaseMode::kRead ? 2 : 3;
  }
  static LeaseMode Min(LeaseMode a, LeaseMode b) { return Rank(a) < Rank(b) ? a : b; }

  void Act(SessionId s, Client& c) {
    switch (rng_.Below(7)) {
      case 0: StartOpen(s, c); break;
      case 1: DeliverReply(c); break;
      case 2: DeliverEvent(s, c); break;
      case 3: DeliverAnswer(s, c); break;
      case 4: Release(s, c); break;
      case 5: Retry(s, c); break;
      case 6: DeliverRelease(s, c); break;
    }
  }
  void Ask(SessionId s, Client& c, bool first) {
    auto o = t_.Open(s, kIno, c.want_write, true, first, c.open_call);
    for (const LeaseDemand& d : o.demands) {
      t_.NoteDemand(d, ++event_);
      clients_[d.session].events.emplace_back(event_, d.to);
    }
    if (o.granted) {
      c.granted = true;
      c.reply = o.mode;
    }
  }
  void StartOpen(SessionId s, Client& c) {
    if (c.opening) return;
    c.opening = true;
    c.granted = false;
    c.open_call = ++c.calls;
    c.cap = LeaseMode::kExclusive;
    c.want_write = rng_.OneIn(2);
    Ask(s, c, true);
  }
  void Retry(SessionId s, Client& c) {
    if (!c.opening || c.granted) return;
    if (rng_.OneIn(10)) {  // times out
      t_.AbandonOpen(s, kIno);
      c.opening = false;
      return;
    }
    Ask(s, c, false);
  }
  void DeliverReply(Client& c) {
    if (!c.opening || !c.granted) return;
    c.opening = false;
    c.mode = Min(c.reply, c.cap);
    c.writes = c.writes || c.want_write;
  }
  void DeliverEvent(SessionId s, Client& c) {
    if (c.events.empty()) return;
    auto [event, to] = c.events.front();
    c.events.pop_front();
    if (c.opening) c.cap = Min(c.cap, to);
    const bool coming = c.opening && c.mode == LeaseMode::kNone;
    c.mode = Min(c.mode, to);
    if (!c.opening && rng_.OneIn(4)) {  // no program uses it
      c.mode = LeaseMode::kNone;
      c.writes = false;
    }
    c.answers.push_back({event, coming ? to : c.mode, ++c.calls});
  }
  void DeliverAnswer(SessionId s, Client& c) {
    if (c.answers.empty()) return;
    const size_t i = rng_.Below(c.answers.size());
    const auto [event, mode, call] = c.answers[i];
    c.answers.erase(c.answers.begin() + static_cast<ptrdiff_t>(i));
    const Error e = t_.LeaseDone(s, kIno, mode, event, call);
    if (e.ok()) return;
    EXPECT_EQ(e.code, FsError::kStale);
    EXPECT_EQ(mode, LeaseMode::kNone);
    if (!c.opening && c.mode == LeaseMode::kNone) c.releases.push_back(++c.calls);  // else it was opened since
  }
  void Release(SessionId, Client& c) {
    if (c.opening || c.mode == LeaseMode::kNone) return;
    c.mode = LeaseMode::kNone;
    c.writes = false;
    c.releases.push_back(++c.calls);
  }
  // Some come twice, and any of them late.
  void DeliverRelease(SessionId s, Client& c) {
    if (c.releases.empty()) return;
    const size_t i = rng_.Below(c.releases.size());
    t_.Release(s, kIno, c.releases[i]);
    if (!rng_.OneIn(3)) c.releases.erase(c.releases.begin() + static_cast<ptrdiff_t>(i));
  }
  void CheckBeliefs() {
    for (auto& [a, ca] : clients_) {
      for (auto& [b, cb] : clients_) {
        if (a == b) continue;
        if (ca.mode == LeaseMode::kExclusive) ASSERT_EQ(cb.mode, LeaseMode::kNone) << a << " and " << b;
        const bool recalled = cb.mode == LeaseMode::kRead && (cb.opening || !cb.events.empty());
        if (ca.mode == LeaseMode::kShared && ca.writes && !recalled) ASSERT_LE(Rank(cb.mode), 1) << a << " and " << b;
      }
    }
  }

  Random rng_;
  LeaseTable t_;
  std::map<SessionId, Client> clients_;
  uint64_t event_ = 0;
};

TEST(LeaseTable, NeverConflictingRightsOverADelayingNetwork) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Model m(seed);
    for (int i = 1; i <= 3000 && !testing::Test::HasFatalFailure(); ++i) {
      m.Step();
      if (i % 50 == 0) m.Settle();
    }
  }
}

}  // namespace
}  // namespace stria
