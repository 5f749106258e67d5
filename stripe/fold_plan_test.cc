#include "stripe/fold_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "common/random.h"

namespace stria {
namespace {

constexpr FoldKind kFourPlusOne{.k = 4, .m = 1};

FoldUnit Unit(uint64_t stripe, std::vector<std::pair<uint32_t, uint64_t>> node_and_bytes, uint32_t refs = 1) {
  FoldUnit u;
  u.stripe = StripeId(stripe);
  u.refs = refs;
  uint64_t longest = 0;
  for (const auto& [node, bytes] : node_and_bytes) {
    longest = std::max(longest, bytes);
    u.stored_bytes += bytes;
    u.columns.push_back({ColumnIndex(static_cast<uint16_t>(u.columns.size())), {node, 0}, NodeId(node), bytes});
  }
  u.stored_bytes += longest;
  return u;
}

StripeShape Gathered(std::vector<uint64_t> columns, uint8_t m) {
  StripeShape s;
  s.k = static_cast<uint8_t>(columns.size());
  s.m = m;
  for (uint64_t c : columns) s.payload_bytes += c;
  s.column_bytes = std::move(columns);
  return s;
}

// The promises of fold_plan.h, counted the slow way.
void ExpectLegal(const std::vector<FoldUnit>& units, FoldKind kind, const std::vector<FoldGroup>& groups,
                 FoldRule rule = FoldRule::kTight) {
  std::set<size_t> taken;
  for (const FoldGroup& g : groups) {
    std::set<DomainKey> domains;
    std::map<NodeId, uint32_t> nodes;
    uint64_t sum = 0, longest = 0, columns = 0, refs = 0, now = 0;
    for (size_t i : g) {
      ASSERT_LT(i, units.size());
      EXPECT_TRUE(taken.insert(i).second) << "unit " << i << " is in two folds";
      refs += units[i].refs;
      now += units[i].stored_bytes;
      EXPECT_LE(units[i].refs, kMaxUnitRefs);
      for (const FoldColumn& c : units[i].columns) {
        EXPECT_TRUE(domains.insert(c.domain).second) << "two columns in one domain";
        EXPECT_LE(++nodes[c.node], kind.m) << "the loss of a node would take too much";
        sum += c.length;
        longest = std::max(longest, c.length);
        ++columns;
      }
    }
    EXPECT_LE(sum, kMaxStripeBytes);
    EXPECT_LE(refs, kMaxFoldRefs);
    const double stored = static_cast<double>(sum) + static_cast<double>(kind.m) * static_cast<double>(longest);
    if (rule == FoldRule::kSaving) {
      EXPECT_GE(columns, 1u);
      EXPECT_LE(columns, kind.k);
      EXPECT_LE(stored, 0.9 * static_cast<double>(now) + 1);
      continue;
    }
    EXPECT_EQ(columns, kind.k);
    const double bound = static_cast<double>(kind.k + kind.m) / kind.k + 0.05;
    EXPECT_LE(stored, bound * static_cast<double>(sum) + 1);
  }
}

TEST(FoldPlan, EqualColumnsOnDifferentNodes) {
  std::vector<FoldUnit> units;
  for (uint32_t n = 1; n <= 4; ++n) units.push_back(Unit(n, {{n, kMiB}}));
  const auto groups = PlanFolds(units, kFourPlusOne, 10);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].size(), 4u);
  ExpectLegal(units, kFourPlusOne, groups);
}

TEST(FoldPlan, NotTwoOfOneNode) {
  std::vector<FoldUnit> units;
  for (uint32_t n = 1; n <= 3; ++n) units.push_back(Unit(n, {{n, kMiB}}));
  units.push_back(Unit(4, {{3, kMiB}}));
  EXPECT_TRUE(PlanFolds(units, kFourPlusOne, 10).empty());
}

TEST(FoldPlan, NotWhatIsMuchShorter) {
  std::vector<FoldUnit> units;
  for (uint32_t n = 1; n <= 3; ++n) units.push_back(Unit(n, {{n, kMiB}}));
  units.push_back(Unit(4, {{4, kMiB / 10}}));
  EXPECT_TRUE(PlanFolds(units, kFourPlusOne, 10).empty());
  units.push_back(Unit(5, {{4, kMiB * 9 / 10}}));  // comes along
  const auto groups = PlanFolds(units, kFourPlusOne, 10);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(std::ranges::count(groups[0], 3u), 0);
  ExpectLegal(units, kFourPlusOne, groups);
}

