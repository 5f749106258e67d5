#include "meta/replica/register.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

constexpr Uuid kNonce{7, 7};
constexpr int64_t kG = 5'000'000'000;

MetaMember At(uint64_t n) { return {{1, n}, "pc" + std::to_string(n) + ":7424", "1.4", 3}; }

// pc1 serves term 41; pc1 and pc2 are in the set, pc3 is not.
Register Three() {
  Register r;
  r.version = 17;
  r.nonce = {5, 5};
  r.incarnation = 2;
  r.term = 41;
  r.primary = "pc1";
  r.in_sync = {"pc1", "pc2"};
  r.min_in_sync = 2;
  r.members = {{"pc1", At(1)}, {"pc2", At(2)}, {"pc3", At(3)}};
  return r;
}
const MetaLife kSelf{"pc1", 41};

// Every transition: the next version, a nonce of its own, and nothing else of what it does not name.
void ExpectFollows(const Register& before, const Result<Register>& after) {
  ASSERT_TRUE(after.ok()) << after.error();
  EXPECT_EQ(after->version, before.version + 1);
  EXPECT_EQ(after->nonce, kNonce);
  EXPECT_TRUE(CheckRegister(*after).ok());
}

TEST(Register, IsFoundedAgainByTheOneThatWasServedAlone) {
  Register now = Three();
  Founding f;
  f.name = "pc1";
  f.member = At(1);
  f.member.release = "1.5";
  f.store_term = 50;
  EXPECT_EQ(FoundAgain(now, f, kNonce).code(), FsError::kConflict) << "there are others";
  now.members = {{"pc1", At(1)}};
  now.in_sync = {"pc1"};
  now.min_in_sync = 1;
  const Result<Register> again = FoundAgain(now, f, kNonce);
  ExpectFollows(now, again);
  EXPECT_EQ(again->term, 51u);
  EXPECT_EQ(again->incarnation, 2u);
  EXPECT_EQ(again->primary, "pc1");
  EXPECT_EQ(again->members.at("pc1"), f.member);
  f.store_term = 41;
  EXPECT_EQ(FoundAgain(now, f, kNonce).code(), FsError::kConflict) << "the store is no newer than what the coordinator knows";
  f.store_term = 50;
  f.member.uuid = {1, 9};
  EXPECT_EQ(FoundAgain(now, f, kNonce).code(), FsError::kStale);
}

TEST(Register, AStoreTakesThePlaceOfThoseThatAreLost) {
  const Register now = Three();
  Founding f;
  f.name = "pc1";
  f.member = At(9);
  f.store_term = 30;
  f.incarnation = now.incarnation;
  EXPECT_EQ(FoundInPlaceOf(now, f, kNonce).code(), FsError::kConflict) << "it gives something up, and does not say so";
  ++f.incarnation;
  const Result<Register> next = FoundInPlaceOf(now, f, kNonce);
  ExpectFollows(now, next);
  EXPECT_EQ(next->incarnation, now.incarnation + 1);
  EXPECT_GT(next->term, now.term);
  EXPECT_EQ(next->primary, "pc1");
  EXPECT_EQ(next->in_sync, std::set<std::string>{"pc1"});
  EXPECT_EQ(next->members, (std::map<std::string, MetaMember>{{"pc1", At(9)}}));
  EXPECT_EQ(next->min_in_sync, 1u);
  f.member = now.members.at("pc2");
  EXPECT_EQ(FoundInPlaceOf(now, f, kNonce).code(), FsError::kConflict) << "it is one of them";
}

