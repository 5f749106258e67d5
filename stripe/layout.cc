#include "stripe/layout.h"

#include <algorithm>
#include <string>

namespace stria {
namespace {

Error Corrupt(std::string what) { return Error(FsError::kCorrupt, std::move(what)); }

uint64_t SpreadColumnBytes(const StripeShape& shape, uint64_t column) {
  const uint64_t unit = shape.unit_bytes;
  const uint64_t row_bytes = shape.data_columns() * unit;
  const uint64_t rest = shape.payload_bytes % row_bytes;
  const uint64_t before = column * unit;
  return shape.payload_bytes / row_bytes * unit + (rest > before ? std::min(rest - before, unit) : 0);
}

uint64_t DataColumnBytes(const StripeShape& shape, uint64_t column) {
  return shape.gathered() ? shape.column_bytes[column] : SpreadColumnBytes(shape, column);
}

}  // namespace

Codec DefaultCodec(uint32_t k, uint32_t m) {
  if (m == 0) return Codec::kNone;
  if (k == 1) return Codec::kCopy;
  if (m == 1) return Codec::kXor;
  return m <= 3 ? Codec::kVandermonde : Codec::kCauchy;
}

bool CodecFits(Codec codec, uint32_t k, uint32_t m) {
  if (k < 1 || k > kMaxDataColumns || m > kMaxParity) return false;
  switch (codec) {
    case Codec::kNone:
      return m == 0;
    case Codec::kCopy:
      return k == 1 && m >= 1;
    case Codec::kXor:
      return m == 1;
    case Codec::kVandermonde:
      return m >= 1 && m <= 3;
    case Codec::kCauchy:
      return m >= 1;
  }
  return false;
}

Layout LayoutForPayload(Layout layout, uint64_t payload_bytes) {
  if (payload_bytes == 0 || layout.groups != 1) return layout;
  if (layout.arrangement == Arrangement::kGathered) {
    const uint64_t column = layout.stripe_bytes / layout.data_columns();
    const uint64_t columns = DivCeil(payload_bytes, column);
    if (columns >= layout.k) return layout;
    layout.k = static_cast<uint8_t>(columns);
    layout.codec = DefaultCodec(layout.k, layout.m);
    layout.stripe_bytes = columns * column;
    return layout;
  }
  const uint64_t units = DivCeil(payload_bytes, layout.unit_bytes);
  if (units >= layout.k) return layout;
  layout.k = static_cast<uint8_t>(std::max<uint64_t>(units, 1));
  layout.codec = DefaultCodec(layout.k, layout.m);
  layout.stripe_bytes = AlignUp(std::min(layout.stripe_bytes, payload_bytes), uint64_t{layout.k} * layout.unit_bytes);
  return layout;
}

StripeShape ShapeFor(const Layout& layout, uint64_t payload_bytes) {
  CHECK(payload_bytes > 0 && payload_bytes <= layout.stripe_bytes);
  StripeShape shape;
  shape.groups = layout.groups;
  shape.k = layout.k;
  shape.m = layout.m;
  shape.codec = layout.codec;
  shape.unit_bytes = layout.unit_bytes;
  shape.payload_bytes = payload_bytes;
  if (layout.arrangement == Arrangement::kGathered) {
    const uint64_t full = layout.stripe_bytes / layout.data_columns();
    uint64_t left = payload_bytes;
    for (uint32_t c = 0; c < layout.data_columns(); ++c) {
      const uint64_t bytes = std::min(left, full);
      shape.column_bytes.push_back(bytes);
      left -= bytes;
    }
    CHECK(left == 0, "stripe_bytes is a multiple of the number of data columns");
  }
  return shape;
}

Error ValidateShape(const StripeShape& shape) {
  if (shape.groups < 1) return Corrupt("a stripe has at least one group");
  if (shape.k < 1 || shape.k > kMaxDataColumns || shape.m > kMaxParity || shape.columns() > kMaxColumns) {
    return Corrupt("a stripe of " + std::to_string(shape.groups) + " groups of " + std::to_string(shape.k) +
                   "+" + std::to_string(shape.m) +
                   " columns is outside the limits of 32+4 in a group and 64 in all");
  }
  if (!CodecFits(shape.codec, shape.k, shape.m)) {
    return Corrupt("codec " + std::to_string(static_cast<int>(shape.codec)) + " cannot code " +
                   std::to_string(shape.k) + "+" + std::to_string(shape.m) + " columns");
  }
  if (shape.unit_bytes == 0 || shape.unit_bytes % (4 * kKiB) != 0 || shape.unit_bytes > kMaxStripeBytes) {
    return Corrupt("a unit of " + std::to_string(shape.unit_bytes) +
                   " bytes is not a multiple of 4 KiB up to 1 GiB");
  }
  if (shape.payload_bytes == 0 || shape.payload_bytes > kMaxStripeBytes) {
    return Corrupt("a stripe payload of " + std::to_string(shape.payload_bytes) +
                   " bytes is not within 1 byte to 1 GiB");
  }
  if (!shape.gathered()) return Error();
  if (shape.column_bytes.size() != shape.data_columns()) {
    return Corrupt("a gathered stripe of " + std::to_string(shape.data_columns()) + " data columns lists " +
                   std::to_string(shape.column_bytes.size()) + " lengths");
  }
  uint64_t sum = 0;  // <= 64 * 1 GiB: cannot overflow
  for (const uint64_t bytes : shape.column_bytes) {
    if (bytes > kMaxStripeBytes) return Corrupt("a gathered column is longer than 1 GiB");
    sum += bytes;
  }
  if (sum != shape.payload_bytes) {
    return Corrupt("the columns of a gathered stripe add up to " + std::to_string(sum) +
                   " bytes, its payload is " + std::to_string(shape.payload_bytes));
  }
  return Error();
}

Error ValidateStripe(const StripeInfo& info) {
  // Every read comes by here: nothing is put into words before something is wrong.
  const auto name = [&] { return "stripe " + std::to_string(info.id.v); };
  if (Error e = ValidateShape(info.shape); !e.ok()) return e.WithContext(name());
  if (info.columns.size() != info.shape.columns()) {
    return Corrupt(name() + " lists " + std::to_string(info.columns.size()) + " of its " +
                   std::to_string(info.shape.columns()) + " columns");
  }
  for (uint16_t c = 0; c < info.columns.size(); ++c) {
    const Column& column = info.columns[c];
    const uint64_t expected = ColumnBytes(info.shape, ColumnIndex(c));
    const auto where = [&] { return name() + " column " + std::to_string(c); };
    if (column.length != expected) {
      return Corrupt(where() + " is " + std::to_string(column.length) + " bytes long, its shape says " +
                     std::to_string(expected));
    }
    if (bool(column.shard) != (expected != 0) || bool(column.target) != (expected != 0)) {
      return Corrupt(where() +
                     (expected ? " has no shard or no target" : " is empty but has a shard or a target"));
    }
    const auto same = [&](const Column& other) { return other.shard == column.shard; };
    if (column.shard && std::any_of(info.columns.begin(), info.columns.begin() + c, same)) {
      return Corrupt(where() + " has the shard of another column");
    }
  }
  return Error();
}

uint32_t GroupOf(const StripeShape& shape, ColumnIndex column) {
  CHECK(column.v < shape.columns());
  if (!IsParity(shape, column)) return column.v / shape.k;
  return (column.v - shape.data_columns()) / shape.m;
}

uint32_t IndexInGroup(const StripeShape& shape, ColumnIndex column) {
  CHECK(column.v < shape.columns());
  if (!IsParity(shape, column)) return column.v % shape.k;
  return shape.k + (column.v - shape.data_columns()) % shape.m;
}

ColumnIndex ColumnOf(const StripeShape& shape, uint32_t group, uint32_t index_in_group) {
  CHECK(group < shape.groups && index_in_group < uint32_t{shape.k} + shape.m);
  const uint32_t column = index_in_group < shape.k
                              ? group * shape.k + index_in_group
                              : shape.data_columns() + group * shape.m + (index_in_group - shape.k);
  return ColumnIndex(static_cast<uint16_t>(column));
}

uint64_t ColumnBytes(const StripeShape& shape, ColumnIndex column) {
  if (IsParity(shape, column)) return GroupBytes(shape, GroupOf(shape, column));
  return DataColumnBytes(shape, column.v);
}

uint64_t GroupBytes(const StripeShape& shape, uint32_t group) {
  CHECK(group < shape.groups);
  const uint32_t first = group * shape.k;
  if (!shape.gathered()) return SpreadColumnBytes(shape, first);  // columns only get shorter
  return *std::max_element(shape.column_bytes.begin() + first, shape.column_bytes.begin() + first + shape.k);
}

uint64_t RowBytes(const StripeShape& shape) {
  return shape.gathered() ? shape.payload_bytes : uint64_t{shape.data_columns()} * shape.unit_bytes;
}

Location Locate(const StripeShape& shape, uint64_t payload_offset) {
  CHECK(payload_offset < shape.payload_bytes);
  const uint64_t left = shape.payload_bytes - payload_offset;
  const uint64_t unit = shape.unit_bytes;
  if (shape.gathered()) {
    uint64_t begin = 0;
    uint16_t c = 0;
    while (payload_offset - begin >= shape.column_bytes[c]) begin += shape.column_bytes[c++];
    return {ColumnIndex(c), payload_offset - begin, shape.column_bytes[c] - (payload_offset - begin)};
  }
  const uint64_t data_columns = shape.data_columns();
  if (data_columns == 1) return {ColumnIndex(0), payload_offset, left};
  const uint64_t in_unit = payload_offset % unit;
  const uint64_t unit_number = payload_offset / unit;
  return {ColumnIndex(static_cast<uint16_t>(unit_number % data_columns)),
          unit_number / data_columns * unit + in_unit, std::min(unit - in_unit, left)};
}

uint64_t PayloadOffset(const StripeShape& shape, ColumnIndex column, uint64_t shard_offset) {
  CHECK(!IsParity(shape, column) && shard_offset < DataColumnBytes(shape, column.v));
  if (shape.gathered()) {
    uint64_t begin = 0;
    for (uint16_t c = 0; c < column.v; ++c) begin += shape.column_bytes[c];
    return begin + shard_offset;
  }
  const uint64_t unit = shape.unit_bytes;
  return (shard_offset / unit * shape.data_columns() + column.v) * unit + shard_offset % unit;
}

std::vector<ShardRange> MapRange(const StripeShape& shape, uint64_t payload_offset, uint64_t length) {
  CHECK(payload_offset <= shape.payload_bytes && length <= shape.payload_bytes - payload_offset);
  std::vector<ShardRange> ranges;
  if (!shape.gathered()) ranges.reserve(length / shape.unit_bytes + 2);
  while (length > 0) {
    // A run ends where the column does, so neighbours never merge further.
    const Location at = Locate(shape, payload_offset);
    const uint64_t bytes = std::min(at.run_bytes, length);
    ranges.push_back({at.column, at.shard_offset, bytes, payload_offset});
    payload_offset += bytes;
    length -= bytes;
  }
  return ranges;
}

}  // namespace stria