// If nothing better comes: a group that takes clearly less than now.
TEST(FoldPlan, WhatHasWaitedLongTakesWhatThereIs) {
  std::vector<FoldUnit> units;
  for (uint32_t n = 1; n <= 4; ++n) units.push_back(Unit(n, {{n, (8 + 3 * n) * kMiB / 20}}));
  EXPECT_TRUE(PlanFolds(units, kFourPlusOne, 10).empty());
  const auto groups = PlanFolds(units, kFourPlusOne, 10, FoldRule::kSaving);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].size(), 4u);
  ExpectLegal(units, kFourPlusOne, groups, FoldRule::kSaving);
  units.resize(2);
  EXPECT_EQ(PlanFolds(units, kFourPlusOne, 10, FoldRule::kSaving).size(), 1u) << "2+1 takes less than copies";
  const std::vector<FoldUnit> unlike = {Unit(1, {{1, kMiB}}), Unit(2, {{2, kMiB / 10}})};
  EXPECT_TRUE(PlanFolds(unlike, kFourPlusOne, 10, FoldRule::kSaving).empty()) << "hardly less";
  const std::vector<FoldUnit> one_node = {Unit(1, {{1, kMiB}}), Unit(2, {{1, kMiB}})};
  EXPECT_TRUE(PlanFolds(one_node, kFourPlusOne, 10, FoldRule::kSaving).empty());
  std::vector<FoldUnit> rest = {Unit(1, {{1, kMiB}, {2, kMiB}, {3, kMiB}})};
  EXPECT_TRUE(PlanFolds(rest, kFourPlusOne, 10, FoldRule::kSaving).empty()) << "as good as it gets";
  rest[0].stored_bytes += kMiB;
  EXPECT_EQ(PlanFolds(rest, kFourPlusOne, 10, FoldRule::kSaving).size(), 1u) << "a dead column takes as much as parity";
  // A third one that would cost more than it brings is left.
  const std::vector<FoldUnit> third = {Unit(1, {{1, kMiB}}), Unit(2, {{2, kMiB}}), Unit(3, {{3, 10 * kMiB}})};
  const auto two = PlanFolds(third, kFourPlusOne, 10, FoldRule::kSaving);
  ASSERT_EQ(two.size(), 1u);
  EXPECT_EQ(two[0].size(), 2u);
}

// The last living column of a fold: it is mirrored again if nothing comes that it could go with.
TEST(FoldPlan, TheLastOfAFoldIsMirroredAgain) {
  const auto last = [](uint64_t stripe, uint32_t node, uint64_t bytes) {
    FoldUnit u = Unit(stripe, {{node, bytes}});
    u.stored_bytes += 3 * kMiB;  // of those that are dead
    return u;
  };
  std::vector<FoldUnit> units = {last(1, 1, kMiB)};
  EXPECT_TRUE(PlanFolds(units, kFourPlusOne, 10).empty()) << "others may come";
  EXPECT_EQ(PlanFolds(units, kFourPlusOne, 10, FoldRule::kSaving), std::vector<FoldGroup>{{0}});
  EXPECT_TRUE(PlanFolds(units, {.k = 1, .m = 1}, 10, FoldRule::kSaving).empty());
  // Once it is a mirror it stays one: planning ends.
  units[0] = Unit(1, {{1, kMiB}});
  EXPECT_TRUE(PlanFolds(units, kFourPlusOne, 10, FoldRule::kSaving).empty());
  // Company comes first, be it a mirror or the last of another fold.
  for (const FoldUnit& other : {Unit(2, {{2, kMiB}}), last(2, 2, kMiB)}) {
    units = {last(1, 1, kMiB), other};
    const auto groups = PlanFolds(units, kFourPlusOne, 10, FoldRule::kSaving);
    ASSERT_EQ(groups.size(), 1u);
    EXPECT_EQ(groups[0].size(), 2u);
  }
  // Not at any price, nor on the same node.
  units = {last(1, 1, kMiB), Unit(2, {{2, 100 * kMiB}})};
  EXPECT_EQ(PlanFolds(units, kFourPlusOne, 10, FoldRule::kSaving), std::vector<FoldGroup>{{0}});
  units = {last(1, 1, kMiB), last(2, 1, kMiB)};
  EXPECT_EQ(PlanFolds(units, kFourPlusOne, 10, FoldRule::kSaving).size(), 2u);
  // If it was by far the longest of the fold there is nothing to be gained.
  units = {Unit(1, {{1, 100 * kMiB}})};
  units[0].stored_bytes += kMiB;
  EXPECT_TRUE(PlanFolds(units, kFourPlusOne, 10, FoldRule::kSaving).empty());
}

