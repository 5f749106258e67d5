#include "locality/where.h"

#include <gtest/gtest.h>

#include "common/random.h"
#include "stripe/layout.h"
#include "stripe/layout_spec.h"

namespace stria {
namespace {

// Nodes n1 and n2 with disks 11, 12 and 21, 22.
ClusterMap SampleMap() {
  ClusterMap map;
  for (uint32_t n = 1; n <= 2; ++n) {
    NodeInfo node;
    node.id = NodeId(n);
    node.name = "n" + std::to_string(n);
    map.nodes.push_back(node);
    for (uint32_t d = 1; d <= 2; ++d) {
      TargetInfo t;
      t.id = TargetId(n * 10 + d);
      t.node = node.id;
      t.label = "d" + std::to_string(d);
      map.targets.push_back(t);
    }
  }
  return map;
}

// A stripe of `layout` with its columns on targets[i % size].
StripeGrant Stripe(uint64_t id, const std::string& layout, uint64_t payload,
                   const std::vector<uint32_t>& targets) {
  StripeGrant g;
  g.info.id = StripeId(id);
  g.info.shape = ShapeFor(*ParseLayout(layout), payload);
  for (uint32_t c = 0; c < g.info.shape.columns(); ++c) {
    Column column;
    column.length = ColumnBytes(g.info.shape, ColumnIndex(static_cast<uint16_t>(c)));
    if (column.length > 0) {
      column.shard = ShardId(id * 100 + c);
      column.target = TargetId(targets[c % targets.size()]);
    }
    g.info.columns.push_back(column);
  }
  return g;
}

TEST(Where, SpreadStripeInlineTailAndHole) {
  ClusterMap map = SampleMap();
  map.nodes[1].state = NodeState::kDown;
  const StripeGrant g = Stripe(5, "raid5:2+1,unit=64K", 160 * kKiB, {11, 21, 12});
  const std::vector<Extent> extents = {
      {.file_offset = 0, .length = 160 * kKiB, .stripe = StripeId(5), .stripe_offset = 0},
      {.file_offset = 170 * kKiB, .length = 3, .stripe = {}, .stripe_offset = 0, .inline_bytes = "abc"}};
  const auto rows = WhereRows(extents, {g}, map, 0, 170 * kKiB + 3);
  ASSERT_EQ(rows.size(), 6u);
  EXPECT_EQ(rows[0], (WhereRow{0, 65536, "data", "n1", "d1", "ok", StripeId(5)}));
  EXPECT_EQ(rows[1], (WhereRow{65536, 65536, "data", "n2", "d1", "down", StripeId(5)}));
  EXPECT_EQ(rows[2], (WhereRow{131072, 32768, "data", "n1", "d1", "ok", StripeId(5)}));
  EXPECT_EQ(rows[3], (WhereRow{163840, 10240, "hole", "-", "-", "ok", StripeId()}));
  EXPECT_EQ(rows[4], (WhereRow{174080, 3, "meta", "meta", "-", "ok", StripeId()}));
  EXPECT_EQ(rows[5], (WhereRow{0, 163840, "parity", "n1", "d2", "ok", StripeId(5)}));
}

TEST(Where, ByHostAndCopies) {
  const ClusterMap map = SampleMap();
  const StripeGrant g = Stripe(5, "raid1:2", 100, {11, 21});
  const std::vector<Extent> extents = {
      {.file_offset = 0, .length = 100, .stripe = StripeId(5), .stripe_offset = 0}};
  const auto rows = WhereRows(extents, {g}, map, 10, 50);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0], (WhereRow{10, 50, "data", "n1", "d1", "ok", StripeId(5)}));
  EXPECT_EQ(rows[1], (WhereRow{10, 50, "copy", "n2", "d1", "ok", StripeId(5)}));
  const std::vector<HostShare> hosts = ByHost(rows);
  ASSERT_EQ(hosts.size(), 2u);
  EXPECT_EQ(hosts[0], (HostShare{"n1", 50, 0, "ok"}));
  EXPECT_EQ(hosts[1], (HostShare{"n2", 0, 1, "ok"}));
}

