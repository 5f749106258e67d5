#include "stripe/extent_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "common/random.h"

namespace stria {
namespace {

Extent InStripe(uint64_t off, uint64_t len, uint64_t stripe, uint64_t stripe_offset) {
  return {.file_offset = off, .length = len, .stripe = StripeId(stripe), .stripe_offset = stripe_offset};
}
Extent Inline(uint64_t off, std::string bytes) {
  return {.file_offset = off, .length = bytes.size(), .inline_bytes = std::move(bytes)};
}

// The naive model: what every byte of a short window of the file is.
struct Byte {
  uint64_t stripe = 0;  // 0 and value < 0: hole
  uint64_t stripe_offset = 0;
  int value = -1;
  bool operator==(const Byte&) const = default;
};
using Bytes = std::vector<Byte>;

void Paint(Bytes* bytes, uint64_t base, const Extent& e) {
  for (uint64_t i = 0; i < e.length; ++i) {
    Byte& b = (*bytes)[e.file_offset - base + i];
    b = e.is_inline() ? Byte{.value = static_cast<unsigned char>(e.inline_bytes[i])}
                      : Byte{.stripe = e.stripe.v, .stripe_offset = e.stripe_offset + i};
  }
}

void ExpectCovers(const std::vector<Segment>& segments, const Bytes& bytes, uint64_t base, uint64_t off,
                  uint64_t len) {
  uint64_t at = off;
  for (const Segment& s : segments) {
    ASSERT_EQ(s.file_offset, at);
    ASSERT_GT(s.length, 0u);
    for (uint64_t i = 0; i < s.length; ++i) {
      Byte b;
      if (s.kind == Segment::Kind::kStripe) b = {.stripe = s.stripe.v, .stripe_offset = s.stripe_offset + i};
      if (s.kind == Segment::Kind::kInline) b.value = static_cast<unsigned char>(s.inline_bytes.at(i));
      ASSERT_EQ(b, bytes[at - base + i]) << "at byte " << at - base + i;
    }
    at += s.length;
  }
  ASSERT_EQ(at, off + len);
}

// The metadata server's store of one file, with everything that it keeps about references.
struct Store {
  std::map<uint64_t, Extent> extents;
  std::map<StripeId, int64_t> ref_bytes;
  std::map<StripeId, std::map<uint64_t, int>> refs;
  int64_t inline_bytes = 0;