TEST(FoldPlan, NothingWithoutParity) {
  std::vector<FoldUnit> units;
  for (uint32_t n = 1; n <= 9; ++n) units.push_back(Unit(n, {{n, kMiB}}));
  EXPECT_TRUE(PlanFolds(units, {.k = 4, .m = 0}, 10).empty());
  EXPECT_TRUE(PlanFolds(units, {.k = 1, .m = 1}, 10).empty());
  EXPECT_FALSE(WantsFolding(Gathered({kMiB}, 0), kMiB, 1, {.k = 4, .m = 0}));
}

TEST(FoldPlan, AtMostAsManyOfANodeAsMayBeLost) {
  std::vector<FoldUnit> units;  // the domains are disks, two in each of two nodes
  for (uint32_t disk = 1; disk <= 4; ++disk) {
    units.push_back(Unit(disk, {{disk, kMiB}}));
    units.back().columns[0].node = NodeId((disk + 1) / 2);
  }
  EXPECT_TRUE(PlanFolds(units, kFourPlusOne, 10).empty());
  const FoldKind raid6{.k = 4, .m = 2};
  const auto groups = PlanFolds(units, raid6, 10);
  EXPECT_EQ(groups.size(), 1u);
  ExpectLegal(units, raid6, groups);
}

// Written node after node, so that neighbours by number or by length are of one node.
TEST(FoldPlan, ManyOfOneNodeDoNotHideTheOthers) {
  std::vector<FoldUnit> units;
  for (uint32_t i = 0; i < 4000; ++i) units.push_back(Unit(i + 1, {{i / 1000, kMiB + i}}));
  const auto groups = PlanFolds(units, kFourPlusOne, 2000);
  EXPECT_EQ(groups.size(), 1000u);
  ExpectLegal(units, kFourPlusOne, groups);
}

TEST(FoldPlan, TheLongestThatHasNoCompanyKeepsNobodyFromFolding) {
  std::vector<FoldUnit> units = {Unit(9, {{5, 100 * kMiB}})};
  for (uint32_t n = 1; n <= 4; ++n) units.push_back(Unit(n, {{n, kMiB}}));
  ExpectLegal(units, kFourPlusOne, PlanFolds(units, kFourPlusOne, 10));
  EXPECT_EQ(PlanFolds(units, kFourPlusOne, 10).size(), 1u);
}

TEST(FoldPlan, WhatIsLeftOfAFoldStaysTogether) {
  std::vector<FoldUnit> units = {Unit(1, {{1, kMiB}, {3, kMiB}}), Unit(2, {{2, kMiB}, {3, kMiB}}),
                                 Unit(3, {{2, kMiB}, {4, kMiB}})};
  const auto groups = PlanFolds(units, kFourPlusOne, 10);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0], (FoldGroup{0, 2}));
}

TEST(FoldPlan, AsManyAsAreAskedFor) {
  std::vector<FoldUnit> units;
  for (uint32_t i = 0; i < 40; ++i) units.push_back(Unit(i + 1, {{i % 4, kMiB}}));
  EXPECT_EQ(PlanFolds(units, kFourPlusOne, 3).size(), 3u);
  EXPECT_EQ(PlanFolds(units, kFourPlusOne, 100).size(), 10u);
}

TEST(FoldPlan, WithinOneStripeAndOneTransaction) {
  std::vector<FoldUnit> units;
  for (uint32_t n = 1; n <= 4; ++n) units.push_back(Unit(n, {{n, 300 * kMiB}}));
  EXPECT_TRUE(PlanFolds(units, kFourPlusOne, 10).empty()) << "more than a stripe holds";
  units.clear();
  for (uint32_t n = 1; n <= 4; ++n) units.push_back(Unit(n, {{n, kMiB}}, n == 1 ? kMaxUnitRefs + 1 : 1));
  EXPECT_TRUE(PlanFolds(units, kFourPlusOne, 10).empty()) << "in too many pieces";
  units.clear();
  for (uint32_t n = 1; n <= 16; ++n) units.push_back(Unit(n, {{n, kMiB}}, kMaxUnitRefs));
  EXPECT_TRUE(PlanFolds(units, {.k = 16, .m = 2}, 10).empty());
}