TEST(Register, IsChecked) {
  EXPECT_TRUE(CheckRegister(Three()).ok());
  const auto wrong = [](auto&& change) {
    Register r = Three();
    change(r);
    return CheckRegister(r).code() == FsError::kCorrupt;
  };
  EXPECT_TRUE(wrong([](Register& r) { r.version = 0; }));
  EXPECT_TRUE(wrong([](Register& r) { r.nonce = {}; }));
  EXPECT_TRUE(wrong([](Register& r) { r.incarnation = 0; }));
  EXPECT_TRUE(wrong([](Register& r) { r.term = 0; }));
  EXPECT_TRUE(wrong([](Register& r) { r.term = UINT64_MAX; }));
  EXPECT_TRUE(wrong([](Register& r) { r.primary = "pc3"; }));
  EXPECT_TRUE(wrong([](Register& r) { r.in_sync.insert("pc4"); }));
  EXPECT_TRUE(wrong([](Register& r) { r.min_in_sync = 0; }));
  EXPECT_TRUE(wrong([](Register& r) { r.min_in_sync = 4; }));
  EXPECT_TRUE(wrong([](Register& r) { r.members["pc3"].uuid = r.members["pc1"].uuid; }));
  EXPECT_TRUE(wrong([](Register& r) { r.members["a b"] = At(9); }));
  EXPECT_TRUE(wrong([](Register& r) { r.members["pc3"].address = ""; }));
  EXPECT_TRUE(wrong([](Register& r) { r.members["pc3"].address = std::string(257, 'a'); }));
  EXPECT_TRUE(wrong([](Register& r) { r.members["pc3"].release = "\xff"; }));
  EXPECT_TRUE(wrong([](Register& r) { r.handed = MetaLife{"pc1", 41}; }));
  EXPECT_TRUE(wrong([](Register& r) { r.handed = MetaLife{"pc9", 40}; }));
}

TEST(Register, IsFounded) {
  const Result<Register> r = Found({"pc1", At(1), 40, 2}, kNonce);
  ASSERT_TRUE(r.ok()) << r.error();
  EXPECT_EQ(r->version, 1u);
  EXPECT_EQ(r->term, 41u);
  EXPECT_EQ(r->incarnation, 2u);
  EXPECT_EQ(r->primary, "pc1");
  EXPECT_EQ(r->in_sync, std::set<std::string>{"pc1"});
  EXPECT_EQ(r->min_in_sync, 1u);
  EXPECT_EQ(Found({"no name", At(1), 40, 1}, kNonce).code(), FsError::kInval);
  EXPECT_FALSE(Found({"pc1", {}, 40, 1}, kNonce).ok());
}

Claim ClaimOf(const std::string& name, uint64_t n) {
  Claim c;
  c.member = name;
  c.uuid = At(n).uuid;
  c.whole = true;
  c.highest_term = 41;
  c.silent_ns = kG;
  c.grace_ns = kG;
  return c;
}

TEST(Register, AStandbyTakesOver) {
  const Result<Register> r = TakeOver(Three(), ClaimOf("pc2", 2), kNonce);
  ExpectFollows(Three(), r);
  EXPECT_EQ(r->primary, "pc2");
  EXPECT_EQ(r->term, 42u);
  EXPECT_EQ(r->in_sync, std::set<std::string>{"pc2"});
  EXPECT_EQ(r->incarnation, 2u);
  EXPECT_EQ(r->members, Three().members);
}

TEST(Register, OnlyMembersOfTheSetWithTheSameLogStayInIt) {
  Claim c = ClaimOf("pc2", 2);
  c.same = {"pc1", "pc3"};  // pc3 may have the same log, but nobody waited for it
  const Result<Register> r = TakeOver(Three(), c, kNonce);
  ExpectFollows(Three(), r);
  EXPECT_EQ(r->in_sync, (std::set<std::string>{"pc1", "pc2"}));
}

