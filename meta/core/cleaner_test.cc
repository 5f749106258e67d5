// The cleaner on a store, without sessions.
#include "meta/core/cleaner.h"

#include "meta/core/core_testing.h"
#include "meta/session/recent_lookups.h"
#include "meta/session/session_table.h"

namespace stria {
namespace {

class CleanerTest : public CoreTest, public CleanerHost, public OpenTable {
 protected:
  ~CleanerTest() override {
    if (cleaner) cleaner->Stop();
  }
  // ---- CleanerHost, OpenTable ----
  bool IsOpen(InodeId ino) const override { return open.contains(ino); }
  bool IsWanted(InodeId ino) const override { return wanted.contains(ino); }
  void TellTrimmed(const Touched&) override { ++told; }
  bool IsInUse(SessionId, InodeId ino) const override { return open.contains(ino) || wanted.contains(ino); }
  bool HasOpen(SessionId, InodeId ino, bool) const override { return open.contains(ino); }

  void Begin(bool claims_over = true) {
    cleaner = std::make_unique<Cleaner>(core.get(), this);
    Start([&](Txn& txn) { return cleaner->Load(txn); });
    if (claims_over) cleaner->EndClaims();
    cleaner->Start();
  }
  void Ticks(int64_t ns, bool claims_over = true) {
    for (int64_t t = 0; t < ns; t += kSecond / 2) {
      ex.RunFor(kSecond / 2);
      cleaner->Tick(claims_over);
    }
    ex.RunFor(kSecond / 2);
  }
  OpCtx Ctx() {
    OpCtx ctx;
    ctx.session = SessionId(7);
    ctx.now_ns = 5000;
    ctx.open = this;
    ctx.touched = &touched;
    return ctx;
  }
  InodeId MakeFile() {
    MakeNodeRequest make;
    make.parent = kRootInode;
    make.name = "f";
    make.mode = 0644;
    return Do([&](Txn& t) { return OpMakeNode(t, Ctx(), make); }).value().node.attr.ino;
  }
  void Unlink() {
    NameRequest r;
    r.parent = kRootInode;
    r.name = "f";
    (void)Do([&](Txn& t) { return OpUnlink(t, Ctx(), r); });
    cleaner->NoteCommit(touched);
  }
  bool Exists(InodeId ino) {
    Txn txn(core->store());
    InodeRequest r;
    r.ino = ino;
    return OpGetAttr(txn, Ctx(), r).ok();
  }

  std::unique_ptr<Cleaner> cleaner;
  std::set<InodeId> open, wanted;
  int told = 0;
};

TEST_F(CleanerTest, AnOrphanIsFreedWhenItsLastUserGivesItBack) {
  Begin();
  const InodeId ino = MakeFile();
  open.insert(ino);
  Unlink();
  EXPECT_TRUE(cleaner->IsOrphan(ino));
  Ticks(10 * kSecond);
  EXPECT_TRUE(Exists(ino));
  open.clear();
  cleaner->ReapIfUnused(ino);
  Ticks(kSecond);
  EXPECT_FALSE(cleaner->IsOrphan(ino));
  EXPECT_FALSE(Exists(ino));
}

TEST_F(CleanerTest, WhatWasLookedUpJustNowStaysAWhile) {
  Begin();
  const InodeId ino = MakeFile();
  wanted.insert(ino);
  Unlink();
  Ticks(kSecond);
  EXPECT_TRUE(cleaner->IsOrphan(ino));
  Ticks(RecentLookups::kKeepNs);
  EXPECT_FALSE(cleaner->IsOrphan(ino));
}

TEST_F(CleanerTest, AfterARestartNothingIsFreedBeforeAllHaveSaidWhatTheyHaveOpen) {
  Begin();
  const InodeId ino = MakeFile();
  open.insert(ino);
  Unlink();
  ASSERT_TRUE(RunSim(ex, core->Sync()).ok());
  cleaner.reset();
  Make();
  open.clear();
  Begin(false);
  EXPECT_TRUE(cleaner->IsOrphan(ino));
  Ticks(10 * kSecond, false);
  EXPECT_TRUE(cleaner->IsOrphan(ino));
  EXPECT_FALSE(cleaner->AreClaimsOver());
  Ticks(2 * kSecond);
  EXPECT_TRUE(cleaner->AreClaimsOver());
  EXPECT_FALSE(cleaner->IsOrphan(ino));
}

TEST_F(CleanerTest, WhatAnEndedSessionLeftIsCollected) {
  Begin();
  {
    Txn txn(core->store());
    SessionRecord record;
    record.id = SessionId(7);
    record.fenced = true;
    txn.Put(Family::kSessions, SessionKey(record.id), EncodeSessionRecord(record));
    ASSERT_TRUE(core->Commit(txn).ok());
  }
  const InodeId ino = MakeFile();
  NewStripe s;
  s.shape.k = 1;
  s.shape.unit_bytes = kDefaultUnitBytes;
  s.targets = {TargetId(1)};
  Layout layout;
  layout.k = 1;
  layout.m = 0;
  layout.codec = Codec::kNone;
  layout.stripe_bytes = kMiB;
  (void)Do([&](Txn& t) { return OpAllocate(t, Ctx(), ino, layout, {s}); });
  EXPECT_EQ(core->store().Count(Counter::kAllocated), 1u);
  cleaner->NoteEnded(SessionId(7));
  Ticks(kSecond);
  EXPECT_EQ(core->store().Count(Counter::kAllocated), 0u);
  Txn txn(core->store());
  EXPECT_FALSE(txn.Get(Family::kSessions, SessionKey(SessionId(7))).value());
}

}  // namespace
}  // namespace stria
