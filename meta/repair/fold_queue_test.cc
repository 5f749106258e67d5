#include "meta/repair/fold_queue.h"

#include <gtest/gtest.h>

namespace stria {
namespace {

constexpr FoldKind kKind{.k = 2, .m = 2};

FoldUnit Unit(uint64_t stripe, uint32_t domain, uint64_t stamp) {
  return {StripeId(stripe), {{ColumnIndex(0), {domain, 0}, NodeId(domain), 100}}, 1, stamp};
}
FoldUnit Unit(uint64_t stripe) {
  return Unit(stripe, static_cast<uint32_t>(stripe), 5);
}

FoldRecord Record() {
  FoldRecord f;
  f.tasks = {7, 8};
  StripeInfo& fold = f.plan.fold;
  fold.id = StripeId(50);
  fold.shape = {.k = 2, .m = 2, .codec = Codec::kVandermonde, .unit_bytes = 4096, .payload_bytes = 190, .column_bytes = {100, 90}};
  for (uint64_t c = 0; c < 4; ++c) {
    fold.columns.push_back({ShardId(60 + c), TargetId(static_cast<uint32_t>(c + 1)), c == 1 ? 90u : 100u, c < 2 ? 70 + c : 0});
  }
  f.plan.members = {{StripeId(1), 0}, {StripeId(2), 3}};
  return f;
}

TEST(FoldQueue, CandidatesRipen) {
  FoldQueue q;
  EXPECT_TRUE(q.Note(kKind, Unit(1), 100));
  EXPECT_TRUE(q.Note(kKind, Unit(2), 150));
  EXPECT_EQ(q.Ripe(100)[kKind].size(), 1u);
  q.EndScan();
  EXPECT_TRUE(q.Note(kKind, Unit(1, 1, 6), 200)) << "a file was written";
  EXPECT_TRUE(q.Ripe(150).at(kKind)[0] == Unit(2));
  q.EndScan();
  EXPECT_EQ(q.waiting(), 1u) << "the other one was not there any more";
  const std::vector<FoldUnit> now = {Unit(1, 1, 6)};
  EXPECT_EQ(q.Ripe(200).at(kKind), now);
  q.Drop(StripeId(1));
  EXPECT_EQ(q.waiting(), 0u);
}

// One node wrote its files before the other nodes wrote theirs: the first node's files leave room for the others'.
TEST(FoldQueue, EachDomainHasRoom) {
  FoldQueue q;
  const uint64_t n = kMaxFoldCandidatesPerDomain;
  for (uint64_t i = 1; i <= n; ++i) EXPECT_TRUE(q.Note(kKind, Unit(i, 1, 0), 0));
  EXPECT_FALSE(q.Note(kKind, Unit(n + 1, 1, 0), 0));
  EXPECT_TRUE(q.Note(kKind, Unit(1, 1, 0), 0)) << "it is known";
  EXPECT_TRUE(q.Note(kKind, Unit(1, 1, 7), 0)) << "it is known, and has changed";
  EXPECT_TRUE(q.Note(kKind, Unit(n + 1, 2, 0), 0)) << "of another domain";
  EXPECT_TRUE(q.Note({.k = 3, .m = 2}, Unit(n + 2, 1, 0), 0)) << "of another kind";
  q.Drop(StripeId(5));
  EXPECT_TRUE(q.Note(kKind, Unit(n + 3, 1, 0), 0));
  EXPECT_FALSE(q.Note(kKind, Unit(n + 4, 1, 0), 0));
  q.EndScan();
  q.EndScan();
  EXPECT_EQ(q.waiting(), 0u);
  uint64_t taken = 0;
  for (uint64_t i = 1; i <= 2 * kMaxFoldCandidates; ++i) taken += q.Note(kKind, Unit(i, static_cast<uint32_t>(i % 99), 0), 0);
  EXPECT_EQ(taken, kMaxFoldCandidates);
}

TEST(FoldQueue, FromPlanToDone) {
  FoldQueue q;
  EXPECT_TRUE(q.Note(kKind, Unit(1), 0));
  q.Start(Record());
  EXPECT_EQ(q.waiting(), 0u);
  EXPECT_EQ(q.PromisedBytes(TargetId(2)), 0u);
  EXPECT_EQ(q.PromisedBytes(TargetId(3)), 100u);
  EXPECT_TRUE(q.HasStripe(StripeId(1)) && q.HasStripe(StripeId(2)) && q.HasStripe(StripeId(50)));
  EXPECT_EQ(q.FindPart(8).column, 3u);
  EXPECT_EQ(q.FindPart(9).record, nullptr);
  EXPECT_TRUE(q.HandOut({TargetId(1), TargetId(2)}, 5).empty()) << "of data columns nothing is to be made";
  EXPECT_TRUE(q.HandOut({TargetId(3), TargetId(4)}, 0).empty());
  EXPECT_EQ(q.HandOut({TargetId(3), TargetId(4)}, 1).size(), 1u);
  EXPECT_EQ(q.HandOut({TargetId(3), TargetId(4)}, 0).size(), 1u) << "again, until it is made";
  q.ForgetHandedOut({TargetId(3)});
  EXPECT_TRUE(q.HandOut({TargetId(3)}, 0).empty());
  q.Made(7, 700);
  EXPECT_TRUE(q.HandOut({TargetId(3)}, 5).empty());
  EXPECT_FALSE(q.WhenMade(7));
  q.Made(8, 800);
  q.Made(8, 801);
  const std::optional<FoldPlan> plan = q.WhenMade(7);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->fold.columns[2].digest, 700u);
  EXPECT_EQ(plan->fold.columns[3].digest, 800u);
  EXPECT_EQ(q.Find(7)->leftovers().size(), 2u) << "the parity";
  EXPECT_FALSE(q.BeginTelling(7));
  FoldRecord swapped = *q.Find(7);
  swapped.swapped = true;
  swapped.plan = *plan;
  swapped.copies = {{ShardId(99), TargetId(9), 100, 1}};
  q.Swapped(swapped);
  EXPECT_EQ(q.PromisedBytes(TargetId(9)), 0u) << "it is there";
  EXPECT_EQ(q.Find(7)->leftovers(), swapped.copies);
  EXPECT_FALSE(q.HasStripe(StripeId(1)));
  EXPECT_TRUE(q.HasStripe(StripeId(50)));
  EXPECT_FALSE(q.WhenMade(7));
  EXPECT_TRUE(q.BeginTelling(7));
  EXPECT_FALSE(q.BeginTelling(7));
  q.End(7);
  EXPECT_EQ(q.in_flight(), 0u);
  EXPECT_EQ(q.FindPart(8).record, nullptr);
  EXPECT_FALSE(q.HasStripe(StripeId(50)));
}

TEST(FoldQueue, RecordsSurvive) {
  FoldRecord f = Record();
  EXPECT_EQ(DecodeFold(EncodeFold(f)).value(), f);
  f.swapped = true;
  f.copies = {{ShardId(99), TargetId(9), 100, 1}};
  const std::string bytes = EncodeFold(f);
  EXPECT_EQ(DecodeFold(bytes).value(), f);
  for (size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(DecodeFold(bytes.substr(0, n)).ok()) << n;
  f.tasks.pop_back();
  EXPECT_FALSE(DecodeFold(EncodeFold(f)).ok());
}

}  // namespace
}  // namespace stria