TEST(Register, NobodyElseTakesOver) {
  EXPECT_EQ(TakeOver(Three(), ClaimOf("pc3", 3), kNonce).code(), FsError::kConflict);  // not in the set
  EXPECT_EQ(TakeOver(Three(), ClaimOf("pc4", 4), kNonce).code(), FsError::kNoEnt);
  EXPECT_EQ(TakeOver(Three(), ClaimOf("pc2", 9), kNonce).code(), FsError::kStale);  // a wiped directory under the old name
  Claim c = ClaimOf("pc2", 2);
  c.whole = false;
  EXPECT_EQ(TakeOver(Three(), c, kNonce).code(), FsError::kConflict);
  c = ClaimOf("pc2", 2);
  c.silent_ns = kG - 1;
  EXPECT_EQ(TakeOver(Three(), c, kNonce).code(), FsError::kConflict);
  c = ClaimOf("pc2", 2);
  c.highest_term = 42;
  EXPECT_EQ(TakeOver(Three(), c, kNonce).code(), FsError::kConflict);  // the coordinator is older than what it knows
}

TEST(Register, ARestartedPrimaryWaitsForNobody) {
  Claim c = ClaimOf("pc1", 1);
  c.silent_ns = 0;
  const Result<Register> r = TakeOver(Three(), c, kNonce);
  ExpectFollows(Three(), r);
  EXPECT_EQ(r->primary, "pc1");
  EXPECT_EQ(r->term, 42u);
}

TEST(Register, ThePrimaryDropsWhoIsSilentOwesOrDiffers) {
  Lapse lapse{"pc2", 10, 10, 0, 20, false};
  Result<Register> r = Shrink(Three(), kSelf, lapse, kNonce);
  ExpectFollows(Three(), r);
  EXPECT_EQ(r->in_sync, std::set<std::string>{"pc1"});
  EXPECT_EQ(r->term, 41u);
  EXPECT_TRUE(Shrink(Three(), kSelf, {"pc2", 0, 10, 20, 20, false}, kNonce).ok());
  EXPECT_TRUE(Shrink(Three(), kSelf, {"pc2", 0, 10, 0, 20, true}, kNonce).ok());
  EXPECT_EQ(Shrink(Three(), kSelf, {"pc2", 9, 10, 19, 20, false}, kNonce).code(), FsError::kConflict);
  EXPECT_EQ(Shrink(Three(), kSelf, {"pc3", 10, 10, 0, 20, false}, kNonce).code(), FsError::kConflict);
  EXPECT_EQ(Shrink(Three(), kSelf, {"pc1", 10, 10, 0, 20, false}, kNonce).code(), FsError::kConflict);
  EXPECT_EQ(Shrink(Three(), {"pc1", 40}, lapse, kNonce).code(), FsError::kNotLeader);
  EXPECT_EQ(Shrink(Three(), {"pc2", 41}, lapse, kNonce).code(), FsError::kNotLeader);
}

TEST(Register, ThePrimaryTakesInWhoCountsAlready) {
  const CaughtUp good{"pc3", At(3).uuid, true, true, true, 100, 100};
  const Result<Register> r = Grow(Three(), kSelf, good, kNonce);
  ExpectFollows(Three(), r);
  EXPECT_EQ(r->in_sync, (std::set<std::string>{"pc1", "pc2", "pc3"}));
  const auto refused = [&](auto&& change) {
    CaughtUp c = good;
    change(c);
    return Grow(Three(), kSelf, c, kNonce).code();
  };
  EXPECT_EQ(refused([](CaughtUp& c) { c.whole = false; }), FsError::kConflict);
  EXPECT_EQ(refused([](CaughtUp& c) { c.required = false; }), FsError::kConflict);
  EXPECT_EQ(refused([](CaughtUp& c) { c.promises = false; }), FsError::kConflict);
  EXPECT_EQ(refused([](CaughtUp& c) { c.durable = 99; }), FsError::kConflict);
  EXPECT_EQ(refused([](CaughtUp& c) { c.uuid = {1, 9}; }), FsError::kStale);
  EXPECT_EQ(refused([](CaughtUp& c) { c.member = "pc2", c.uuid = At(2).uuid; }), FsError::kConflict);
  EXPECT_EQ(Grow(Three(), {"pc1", 42}, good, kNonce).code(), FsError::kNotLeader);
}

