#include "meta/replica/in_sync_set.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

const MetaLife kSelf{"a", 5};
Uuid IdOf(char name) { return {1, static_cast<uint64_t>(name)}; }

// "a" serves term 5; those of `in_sync` are in the set; a, b and c are members.
Register Named(std::set<std::string> in_sync, uint32_t min_in_sync = 1) {
  Register r;
  r.version = 10;
  r.nonce = {5, 5};
  r.incarnation = 1;
  r.term = 5;
  r.primary = "a";
  r.in_sync = std::move(in_sync);
  r.min_in_sync = min_in_sync;
  for (const char c : {'a', 'b', 'c'}) r.members[std::string(1, c)] = {IdOf(c), std::string(1, c) + ":1", "", 0};
  return r;
}

class InSyncSetTest : public testing::Test {
 protected:
  void Open(std::set<std::string> in_sync, uint32_t min_in_sync = 1) {
    set.emplace(kSelf, Named(std::move(in_sync), min_in_sync), InSyncOptions(), 100, now);
    set->OnSynced(100);
  }
  void Beat(const char* who) { set->OnPromise(who, 5, now, now); }
  void Ack(const char* who, uint64_t seq, bool whole = true) { set->OnAck({who, IdOf(*who), 5, seq, whole}); }
  std::optional<RegisterSwap> Next() {
    return set->Next(now, [this] { return Uuid{9, ++nonce}; });
  }
  void Pass(int64_t ms) { now += ms * kMillisecond; }

  int64_t now = 1000 * kSecond;
  uint64_t nonce = 0;
  std::optional<InSyncSet> set;
};

TEST_F(InSyncSetTest, CommitsWhatAllHave) {
  Open({"a", "b", "c"});
  EXPECT_EQ(set->committed(), 0u);
  Ack("b", 100);
  EXPECT_EQ(set->committed(), 0u);
  Ack("c", 90);
  EXPECT_EQ(set->committed(), 90u);
  Ack("c", 80);  // an answer that came late
  EXPECT_EQ(set->committed(), 90u);
  Ack("c", 200);
  EXPECT_EQ(set->committed(), 100u);  // not more than it has itself
}

TEST_F(InSyncSetTest, IgnoresWhatIsNotOfThisLife) {
  Open({"a", "b"});
  set->OnAck({"b", IdOf('b'), 4, 100, true});  // another term
  set->OnAck({"b", IdOf('x'), 5, 100, true});  // another directory under this name
  set->OnAck({"z", IdOf('z'), 5, 100, true});
  Ack("b", 100, /*whole=*/false);
  EXPECT_EQ(set->committed(), 0u);
  set->OnPromise("b", 4, now, now);
  EXPECT_FALSE(set->HasAuthority(now));
}

TEST_F(InSyncSetTest, NeedsTheLeastNumber) {
  Open({"a"}, 2);
  EXPECT_EQ(set->committed(), 0u);
  EXPECT_TRUE(set->HasAuthority(now));  // reads go on
}

// After a step of the logic that took long, answers that have come meanwhile are read only then.
TEST_F(InSyncSetTest, HoldsNothingAgainstOthersWhileItDidNothingItself) {
  Open({"a", "b", "c"});
  Beat("b");
  Beat("c");
  Ack("b", 100);
  Ack("c", 100);
  set->OnWritten(110);
  set->OnWanted(110, now);
  Pass(8000);
  set->Excuse(8 * kSecond, now);
  EXPECT_EQ(Next(), std::nullopt);
  EXPECT_FALSE(set->HasAuthority(now));  // that is another matter
  Beat("b");
  Beat("c");
  Ack("b", 110);
  EXPECT_FALSE(set->OwnDiskHangs(now));
  // From then on it counts again.
  Pass(1000);
  Beat("b");
  Beat("c");
  EXPECT_EQ(Next(), std::nullopt);
  Pass(1000);
  Beat("b");
  Beat("c");
  const std::optional<RegisterSwap> swap = Next();
  ASSERT_TRUE(swap.has_value());
  EXPECT_EQ(swap->value.in_sync, (std::set<std::string>{"a", "b"}));
}

