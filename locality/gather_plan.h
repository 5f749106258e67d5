// How a file's bytes are cut into gathered stripes, so that columns end where events do. Pure.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace stria {

struct GatherStripe {
  uint64_t offset = 0;            // in the file
  std::vector<uint64_t> columns;  // lengths, in file order
  uint64_t bytes() const;
  bool operator==(const GatherStripe&) const = default;
};

struct GatherPlanOptions {
  uint32_t columns = 4;           // of a stripe, at most
  uint64_t column_bytes = 0;      // about as long as columns should be
  uint64_t max_stripe_bytes = 0;  // >= column_bytes
};

// Stripes that cover `ranges` (offset, length: ascending, disjoint; the file without holes). A column ends at the last of
// `cuts` (ascending offsets) that it reaches. If none is in reach it goes on to the next cut, up to twice column_bytes, and
// beyond that it is cut at column_bytes. Without cuts all columns are column_bytes long. A small rest of a range is added to
// its last column.
std::vector<GatherStripe> PlanGather(const std::vector<std::pair<uint64_t, uint64_t>>& ranges,
                                     const std::vector<uint64_t>& cuts, const GatherPlanOptions& options);

// Where a file can be cut without cutting one of `parts`, each a set of ranges (offset, length) that belong together:
// the begin of every part that all parts before it end at or before.
std::vector<uint64_t> CutsBetween(std::vector<std::vector<std::pair<uint64_t, uint64_t>>> parts);

}  // namespace stria
