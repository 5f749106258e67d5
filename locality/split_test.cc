#include "locality/split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "common/random.h"
#include "common/units.h"

namespace stria {
namespace {

struct Outcome {
  std::vector<uint64_t> load;
  uint64_t local = 0;
  uint64_t most() const { return *std::ranges::max_element(load); }
};
Outcome Of(const std::vector<SplitPiece>& pieces, const std::vector<size_t>& host, size_t hosts) {
  Outcome o;
  o.load.resize(hosts);
  for (size_t i = 0; i < pieces.size(); ++i) {
    o.load[host[i]] += pieces[i].bytes;
    o.local += pieces[i].local_bytes[host[i]];
  }
  return o;
}

// The most local bytes of all assignments that keep to `limit`; nullopt if there is none.
std::optional<uint64_t> BestOfAll(const std::vector<SplitPiece>& pieces, size_t hosts, uint64_t limit) {
  std::optional<uint64_t> best;
  std::vector<size_t> host(pieces.size(), 0);
  while (true) {
    const Outcome o = Of(pieces, host, hosts);
    if (o.most() <= limit) best = std::max(best.value_or(0), o.local);
    size_t i = 0;
    while (i < host.size() && ++host[i] == hosts) host[i++] = 0;
    if (i == host.size()) return best;
  }
}

std::vector<SplitPiece> RandomPieces(Random& rng, size_t n, size_t hosts, uint64_t max_bytes) {
  std::vector<SplitPiece> pieces(n);
  for (SplitPiece& p : pieces) {
    p.bytes = rng.Between(1, max_bytes);
    p.local_bytes.resize(hosts);
    // Mostly on one host, a skewed one; the rest anywhere.
    const uint64_t mine = rng.OneIn(4) ? rng.Below(p.bytes + 1) : p.bytes;
    p.local_bytes[rng.OneIn(2) ? 0 : rng.Below(hosts)] = mine;
    p.local_bytes[rng.Below(hosts)] += (p.bytes - mine) / 2;
  }
  return pieces;
}

TEST(AssignPieces, AgainstAllAssignments) {
  uint64_t ours = 0, best = 0;
  int compared = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random rng(seed);
    const size_t hosts = rng.Between(1, 3);
    const auto pieces = RandomPieces(rng, rng.Between(1, 8), hosts, 10);
    const Outcome o = Of(pieces, AssignPieces(pieces, hosts), hosts);
    const uint64_t total = std::accumulate(o.load.begin(), o.load.end(), uint64_t{0});
    const uint64_t limit = total / hosts + total / hosts * kMaxOverMeanPercent / 100;
    uint64_t largest = 0, nearest = 0;
    for (const auto& p : pieces) {
      largest = std::max(largest, p.bytes);
      nearest += *std::ranges::max_element(p.local_bytes);
    }
    ASSERT_LE(o.most(), std::max(limit, total / hosts + largest));
    // If every piece can stay at home, it does.
    std::vector<size_t> home;
    for (const auto& p : pieces) home.push_back(std::ranges::max_element(p.local_bytes) - p.local_bytes.begin());
    if (Of(pieces, home, hosts).most() <= limit) ASSERT_EQ(o.local, nearest);
    if (const auto oracle = BestOfAll(pieces, hosts, limit); oracle && o.most() <= limit) {
      ASSERT_LE(o.local, *oracle);
      ++compared;
      ours += o.local;
      best += *oracle;
    }
  }
  EXPECT_GT(compared, 100);
  EXPECT_GE(ours * 100, best * 93);
}

TEST(AssignPieces, SmallPiecesNeverGoOverTheBound) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random rng(seed);
    const size_t hosts = rng.Between(2, 12);
    const auto pieces = RandomPieces(rng, 60 * hosts, hosts, 1000);
    const auto assigned = AssignPieces(pieces, hosts);
    ASSERT_EQ(assigned.size(), pieces.size());
    const Outcome o = Of(pieces, assigned, hosts);
    const uint64_t mean = std::accumulate(o.load.begin(), o.load.end(), uint64_t{0}) / hosts;
    EXPECT_LE(o.most(), mean + mean * kMaxOverMeanPercent / 100);
    EXPECT_EQ(AssignPieces(pieces, hosts), assigned);
  }
}