TEST_F(InSyncSetTest, CountsPromisesFromWhenTheBeatWasSent) {
  Open({"a", "b", "c"});
  EXPECT_FALSE(set->HasAuthority(now));
  const int64_t sent = now;
  Pass(1000);
  set->OnPromise("b", 5, sent, now);
  EXPECT_FALSE(set->HasAuthority(now));  // all of them are needed
  set->OnPromise("c", 5, now, now);
  EXPECT_TRUE(set->HasAuthority(now));
  EXPECT_EQ(set->AuthorityUntilNs(), sent + 3 * kSecond);
  EXPECT_TRUE(set->HasAuthority(sent + 3 * kSecond - 1));
  EXPECT_FALSE(set->HasAuthority(sent + 3 * kSecond));
  set->OnPromise("b", 5, sent - kSecond, now);  // an answer that came late takes nothing back
  EXPECT_EQ(set->AuthorityUntilNs(), sent + 3 * kSecond);
}

TEST_F(InSyncSetTest, WhoIsSilentCountsUntilTheRegisterSaysOtherwise) {
  Open({"a", "b"});
  Beat("b");
  EXPECT_FALSE(Next());
  Pass(1500);
  const std::optional<RegisterSwap> swap = Next();
  ASSERT_TRUE(swap);
  EXPECT_EQ(swap->value.in_sync, std::set<std::string>{"a"});
  EXPECT_EQ(set->committed(), 0u);
  EXPECT_EQ(set->Required(), std::set<std::string>{"b"});
  // Not decided: the same again, not at once.
  EXPECT_FALSE(Next());
  Pass(500);
  EXPECT_EQ(Next(), swap);
  EXPECT_TRUE(set->OnRegister(swap->old));
  EXPECT_EQ(set->committed(), 0u);
  EXPECT_TRUE(set->OnRegister(swap->value));
  EXPECT_EQ(set->committed(), 100u);
  EXPECT_EQ(set->AuthorityUntilNs(), INT64_MAX);
  EXPECT_TRUE(set->OnRegister(swap->old));  // a read that came late
  EXPECT_EQ(set->Required(), std::set<std::string>{});
}

TEST_F(InSyncSetTest, DropsWhoOwesWhatSomebodyWaitsFor) {
  Open({"a", "b"});
  set->OnWanted(100, now);
  for (int i = 0; i < 7; ++i) {
    Pass(250);
    Beat("b");
    EXPECT_FALSE(Next()) << i;
  }
  Pass(250);
  Beat("b");
  const std::optional<RegisterSwap> swap = Next();
  ASSERT_TRUE(swap);
  EXPECT_EQ(swap->value.in_sync, std::set<std::string>{"a"});
}

