#include "locality/gather_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/random.h"

namespace stria {
namespace {

using Range = std::pair<uint64_t, uint64_t>;

TEST(PlanGather, WithoutCuts) {
  const GatherPlanOptions options{.columns = 2, .column_bytes = 100, .max_stripe_bytes = 1000};
  EXPECT_EQ(PlanGather({{0, 450}}, {}, options),
            (std::vector<GatherStripe>{{0, {100, 100}}, {200, {100, 100}}, {400, {50}}}));
  EXPECT_EQ(PlanGather({{0, 225}}, {}, options), (std::vector<GatherStripe>{{0, {100, 125}}}))
      << "a little rest is not worth a column";
  EXPECT_TRUE(PlanGather({}, {}, options).empty());
}

TEST(PlanGather, ColumnsEndAtCuts) {
  const GatherPlanOptions options{.columns = 4, .column_bytes = 100, .max_stripe_bytes = 1000};
  EXPECT_EQ(PlanGather({{0, 600}}, {10, 90, 180, 330, 590}, options),
            (std::vector<GatherStripe>{{0, {90, 90, 150, 100}}, {430, {160, 10}}}))
      << "a cluster of 260 bytes is cut once";
}

TEST(PlanGather, Random) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(seed);
    Random rng(seed);
    GatherPlanOptions options;
    options.columns = static_cast<uint32_t>(rng.Between(1, 5));
    options.column_bytes = rng.Between(4, 200);
    options.max_stripe_bytes = 2 * options.column_bytes + rng.Below(1000);
    std::vector<Range> ranges;
    std::vector<uint64_t> cuts;
    uint64_t at = rng.Below(50);
    for (uint64_t i = 0; i < rng.Between(1, 4); ++i) {
      ranges.emplace_back(at, rng.Between(1, 1500));
      at += ranges.back().second + rng.Between(1, 50);
    }
    for (uint64_t c = rng.Below(100); c < at && !rng.OneIn(30); c += rng.Between(1, 300)) cuts.push_back(c);
    // The columns are the ranges' bytes, each once and in order; none spans two ranges.
    std::vector<Range> columns;
    for (const GatherStripe& s : PlanGather(ranges, cuts, options)) {
      ASSERT_GE(s.columns.size(), 1u);
      ASSERT_LE(s.columns.size(), options.columns);
      ASSERT_LE(s.bytes(), options.max_stripe_bytes);
      uint64_t from = s.offset;
      for (const uint64_t length : s.columns) {
        ASSERT_GT(length, 0u);
        ASSERT_LE(length, 2 * options.column_bytes);
        columns.emplace_back(from, length);
        from += length;
      }
    }
    size_t next = 0;
    for (const auto& [offset, length] : ranges) {
      uint64_t reached = offset;
      while (reached < offset + length) {
        ASSERT_LT(next, columns.size());
        ASSERT_EQ(columns[next].first, reached);
        reached += columns[next++].second;
        // Cut elsewhere only if no cut was in reach, or nothing or little is left.
        const uint64_t begin = columns[next - 1].first;
        const bool cut_in_reach = std::ranges::any_of(
            cuts, [&](uint64_t c) { return c > begin && c <= begin + options.column_bytes && c < offset + length; });
        if (reached < offset + length && cut_in_reach) ASSERT_TRUE(std::ranges::binary_search(cuts, reached));
      }
      ASSERT_EQ(reached, offset + length);
    }
    ASSERT_EQ(next, columns.size());
  }
}

TEST(CutsBetween, OnlyWhereNothingIsCut) {
  EXPECT_EQ(CutsBetween({{{100, 50}, {150, 50}}, {{200, 100}}, {{320, 10}, {300, 5}}}),
            (std::vector<uint64_t>{100, 200, 300}));
  EXPECT_EQ(CutsBetween({{{0, 50}, {90, 20}}, {{60, 10}}, {{110, 10}}}), (std::vector<uint64_t>{110}))
      << "the second part lies within the first";
  EXPECT_EQ(CutsBetween({{}, {{5, 1}}}), (std::vector<uint64_t>{5}));
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Random rng(seed);
    std::vector<std::vector<Range>> parts(rng.Between(1, 8));
    for (auto& part : parts) {
      for (uint64_t i = 0; i < rng.Below(4); ++i) part.emplace_back(rng.Below(200), rng.Between(1, 40));
    }
    for (const uint64_t cut : CutsBetween(parts)) {
      for (const auto& part : parts) {
        const bool before = std::ranges::any_of(part, [&](const Range& r) { return r.first < cut; });
        const bool after = std::ranges::any_of(part, [&](const Range& r) { return r.first + r.second > cut; });
        ASSERT_FALSE(before && after) << "a part is cut at " << cut;
      }
    }
  }
}

}  // namespace
}  // namespace stria
