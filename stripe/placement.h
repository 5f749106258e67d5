// Placement: which disks a new stripe's columns go to, and where a lost column is rebuilt. Pure and
// deterministic: the same view, layout and seed give the same answer.
//
// Always, for a new stripe:
//   1. no two columns on one disk;
//   2. no two columns of one group in one failure domain, as long as m + 1 domains are left; groups share domains only
//      if there are too few for the whole stripe;
//   3. full m: a stripe may be narrower (k' < k), and crowded where fewer domains are left than m + 1, but not less
//      protected against the loss of disks, unless the layout says how few copies may do (Layout::min_copies).
// The best form of a stripe on the disks that are there: stripe_form.h.
// When disks have little space left, a stripe gets shorter before it gets narrower: parity of few columns costs more of the
// rest.
// With a wish for a node and gathered columns (place=local or node), the stripe is one data column on that node
// and m copies elsewhere: so a file lies on its node, whole. If the node cannot take it, or else:
// as far as possible, in this order: the writer's node holds a data column (place=local or node); each
// disk takes its share by free space; the disks of a node take turns; a stripe is spread over as many
// nodes as it can be, whatever its domain; parity visits all (rotate) or always the same disk (raid4).
//
// How: shares are probabilities p_t <= 1 that sum up to the number of columns C (water-filling by free
// space, capped per disk and per domain). Disks lie on a line of length C, nodes and their disks in an
// order that changes from block to block; columns are the points u, u+1, .. u+C-1. An interval is at most 1
// long, so no disk is hit twice. Within a block of seeds u visits [0, 1) evenly: each disk gets its share
// to within one stripe per block, unlike with independent draws, and over blocks every disk meets
// every other, so that a rebuild reads from all of them.
//
// Sizes are bytes. O(n log n) for n disks. Safe from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/ids.h"
#include "stripe/types.h"

namespace stria {

// One disk as placement and repair see it.
struct TargetView {
  TargetId target;
  NodeId node;
  uint32_t channel = 0;  // of the node's
  uint64_t capacity_bytes = 0;
  uint64_t free_bytes = 0;            // for new stripes, without the repair reserve
  bool usable_for_new = false;        // up, writable, not draining
  bool configured = false;            // belongs to the cluster: not out, not removed
  bool readable = true;               // its node answers and the disk gives its bytes
  uint64_t repair_reserve_bytes = 0;  // repair may use this beyond free_bytes
};

struct ClusterView {
  std::vector<TargetView> targets;  // ascending by target, each once
  // Null if there is none.
  const TargetView* Find(TargetId target) const;
};

// The failure domain of a disk: equal for two disks that fail together. For comparing only.
using DomainKey = std::pair<uint32_t, uint32_t>;
DomainKey DomainOf(const TargetView& target, Domain domain);

struct PlaceRequest {
  uint64_t seed = 0;               // the stripe's number: consecutive ones take turns
  uint64_t shard_bytes = 0;        // free space that each column of a full stripe needs
  // Free space that columns may have to do with, if the stripe gets wider by that; 0: shard_bytes. Of no effect without
  // parity, and on gathered columns.
  uint64_t least_shard_bytes = 0;
  NodeId preferred;                // the writer's node, for Place::kLocal; 0: none
  std::vector<TargetId> excluded;  // disks that have just failed the writer
};

struct Placement {
  std::vector<TargetId> targets;  // one per column of a stripe of groups x (k + m) columns (types.h)
  uint8_t groups = 1;
  uint8_t k = 1;        // <= the layout's; the codec is DefaultCodec(k, m)
  uint8_t m = 0;        // the layout's, or less if it allows that
  bool narrow = false;  // groups, k or m are less than the layout's, for want of domains
  uint64_t shard_bytes = 0;  // that each column's disk has free, in [least_shard_bytes, shard_bytes] as asked
  bool short_of_space = false;  // shard_bytes are less than asked, or emptier disks would have made it wider
};

// The writable disks decide, not the configured ones: a layout is set when the room holds it (CheckLayoutFits), and written in
// the rest of that room. kTooFewDomains: fewer disks can be written than one data column and its parity need; says what to do.
// kNoSpace: enough can be written, but too few have even least_shard_bytes free.
Result<Placement> PlaceStripe(const ClusterView& view, const Layout& layout, const PlaceRequest& request);

// Ok if the cluster as configured, with every disk up, holds `layout`, at least with as few copies as it allows; else
// kTooFewDomains with what to do.
// Call it when a layout is set, to refuse it.
Result<void> CheckLayoutFits(const ClusterView& view, const Layout& layout);

// Where a column can be rebuilt: the equally good best choices, ascending; never a disk that holds
// another column of the stripe.
struct RepairChoices {
  std::vector<TargetId> targets;  // not empty
  bool crowded = false;           // they share a failure domain with another column of the group
};
struct RepairRequest {
  ColumnIndex lost;
  Domain domain = Domain::kNode;
  uint64_t needed_bytes = 0;
  NodeId home;           // the node it should be on, if there is one; a free domain comes first
  bool may_stay = true;  // the column's own disk, if usable, may take the new shard (after a bad checksum)
  std::function<bool(const TargetView&)> refuse;  // further disks that are out of question; may be empty
};
// `columns` are the targets of all columns of the stripe, 0 for those without a shard; `request.lost` still has its former
// target. kNoSpace if only space is missing, else kTooFewDomains.
Result<RepairChoices> FindRepairChoices(const ClusterView& view, const StripeShape& shape,
                                        std::span<const TargetId> columns, const RepairRequest& request);

struct RepairPlacement {
  TargetId target;
  bool crowded = false;
};
// One of the choices, by free space and seed.
Result<RepairPlacement> PlaceRepair(const ClusterView& view, const StripeShape& shape,
                                    std::span<const TargetId> columns, const RepairRequest& request,
                                    uint64_t seed);

// The columns that share a failure domain with another column of their group, ascending. `targets` as below.
std::vector<ColumnIndex> CrowdedColumns(const ClusterView& view, const StripeShape& shape,
                                        std::span<const TargetId> targets, Domain domain);

// True if two of `targets` (the columns of one group; 0 and disks not in the view are skipped) are in one
// failure domain.
bool IsCrowded(const ClusterView& view, std::span<const TargetId> targets, Domain domain);
// The same for any group of a stripe whose columns are `targets`.
bool IsCrowded(const ClusterView& view, const StripeShape& shape, std::span<const TargetId> targets,
               Domain domain);

}  // namespace stria