TEST(FoldPlan, WhatWantsFolding) {
  const uint64_t mib = kMiB;
  EXPECT_TRUE(WantsFolding(Gathered({mib}, 1), mib, 1, kFourPlusOne)) << "a mirror";
  EXPECT_FALSE(WantsFolding(Gathered({mib}, 1), 0, 0, kFourPlusOne)) << "dead";
  EXPECT_FALSE(WantsFolding(Gathered({mib}, 1), mib, 1, {.k = 1, .m = 1})) << "it is to be mirrored";
  EXPECT_FALSE(WantsFolding(Gathered({mib}, 1), mib, 1, {.k = 4, .m = 2})) << "less protected than it should be";
  EXPECT_FALSE(WantsFolding(Gathered({mib, mib, mib, mib}, 1), 4 * mib, 4, kFourPlusOne)) << "a fold";
  EXPECT_TRUE(WantsFolding(Gathered({mib, mib, mib, mib}, 1), 3 * mib, 3, kFourPlusOne)) << "one of it is dead";
  EXPECT_TRUE(WantsFolding(Gathered({mib, mib, mib}, 1), 3 * mib, 3, kFourPlusOne)) << "narrow";
  StripeShape spread = Gathered({mib}, 1);
  spread.column_bytes.clear();
  EXPECT_FALSE(WantsFolding(spread, mib, 1, kFourPlusOne));
}

// A fold that was planned is not folded again while all of it lives.
TEST(FoldPlan, RandomPlansAreLegalAndFinal) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random rng(seed);
    const FoldKind kind{.k = static_cast<uint8_t>(rng.Between(2, 10)), .m = static_cast<uint8_t>(rng.Between(1, 3))};
    const uint64_t nodes = rng.Between(2, 20);
    const uint64_t longest = rng.Between(1, 300 * kMiB);
    std::vector<FoldUnit> units;
    for (uint64_t i = 0, n = rng.Below(300); i < n; ++i) {
      const uint64_t base = rng.Between(1, longest);
      std::vector<std::pair<uint32_t, uint64_t>> columns;
      for (uint64_t c = 0, of = rng.OneIn(3) ? rng.Between(1, kind.k) : 1; c < of; ++c) {  // disks, two in a node
        columns.emplace_back(static_cast<uint32_t>(rng.Below(nodes)), std::max<uint64_t>(1, base * rng.Between(80, 100) / 100));
      }
      units.push_back(Unit(i + 1, std::move(columns), static_cast<uint32_t>(rng.Between(1, 80))));
      for (FoldColumn& c : units.back().columns) c.node = NodeId(c.domain.first / 2);
    }
    ExpectLegal(units, kind, PlanFolds(units, kind, 1000, FoldRule::kSaving), FoldRule::kSaving);
    const auto groups = PlanFolds(units, kind, 1000);
    ExpectLegal(units, kind, groups);
    EXPECT_EQ(groups, PlanFolds(units, kind, 1000));
    for (const FoldGroup& g : groups) {
      std::vector<uint64_t> lengths;
      for (size_t i : g) {
        for (const FoldColumn& c : units[i].columns) lengths.push_back(c.length);
      }
      const StripeShape shape = Gathered(lengths, kind.m);
      EXPECT_FALSE(WantsFolding(shape, shape.payload_bytes, kind.k, kind));
    }
  }
}

// The goal: files of 1 to 50 MB, written evenly from all nodes.
TEST(FoldPlan, AThousandFilesKeepToTheBound) {
  for (const auto& [nodes, kind] : std::map<uint32_t, FoldKind>{{5, {.k = 4, .m = 1}}, {6, {.k = 4, .m = 2}}, {12, {.k = 8, .m = 2}}}) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      Random rng(seed);
      std::vector<FoldUnit> units;
      uint64_t live = 0, stored = 0;
      for (uint32_t i = 0; i < 1000; ++i) {
        const uint64_t bytes = rng.Between(1000 * 1000, 50 * 1000 * 1000);
        units.push_back(Unit(i + 1, {{i % nodes, bytes}}));
        live += bytes;
        stored += bytes * (1 + kind.m);
      }
      const auto groups = PlanFolds(units, kind, 1000);
      ExpectLegal(units, kind, groups);
      for (const FoldGroup& g : groups) {
        uint64_t longest = 0;
        for (size_t i : g) {
          stored -= units[i].columns[0].length * kind.m;
          longest = std::max(longest, units[i].columns[0].length);
        }
        stored += kind.m * longest;
      }
      const double overhead = static_cast<double>(stored) / static_cast<double>(live);
      EXPECT_LE(overhead, static_cast<double>(kind.k + kind.m) / kind.k + 0.05) << "seed " << seed << ", k " << int{kind.k};
    }
  }
}

}  // namespace
}  // namespace stria
