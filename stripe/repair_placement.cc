// Where lost columns go (placement.h), and which columns share a failure domain.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "common/random.h"
#include "stripe/layout.h"
#include "stripe/placement.h"

namespace stria {
namespace {

using uint128 = unsigned __int128;

}  // namespace

Result<RepairChoices> FindRepairChoices(const ClusterView& view, const StripeShape& shape,
                                        std::span<const TargetId> columns, const RepairRequest& request) {
  CHECK(columns.size() == shape.columns() && request.lost.v < columns.size());
  const uint32_t group = GroupOf(shape, request.lost);
  // How many columns, of the lost one's group and of the stripe, each place holds already.
  std::map<DomainKey, uint32_t> in_domain, in_node, in_channel, stripe_in_node;
  std::set<TargetId> taken;
  for (uint16_t c = 0; c < columns.size(); ++c) {
    const TargetView* t = view.Find(columns[c]);
    if (c == request.lost.v || !columns[c] || t == nullptr) continue;
    taken.insert(columns[c]);
    ++stripe_in_node[DomainOf(*t, Domain::kNode)];
    if (GroupOf(shape, ColumnIndex(c)) != group) continue;
    ++in_domain[DomainOf(*t, request.domain)];
    ++in_channel[DomainOf(*t, Domain::kChannel)];
    ++in_node[DomainOf(*t, Domain::kNode)];
  }
  auto count = [](const std::map<DomainKey, uint32_t>& map, DomainKey key) {
    auto it = map.find(key);
    return it == map.end() ? 0 : it->second;
  };
  const TargetId home = columns[request.lost.v];
  std::map<std::tuple<uint32_t, bool, uint32_t, uint32_t, uint32_t, bool>, std::vector<TargetId>> classes;
  bool full = false;
  for (const TargetView& t : view.targets) {
    if (!t.configured || !t.usable_for_new || taken.contains(t.target)) continue;
    if (t.target == home && !request.may_stay) continue;
    const uint128 space = uint128{t.free_bytes} + t.repair_reserve_bytes;
    full |= space < request.needed_bytes;
    if (space < request.needed_bytes || (request.refuse && request.refuse(t))) continue;
    const DomainKey node = DomainOf(t, Domain::kNode);
    classes[{count(in_domain, DomainOf(t, request.domain)), request.home && t.node != request.home, count(in_node, node),
             count(in_channel, DomainOf(t, Domain::kChannel)), count(stripe_in_node, node), t.target == home}]
        .push_back(t.target);
  }
  if (classes.empty()) {
    if (full) return Error(FsError::kNoSpace, "no unused disk has space for a lost column: add disks");
    return Error(
        FsError::kTooFewDomains,
        "every usable disk holds another column of the stripe already: add a disk, or bring one back");
  }
  auto& [rank, best] = *classes.begin();
  return RepairChoices{.targets = std::move(best), .crowded = std::get<0>(rank) > 0};
}

Result<RepairPlacement> PlaceRepair(const ClusterView& view, const StripeShape& shape,
                                    std::span<const TargetId> columns, const RepairRequest& request,
                                    uint64_t seed) {
  ASSIGN_OR_RETURN(const RepairChoices choices, FindRepairChoices(view, shape, columns, request));
  std::vector<uint64_t> weights;
  uint128 total = 0;
  for (TargetId id : choices.targets) {
    weights.push_back(std::max<uint64_t>(1, view.Find(id)->free_bytes));
    total += weights.back();
  }
  uint128 at = total * (Random(seed).Next() >> 32) >> 32;
  size_t i = 0;
  while (at >= weights[i]) at -= weights[i++];
  return RepairPlacement{.target = choices.targets[i], .crowded = choices.crowded};
}

bool IsCrowded(const ClusterView& view, std::span<const TargetId> targets, Domain domain) {
  std::set<DomainKey> seen;
  for (TargetId id : targets) {
    const TargetView* t = view.Find(id);
    if (t != nullptr && !seen.insert(DomainOf(*t, domain)).second) return true;
  }
  return false;
}

std::vector<ColumnIndex> CrowdedColumns(const ClusterView& view, const StripeShape& shape,
                                        std::span<const TargetId> targets, Domain domain) {
  CHECK(targets.size() == shape.columns());
  std::map<std::pair<uint32_t, DomainKey>, std::vector<ColumnIndex>> columns;
  for (uint16_t c = 0; c < targets.size(); ++c) {
    const TargetView* t = view.Find(targets[c]);
    if (t != nullptr) columns[{GroupOf(shape, ColumnIndex(c)), DomainOf(*t, domain)}].push_back(ColumnIndex(c));
  }
  std::vector<ColumnIndex> out;
  for (const auto& [place, there] : columns) {
    if (there.size() > 1) out.insert(out.end(), there.begin(), there.end());
  }
  std::ranges::sort(out);
  return out;
}

bool IsCrowded(const ClusterView& view, const StripeShape& shape, std::span<const TargetId> targets,
               Domain domain) {
  return !CrowdedColumns(view, shape, targets, domain).empty();
}

}  // namespace stria
