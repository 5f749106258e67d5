#include "stripe/layout.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/random.h"

namespace stria {
namespace {

constexpr uint32_t kUnit = 4096;

Layout MakeLayout(uint8_t groups, uint8_t k, uint8_t m, uint64_t rows, Arrangement arrangement) {
  Layout layout;
  layout.groups = groups;
  layout.k = k;
  layout.m = m;
  layout.codec = DefaultCodec(k, m);
  layout.arrangement = arrangement;
  layout.unit_bytes = kUnit;
  layout.stripe_bytes = rows * groups * k * kUnit;
  return layout;
}

// Where each payload byte is, found by dealing units out one after the other.
struct Dealt {
  std::vector<ColumnIndex> column;
  std::vector<uint64_t> shard_offset;
  std::vector<uint64_t> column_bytes;  // data columns
};

Dealt Deal(const StripeShape& shape) {
  Dealt d;
  d.column_bytes.resize(shape.data_columns());
  uint16_t c = 0;
  for (uint64_t b = 0; b < shape.payload_bytes; ++b) {
    if (shape.gathered()) {
      while (d.column_bytes[c] == shape.column_bytes[c]) ++c;
    } else if (b > 0 && b % shape.unit_bytes == 0) {
      c = static_cast<uint16_t>((c + 1) % shape.data_columns());
    }
    d.column.push_back(ColumnIndex(c));
    d.shard_offset.push_back(d.column_bytes[c]++);
  }
  return d;
}

void CheckShape(const StripeShape& shape, Random& rng) {
  ASSERT_TRUE(ValidateShape(shape).ok()) << ValidateShape(shape);
  const Dealt dealt = Deal(shape);
  for (uint16_t c = 0; c < shape.data_columns(); ++c) {
    EXPECT_EQ(ColumnBytes(shape, ColumnIndex(c)), dealt.column_bytes[c]);
  }
  for (uint16_t c = 0; c < shape.columns(); ++c) {
    const uint32_t group = GroupOf(shape, ColumnIndex(c));
    EXPECT_EQ(ColumnOf(shape, group, IndexInGroup(shape, ColumnIndex(c))), ColumnIndex(c));
    EXPECT_EQ(IsParity(shape, ColumnIndex(c)), IndexInGroup(shape, ColumnIndex(c)) >= shape.k);
    const auto first = dealt.column_bytes.begin() + group * shape.k;
    const uint64_t longest = *std::max_element(first, first + shape.k);
    EXPECT_EQ(GroupBytes(shape, group), longest);
    if (IsParity(shape, ColumnIndex(c))) {
      EXPECT_EQ(ColumnBytes(shape, ColumnIndex(c)), longest);
    }
  }
  for (int i = 0; i < 50; ++i) {
    const uint64_t b = rng.Below(shape.payload_bytes);
    const Location at = Locate(shape, b);
    ASSERT_EQ(at.column, dealt.column[b]);
    ASSERT_EQ(at.shard_offset, dealt.shard_offset[b]);
    ASSERT_EQ(PayloadOffset(shape, at.column, at.shard_offset), b);
    const uint64_t end = b + at.run_bytes;
    ASSERT_GT(at.run_bytes, 0u);
    ASSERT_LE(end, shape.payload_bytes);
    ASSERT_EQ(dealt.column[end - 1], at.column);
    ASSERT_EQ(dealt.shard_offset[end - 1], at.shard_offset + at.run_bytes - 1);
    if (end < shape.payload_bytes) {
      ASSERT_NE(dealt.column[end], at.column);
    }
  }
  for (int i = 0; i < 10; ++i) {
    const uint64_t offset = rng.Below(shape.payload_bytes + 1);
    const uint64_t length = rng.Below(shape.payload_bytes - offset + 1);
    uint64_t b = offset;
    std::vector<uint64_t> column_end(shape.data_columns(), ~uint64_t{0});
    for (const ShardRange& r : MapRange(shape, offset, length)) {
      ASSERT_EQ(r.payload_offset, b);
      ASSERT_GT(r.length, 0u);
      ASSERT_EQ(dealt.column[b], r.column);
      ASSERT_EQ(dealt.shard_offset[b], r.shard_offset);
      ASSERT_EQ(dealt.column[b + r.length - 1], r.column);
      ASSERT_EQ(dealt.shard_offset[b + r.length - 1], r.shard_offset + r.length - 1);
      if (column_end[r.column.v] != ~uint64_t{0}) {
        ASSERT_EQ(column_end[r.column.v], r.shard_offset);  // one run per column
      }
      column_end[r.column.v] = r.shard_offset + r.length;
      b += r.length;
    }
    ASSERT_EQ(b, offset + length);
  }
}

TEST(Layout, AgreesWithDealingUnitsOut) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    Random rng(seed);
    const auto groups = static_cast<uint8_t>(rng.Between(1, 3));
    const auto k = static_cast<uint8_t>(rng.Between(1, 6));
    const auto m = static_cast<uint8_t>(rng.Between(0, 3));
    const Layout layout = MakeLayout(groups, k, m, rng.Between(1, 4),
                                     rng.OneIn(2) ? Arrangement::kSpread : Arrangement::kGathered);
    CheckShape(ShapeFor(layout, rng.OneIn(4) ? layout.stripe_bytes : rng.Between(1, layout.stripe_bytes)),
               rng);
    CheckShape(ShapeFor(layout, 1), rng);