TEST_F(InSyncSetTest, ItsOwnDiskMayHang) {
  Open({"a", "b"});
  set->OnWritten(110);
  Pass(60'000), Beat("b");
  EXPECT_FALSE(set->OwnDiskHangs(now)) << "nobody waits";
  set->OnWanted(110, now);
  Pass(4900), Beat("b"), Ack("b", 110);
  EXPECT_FALSE(set->OwnDiskHangs(now));
  Pass(100), Beat("b");
  EXPECT_TRUE(set->OwnDiskHangs(now));
  Pass(3000);
  EXPECT_FALSE(set->OwnDiskHangs(now)) << "there is nobody who could go on";
  Beat("b");
  EXPECT_TRUE(set->OwnDiskHangs(now));
  set->OnSynced(110);
  EXPECT_FALSE(set->OwnDiskHangs(now));
  EXPECT_EQ(set->committed(), 110u);
}

TEST_F(InSyncSetTest, AllDisksMayBeSlow) {
  Open({"a", "b"});
  set->OnWritten(110);
  set->OnWanted(110, now);
  Pass(60'000), Beat("b");
  EXPECT_FALSE(set->OwnDiskHangs(now)) << "the other one owes the same";
}

TEST_F(InSyncSetTest, OwesNothingThatNobodyWaitsFor) {
  Open({"a", "b"});
  for (int i = 0; i < 40; ++i) {
    Pass(250);
    Beat("b");
    EXPECT_FALSE(Next()) << i;
  }
}

TEST_F(InSyncSetTest, DropsWhoseLogDiffers) {
  Open({"a", "b"});
  Beat("b");
  set->OnDiverged("b", 4);
  EXPECT_FALSE(Next());
  set->OnDiverged("b", 5);
  ASSERT_TRUE(Next());
}

TEST_F(InSyncSetTest, WhoJoinsCountsBeforeTheRegisterSaysSo) {
  Open({"a", "b"});
  Beat("b"), Beat("c");
  Ack("b", 100), Ack("c", 30);
  EXPECT_FALSE(Next());  // too far behind
  EXPECT_EQ(set->Required(), std::set<std::string>{"b"});
  set->OnWritten(140), set->OnSynced(140), Ack("b", 140);
  Ack("c", 100);
  EXPECT_FALSE(Next());  // counts from now on, and lacks what is committed already
  EXPECT_EQ(set->Required(), (std::set<std::string>{"b", "c"}));
  set->OnWritten(141), set->OnSynced(141), Ack("b", 141);
  EXPECT_EQ(set->committed(), 140u);  // not without it
  Ack("c", 140);
  const std::optional<RegisterSwap> swap = Next();
  ASSERT_TRUE(swap);
  EXPECT_EQ(swap->value.in_sync, (std::set<std::string>{"a", "b", "c"}));
  // Silent now: it counts all the same, the swap may be carried out.
  Pass(3000);
  EXPECT_EQ(Next(), swap);
  EXPECT_EQ(set->Required(), (std::set<std::string>{"b", "c"}));
  EXPECT_FALSE(set->HasAuthority(now));
}

// Nothing is committed in this life yet, but a former primary may have acknowledged all that it began with.
TEST_F(InSyncSetTest, WhoJoinsHasWhatANewLifeBeganWith) {
  Open({"a", "b"});
  Beat("b"), Beat("c");
  Ack("c", 60);
  EXPECT_EQ(set->committed(), 0u);
  EXPECT_FALSE(Next());
  Ack("c", 99);
  EXPECT_FALSE(Next());
  EXPECT_EQ(set->Required(), std::set<std::string>{"b"});
  Ack("c", 100);
  const std::optional<RegisterSwap> swap = Next();
  ASSERT_TRUE(swap);
  EXPECT_EQ(swap->value.in_sync, (std::set<std::string>{"a", "b", "c"}));
}

TEST_F(InSyncSetTest, WhoWasToJoinAndFellSilentIsForgotten) {
  Open({"a"});
  set->OnWritten(200), set->OnSynced(200);
  Beat("c"), Ack("c", 150);
  EXPECT_FALSE(Next());
  EXPECT_EQ(set->Required(), std::set<std::string>{"c"});
  Pass(1500);
  EXPECT_FALSE(Next());
  EXPECT_EQ(set->Required(), std::set<std::string>{});
}

// A copy that is still behind, however few batches that are, is waited for by nobody.
TEST_F(InSyncSetTest, WhoLacksWhatWasWrittenLongAgoDoesNotCount) {
  Open({"a"});
  set->OnWritten(110), set->OnSynced(110);
  Beat("c"), Ack("c", 109);
  set->OnCoordinator(false);
  EXPECT_FALSE(Next());  // 110 is of now
  set->OnCoordinator(true);
  for (int i = 0; i < 10; ++i) {
    Pass(1000), Beat("c");
    EXPECT_FALSE(Next());
    EXPECT_EQ(set->Required(), std::set<std::string>{}) << i;
  }
  set->OnWritten(111), set->OnWanted(111, now), set->OnSynced(111);
  EXPECT_EQ(set->committed(), 111u);
  Ack("c", 111);
  ASSERT_TRUE(Next());
}

// It is dropped, and lacks little then. What follows does not wait for it again.
TEST_F(InSyncSetTest, ADiskThatHangsIsWaitedForOnce) {
  Open({"a", "b"});
  Beat("b"), Ack("b", 100);
  set->OnWritten(105), set->OnSynced(105), set->OnWanted(105, now);
  std::optional<RegisterSwap> swap;
  for (int i = 0; i < 9 && !swap; ++i) {
    swap = Next();
    Pass(250), Beat("b");
  }
  ASSERT_TRUE(swap);
  EXPECT_EQ(swap->value.in_sync, std::set<std::string>{"a"});
  ASSERT_TRUE(set->OnRegister(swap->value));
  for (uint64_t seq = 106; seq < 120; ++seq) {
    EXPECT_FALSE(Next());
    set->OnWritten(seq), set->OnWanted(seq, now), set->OnSynced(seq);
    EXPECT_EQ(set->committed(), seq);
    Pass(250), Beat("b");
  }
  Ack("b", 119);
  swap = Next();
  ASSERT_TRUE(swap);
  EXPECT_EQ(swap->value.in_sync, (std::set<std::string>{"a", "b"}));
}

// Only the coordinator could say that it is in the set, or is not.
TEST_F(InSyncSetTest, NobodyBeginsToCountWhileTheCoordinatorIsAway) {
  Open({"a"});
  Beat("c"), Ack("c", 100);
  set->OnCoordinator(false);
  EXPECT_FALSE(Next());
  EXPECT_EQ(set->Required(), std::set<std::string>{});
  set->OnWritten(110), set->OnSynced(110);
  set->OnCoordinator(true);
  EXPECT_FALSE(Next());  // it lacks what is committed already
  EXPECT_EQ(set->Required(), std::set<std::string>{"c"});
  set->OnCoordinator(false);  // nothing was asked for yet
  EXPECT_FALSE(Next());
  EXPECT_EQ(set->Required(), std::set<std::string>{});
  set->OnWritten(111), set->OnSynced(111);
  EXPECT_EQ(set->committed(), 111u);
}

TEST_F(InSyncSetTest, EndsWhenAnotherServes) {
  Open({"a", "b"});
  Register other = Named({"b"});
  other.version = 11;
  other.nonce = {6, 6};
  other.term = 6;
  other.primary = "b";
  EXPECT_FALSE(set->OnRegister(other));
  Register twin = Named({"a"});  // of the same version, and another: a coordinator from a backup
  EXPECT_FALSE(set->OnRegister(twin));
}

TEST_F(InSyncSetTest, ServesNothingFromBeforeItOffersItsPlace) {
  Open({"a", "b"});
  Beat("b");
  EXPECT_EQ(set->BeginHandOver("c", now).code(), FsError::kConflict);
  EXPECT_EQ(set->BeginHandOver("a", now).code(), FsError::kExist);
  EXPECT_EQ(set->BeginHandOver("z", now).code(), FsError::kNoEnt);
  ASSERT_TRUE(set->BeginHandOver("b", now).ok());
  EXPECT_TRUE(set->HoldsChanges());
  EXPECT_FALSE(set->Stopped());
  EXPECT_FALSE(Next());  // b does not have everything
  Ack("b", 100);
  const std::optional<RegisterSwap> swap = Next();
  ASSERT_TRUE(swap);
  EXPECT_EQ(swap->value.primary, "b");
  EXPECT_EQ(swap->value.handed, kSelf);
  EXPECT_TRUE(set->Stopped());
  EXPECT_FALSE(set->HasAuthority(now));
  Pass(10'000);  // however long it takes
  EXPECT_TRUE(set->Stopped());
  EXPECT_EQ(Next(), swap);
  EXPECT_FALSE(set->OnRegister(swap->value));
}

TEST_F(InSyncSetTest, GoesOnIfThePlaceIsNotTaken) {
  Open({"a", "b"});
  Beat("b");
  ASSERT_TRUE(set->BeginHandOver("b", now).ok());
  Pass(1000), Beat("b");
  EXPECT_FALSE(Next());
  EXPECT_TRUE(set->HoldsChanges());
  Pass(1000), Beat("b");
  EXPECT_FALSE(Next());
  EXPECT_FALSE(set->HoldsChanges());  // too slow
  EXPECT_TRUE(set->HasAuthority(now));
}

// The coordinator has gone in the middle of another change.
TEST_F(InSyncSetTest, ChangesGoOnThoughAnotherSwapIsNotDecided) {
  Open({"a", "b", "c"});
  Beat("b");
  Ack("b", 100);
  Pass(1600), Beat("b");
  const std::optional<RegisterSwap> shrink = Next();
  ASSERT_TRUE(shrink);
  EXPECT_FALSE(shrink->value.in_sync.contains("c"));
  ASSERT_TRUE(set->BeginHandOver("b", now).ok());
  EXPECT_TRUE(set->HoldsChanges());
  Pass(1000), Beat("b");
  EXPECT_EQ(Next(), shrink);
  EXPECT_TRUE(set->HoldsChanges());
  Pass(1000), Beat("b");
  EXPECT_EQ(Next(), shrink);
  EXPECT_FALSE(set->HoldsChanges());
  EXPECT_FALSE(set->Stopped());
}

TEST_F(InSyncSetTest, OneChangeAtATime) {
  Open({"a", "b"});
  Beat("b");
  const Result<Register> next = SetMinInSync(set->known(), kSelf, 2, {7, 7});
  const Result<RegisterSwap> swap = set->Ask(*next, now);
  ASSERT_TRUE(swap.ok()) << swap.error();
  EXPECT_EQ(set->Ask(*next, now).code(), FsError::kBusy);
  Pass(2000);
  EXPECT_EQ(Next(), *swap);  // not the silent member: first this is decided
  EXPECT_TRUE(set->OnRegister(swap->value));
  EXPECT_EQ(set->known().min_in_sync, 2u);
  EXPECT_EQ(set->Ask(*next, now).code(), FsError::kConflict);  // made from what was before
}

}  // namespace
}  // namespace stria
