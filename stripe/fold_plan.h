// The fold planner: which mirrored columns of separate stripes get one parity together. Pure and deterministic;
// meta/upkeep/folder.cc carries plans out (docs/folding.md).
//
//     stripe 1   [aaaaaaa] [copy]            the fold   [aaaaaaa]   node 1
//     stripe 2   [bbbbbb ] [copy]     -->               [bbbbbb ]   node 2
//     stripe 3   [ccccccc] [copy]                       [ccccccc]   node 3
//                                                       [parity ]   node 4
//
// It chooses from *units*: the live columns of one stripe. They stay together, because a stripe that gave some of its columns
// away could not be decoded any more.
//
// Each group:
//   1. its columns are live, each in another failure domain, and at most m of them on one node;
//   2. payload and references are within what one stripe and one transaction hold;
//   3. FoldRule::kTight: its columns are k, and with its parity, which is as long as the longest of them, it takes at most
//      kMaxFoldPercent of its bytes more than k+m columns of equal length would.
//      FoldRule::kSaving, for units that have waited long: it has 1 to k columns, and takes at least kMinSavingPercent less
//      than its units do now. That may be one unit with dead columns, if no company would make it take less; a single column
//      becomes a mirror again, which takes less than dead columns and their parity.
// No unit is in two groups. Lengths are bytes. Folding ends: groups of the first kind are no units any more until a column
// dies, and each of the second kind takes less than its members do.
//
// Greedy. Rests of folds first, because they fit least. Then from the longest column down: each takes the columns of other
// domains that are nearest by length, and of about equally near ones those whose domain has most left, so that in the end few
// are left without company. O(n d log n) for n units in d domains. Safe from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/ids.h"
#include "stripe/placement.h"
#include "stripe/types.h"

namespace stria {

inline constexpr uint64_t kMaxFoldPercent = 5;     // of the live bytes, above (k+m)/k
inline constexpr uint64_t kMinSavingPercent = 10;  // of the space that it takes now
enum class FoldRule { kTight, kSaving };
inline constexpr uint32_t kMaxFoldRefs = 512;    // extents that one fold may bring together
inline constexpr uint32_t kMaxUnitRefs = 64;     // of one unit; more: it is left as it is
inline constexpr size_t kFoldReach = 64;         // rests of other folds, tried as company for one

// The common properties of members, and the form of their fold.
struct FoldKind {
  uint8_t k = 1;
  uint8_t m = 1;
  Domain domain = Domain::kNode;
  // Who may read the files of the stripe, as a number: to decode one column of a fold a reader needs the others.
  uint64_t audience = 0;
  auto operator<=>(const FoldKind&) const = default;
};

struct FoldColumn {
  ColumnIndex column;  // of its stripe
  DomainKey domain;
  NodeId node;
  uint64_t length = 0;  // > 0
  bool operator==(const FoldColumn&) const = default;
};
struct FoldUnit {
  StripeId stripe;
  std::vector<FoldColumn> columns;  // those that files use, of groups=1 stripes; not empty
  uint32_t refs = 0;                // extents that use the stripe
  uint64_t stored_bytes = 0;        // of all shards of the stripe
  uint64_t stamp = 0;               // another one when the files that use it have changed; not looked at
  bool operator==(const FoldUnit&) const = default;
};

// A stripe is a candidate (again) if it takes more than a fold of its live columns may, and has fewer live columns than a fold.
// A tight fold is none until one of its columns is dead. `live_bytes`, `live_columns`: of data columns in use.
bool WantsFolding(const StripeShape& shape, uint64_t live_bytes, uint32_t live_columns, FoldKind kind);

// True if `columns_bytes` of data under m columns of `longest` keep to kMaxFoldPercent.
bool IsFoldWithinBound(uint64_t columns_bytes, uint64_t longest, FoldKind kind);

// One fold: its units by their place in the input. Its data columns are theirs, in this order.
using FoldGroup = std::vector<size_t>;
// At most `max_groups`. Units of one kind; those whose columns share domains, or that are too large by themselves, are left
// out. None for a kind without parity, or with one data column.
std::vector<FoldGroup> PlanFolds(std::span<const FoldUnit> units, FoldKind kind, size_t max_groups,
                                 FoldRule rule = FoldRule::kTight);

}  // namespace stria