    StripeShape ragged = ShapeFor(layout, 1);
    ragged.payload_bytes = 0;
    ragged.column_bytes.assign(ragged.data_columns(), 0);
    for (uint64_t& bytes : ragged.column_bytes)
      ragged.payload_bytes += bytes = rng.OneIn(4) ? 0 : rng.Below(9000);
    if (ragged.payload_bytes > 0) CheckShape(ragged, rng);
  }
}

TEST(Layout, ShortPayloadIsOneDataShardAndCopiesOfIt) {
  const Layout layout = MakeLayout(1, 4, 2, 8, Arrangement::kSpread);
  const StripeShape shape = ShapeFor(layout, 1000);
  const uint64_t expected[] = {1000, 0, 0, 0, 1000, 1000};
  for (uint16_t c = 0; c < 6; ++c) EXPECT_EQ(ColumnBytes(shape, ColumnIndex(c)), expected[c]);
}

TEST(Layout, EmptyGroupsHaveNoParity) {
  const StripeShape shape = ShapeFor(MakeLayout(2, 2, 1, 4, Arrangement::kSpread), kUnit + 5);
  const uint64_t expected[] = {kUnit, 5, 0, 0, kUnit, 0};
  for (uint16_t c = 0; c < 6; ++c) EXPECT_EQ(ColumnBytes(shape, ColumnIndex(c)), expected[c]);
}

TEST(Layout, GatheredFillsColumnAfterColumn) {
  const Layout layout = MakeLayout(1, 3, 1, 4, Arrangement::kGathered);
  const StripeShape shape = ShapeFor(layout, 5 * kUnit);
  EXPECT_EQ(shape.column_bytes, (std::vector<uint64_t>{4 * kUnit, kUnit, 0}));
  EXPECT_EQ(RowBytes(shape), 5 * kUnit);
  EXPECT_EQ(RowBytes(ShapeFor(MakeLayout(1, 3, 1, 4, Arrangement::kSpread), 1)), 3 * kUnit);
}

TEST(Layout, OneColumnIsOneRun) {
  const StripeShape shape = ShapeFor(MakeLayout(1, 1, 2, 8, Arrangement::kSpread), 8 * kUnit);
  EXPECT_EQ(MapRange(shape, 10, 7 * kUnit), (std::vector<ShardRange>{{ColumnIndex(0), 10, 7 * kUnit, 10}}));
}

TEST(Layout, CodecsFitWhereTheyAreSafe) {
  EXPECT_EQ(DefaultCodec(4, 0), Codec::kNone);
  EXPECT_EQ(DefaultCodec(1, 3), Codec::kCopy);
  EXPECT_EQ(DefaultCodec(4, 1), Codec::kXor);
  EXPECT_EQ(DefaultCodec(4, 3), Codec::kVandermonde);
  EXPECT_EQ(DefaultCodec(4, 4), Codec::kCauchy);
  for (uint32_t k = 1; k <= kMaxDataColumns; ++k) {
    for (uint32_t m = 0; m <= kMaxParity; ++m) EXPECT_TRUE(CodecFits(DefaultCodec(k, m), k, m));
  }
  EXPECT_FALSE(CodecFits(Codec::kVandermonde, 4, 4));
  EXPECT_FALSE(CodecFits(Codec::kXor, 4, 2));
  EXPECT_FALSE(CodecFits(Codec::kCopy, 2, 1));
  EXPECT_FALSE(CodecFits(Codec::kNone, 2, 1));
  EXPECT_FALSE(CodecFits(Codec::kCauchy, 33, 1));
  EXPECT_FALSE(CodecFits(static_cast<Codec>(9), 4, 1));
}

