// Which node holds which bytes of a file: pure. Ranges are of the file, in bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "api/meta_api.h"

namespace stria {

// How a target stands for a reader: "ok", "suspect", "down", "draining", "failed", "absent", "out", "gone".
const char* TargetHealth(const ClusterMap& map, TargetId id);

struct WhereRow {
  uint64_t offset = 0;
  uint64_t length = 0;
  std::string role;    // "data", "parity", "copy", "meta" (inline bytes), "hole"
  std::string node;    // "n3", or "meta", "-"
  std::string disk;    // "d2", or "-"
  std::string health;  // TargetHealth()
  StripeId stripe;     // 0 for meta and hole
  bool operator==(const WhereRow&) const = default;
};

// The rows of [offset, offset + length), which lies in the file: first the rows of the bytes themselves, in file order and
// without gaps, then the redundancy that covers them, one stripe after another. A row of redundancy has the range of the file's
// bytes of its stripe that it helps to restore. Neighbours that differ only in the range are merged (also over stripes).
// REQUIRES: `extents` sorted and disjoint; `stripes` has their stripes (missing ones give health "gone").
std::vector<WhereRow> WhereRows(const std::vector<Extent>& extents, const std::vector<StripeGrant>& stripes,
                                const ClusterMap& map, uint64_t offset, uint64_t length);

// Rows of consecutive parts of a range, as they came one after another, as WhereRows gives them of all of it. A part ends anywhere; rows of
// redundancy are in the part in which their extent's share of the range ends, and have the range of all of it.
std::vector<WhereRow> JoinRows(std::vector<WhereRow> parts);

bool IsRedundancy(const WhereRow& row);  // parity or a copy, else the bytes themselves

// Whether a row's bytes can be read where the row says, as far as the metadata server knows. A suspect node may come back;
// until then its bytes are decoded.
bool IsReadable(const WhereRow& row);

// Per node: bytes of data, and bytes of redundancy.
struct HostShare {
  std::string node;
  uint64_t data_bytes = 0;
  uint64_t redundancy_ranges = 0;  // rows of parity or copies
  std::string health;              // the worst of its rows
  bool operator==(const HostShare&) const = default;
};
std::vector<HostShare> ByHost(const std::vector<WhereRow>& rows);

// "OFF+LEN", "OFF+" (to the end); numbers are bytes or have K, M, G, T behind them. The result is cut at
// `file_bytes`. kInval with a sentence otherwise.
Result<std::pair<uint64_t, uint64_t>> ParseRange(const std::string& text, uint64_t file_bytes);
// "4K" -> 4096.
Result<uint64_t> ParseBytes(const std::string& text);

}  // namespace stria