TEST(Register, ThePrimaryHandsOver) {
  const Drained good{"pc2", true, 50, 50, 50};
  const Result<Register> r = HandOver(Three(), kSelf, good, kNonce);
  ExpectFollows(Three(), r);
  EXPECT_EQ(r->primary, "pc2");
  EXPECT_EQ(r->term, 42u);
  EXPECT_EQ(r->in_sync, Three().in_sync);
  EXPECT_EQ(r->handed, kSelf);
  EXPECT_EQ(HandOver(Three(), kSelf, {"pc3", true, 50, 50, 50}, kNonce).code(), FsError::kConflict);
  EXPECT_EQ(HandOver(Three(), kSelf, {"pc1", true, 50, 50, 50}, kNonce).code(), FsError::kConflict);
  EXPECT_EQ(HandOver(Three(), kSelf, {"pc2", false, 50, 50, 50}, kNonce).code(), FsError::kConflict);
  EXPECT_EQ(HandOver(Three(), kSelf, {"pc2", true, 50, 49, 50}, kNonce).code(), FsError::kConflict);
  EXPECT_EQ(HandOver(Three(), kSelf, {"pc2", true, 50, 50, 49}, kNonce).code(), FsError::kConflict);
  // Who handed over is forgotten with the next change: the promise that it freed is another by then.
  Lapse lapse{"pc1", 10, 10, 0, 20, false};
  EXPECT_EQ(Shrink(*r, {"pc2", 42}, lapse, kNonce)->handed, std::nullopt);
}

TEST(Register, MembersComeAndGo) {
  Register two = Three();
  two.members.erase("pc3");
  two.min_in_sync = 1;
  Result<Register> r = AddMember(two, kSelf, "pc3", At(3), kNonce);
  ExpectFollows(two, r);
  EXPECT_EQ(r->in_sync, two.in_sync);  // no place in the set
  EXPECT_EQ(r->min_in_sync, 2u);
  // The set is too small for that, and would stay so until the new one has copied all.
  Register one = two;
  one.in_sync = {one.primary};
  EXPECT_EQ(AddMember(one, kSelf, "pc3", At(3), kNonce)->min_in_sync, 1u);
  EXPECT_EQ(AddMember(two, kSelf, "pc2", At(3), kNonce).code(), FsError::kExist);
  EXPECT_EQ(AddMember(two, kSelf, "pc3", {At(2).uuid, "x:1", "", 0}, kNonce).code(), FsError::kExist);       // a copy
  EXPECT_EQ(AddMember(two, kSelf, "pc3", {At(3).uuid, At(2).address, "", 0}, kNonce).code(), FsError::kExist);
  EXPECT_EQ(AddMember(two, kSelf, "", At(3), kNonce).code(), FsError::kInval);

  r = RemoveMember(Three(), kSelf, "pc3", kNonce);
  ExpectFollows(Three(), r);
  EXPECT_FALSE(r->members.contains("pc3"));
  EXPECT_EQ(r->min_in_sync, 1u);
  EXPECT_EQ(RemoveMember(Three(), kSelf, "pc2", kNonce).code(), FsError::kBusy);
  EXPECT_EQ(RemoveMember(Three(), kSelf, "pc1", kNonce).code(), FsError::kBusy);
  EXPECT_EQ(RemoveMember(Three(), kSelf, "pc9", kNonce).code(), FsError::kNoEnt);

  r = UpdateMember(Three(), kSelf, "pc2", {At(2).uuid, "new:1", "1.5", 4}, kNonce);
  ExpectFollows(Three(), r);
  EXPECT_EQ(r->members.at("pc2").address, "new:1");
  EXPECT_EQ(UpdateMember(Three(), kSelf, "pc2", At(9), kNonce).code(), FsError::kStale);
  EXPECT_EQ(UpdateMember(Three(), kSelf, "pc2", {At(2).uuid, At(1).address, "", 0}, kNonce).code(), FsError::kExist);

  r = SetMinInSync(Three(), kSelf, 1, kNonce);
  ExpectFollows(Three(), r);
  EXPECT_EQ(r->min_in_sync, 1u);
  EXPECT_EQ(SetMinInSync(Three(), kSelf, 0, kNonce).code(), FsError::kInval);
  EXPECT_EQ(SetMinInSync(Three(), kSelf, 4, kNonce).code(), FsError::kInval);
  // What a person chose stays.
  EXPECT_EQ(RemoveMember(*r, kSelf, "pc3", kNonce)->min_in_sync, 1u);
}

