// For tests that write no bytes: what a node says of the payload of a stripe of which only the checksums of the data columns are known.
#pragma once

#include <cstdint>
#include <vector>

#include "stripe/checksum_testing.h"
#include "stripe/layout.h"
#include "stripe/relaid.h"

namespace stria {

// One register for each of PiecesOf(from.shape, to), by which the data columns of `from` have these tables. `table_of(column)` gives
// the table of a Column.
template <class TableOf>
std::vector<uint32_t> PiecesWithTables(const StripeInfo& from, const StripeShape& to, TableOf table_of) {
  std::vector<std::vector<uint32_t>> tables;
  for (const Column& c : from.columns) tables.push_back(c.shard ? table_of(c) : std::vector<uint32_t>());
  std::vector<uint32_t> out;
  for (const uint64_t end : PiecesOf(from.shape, to)) {
    const Location last = Locate(from.shape, end - 1);
    const Column& column = from.columns[last.column.v];
    const uint64_t in_column = last.shard_offset + 1, block = last.shard_offset / kChecksumBlockBytes;
    const bool block_ends = in_column % kChecksumBlockBytes == 0 || in_column == column.length;
    // The last piece of a block makes up for all before it, which are zeros.
    const uint64_t bytes = in_column - block * kChecksumBlockBytes;
    out.push_back(block_ends ? BlockCrcOf(column.shard, block, 0, bytes) ^ tables[last.column.v][block] : 0);
  }
  return out;
}
// With those of checksum_testing.h.
inline std::vector<uint32_t> TestPieces(const StripeInfo& from, const StripeShape& to) {
  return PiecesWithTables(from, to, [](const Column& c) { return TestTable(c.shard, c.length); });
}

// The digests of the columns of `to` then; of parity that does not follow from the payload, as in checksum_testing.h.
inline std::vector<uint64_t> DigestsOfPieces(const StripeInfo& from, const StripeInfo& to, const std::vector<uint32_t>& pieces) {
  std::vector<uint64_t> out;
  const auto tables = TablesFromPieces(to, PiecesOf(from.shape, to.shape), pieces);
  for (size_t i = 0; i < tables.size(); ++i) {
    const Column& c = to.columns[i];
    if (!c.shard) out.push_back(0);
    else out.push_back(tables[i] ? TableDigest(*tables[i], c.length) : TestDigest(c.shard, c.length));
  }
  return out;
}

}  // namespace stria
