#include "stripe/relaid.h"

#include <algorithm>
#include <utility>

#include "common/check.h"
#include "stripe/checksum.h"
#include "stripe/layout.h"

namespace stria {
namespace {

// A block of a column: the register of its bytes alone, and how many they are.
struct Block {
  uint32_t bare = 0;
  uint64_t bytes = 0;
};

// Adds where blocks and runs of the shape end.
void AddEnds(const StripeShape& shape, std::vector<uint64_t>* ends) {
  for (const ShardRange& r : MapRange(shape, 0, shape.payload_bytes)) {
    const uint64_t end = r.shard_offset + r.length;
    const uint64_t first = AlignDown(r.shard_offset, kChecksumBlockBytes) + kChecksumBlockBytes;
    for (uint64_t at = first; at < end; at += kChecksumBlockBytes) {
      ends->push_back(r.payload_offset + (at - r.shard_offset));
    }
    ends->push_back(r.payload_offset + r.length);
  }
}

std::vector<std::vector<Block>> BlocksOfData(const StripeShape& shape, std::span<const uint64_t> ends,
                                             std::span<const uint32_t> registers) {
  std::vector<std::vector<Block>> out(shape.data_columns());
  size_t piece = 0;
  uint64_t at = 0;
  for (const ShardRange& r : MapRange(shape, 0, shape.payload_bytes)) {
    std::vector<Block>& blocks = out[r.column.v];
    for (const uint64_t end = r.payload_offset + r.length; at < end; at = ends[piece++]) {
      CHECK(piece < ends.size() && ends[piece] > at && ends[piece] <= end, "the pieces are of other stripes");
      const uint64_t bytes = ends[piece] - at;
      if (blocks.empty() || blocks.back().bytes == kChecksumBlockBytes) blocks.emplace_back();
      Block& b = blocks.back();
      b.bare = JoinRegisters(b.bare, registers[piece], bytes);
      b.bytes += bytes;
    }
  }
  return out;
}

// A shorter column counts as filled with zeros.
std::vector<Block> XorOf(std::span<const std::vector<Block>> columns, uint64_t length) {
  std::vector<Block> out(ChecksumBlocks(length));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].bytes = std::min(kChecksumBlockBytes, length - i * kChecksumBlockBytes);
    for (const std::vector<Block>& c : columns) {
      if (i < c.size()) out[i].bare ^= JoinRegisters(c[i].bare, 0, out[i].bytes - c[i].bytes);
    }
  }
  return out;
}

std::vector<uint32_t> TableOf(ShardId shard, const std::vector<Block>& blocks) {
  std::vector<uint32_t> out;
  for (size_t i = 0; i < blocks.size(); ++i) out.push_back(BlockCrcOf(shard, i, blocks[i].bare, blocks[i].bytes));
  return out;
}

}  // namespace

std::vector<uint64_t> PiecesOf(const StripeShape& from, const StripeShape& to) {
  CHECK(from.payload_bytes == to.payload_bytes);
  std::vector<uint64_t> ends;
  AddEnds(from, &ends);
  AddEnds(to, &ends);
  std::ranges::sort(ends);
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  return ends;
}

std::vector<std::optional<std::vector<uint32_t>>> TablesFromPieces(const StripeInfo& info, std::span<const uint64_t> ends,
                                                                  std::span<const uint32_t> registers) {
  CHECK(ends.size() == registers.size());
  const StripeShape& shape = info.shape;
  const std::vector<std::vector<Block>> data = BlocksOfData(shape, ends, registers);
  std::vector<std::optional<std::vector<uint32_t>>> out;
  for (uint16_t c = 0; c < shape.columns(); ++c) {
    const ShardId shard = info.columns[c].shard;
    if (c < shape.data_columns()) {
      out.push_back(TableOf(shard, data[c]));
      continue;
    }
    const uint32_t g = GroupOf(shape, ColumnIndex(c));
    const bool sums = shape.codec == Codec::kXor || shape.codec == Codec::kCopy;  // a copy is the sum of one
    const auto group = std::span(data).subspan(uint64_t{g} * shape.k, shape.k);
    out.push_back(sums ? std::optional(TableOf(shard, XorOf(group, GroupBytes(shape, g)))) : std::nullopt);
  }
  return out;
}

}  // namespace stria
