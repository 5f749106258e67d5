#include "meta/replica/log_shape.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/random.h"

namespace stria {
namespace {

LogShape Of(const std::vector<uint64_t>& terms) {
  LogShape s;
  for (const uint64_t t : terms) s.Append(t);
  return s;
}

TEST(LogShape, KnowsTheTermOfEachSequence) {
  const LogShape s = Of({1, 1, 3, 3, 3, 7});
  EXPECT_EQ(s.rows, (std::vector<LogShape::Row>{{1, 1}, {3, 3}, {7, 6}}));
  EXPECT_EQ(s.last, 6u);
  EXPECT_EQ(s.LastTerm(), 7u);
  EXPECT_EQ(s.TermOf(2), 1u);
  EXPECT_EQ(s.TermOf(3), 3u);
  EXPECT_EQ(s.TermOf(6), 7u);
}

TEST(LogShape, FindsWhatTwoLogsHaveInCommon) {
  EXPECT_EQ(CommonSeq(Of({1, 1, 2}), Of({1, 1, 2, 2})), 3u);
  EXPECT_EQ(CommonSeq(Of({1, 1, 1}), Of({1, 1, 2, 2})), 2u);  // the longer one is not the better one
  EXPECT_EQ(CommonSeq(Of({}), Of({1})), 0u);
  EXPECT_EQ(CommonSeq(Of({2}), Of({1, 2})), 0u);
  EXPECT_TRUE(IsPrefixOf(Of({}), Of({1})));
  EXPECT_TRUE(IsPrefixOf(Of({1, 2}), Of({1, 2})));
  EXPECT_FALSE(IsPrefixOf(Of({1, 2, 2}), Of({1, 2})));
  EXPECT_FALSE(IsPrefixOf(Of({1, 2}), Of({1, 3})));
}

TEST(LogShape, PrefersTheLaterTerm) {
  EXPECT_TRUE(IsLongerThan(Of({1, 2}), Of({1, 1, 1})));
  EXPECT_TRUE(IsLongerThan(Of({1, 1}), Of({1})));
  EXPECT_FALSE(IsLongerThan(Of({1}), Of({1})));
}

TEST(LogShape, RefusesWhatNoLogIs) {
  EXPECT_TRUE(LogShape().IsValid());
  EXPECT_TRUE(Of({1, 4}).IsValid());
  EXPECT_FALSE((LogShape{{}, 3}).IsValid());
  EXPECT_FALSE((LogShape{{{1, 2}}, 3}).IsValid());
  EXPECT_FALSE((LogShape{{{0, 1}}, 3}).IsValid());
  EXPECT_FALSE((LogShape{{{1, 1}, {1, 2}}, 3}).IsValid());
  EXPECT_FALSE((LogShape{{{2, 1}, {1, 2}}, 3}).IsValid());
  EXPECT_FALSE((LogShape{{{1, 1}, {2, 4}}, 3}).IsValid());
}

TEST(LogShape, AgreesWithListsOfTerms) {
  Random rng(1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<uint64_t> base, a, b;
    uint64_t term = 1;
    for (uint64_t n = rng.Below(6); n > 0; --n) base.push_back(term += rng.Below(2));
    a = b = base;
    // Whoever wrote on wrote in a term of its own.
    for (uint64_t n = rng.Below(4), t = term + 1 + rng.Below(2) * 2; n > 0; --n) a.push_back(t);
    for (uint64_t n = rng.Below(4), t = term + 2; n > 0; --n) b.push_back(t);
    const auto common = static_cast<uint64_t>(std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(std::min(a.size(), b.size())), b.begin()).first - a.begin());
    LogShape sa = Of(a);
    const LogShape sb = Of(b);
    EXPECT_EQ(CommonSeq(sa, sb), common);
    EXPECT_EQ(CommonSeq(sb, sa), common);
    sa.CutTo(common);
    EXPECT_TRUE(sa.IsValid());
    EXPECT_TRUE(IsPrefixOf(sa, sb));
    EXPECT_EQ(sa, Of(std::vector<uint64_t>(a.begin(), a.begin() + static_cast<ptrdiff_t>(common))));
  }
}

}  // namespace
}  // namespace stria
