#include "stripe/relaid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "common/random.h"
#include "stripe/checksum.h"
#include "stripe/layout.h"

namespace stria {
namespace {

using Bytes = std::vector<uint8_t>;

StripeShape Spread(uint8_t groups, uint8_t k, uint8_t m, uint32_t unit, uint64_t payload) {
  StripeShape s;
  s.groups = groups;
  s.k = k;
  s.m = m;
  s.codec = DefaultCodec(k, m);
  s.unit_bytes = unit;
  s.payload_bytes = payload;
  return s;
}

StripeShape Gathered(std::vector<uint64_t> columns, uint8_t m) {
  StripeShape s = Spread(1, static_cast<uint8_t>(columns.size()), m, kDefaultUnitBytes, 0);
  for (const uint64_t c : columns) s.payload_bytes += c;
  s.column_bytes = std::move(columns);
  return s;
}

StripeInfo Info(const StripeShape& shape, uint64_t first_shard) {
  StripeInfo info;
  info.id = StripeId(1);
  info.shape = shape;
  for (uint16_t c = 0; c < shape.columns(); ++c) {
    Column column;
    column.length = ColumnBytes(shape, ColumnIndex(c));
    if (column.length > 0) column.shard = ShardId(first_shard + c);
    info.columns.push_back(column);
  }
  return info;
}

// The bytes of the data columns, and of the sum of each group.
std::vector<Bytes> ColumnsOf(const StripeShape& shape, const Bytes& payload) {
  std::vector<Bytes> out(shape.columns());
  for (uint16_t c = 0; c < shape.columns(); ++c) out[c].resize(ColumnBytes(shape, ColumnIndex(c)));
  for (uint64_t b = 0; b < payload.size();) {
    const Location at = Locate(shape, b);
    const uint64_t n = std::min<uint64_t>(at.run_bytes, payload.size() - b);
    std::copy_n(payload.begin() + static_cast<ptrdiff_t>(b), n, out[at.column.v].begin() + static_cast<ptrdiff_t>(at.shard_offset));
    b += n;
  }
  for (uint16_t c = static_cast<uint16_t>(shape.data_columns()); c < shape.columns(); ++c) {
    for (uint32_t i = 0; i < shape.k; ++i) {
      const Bytes& data = out[ColumnOf(shape, GroupOf(shape, ColumnIndex(c)), i).v];
      for (size_t b = 0; b < data.size(); ++b) out[c][b] ^= data[b];
    }
  }
  return out;
}

std::vector<uint32_t> RegistersOf(const Bytes& payload, const std::vector<uint64_t>& ends) {
  std::vector<uint32_t> out;
  uint64_t at = 0;
  for (const uint64_t end : ends) {
    out.push_back(BareRegister(std::span(payload).subspan(at, end - at)));
    at = end;
  }
  return out;
}

void ExpectTables(const StripeInfo& info, const Bytes& payload, const std::vector<uint64_t>& ends) {
  const auto tables = TablesFromPieces(info, ends, RegistersOf(payload, ends));
  const std::vector<Bytes> columns = ColumnsOf(info.shape, payload);
  ASSERT_EQ(tables.size(), columns.size());
  const bool sums = info.shape.codec == Codec::kXor || info.shape.codec == Codec::kCopy;
  for (uint16_t c = 0; c < columns.size(); ++c) {
    if (IsParity(info.shape, ColumnIndex(c)) && !sums) {
      EXPECT_FALSE(tables[c]) << "column " << c;
      continue;
    }
    ASSERT_TRUE(tables[c]) << "column " << c;
    EXPECT_EQ(*tables[c], ChecksumTable(info.columns[c].shard, columns[c])) << "column " << c;
  }
}

TEST(Relaid, BothFormsFollowFromThePiecesOfThePayload) {
  Random rng(5);
  for (const uint64_t length : {uint64_t{1}, uint64_t{4096}, kMiB, kMiB + 17, 3 * kMiB - 1, 1 + rng.Below(4 * kMiB)}) {
    const std::vector<std::pair<StripeShape, StripeShape>> rows = {
        {Spread(1, 2, 1, 256 * kKiB, length), Spread(1, 4, 1, 256 * kKiB, length)},
        {Spread(1, 3, 1, 64 * kKiB, length), Spread(1, 4, 2, 64 * kKiB, length)},
        {Spread(1, 2, 2, 4 * kKiB, length), Spread(1, 5, 1, 4 * kKiB, length)},
        {Spread(1, 2, 1, 12 * kKiB, length), Spread(1, 3, 1, 12 * kKiB, length)},
        {Spread(1, 1, 1, 256 * kKiB, length), Spread(2, 1, 2, 256 * kKiB, length)},
        {Spread(1, 2, 0, 256 * kKiB, length), Spread(2, 2, 1, 256 * kKiB, length)},
        {Gathered({length}, 0), Gathered({length}, 2)},
        {Gathered({length / 3, length - length / 3}, 1), Spread(1, 4, 1, 64 * kKiB, length)},
    };
    Bytes payload(length);
    for (uint8_t& b : payload) b = static_cast<uint8_t>(rng.Next());
    for (size_t i = 0; i < rows.size(); ++i) {
      SCOPED_TRACE("row " + std::to_string(i) + ", " + std::to_string(length) + " bytes");
      const auto& [from, to] = rows[i];
      const std::vector<uint64_t> ends = PiecesOf(from, to);
      ASSERT_EQ(ends.back(), length);
      ExpectTables(Info(from, 100), payload, ends);
      ExpectTables(Info(to, 200), payload, ends);
    }
  }
}

TEST(Relaid, AnyOtherPieceGivesADataColumnAnotherTable) {
  Random rng(6);
  const StripeShape from = Spread(1, 2, 1, 64 * kKiB, kMiB), to = Spread(1, 4, 1, 64 * kKiB, kMiB);
  Bytes payload(kMiB);
  for (uint8_t& b : payload) b = static_cast<uint8_t>(rng.Next());
  const std::vector<uint64_t> ends = PiecesOf(from, to);
  const std::vector<uint32_t> registers = RegistersOf(payload, ends);
  const StripeInfo info = Info(to, 7);
  const auto right = TablesFromPieces(info, ends, registers);
  for (size_t i = 0; i < registers.size(); ++i) {
    std::vector<uint32_t> other = registers;
    other[i] ^= 1 + static_cast<uint32_t>(rng.Below(UINT32_MAX));
    size_t differ = 0;
    const auto wrong = TablesFromPieces(info, ends, other);
    for (size_t c = 0; c < to.data_columns(); ++c) differ += wrong[c] != right[c];
    EXPECT_EQ(differ, 1u) << "piece " << i;
  }
}

}  // namespace
}  // namespace stria
