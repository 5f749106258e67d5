#include "stripe/fold_plan.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <set>

#include "common/error.h"
#include "stripe/layout.h"

namespace stria {
namespace {

uint64_t Longest(const FoldUnit& u) {
  uint64_t longest = 0;
  for (const FoldColumn& c : u.columns) longest = std::max(longest, c.length);
  return longest;
}

// A group being filled.
struct Group {
  FoldGroup units;
  std::set<DomainKey> domains;
  uint64_t bytes = 0;
  uint64_t longest = 0;
  uint64_t refs = 0;

  // False, and nothing is changed, if it does not fit.
  bool Add(size_t index, const FoldUnit& u, FoldKind kind) {
    if (domains.size() + u.columns.size() > kind.k || refs + u.refs > kMaxFoldRefs) return false;
    std::set<DomainKey> with = domains;
    uint64_t sum = bytes;
    for (const FoldColumn& c : u.columns) {
      if (!with.insert(c.domain).second) return false;
      sum += c.length;
    }
    if (sum > kMaxStripeBytes) return false;
    domains = std::move(with);
    bytes = sum;
    longest = std::max(longest, Longest(u));
    refs += u.refs;
    units.push_back(index);
    return true;
  }
  bool IsWhole(FoldKind kind) const { return domains.size() == kind.k && IsFoldWithinBound(bytes, longest, kind); }
};

// Places that are not used, outward from one by turns.
class Neighbours {
 public:
  Neighbours(const std::vector<bool>& used, size_t from) : used_(used), up_(from), down_(from) {}
  std::optional<size_t> Take() {
    if (taken_++ == kFoldReach) return std::nullopt;
    for (int side = 0; side < 2; ++side) {
      is_up_ = !is_up_;
      if (is_up_) {
        do ++up_;
        while (up_ < used_.size() && used_[up_]);
        if (up_ < used_.size()) return up_;
        up_ = used_.size() - 1;
      } else {
        while (down_ > 0 && used_[down_ - 1]) --down_;
        if (down_ > 0) return --down_;
      }
    }
    return std::nullopt;
  }

 private:
  const std::vector<bool>& used_;
  size_t up_, down_;
  bool is_up_ = false;
  size_t taken_ = 0;
};

}  // namespace

bool IsFoldWithinBound(uint64_t columns_bytes, uint64_t longest, FoldKind kind) {
  // (bytes + m * longest) <= bytes * ((k + m) / k + 5 %), in whole numbers.
  const uint64_t k = kind.k, m = kind.m;
  return columns_bytes > 0 && 100 * k * m * longest <= columns_bytes * (100 * m + kMaxFoldPercent * k);
}

bool WantsFolding(const StripeShape& shape, uint64_t live_bytes, uint32_t live_columns, FoldKind kind) {
  if (!shape.gathered() || shape.groups != 1 || shape.m != kind.m || kind.k < 2) return false;
  if (live_bytes == 0 || live_columns == 0 || live_columns >= kind.k) return false;
  const uint64_t k = kind.k, m = kind.m;
  const uint64_t stored = shape.payload_bytes + m * GroupBytes(shape, 0);
  return 100 * k * stored > live_bytes * (100 * (k + m) + kMaxFoldPercent * k);
}

std::vector<FoldGroup> PlanFolds(std::span<const FoldUnit> units, FoldKind kind, size_t max_groups) {
  std::vector<FoldGroup> out;
  if (kind.k < 2) return out;
  std::vector<size_t> order;  // longest first
  for (size_t i = 0; i < units.size(); ++i) {
    if (Group alone; units[i].refs <= kMaxUnitRefs && !units[i].columns.empty() && alone.Add(i, units[i], kind)) {
      order.push_back(i);
    }
  }
  std::ranges::sort(order, [&](size_t a, size_t b) {
    const uint64_t la = Longest(units[a]), lb = Longest(units[b]);
    return la != lb ? la > lb : units[a].stripe < units[b].stripe;
  });
  std::vector<size_t> seeds(order.size());  // places in `order`
  std::iota(seeds.begin(), seeds.end(), 0);
  // What is left of folds fits least: it has the choice first.
  std::ranges::stable_sort(seeds, std::greater(), [&](size_t at) { return units[order[at]].columns.size(); });
  std::vector<bool> used(order.size(), false);
  for (const size_t seed : seeds) {
    if (out.size() == max_groups) break;
    if (used[seed]) continue;
    Group group;
    group.Add(order[seed], units[order[seed]], kind);
    std::vector<size_t> places = {seed};
    for (Neighbours next(used, seed); group.domains.size() < kind.k;) {
      const std::optional<size_t> at = next.Take();
      if (!at) break;
      if (group.Add(order[*at], units[order[*at]], kind)) places.push_back(*at);
    }
    if (!group.IsWhole(kind)) continue;  // waits for better company
    for (size_t i : places) used[i] = true;
    out.push_back(std::move(group.units));
  }
  return out;
}

}  // namespace stria