TEST(Layout, ValidateShapeRefusesEachBrokenInvariant) {
  const StripeShape good = ShapeFor(MakeLayout(2, 3, 1, 4, Arrangement::kGathered), 9 * kUnit);
  ASSERT_TRUE(ValidateShape(good).ok());
  const auto refused = [&](auto change) {
    StripeShape shape = good;
    change(shape);
    const Error e = ValidateShape(shape);
    return e.code == FsError::kCorrupt && !e.message.empty();
  };
  EXPECT_TRUE(refused([](StripeShape& s) { s.groups = 0; }));
  EXPECT_TRUE(refused([](StripeShape& s) { s.k = 0; }));
  EXPECT_TRUE(refused([](StripeShape& s) { s.k = 33; }));
  EXPECT_TRUE(refused([](StripeShape& s) { s.m = 5; }));
  EXPECT_TRUE(refused([](StripeShape& s) { s.groups = 17; }));
  EXPECT_TRUE(refused([](StripeShape& s) { s.codec = Codec::kCopy; }));
  EXPECT_TRUE(refused([](StripeShape& s) { s.codec = static_cast<Codec>(77); }));
  EXPECT_TRUE(refused([](StripeShape& s) { s.unit_bytes = 0; }));
  EXPECT_TRUE(refused([](StripeShape& s) { s.unit_bytes = 5000; }));
  EXPECT_TRUE(refused([](StripeShape& s) { s.unit_bytes = 0xfffff000; }));
  EXPECT_TRUE(refused([](StripeShape& s) { s.payload_bytes = 0; }));
  EXPECT_TRUE(refused([](StripeShape& s) { s.payload_bytes += 1; }));
  EXPECT_TRUE(refused([](StripeShape& s) { s.payload_bytes = kMaxStripeBytes + 1; }));
  EXPECT_TRUE(refused([](StripeShape& s) { s.column_bytes.pop_back(); }));
  EXPECT_TRUE(refused([](StripeShape& s) {
    s.column_bytes[0] = ~uint64_t{0};
    s.column_bytes[1] += 1;
  }));
}

TEST(Layout, ValidateStripeRefusesColumnsThatDisagreeWithTheShape) {
  StripeInfo good;
  good.id = StripeId(7);
  good.shape = ShapeFor(MakeLayout(1, 3, 1, 4, Arrangement::kSpread), kUnit + 1);
  for (uint16_t c = 0; c < good.shape.columns(); ++c) {
    Column column;
    column.length = ColumnBytes(good.shape, ColumnIndex(c));
    if (column.length > 0) column.shard = ShardId(c + 1u), column.target = TargetId(c + 1u);
    good.columns.push_back(column);
  }
  ASSERT_TRUE(ValidateStripe(good).ok()) << ValidateStripe(good);
  const auto refused = [&](auto change) {
    StripeInfo info = good;
    change(info);
    return ValidateStripe(info).code == FsError::kCorrupt;
  };
  EXPECT_TRUE(refused([](StripeInfo& s) { s.shape.k = 0; }));
  EXPECT_TRUE(refused([](StripeInfo& s) { s.columns.pop_back(); }));
  EXPECT_TRUE(refused([](StripeInfo& s) { s.columns[0].length -= 1; }));
  EXPECT_TRUE(refused([](StripeInfo& s) { s.columns[0].shard = ShardId(); }));
  EXPECT_TRUE(refused([](StripeInfo& s) { s.columns[0].target = TargetId(); }));
  EXPECT_TRUE(refused([](StripeInfo& s) { s.columns[2].shard = ShardId(9); }));
  EXPECT_TRUE(refused([](StripeInfo& s) { s.columns[1].shard = s.columns[0].shard; }));
}

}  // namespace
}  // namespace stria