  std::vector<Extent> Range(uint64_t off, uint64_t len, bool with_neighbours) const {
    std::vector<Extent> out;
    for (const auto& [key, e] : extents) {
      const bool overlaps = e.end() > off && key < off + len;
      const bool touches = e.end() == off || key == off + len;
      if (overlaps || (with_neighbours && touches)) out.push_back(e);
    }
    return out;
  }
  void Apply(const ExtentEdit& edit) {
    for (uint64_t key : edit.deletes) ASSERT_EQ(extents.erase(key), 1u) << "deletes what is not there";
    for (const Extent& e : edit.puts) {
      ASSERT_FALSE(std::ranges::count(edit.deletes, e.file_offset));
      extents[e.file_offset] = e;
    }
    for (const auto& ref : edit.refs_removed) ASSERT_EQ(refs[ref.stripe].erase(ref.file_offset), 1u);
    for (const auto& ref : edit.refs_added) ASSERT_TRUE(refs[ref.stripe].emplace(ref.file_offset, 1).second);
    for (const auto& [stripe, delta] : edit.ref_bytes_delta) {
      ASSERT_NE(delta, 0);
      if ((ref_bytes[stripe] += delta) == 0) ref_bytes.erase(stripe);
    }
    inline_bytes += edit.inline_bytes_delta;
  }
  void Check(const Bytes& bytes, uint64_t base) const {
    Bytes mine(bytes.size());
    uint64_t at = 0;
    for (const auto& [key, e] : extents) {
      ASSERT_EQ(key, e.file_offset);
      ASSERT_GE(key, at) << "overlap";
      at = e.end();
      ASSERT_TRUE(e.is_inline() || refs.at(e.stripe).contains(key));
      Paint(&mine, base, e);
    }
    ASSERT_EQ(mine, bytes);
    std::map<StripeId, int64_t> live;
    int64_t live_inline = 0;
    for (const Byte& b : bytes) {
      if (b.stripe != 0) ++live[StripeId(b.stripe)];
      if (b.value >= 0) ++live_inline;
    }
    ASSERT_EQ(ref_bytes, live);
    ASSERT_EQ(inline_bytes, live_inline);
    size_t ref_count = 0;
    for (const auto& [stripe, keys] : refs) ref_count += keys.size();
    ASSERT_EQ(ref_count,
              size_t(std::ranges::count_if(extents, [](auto& x) { return !x.second.is_inline(); })));
  }
};

constexpr uint64_t kWindow = 600;

// Random sorted extents inside the range, with holes.
std::vector<Extent> RandomExtents(Random* rng, uint64_t off, uint64_t len) {
  std::vector<Extent> out;
  for (uint64_t at = off; at < off + len;) {
    const uint64_t n = rng->Between(1, off + len - at);
    if (rng->Percent(40)) {
      out.push_back(Inline(at, std::string(n, static_cast<char>(rng->Below(256)))));
    } else if (rng->Percent(80)) {
      // The stripe offset follows the file's often enough for pieces to meet again.
      const uint64_t stripe = rng->Between(1, 3);
      out.push_back(InStripe(at, n, stripe, rng->Percent(70) ? at % (4 * kWindow) : rng->Below(5000)));
    }
    at += n;
    if (rng->Percent(50)) break;
  }
  return out;
}

void RunRandom(uint64_t seed, uint64_t base) {
  SCOPED_TRACE(testing::Message() << "seed " << seed << " base " << base);
  Random rng(seed);
  Bytes bytes(kWindow);
  ExtentMap map;
  Store store;
  for (int step = 0; step < 2500; ++step) {
    SCOPED_TRACE(testing::Message() << "step " << step);
    const uint64_t off = base + rng.Below(kWindow);
    const uint64_t len =
        rng.Between(1, std::min<uint64_t>(base + kWindow - off, rng.Percent(70) ? 40 : kWindow));
    std::vector<Extent> replacement;
    uint64_t plan_len = len;
    const uint64_t op = rng.Below(10);
    if (op < 6) {
      replacement = RandomExtents(&rng, off, len);
      ASSERT_TRUE(ValidateExtents(replacement, off, len, FsError::kBadRequest).ok());
      if (replacement.size() == 1 && replacement[0].length == len) {
        map.Insert(replacement[0]);
      } else {
        map.Replace(off, len, replacement);
      }
    } else if (op < 8) {
      map.Punch(off, len);
    } else if (op == 8 && rng.OneIn(4)) {
      map.Truncate(off);
      plan_len = kMaxFileBytes;
    } else {
      const uint64_t src = base + rng.Below(kWindow - len + 1);
      replacement = CloneExtents(store.Range(src, len, false), src, len, off);
      map.Clone(src, len, off);
    }
    const uint64_t window_len = std::min(plan_len, base + kWindow - off);
    store.Apply(PlanOverwrite(store.Range(off, window_len, rng.Percent(80)), replacement, off, plan_len));
    std::fill_n(bytes.begin() + (off - base), window_len, Byte{});
    for (const Extent& e : replacement) Paint(&bytes, base, e);

    store.Check(bytes, base);
    ASSERT_EQ(int64_t(map.inline_bytes()), store.inline_bytes);
    ExpectCovers(map.Lookup(base, kWindow), bytes, base, base, kWindow);
    ExpectCovers(map.Lookup(off, len), bytes, base, off, len);
    for (auto it = map.begin(); it != map.end() && std::next(it) != map.end(); ++it) {
      ASSERT_TRUE(it->second.is_inline() || !CanMerge(it->second, std::next(it)->second));
    }
    auto is_hole = [](const Byte& b) { return b == Byte{}; };
    auto data = std::find_if_not(bytes.begin() + (off - base), bytes.end(), is_hole);
    ASSERT_EQ(map.SeekData(off),
              data == bytes.end() ? std::nullopt : std::optional(base + (data - bytes.begin())));
    auto hole = std::find_if(bytes.begin() + (off - base), bytes.end(), is_hole);
    ASSERT_EQ(map.SeekHole(off, base + kWindow), std::optional(base + (hole - bytes.begin())));
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(ExtentMapRandom, AgreesWithBytesAtZero) {
  for (uint64_t seed = 1; seed <= 3; ++seed) RunRandom(seed, 0);
}

TEST(ExtentMapRandom, AgreesWithBytesAtTheEndOfTheLargestFile) {
  for (uint64_t seed = 11; seed <= 13; ++seed) RunRandom(seed, kMaxFileBytes - kWindow);
}

TEST(ExtentMap, LookupOfEmptyMapIsOneHole) {
  ExtentMap map;
  EXPECT_EQ(map.Lookup(5, 10), (std::vector<Segment>{{.file_offset = 5, .length = 10}}));
  EXPECT_TRUE(map.Lookup(5, 0).empty());
  EXPECT_TRUE(map.Lookup(kMaxFileBytes, 10).empty());
  EXPECT_EQ(map.Lookup(0, UINT64_MAX), (std::vector<Segment>{{.file_offset = 0, .length = kMaxFileBytes}}));
}

TEST(ExtentMap, PiecesOfOneStripeMeetAgain) {
  ExtentMap map;
  map.Insert(InStripe(0, 100, 7, 0));
  map.Insert(InStripe(200, 100, 7, 200));
  map.Insert(InStripe(100, 100, 7, 100));
  ASSERT_EQ(map.size(), 1u);
  EXPECT_EQ(map.begin()->second, InStripe(0, 300, 7, 0));
  map.Insert(InStripe(300, 10, 7, 0));  // same stripe, other place
  EXPECT_EQ(map.size(), 2u);
}

TEST(ExtentMap, ShortInlineNeighboursMergeUpToTheBound) {
  ExtentMap map;
  for (uint64_t i = 0; i < 100; ++i) map.Insert(Inline(i * 100, std::string(100, 'a')));
  EXPECT_EQ(map.size(), 3u);
  EXPECT_EQ(map.inline_bytes(), 10000u);
  for (const auto& [off, e] : map) EXPECT_LE(e.length, kInlineMergeBytes);
}

TEST(ExtentMap, CloneOntoItselfTakesTheBytesFromBefore) {
  ExtentMap map;
  map.Insert(Inline(0, "abcdef"));
  map.Clone(0, 6, 2);
  EXPECT_EQ(map.Lookup(0, 8)[0].inline_bytes, "ababcdef");
  map.Clone(100, 3, 1);  // a hole is cloned too
  EXPECT_EQ(map.Lookup(0, 8)[1], (Segment{.file_offset = 1, .length = 3}));
}

TEST(ExtentMap, SeekAtEndOfFile) {
  ExtentMap map;
  map.Insert(Inline(10, "abc"));
  EXPECT_EQ(map.SeekHole(10, 13), 13u);
  EXPECT_EQ(map.SeekHole(0, 13), 0u);
  EXPECT_EQ(map.SeekHole(13, 13), std::nullopt);
  EXPECT_EQ(map.SeekData(13), std::nullopt);
}

TEST(PlanOverwrite, OverwritingInTheMiddleKeepsBothSides) {
  const std::vector<Extent> existing = {InStripe(0, 100, 1, 0)};
  const ExtentEdit edit = PlanOverwrite(existing, {InStripe(40, 20, 2, 0)}, 40, 20);
  EXPECT_TRUE(edit.deletes.empty());
  EXPECT_EQ(edit.puts, (std::vector{InStripe(0, 40, 1, 0), InStripe(40, 20, 2, 0), InStripe(60, 40, 1, 60)}));
  EXPECT_EQ(edit.ref_bytes_delta, (std::map<StripeId, int64_t>{{StripeId(1), -20}, {StripeId(2), 20}}));
  EXPECT_EQ(edit.refs_added, (std::vector<ExtentEdit::Ref>{{StripeId(2), 40}, {StripeId(1), 60}}));
  EXPECT_TRUE(edit.refs_removed.empty());
}

TEST(PlanOverwrite, AppendNextToItsOwnStripeRewritesOneKey) {
  const ExtentEdit edit =
      PlanOverwrite(std::vector{InStripe(0, 100, 1, 0)}, {InStripe(100, 50, 1, 100)}, 100, 50);
  EXPECT_TRUE(edit.deletes.empty());
  EXPECT_EQ(edit.puts, (std::vector{InStripe(0, 150, 1, 0)}));
  EXPECT_TRUE(edit.refs_added.empty());
}

TEST(PlanOverwrite, SameBytesAgainIsNoEdit) {
  const std::vector<Extent> existing = {InStripe(0, 100, 1, 0)};
  EXPECT_TRUE(PlanOverwrite(existing, {InStripe(40, 20, 1, 40)}, 40, 20).empty());
  EXPECT_TRUE(PlanOverwrite(existing, {}, 40, 0).empty());
  EXPECT_TRUE(PlanOverwrite(existing, {}, 100, 10).empty());
}

TEST(ValidateExtents, Refuses) {
  auto valid = [](std::vector<Extent> extents) {
    return ValidateExtents(extents, 100, 100, FsError::kCorrupt).ok();
  };
  EXPECT_TRUE(valid({}));
  EXPECT_TRUE(valid({InStripe(100, 50, 1, 0), Inline(150, "abc")}));
  EXPECT_FALSE(valid({InStripe(99, 50, 1, 0)}));
  EXPECT_FALSE(valid({InStripe(100, 101, 1, 0)}));
  EXPECT_FALSE(valid({InStripe(100, UINT64_MAX, 1, 0)}));
  EXPECT_FALSE(valid({InStripe(100, 0, 1, 0)}));
  EXPECT_FALSE(valid({InStripe(100, 50, 1, 0), InStripe(149, 1, 1, 0)}));
  EXPECT_FALSE(valid({InStripe(100, 50, 1, UINT64_MAX - 3)}));
  Extent torn = Inline(100, "abc");
  torn.length = 4;
  EXPECT_FALSE(valid({torn}));
}

}  // namespace
}  // namespace stria
