// How wide a new stripe can be on the disks that are there, how its columns share failure domains, and the sentences for people
// where that is less than the layout asks for. Pure.
//
// A layout that lacks domains gives way in this order (`rank` counts it):
//   1. every column of a group in a domain of its own: narrower (k' < k), with full m;
//   2. crowded, no domain with more than m columns of a group: the loss of any one domain can still be stood;
//   3. crowded further, on different disks;
//   4. with fewer parity columns or copies, k' = 1, where the layout allows it (min=): the most that can be had.
// Within each, as wide as can be.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "stripe/placement.h"
#include "stripe/types.h"

namespace stria {

struct StripeForm {
  uint32_t groups = 0;
  uint32_t k = 0;
  uint32_t m = 0;
  uint32_t crowd = 1;  // most columns of a group in one domain
  uint32_t rank = 0;   // 0: every column of a group has a domain of its own
  uint32_t columns() const { return groups * (k + m); }
  // Better than `o` for a stripe of the same layout.
  bool BetterThan(const StripeForm& o) const {
    if (rank != o.rank) return rank < o.rank;
    return groups * k != o.groups * o.k ? groups * k > o.groups * o.k : k > o.k;
  }
  bool IsWhole(const Layout& layout) const {
    return rank == 0 && groups == layout.groups && k == layout.k && m == layout.m;
  }
};

using DiskPredicate = std::function<bool(const TargetView&)>;

// How many disks that satisfy `pred` each failure domain has; domains without any are left out.
std::vector<uint32_t> DisksPerDomain(const ClusterView& view, Domain domain, const DiskPredicate& pred);
// The best that disks so spread over domains can hold; nullopt if there are too few.
std::optional<StripeForm> BestForm(const std::vector<uint32_t>& disks_per_domain, const Layout& layout);

// The rank of a stripe as it lies (`targets` of its columns, 0 for those without a shard), with regard to its layout.
uint32_t RankOf(const ClusterView& view, const StripeShape& shape, const std::vector<TargetId>& targets,
                const Layout& layout);

// It is there, or may be back, and is not to be emptied.
inline bool TakesNew(const TargetView& t) { return t.configured && (t.usable_for_new || !t.readable); }
// kAllEmptied: no disk takes a column, nor will by itself, because all of them are being emptied. Neither waiting nor deleting
// files is of any use.
Error AllBeingEmptied(const ClusterView& view);
// Fewer than the least number of disks can be written.
Error TooFewUp(const ClusterView& view, const Layout& layout);
// `with_space` of `up` disks have space for a column.
Error TooFull(const Layout& layout, size_t with_space, size_t up);

// ---- For people ----

// "raid5:4+1,domain=disk": the settings that matter here.
std::string RoomName(const Layout& layout);
// The form of new stripes of `layout` on the disks that can be written now, whatever their space; as_if_all_up: with those that
// are configured and away, but without those that are being emptied.
LayoutRoom RoomFor(const ClusterView& view, const Layout& layout, bool as_if_all_up);
// "new stripes of layout raid5:4+1 will be 3+1 until another node joins"; `verb` as "are" or "will be".
std::string ToldOf(const LayoutRoom& room, std::string_view verb);

}  // namespace stria