TEST(AssignPieces, EvenDataStaysAtHome) {
  std::vector<SplitPiece> pieces;
  for (size_t i = 0; i < 100; ++i) {
    SplitPiece p{.file = i, .begin = 0, .end = 1000, .bytes = 1000};
    p.local_bytes.resize(5);
    p.local_bytes[i % 5] = 1000;
    pieces.push_back(p);
  }
  EXPECT_EQ(Of(pieces, AssignPieces(pieces, 5), 5).local, 100'000u);
}

std::vector<WhereRow> Rows(const std::vector<std::pair<std::string, uint64_t>>& parts) {
  std::vector<WhereRow> rows;
  uint64_t at = 0;
  for (const auto& [node, bytes] : parts) {
    rows.push_back({at, bytes, node == "-" ? "hole" : "data", node, "d1", "ok", StripeId(1)});
    at += bytes;
  }
  rows.push_back({0, at, "parity", "n9", "d1", "ok", StripeId(1)});
  return rows;
}

TEST(CutByHost, RandomPiecesCoverTheFile) {
  const std::vector<std::string> hosts = {"n1", "n2", "n3"};
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random rng(seed);
    std::vector<std::pair<std::string, uint64_t>> parts;
    uint64_t total = 0;
    for (uint64_t i = 0; i < rng.Between(1, 12); ++i) {
      parts.emplace_back(rng.OneIn(5) ? "-" : "n" + std::to_string(rng.Between(1, 4)), rng.Between(1, 3000));
      total += parts.back().second;
    }
    const auto rows = Rows(parts);
    const uint64_t min_bytes = rng.Between(1, 1000), max_bytes = min_bytes + rng.Below(2000);
    uint64_t at = 0;
    std::vector<uint64_t> local(3);
    const auto pieces = CutByHost(7, rows, hosts, min_bytes, max_bytes);
    for (size_t i = 0; i < pieces.size(); ++i) {
      const SplitPiece& p = pieces[i];
      ASSERT_EQ(std::tuple(p.file, p.begin, p.bytes), std::tuple(size_t{7}, at, p.end - p.begin));
      ASSERT_LE(p.bytes, max_bytes);
      if (i + 1 < pieces.size()) ASSERT_GE(p.bytes, min_bytes);
      for (size_t h = 0; h < 3; ++h) local[h] += p.local_bytes[h];
      at = p.end;
    }
    ASSERT_EQ(at, total);
    for (size_t h = 0; h < 3; ++h) {
      uint64_t expect = 0;
      for (const auto& [node, bytes] : parts) expect += node == hosts[h] ? bytes : 0;
      ASSERT_EQ(local[h], expect);
    }
  }
}

TEST(CutByHost, LongRangesAreCutWhereTheyEnd) {
  const auto pieces = CutByHost(0, Rows({{"n1", 100}, {"n2", 250}, {"n1", 3}}), {"n1", "n2"}, 10, 100);
  ASSERT_EQ(pieces.size(), 5u);
  EXPECT_EQ(pieces[0].local_bytes, (std::vector<uint64_t>{100, 0}));
  EXPECT_EQ(pieces[3].end, 350u);
  EXPECT_EQ(pieces[4].bytes, 3u);
}

TEST(LocalBytes, CopiesCountWhereTheyAre) {
  std::vector<WhereRow> rows = {{0, 100, "data", "n1", "d1", "ok", StripeId(1)},
                                {0, 100, "copy", "n2", "d1", "ok", StripeId(1)},
                                {0, 100, "parity", "n3", "d1", "ok", StripeId(1)}};
  EXPECT_EQ(LocalBytes(rows, 90, 20, {"n1", "n2", "n3"}), (std::vector<uint64_t>{10, 10, 0}));
}

