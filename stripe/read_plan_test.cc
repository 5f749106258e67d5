#include "stripe/read_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "common/random.h"
#include "common/sanitized.h"
#include "stripe/layout.h"
#include "stripe/layout_spec.h"

namespace stria {
namespace {

constexpr const char* kSpellings[] = {
    "linear",       "raid0:3",      "raid1:2", "raid1:4", "raid4:4+1", "raid5:2+1", "raid5:5+1",
    "raid6:3+2",    "raid6:6+2",    "rs:1+3",  "rs:4+3",  "rs:5+4",    "raid10:4",  "raid10:7",
    "raid50:2x2+1", "raid50:3x3+1", "rs:2+4",  "raid0:1", "raid5:1+1", "rs:8+1",
};

using Flags = std::vector<uint8_t>;

struct Stripe {
  StripeInfo info;
  std::vector<uint8_t> payload;
  std::vector<std::vector<uint8_t>> shards;
};

StripeShape RandomShape(Random& rng, bool large) {
  const std::string unit = large && rng.OneIn(2) ? ",unit=64K" : rng.OneIn(3) ? ",unit=8K" : ",unit=4K";
  Layout layout = *ParseLayout(kSpellings[rng.Below(std::size(kSpellings))] + unit);
  layout.stripe_bytes = layout.data_columns() * layout.unit_bytes * rng.Between(1, large ? 12 : 5);
  if (rng.OneIn(2)) layout.arrangement = Arrangement::kGathered;
  uint64_t payload_bytes = rng.OneIn(3) ? layout.stripe_bytes : rng.Between(1, layout.stripe_bytes);
  if (rng.OneIn(4)) payload_bytes = std::min<uint64_t>(layout.stripe_bytes, rng.Between(1, 10000));
  StripeShape shape = ShapeFor(layout, payload_bytes);
  if (shape.gathered() && rng.OneIn(2)) {  // ragged
    shape.payload_bytes = 0;
    for (uint64_t& bytes : shape.column_bytes) {
      bytes = rng.OneIn(5) ? 0 : rng.Below(large ? 150000 : 9000);
      shape.payload_bytes += bytes;
    }
    if (shape.payload_bytes == 0) shape.payload_bytes = shape.column_bytes.back() = 17;
  }
  return shape;
}

Stripe MakeStripe(const StripeShape& shape, Random& rng, CodecSet* codecs) {
  Stripe s;
  s.info.id = StripeId(4711);
  s.info.shape = shape;
  s.payload.resize(shape.payload_bytes);
  for (uint8_t& b : s.payload) b = static_cast<uint8_t>(rng.Next());
  s.shards.resize(shape.columns());
  for (uint16_t c = 0; c < shape.columns(); ++c) {
    const uint64_t length = ColumnBytes(shape, ColumnIndex(c));
    s.shards[c].resize(length);
    s.info.columns.push_back({ShardId(length ? c + 100u : 0), TargetId(length ? c + 1u : 0), length, 0});
  }
  for (const ShardRange& r : MapRange(shape, 0, shape.payload_bytes)) {
    std::copy_n(s.payload.begin() + r.payload_offset, r.length,
                s.shards[r.column.v].begin() + r.shard_offset);
  }
  for (uint32_t g = 0; g < shape.groups; ++g) {
    std::vector<std::span<const uint8_t>> data;
    std::vector<uint8_t*> parity;
    for (uint32_t i = 0; i < shape.k; ++i) data.emplace_back(s.shards[ColumnOf(shape, g, i).v]);
    for (uint32_t j = 0; j < shape.m; ++j)
      parity.push_back(s.shards[ColumnOf(shape, g, shape.k + j).v].data());
    codecs->For(shape).EncodePadded(data, parity, GroupBytes(shape, g));
  }
  EXPECT_TRUE(ValidateStripe(s.info).ok()) << ValidateStripe(s.info);
  return s;
}

std::vector<FetchedBytes> Fetch(const Stripe& s, const std::vector<FetchRange>& ranges,
                                const ReadOptions& options) {
  std::vector<FetchedBytes> fetched;
  for (const FetchRange& r : ranges) {
    EXPECT_EQ(std::count(options.unavailable.begin(), options.unavailable.end(), r.column), 0);
    EXPECT_LE(r.end(), s.shards[r.column.v].size());
    fetched.push_back(
        {r.column, r.shard_offset, std::span(s.shards[r.column.v]).subspan(r.shard_offset, r.length)});
  }
  return fetched;
}

bool Unavailable(const ReadOptions& options, ColumnIndex c) {
  return std::find(options.unavailable.begin(), options.unavailable.end(), c) != options.unavailable.end();
}

// The right result of a read of the marked positions of each column, worked out a byte at a time.
struct Oracle {
  uint64_t fetch_bytes = 0;
  std::vector<Flags> lost;  // by column, position
};

Oracle Expect(const Stripe& s, const std::vector<Flags>& wanted, const ReadOptions& options) {
  const StripeShape& shape = s.info.shape;
  Oracle oracle;
  for (const auto& shard : s.shards) oracle.lost.emplace_back(shard.size());
  Flags unavailable;
  for (uint16_t c = 0; c < shape.columns(); ++c) unavailable.push_back(Unavailable(options, ColumnIndex(c)));
  for (uint32_t g = 0; g < shape.groups; ++g) {
    std::vector<uint16_t> columns;
    for (uint32_t i = 0; i < uint32_t{shape.k} + shape.m; ++i) columns.push_back(ColumnOf(shape, g, i).v);
    for (uint64_t p = 0; p < GroupBytes(shape, g); ++p) {
      uint64_t zeros = 0, usable = 0, as_they_are = 0, to_decode = 0;
      for (const uint16_t c : columns) {
        const bool gone = unavailable[c], is_there = p < s.shards[c].size();
        zeros += !is_there;
        usable += !is_there || !gone;
        if (is_there && wanted[c][p]) ++(gone ? to_decode : as_they_are);
      }
      const bool decodes = usable >= shape.k;
      for (const uint16_t c : columns) {
        if (p < s.shards[c].size() && wanted[c][p] && unavailable[c] && !decodes) {
          oracle.lost[c][p] = true;
        }
      }
      oracle.fetch_bytes += to_decode > 0 && decodes ? shape.k - zeros : as_they_are;
    }
  }
  return oracle;
}

void CheckRead(const Stripe& s, uint64_t offset, uint64_t length, ReadOptions options, CodecSet* codecs) {
  const StripeShape& shape = s.info.shape;
  std::vector<Flags> wanted;
  for (const auto& shard : s.shards) wanted.emplace_back(shard.size());
  for (const ShardRange& r : MapRange(shape, offset, length)) {
    for (uint64_t i = 0; i < r.length; ++i) wanted[r.column.v][r.shard_offset + i] = true;
  }
  const Oracle oracle = Expect(s, wanted, options);
  options.whole_blocks = false;
  const Result<ReadPlan> plan = PlanRead(s.info, offset, length, options);
  ASSERT_TRUE(plan.ok()) << plan.error();
  EXPECT_EQ(plan->fetch_bytes(), oracle.fetch_bytes);
  EXPECT_EQ(MergeRanges(plan->fetch), plan->fetch);
  for (size_t i = 1; i < plan->direct.size(); ++i) {
    EXPECT_LT(plan->direct[i - 1].out_offset, plan->direct[i].out_offset);
  }

  Flags lost(length);
  for (const ByteRange& r : plan->lost) std::fill_n(lost.begin() + (r.offset - offset), r.length, true);
  EXPECT_EQ(LostBytes(*plan).code, plan->lost.empty() ? FsError::kOk : FsError::kIo);
  std::vector<uint8_t> out(length, 0xa5), expected(length, 0xa5);
  for (const ShardRange& r : MapRange(shape, offset, length)) {
    for (uint64_t i = 0; i < r.length; ++i) {
      const uint64_t at = r.payload_offset + i - offset;
      ASSERT_EQ(lost[at], oracle.lost[r.column.v][r.shard_offset + i]) << "payload byte " << offset + at;
      if (!lost[at]) expected[at] = s.payload[offset + at];
    }
  }
  Error e = AssembleRead(*plan, Fetch(s, plan->fetch, options), out, codecs);
  ASSERT_TRUE(e.ok()) << e;
  ASSERT_EQ(out, expected);

  // In whole blocks: the same bytes.
  options.whole_blocks = true;
  const Result<ReadPlan> blocks = PlanRead(s.info, offset, length, options);
  ASSERT_TRUE(blocks.ok());
  EXPECT_EQ(blocks->decode, plan->decode);
  EXPECT_TRUE(MissingRanges(plan->fetch, blocks->fetch).empty());
  for (const FetchRange& r : blocks->fetch) {
    EXPECT_EQ(r.shard_offset % kChecksumBlockBytes, 0u);
    EXPECT_TRUE(r.end() % kChecksumBlockBytes == 0 || r.end() == ColumnBytes(shape, r.column));
  }
  std::fill(out.begin(), out.end(), 0xa5);
  e = AssembleRead(*blocks, Fetch(s, blocks->fetch, options), out, codecs);
  ASSERT_TRUE(e.ok()) << e;
  ASSERT_EQ(out, expected);
}

ReadOptions RandomOptions(const StripeShape& shape, Random& rng) {
  ReadOptions options;
  for (uint64_t n = rng.Below(shape.m + 3u); n > 0; --n) {
    options.unavailable.emplace_back(static_cast<uint16_t>(rng.Below(shape.columns())));
  }
  if (rng.OneIn(3)) {
    for (uint32_t c = 0; c < shape.columns(); ++c)
      options.cost.push_back(static_cast<uint32_t>(rng.Below(3)));
  }
  return options;
}

TEST(ReadPlan, RandomReadsGiveThePayloadForTheFewestBytes) {
  CodecSet codecs;
  for (uint64_t seed = 1; seed <= (kSanitized ? 200 : 500); ++seed) {
    SCOPED_TRACE(seed);
    Random rng(seed);
    const bool large = seed % 25 == 0;
    const Stripe s = MakeStripe(RandomShape(rng, large), rng, &codecs);
    const uint64_t size = s.payload.size();
    for (int i = 0; i < (large ? 2 : 4); ++i) {
      uint64_t offset = rng.Below(size + 1);
      uint64_t length = rng.Below(size - offset + 1);
      if (rng.OneIn(4)) offset = 0, length = size;
      if (rng.OneIn(4)) length = std::min<uint64_t>(length, rng.Below(200));
      CheckRead(s, offset, length, RandomOptions(s.info.shape, rng), &codecs);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(ReadPlan, RandomColumnReadsGiveTheShard) {
  CodecSet codecs;
  for (uint64_t seed = 1; seed <= (kSanitized ? 160 : 400); ++seed) {
    SCOPED_TRACE(seed);
    Random rng(seed);
    const Stripe s = MakeStripe(RandomShape(rng, false), rng, &codecs);
    const ColumnIndex column(static_cast<uint16_t>(rng.Below(s.shards.size())));
    const std::vector<uint8_t>& shard = s.shards[column.v];
    ReadOptions options = RandomOptions(s.info.shape, rng);
    if (rng.OneIn(2)) options.unavailable.push_back(column);
    const uint64_t offset = rng.OneIn(2) ? 0 : rng.Below(shard.size() + 1);
    const uint64_t length = rng.OneIn(2) ? shard.size() - offset : rng.Below(shard.size() - offset + 1);
    std::vector<Flags> wanted;
    for (const auto& bytes : s.shards) wanted.emplace_back(bytes.size());
    std::fill_n(wanted[column.v].begin() + offset, length, true);
    const Oracle oracle = Expect(s, wanted, options);
    options.whole_blocks = false;
    const auto plan = PlanColumnRead(s.info, column, offset, length, options);
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(plan->fetch_bytes(), oracle.fetch_bytes);
    std::vector<uint8_t> out(length, 0xa5), expected(shard.begin() + offset, shard.begin() + offset + length);
    uint64_t lost = 0;
    for (const ByteRange& r : plan->lost) {
      for (uint64_t p = r.offset; p < r.end(); ++p, ++lost) {
        ASSERT_TRUE(oracle.lost[column.v][p]);
        expected[p - offset] = 0xa5;
      }
    }
    ASSERT_EQ(lost, static_cast<uint64_t>(
                        std::count(oracle.lost[column.v].begin(), oracle.lost[column.v].end(), true)));
    const Error e = AssembleRead(*plan, Fetch(s, plan->fetch, options), out, &codecs);
    ASSERT_TRUE(e.ok()) << e;
    ASSERT_EQ(out, expected);
  }
}

// A reader finds columns bad one after the other and fetches only missing ranges.
TEST(ReadPlan, ReplanningFetchesOnlyWhatIsMissing) {
  CodecSet codecs;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Random rng(seed);
    const Stripe s = MakeStripe(RandomShape(rng, seed % 10 == 0), rng, &codecs);
    const uint64_t offset = rng.Below(s.payload.size());
    const uint64_t length = rng.Below(s.payload.size() - offset) + 1;
    ReadOptions options;
    options.whole_blocks = rng.OneIn(2);
    std::vector<FetchRange> have;
    std::vector<FetchedBytes> fetched;
    for (uint32_t bad = 0; bad <= s.info.shape.m; ++bad) {
      const auto plan = PlanRead(s.info, offset, length, options);
      ASSERT_TRUE(plan.ok());
      ASSERT_TRUE(plan->lost.empty());
      const auto missing = MissingRanges(plan->fetch, have);
      for (const FetchRange& m : missing) {
        for (const FetchRange& h : have) {
          EXPECT_TRUE(m.column != h.column || m.end() <= h.shard_offset || h.end() <= m.shard_offset);
        }
      }
      for (const FetchedBytes& f : Fetch(s, missing, options)) fetched.push_back(f);
      have.insert(have.end(), missing.begin(), missing.end());
      std::vector<uint8_t> out(length);
      const Error e = AssembleRead(*plan, fetched, out, &codecs);
      ASSERT_TRUE(e.ok()) << e;
      ASSERT_TRUE(std::equal(out.begin(), out.end(), s.payload.begin() + offset));
      if (plan->fetch.empty()) break;
      const ColumnIndex failed = plan->fetch[rng.Below(plan->fetch.size())].column;
      options.unavailable.push_back(failed);
      std::erase_if(have, [&](const FetchRange& r) { return r.column == failed; });
      std::erase_if(fetched, [&](const FetchedBytes& f) { return f.column == failed; });
    }
  }
}

StripeShape Shape(const char* spelling, uint64_t payload_bytes) {
  const auto layout = ParseLayout(spelling);
  EXPECT_TRUE(layout.ok()) << layout.error();
  return ShapeFor(*layout, payload_bytes);
}

ColumnIndex C(uint16_t c) { return ColumnIndex(c); }

TEST(ReadPlan, DecodesOnlyThePositionsAskedFor) {
  Random rng(1);
  CodecSet codecs;
  const Stripe s = MakeStripe(Shape("raid5:4+1,unit=64K,stripe=1M", kMiB), rng, &codecs);
  ReadOptions options{{C(1)}, {}, false};
  // 100 bytes in column 1, row 2.
  const auto plan = PlanRead(s.info, (2 * 4 + 1) * 65536 + 1000, 100, options);
  ASSERT_TRUE(plan.ok());
  const uint64_t at = 2 * 65536 + 1000;
  EXPECT_EQ(plan->fetch,
            (std::vector<FetchRange>{{C(0), at, 100}, {C(2), at, 100}, {C(3), at, 100}, {C(4), at, 100}}));
  EXPECT_TRUE(plan->direct.empty());
  EXPECT_EQ(plan->decode, (std::vector<DecodeGroup>{{0, at, 100, {{C(0)}, {C(2)}, {C(3)}, {C(4)}}, {C(1)}}}));
  options.whole_blocks = true;
  const auto blocks = PlanRead(s.info, (2 * 4 + 1) * 65536 + 1000, 100, options);
  ASSERT_TRUE(blocks.ok());
  EXPECT_EQ(blocks->fetch_bytes(), 4 * 65536u);
  EXPECT_EQ(blocks->fetch[0], (FetchRange{C(0), 2 * 65536, 65536}));
}

TEST(ReadPlan, ShortStripesDecodeFromOneShard) {
  Random rng(1);
  CodecSet codecs;
  const Stripe s = MakeStripe(Shape("raid6:4+2", 10000), rng, &codecs);
  const auto plan = PlanRead(s.info, 5, 20, {{C(0), C(4)}, {}, false});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->fetch, (std::vector<FetchRange>{{C(5), 5, 20}}));
}

TEST(ReadPlan, CheapColumnsArePreferred) {
  Random rng(1);
  CodecSet codecs;
  const Stripe copies = MakeStripe(Shape("raid1:3", 10000), rng, &codecs);
  auto plan = PlanRead(copies.info, 0, 10000, {{}, {5, 1, 0}, false});
  EXPECT_EQ(plan->fetch, (std::vector<FetchRange>{{C(2), 0, 10000}}));
  EXPECT_TRUE(plan->decode.empty());
  plan = PlanRead(copies.info, 0, 10000, {{C(2)}, {5, 1, 0}, false});
  EXPECT_EQ(plan->fetch, (std::vector<FetchRange>{{C(1), 0, 10000}}));
  plan = PlanRead(copies.info, 0, 10000, {{}, {1, 1, 1}, false});
  EXPECT_EQ(plan->fetch, (std::vector<FetchRange>{{C(0), 0, 10000}}));
  // A scrub of one copy reads that copy.
  plan = PlanColumnRead(copies.info, C(1), 0, 10000, {{}, {0, 9, 0}, false});
  EXPECT_EQ(plan->fetch, (std::vector<FetchRange>{{C(1), 0, 10000}}));

  const Stripe parity = MakeStripe(Shape("raid6:3+2,unit=4K,stripe=12K", 3 * 4096), rng, &codecs);
  plan = PlanRead(parity.info, 0, 10, {{C(0)}, {}, false});
  EXPECT_EQ(plan->fetch, (std::vector<FetchRange>{{C(1), 0, 10}, {C(2), 0, 10}, {C(3), 0, 10}}));
  plan = PlanRead(parity.info, 0, 10, {{C(0)}, {0, 7, 0, 1, 1}, false});
  EXPECT_EQ(plan->fetch, (std::vector<FetchRange>{{C(2), 0, 10}, {C(3), 0, 10}, {C(4), 0, 10}}));
}

TEST(ReadPlan, LostRangesAreNamedExactly) {
  Random rng(1);
  CodecSet codecs;
  const Stripe s = MakeStripe(Shape("raid5:2+1,unit=4K,stripe=64K", 5 * 4096), rng, &codecs);
  // Column 0 is 3 units long, column 1 is 2: the last unit is covered by the parity alone.
  const auto plan = PlanRead(s.info, 0, 5 * 4096, {{C(0), C(1)}, {}, false});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->lost, (std::vector<ByteRange>{{0, 4 * 4096}}));
  EXPECT_EQ(plan->fetch, (std::vector<FetchRange>{{C(2), 8192, 4096}}));
  EXPECT_EQ(LostBytes(*plan).ToString(),
            "Io: stripe 4711 cannot give bytes 0-16383 of its payload: more columns are unavailable than its "
            "parity makes up for");
  const auto parts = PlanRead(s.info, 0, 5 * 4096, {{C(0), C(2)}, {}, false});
  EXPECT_EQ(parts->lost, (std::vector<ByteRange>{{0, 4096}, {8192, 4096}, {16384, 4096}}));
  EXPECT_NE(LostBytes(*parts).message.find("0-4095, 8192-12287, 16384-20479"), std::string::npos);
  const Stripe many = MakeStripe(Shape("raid0:2,unit=4K,stripe=64K", 65536), rng, &codecs);
  const auto plan_many = PlanRead(many.info, 0, 65536, {{C(1)}, {}, false});
  EXPECT_EQ(plan_many->lost.size(), 8u);
  EXPECT_NE(LostBytes(*plan_many).message.find("and 4 more ranges"), std::string::npos);
}

TEST(ReadPlan, RangesBeyondTheStripeAreCorrupt) {
  Random rng(1);
  CodecSet codecs;
  const Stripe s = MakeStripe(Shape("raid5:2+1", 1000), rng, &codecs);
  EXPECT_EQ(PlanRead(s.info, 0, 1001, {}).code(), FsError::kCorrupt);
  EXPECT_EQ(PlanRead(s.info, 1001, 0, {}).code(), FsError::kCorrupt);
  EXPECT_EQ(PlanRead(s.info, 1, ~uint64_t{0}, {}).code(), FsError::kCorrupt);
  EXPECT_EQ(PlanColumnRead(s.info, C(1), 0, 1, {}).code(), FsError::kCorrupt);
  EXPECT_TRUE(PlanRead(s.info, 1000, 0, {}).ok());
}

TEST(ReadPlan, AssembleSaysWhatWasNotFetched) {
  Random rng(1);
  CodecSet codecs;
  const Stripe s = MakeStripe(Shape("raid5:2+1,unit=4K,stripe=16K", 16384), rng, &codecs);
  const auto plan = PlanRead(s.info, 0, 16384, {{C(0)}, {}, false});
  std::vector<FetchedBytes> fetched = Fetch(s, plan->fetch, {});
  ASSERT_EQ(fetched.size(), 2u);
  std::vector<uint8_t> out(16384);
  fetched[1].bytes = fetched[1].bytes.first(5000);
  EXPECT_EQ(AssembleRead(*plan, fetched, out, &codecs).ToString(),
            "Io: stripe 4711 column 2 gave no bytes from 5000 on");
  EXPECT_EQ(AssembleRead(*plan, {}, out, &codecs).code, FsError::kIo);
}

TEST(ReadPlan, BytesThatLieInPlaceAreNotCopied) {
  Random rng(1);
  CodecSet codecs;
  const Stripe s = MakeStripe(Shape("linear", 100000), rng, &codecs);
  const auto plan = PlanRead(s.info, 100, 5000, {{}, {}, false});
  std::vector<uint8_t> out(s.payload.begin() + 100, s.payload.begin() + 5100);
  const FetchedBytes in_place{C(0), 100, out};
  EXPECT_TRUE(AssembleRead(*plan, {&in_place, 1}, out, &codecs).ok());
  EXPECT_TRUE(std::equal(out.begin(), out.end(), s.payload.begin() + 100));
}

TEST(ReadPlan, RangesMergeAndSubtract) {
  EXPECT_EQ(
      MergeRanges({{C(1), 5, 5}, {C(0), 0, 3}, {C(1), 0, 5}, {C(1), 20, 1}, {C(0), 9, 0}, {C(1), 2, 2}}),
      (std::vector<FetchRange>{{C(0), 0, 3}, {C(1), 0, 10}, {C(1), 20, 1}}));
  EXPECT_EQ(MissingRanges({{C(0), 0, 100}, {C(1), 10, 10}},
                          {{C(0), 10, 5}, {C(0), 50, 60}, {C(1), 0, 50}, {C(2), 0, 9}}),
            (std::vector<FetchRange>{{C(0), 0, 10}, {C(0), 15, 35}}));
  EXPECT_EQ(MissingRanges({{C(3), 4, 4}}, {}), (std::vector<FetchRange>{{C(3), 4, 4}}));
}

}  // namespace
}  // namespace stria