TEST(Register, MinInSyncGrowsWithTheSet) {
  Register r = Three();
  r.min_in_sync = 1;
  r.in_sync = {"pc1"};
  EXPECT_EQ(DueMinInSync(r, std::nullopt), 1u);
  EXPECT_EQ(DueMinInSync(r, 3), 1u);
  r.in_sync = {"pc1", "pc2"};
  EXPECT_EQ(DueMinInSync(r, std::nullopt), 2u);
  EXPECT_EQ(DueMinInSync(r, 3), 2u);
  // It does not shrink with the set: then nothing is acknowledged that only one has.
  r.min_in_sync = 2;
  r.in_sync = {"pc1"};
  EXPECT_EQ(DueMinInSync(r, std::nullopt), 2u);
  EXPECT_EQ(DueMinInSync(r, 3), 2u);
  EXPECT_EQ(DueMinInSync(r, 1), 1u);
  // Never more than there are.
  r.members.erase("pc3");
  EXPECT_EQ(DueMinInSync(r, std::nullopt), 1u);
  EXPECT_EQ(DueMinInSync(r, 5), 2u);
}

TEST(Register, APersonPromotesWhoLacksSomething) {
  const Loss good{"pc3", "pc3", At(3).uuid, true, {}};
  const Result<Register> r = PromoteLosing(Three(), good, kNonce);
  ExpectFollows(Three(), r);
  EXPECT_EQ(r->primary, "pc3");
  EXPECT_EQ(r->in_sync, std::set<std::string>{"pc3"});
  EXPECT_EQ(r->term, 41 + kForcedTermJump);
  EXPECT_EQ(r->incarnation, 3u);
  Loss again = good;  // revived a second time, since nobody knew what became of the first swap
  again.store_term = 41 + 2 * kForcedTermJump;
  EXPECT_EQ(PromoteLosing(Three(), again, kNonce)->term, again.store_term);
  EXPECT_EQ(PromoteLosing(Three(), {"pc3", "pc2", At(3).uuid, true, {}}, kNonce).code(), FsError::kInval);
  EXPECT_EQ(PromoteLosing(Three(), {"pc2", "pc2", At(2).uuid, true, {}}, kNonce).code(), FsError::kConflict);  // loses nothing
  EXPECT_EQ(PromoteLosing(Three(), {"pc3", "pc3", At(3).uuid, true, {"pc2"}}, kNonce).code(), FsError::kConflict);
  EXPECT_EQ(PromoteLosing(Three(), {"pc3", "pc3", At(3).uuid, false, {}}, kNonce).code(), FsError::kConflict);
  EXPECT_EQ(PromoteLosing(Three(), {"pc3", "pc3", At(1).uuid, true, {}}, kNonce).code(), FsError::kStale);
}

TEST(Register, ASwapIsUndecidedUntilSomethingElseShows) {
  const Register old = Three();
  const Register value = *Shrink(old, kSelf, {"pc2", 10, 10, 0, 20, false}, kNonce);
  const Register other = *TakeOver(old, ClaimOf("pc2", 2), Uuid{8, 8});
  const RegisterSwap swap{old, value};
  EXPECT_EQ(FateOf(swap, old), SwapFate::kUndecided);
  EXPECT_EQ(FateOf(swap, value), SwapFate::kDone);
  EXPECT_EQ(FateOf(swap, other), SwapFate::kNever);
  // The same change by another attempt is another value.
  Register twin = value;
  twin.nonce = {8, 8};
  EXPECT_EQ(FateOf(swap, twin), SwapFate::kNever);
}

}  // namespace
}  // namespace stria