// n1 is dead: its data is local where a copy is, and decoded where none is.
TEST(LocalBytes, OnlyWhatCanBeRead) {
  const std::vector<WhereRow> rows = {{0, 100, "data", "n1", "d1", "suspect", StripeId(1)},
                                      {100, 100, "data", "n2", "d1", "failed", StripeId(2)},
                                      {200, 50, "data", "n2", "d2", "ok", StripeId(3)},
                                      {250, 50, "data", "n2", "d3", "draining", StripeId(3)},
                                      {0, 60, "copy", "n3", "d1", "ok", StripeId(1)},
                                      {60, 40, "copy", "n3", "d2", "absent", StripeId(1)},
                                      {100, 100, "parity", "n3", "d1", "ok", StripeId(2)}};
  EXPECT_EQ(LocalBytes(rows, 0, 300, {"n1", "n2", "n3"}), (std::vector<uint64_t>{0, 100, 60}));
  EXPECT_EQ(DecodedBytes(rows, 0, 300), 140u);
  EXPECT_EQ(DecodedBytes(rows, 10, 60), 10u);
  EXPECT_EQ(DecodedBytes(rows, 200, 100), 0u);
}

TEST(DecodedBytes, AgainstByteByByte) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random rng(seed);
    std::vector<WhereRow> rows;
    std::vector<int> missing(200), copied(200);
    for (uint64_t at = 0; at < 200;) {
      const uint64_t length = std::min<uint64_t>(200 - at, rng.Between(1, 60));
      const bool dead = rng.OneIn(2);
      rows.push_back({at, length, "data", "n1", "d1", dead ? "down" : rng.OneIn(3) ? "draining" : "ok", StripeId(1)});
      for (uint64_t i = at; i < at + length; ++i) missing[i] = dead;
      at += length;
    }
    for (uint64_t n = rng.Below(6); n > 0; --n) {
      const uint64_t at = rng.Below(190), length = rng.Between(1, 200 - at);
      const bool dead = rng.OneIn(3);
      rows.push_back({at, length, "copy", "n2", "d1", dead ? "gone" : "ok", StripeId(1)});
      for (uint64_t i = at; !dead && i < at + length; ++i) copied[i] = 1;
    }
    const uint64_t from = rng.Below(190), length = rng.Between(1, 200 - from);
    uint64_t expect = 0;
    for (uint64_t i = from; i < from + length; ++i) expect += missing[i] && !copied[i];
    ASSERT_EQ(DecodedBytes(rows, from, length), expect);
  }
}

TEST(SplitByHost, SaysWhatIsLocalRemoteAndDecoded) {
  const std::vector<SplitPiece> pieces = {{0, 0, 100, 100, {70, 0}, 20}, {0, 100, 200, 100, {0, 0}, 100}};
  uint64_t local = 0, remote = 0, decoded = 0;
  for (const HostWork& w : SplitByHost(pieces, {"a", "b"})) {
    local += w.local_bytes;
    remote += w.remote_bytes();
    decoded += w.decoded_bytes;
  }
  EXPECT_EQ(std::tuple(local, remote, decoded), std::tuple(70u, 10u, 120u));
}

TEST(SplitByHost, JoinsNeighboursAndKeepsIdleHosts) {
  std::vector<SplitPiece> pieces;
  for (uint64_t i = 0; i < 4; ++i) {
    pieces.push_back({0, i * 10, i * 10 + 10, 10, {i < 2 ? 10u : 0u, i < 2 ? 0u : 10u}});
  }
  const auto work = SplitByHost(pieces, {"a", "b"});
  ASSERT_EQ(work.size(), 2u);
  EXPECT_EQ(work[0].host, "a");
  ASSERT_EQ(work[0].pieces.size(), 1u);
  EXPECT_EQ(work[0].pieces[0].end, 20u);
  EXPECT_EQ(work[0].local_bytes, 20u);
  EXPECT_EQ(work[1].pieces[0].begin, 20u);
  EXPECT_TRUE(SplitByHost({}, {"a"})[0].pieces.empty());
}

}  // namespace
}  // namespace stria
