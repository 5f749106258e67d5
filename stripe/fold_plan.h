// The fold planner: which columns that lie in stripes of their own, mirrored, are put together under one parity. Pure
// and deterministic; what carries a plan out is meta/service/fold.cc.
//
//     stripe 1   [aaaaaaa] [copy]            the fold   [aaaaaaa]   node 1
//     stripe 2   [bbbbbb ] [copy]     -->               [bbbbbb ]   node 2
//     stripe 3   [ccccccc] [copy]                       [ccccccc]   node 3
//                                                       [parity ]   node 4
//
// What is chosen from are *units*: the live columns of one stripe. They stay together, as the stripe that gives some of
// its columns away could not be decoded any more.
//
// Of every group:
//   1. its columns are `k`, all of them live, each in another failure domain;
//   2. with its parity it takes at most kMaxFoldPercent of its live bytes more than k+m columns of equal length
//      would: parity is as long as the longest column;
//   3. payload and references are within what one stripe and one transaction hold.
// No unit is in two groups. Lengths are bytes.
//
// Greedy: what is left of folds first, then from the longest column down, with the nearest by length that fit: neighbours
// waste little. O(n^2) for n units, but cheap: what is chosen already is only skipped. Safe from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/ids.h"
#include "stripe/placement.h"
#include "stripe/types.h"

namespace stria {

inline constexpr uint64_t kMaxFoldPercent = 5;   // of the live bytes, above (k+m)/k
inline constexpr uint32_t kMaxFoldRefs = 512;    // extents that one fold may bring together
inline constexpr uint32_t kMaxUnitRefs = 64;     // of one unit; more: it is left as it is
inline constexpr size_t kFoldReach = 256;        // units that are tried as partners of one

// What members have in common, and what a fold of them is to be.
struct FoldKind {
  uint8_t k = 1;
  uint8_t m = 1;
  Domain domain = Domain::kNode;
  auto operator<=>(const FoldKind&) const = default;
};

struct FoldColumn {
  ColumnIndex column;  // of its stripe
  DomainKey domain;
  uint64_t length = 0;  // > 0
  bool operator==(const FoldColumn&) const = default;
};
struct FoldUnit {
  StripeId stripe;
  std::vector<FoldColumn> columns;  // those that files use, of groups=1 stripes; not empty
  uint32_t refs = 0;                // extents that use the stripe
  bool operator==(const FoldUnit&) const = default;
};

// A stripe is to be folded (again) if it takes more than a fold of its live columns may, and has fewer live columns than
// a fold. A stripe that PlanFolds made is not, until one of its columns is dead: so folding ends.
// `live_bytes`, `live_columns`: of data columns that are used at all.
bool WantsFolding(const StripeShape& shape, uint64_t live_bytes, uint32_t live_columns, FoldKind kind);

// True if `columns_bytes` of data under m columns of `longest` keep to rule 2.
bool IsFoldWithinBound(uint64_t columns_bytes, uint64_t longest, FoldKind kind);

// One fold: the units by their place in the input. Its data columns are those of the units, in this order.
using FoldGroup = std::vector<size_t>;
// At most `max_groups`. Units of one kind; those whose columns share domains, or that are too much by themselves, are
// left out.
std::vector<FoldGroup> PlanFolds(std::span<const FoldUnit> units, FoldKind kind, size_t max_groups);

}  // namespace stria