TEST(Where, EqualNeighboursAreMergedOverStripes) {
  const ClusterMap map = SampleMap();
  std::vector<Extent> extents;
  std::vector<StripeGrant> stripes;
  for (uint64_t i = 0; i < 4; ++i) {
    stripes.push_back(Stripe(i + 1, "raid1:2", 1000,
                             i < 3 ? std::vector<uint32_t>{11, 21} : std::vector<uint32_t>{12, 21}));
    extents.push_back(
        {.file_offset = i * 1000, .length = 1000, .stripe = StripeId(i + 1), .stripe_offset = 0});
  }
  const auto rows = WhereRows(extents, stripes, map, 0, 4000);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].length, 3000u);
  EXPECT_EQ(rows[1].length, 1000u);
  EXPECT_EQ(rows[2].length, 4000u);
  EXPECT_EQ(rows[2].role, "copy");
}

TEST(Where, WhatTheServerForgetsIsGone) {
  const std::vector<Extent> extents = {
      {.file_offset = 0, .length = 100, .stripe = StripeId(5), .stripe_offset = 0}};
  const auto rows = WhereRows(extents, {}, SampleMap(), 0, 100);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].health, "gone");
  // A stripe that is shorter than its extent says.
  const auto short_rows = WhereRows(extents, {Stripe(5, "linear", 50, {11})}, SampleMap(), 0, 100);
  ASSERT_EQ(short_rows.size(), 1u);
  EXPECT_EQ(short_rows[0].health, "gone");
}

// Each byte's row names the target that the stripe's own arithmetic gives.
TEST(Where, RandomAgainstLocate) {
  const uint64_t seed = 20240611;
  SCOPED_TRACE(seed);
  Random rng(seed);
  const ClusterMap map = SampleMap();
  const std::vector<uint32_t> all = {11, 12, 21, 22};
  for (int round = 0; round < 200; ++round) {
    std::vector<Extent> extents;
    std::vector<StripeGrant> stripes;
    uint64_t at = 0;
    for (uint64_t i = 1; i <= 3; ++i) {
      const char* layouts[] = {"raid5:2+1,unit=4K", "raid0:3,unit=8K", "raid6:2+2,unit=4K", "linear"};
      const uint64_t payload = rng.Between(1, 60 * kKiB);
      stripes.push_back(Stripe(i, layouts[rng.Below(4)], payload, all));
      const uint64_t skip = rng.Below(payload);
      if (rng.OneIn(3)) at += rng.Below(5000);
      extents.push_back(
          {.file_offset = at, .length = payload - skip, .stripe = StripeId(i), .stripe_offset = skip});
      at += payload - skip;
    }
    const uint64_t offset = rng.Below(at), length = rng.Between(1, at - offset);
    const auto rows = WhereRows(extents, stripes, map, offset, length);
    uint64_t next = offset;
    for (const WhereRow& row : rows) {
      if (row.role == "parity") continue;
      ASSERT_EQ(row.offset, next);
      next += row.length;
      for (const uint64_t byte : {row.offset, row.offset + row.length / 2, row.offset + row.length - 1}) {
        std::string expect = "-:-";
        for (const Extent& e : extents) {
          if (byte < e.file_offset || byte >= e.end()) continue;
          const StripeInfo& info = stripes[e.stripe.v - 1].info;
          const Location l = Locate(info.shape, e.stripe_offset + byte - e.file_offset);
          expect = map.TargetName(info.columns[l.column.v].target);
        }
        ASSERT_EQ(row.node + ":" + row.disk, expect) << byte;
      }
    }
    ASSERT_EQ(next, offset + length);
  }
}

TEST(Where, Ranges) {
  EXPECT_EQ(*ParseBytes("4k"), 4096u);
  EXPECT_EQ(*ParseBytes("2G"), 2 * kGiB);
  for (const char* bad :
       {"", "x", "4X", "4KB", "-1", "99999999999999999999", "18446744073709551615T", " 4"}) {
    EXPECT_EQ(ParseBytes(bad).code(), FsError::kInval) << bad;
  }
  using Pair = std::pair<uint64_t, uint64_t>;
  EXPECT_EQ(*ParseRange("1K+2K", 10000), Pair(1024, 2048));
  EXPECT_EQ(*ParseRange("1K+", 10000), Pair(1024, 8976));
  EXPECT_EQ(*ParseRange("9000+5000", 10000), Pair(9000, 1000));
  EXPECT_EQ(*ParseRange("20000+1", 10000), Pair(10000, 0));
  EXPECT_EQ(ParseRange("5", 10).code(), FsError::kInval);
  EXPECT_EQ(ParseRange("+5", 10).code(), FsError::kInval);
}

}  // namespace
}  // namespace stria
