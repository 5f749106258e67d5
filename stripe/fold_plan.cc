#include "stripe/fold_plan.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "stripe/layout.h"

namespace stria {
namespace {

using int128 = __int128;

constexpr uint64_t kAboutAsNear = 50;  // a difference of length counts in 50ths of it

bool IsFoldable(FoldKind kind) { return kind.k >= 2 && kind.m >= 1; }

uint64_t Longest(const FoldUnit& u) {
  uint64_t longest = 0;
  for (const FoldColumn& c : u.columns) longest = std::max(longest, c.length);
  return longest;
}

// A group being filled.
struct Group {
  FoldGroup units;
  std::set<DomainKey> domains;
  std::map<NodeId, uint32_t> nodes;
  uint64_t bytes = 0;
  uint64_t longest = 0;
  uint64_t refs = 0;
  uint64_t stored = 0;  // by the units now
  uint64_t apart = 0;   // by the units apart, without their dead columns

  size_t columns() const { return domains.size(); }
  uint64_t Takes(FoldKind kind) const { return bytes + kind.m * longest; }
  // The space that it saves.
  int64_t Saving(FoldKind kind) const { return static_cast<int64_t>(stored) - static_cast<int64_t>(Takes(kind)); }
  // The space that its columns save together.
  int64_t Gain(FoldKind kind) const { return static_cast<int64_t>(apart) - static_cast<int64_t>(Takes(kind)); }
  // False, and nothing is changed, if it does not fit.
  bool Add(size_t index, const FoldUnit& u, FoldKind kind) {
    if (columns() + u.columns.size() > kind.k || refs + u.refs > kMaxFoldRefs) return false;
    Group with = *this;
    uint64_t alone = kind.m * Longest(u);
    for (const FoldColumn& c : u.columns) {
      if (!with.domains.insert(c.domain).second || ++with.nodes[c.node] > kind.m) return false;
      with.bytes += c.length;
      alone += c.length;
    }
    if (with.bytes > kMaxStripeBytes) return false;
    with.apart += std::min(alone, u.stored_bytes);
    with.longest = std::max(longest, Longest(u));
    with.refs += u.refs;
    with.stored += u.stored_bytes;
    with.units.push_back(index);
    *this = std::move(with);
    return true;
  }
};

class Planner {
 public:
  Planner(std::span<const FoldUnit> units, FoldKind kind, FoldRule rule) : units_(units), kind_(kind), rule_(rule) {
    for (size_t i = 0; i < units.size(); ++i) {
      Group alone;
      if (units[i].columns.empty() || units[i].refs > kMaxUnitRefs || !alone.Add(i, units[i], kind)) continue;
      seeds_.push_back(i);
      if (units[i].columns.size() > 1) rests_.insert({Longest(units[i]), i});
      else SinglesOf(i).insert({Longest(units[i]), i});
    }
    std::ranges::sort(seeds_, [&](size_t a, size_t b) { return OrderOf(a) < OrderOf(b); });
  }

  std::vector<FoldGroup> Plan(size_t max_groups) {
    std::vector<FoldGroup> out;
    for (const size_t seed : seeds_) {
      if (out.size() == max_groups) break;
      if (used_.contains(seed)) continue;
      std::optional<FoldGroup> group = Around(seed);
      if (!group) group = Alone(seed);
      if (!group) continue;  // waits for better company
      for (const size_t i : *group) Use(i);
      out.push_back(*std::move(group));
    }
    return out;
  }

 private:
  using Place = std::pair<uint64_t, size_t>;  // longest column, unit
  using Line = std::set<Place>;

  std::tuple<int64_t, int64_t, StripeId> OrderOf(size_t i) const {
    return {-static_cast<int64_t>(units_[i].columns.size()), -static_cast<int64_t>(Longest(units_[i])), units_[i].stripe};
  }
  Line& SinglesOf(size_t i) { return singles_[units_[i].columns[0].domain]; }
  void Use(size_t i) {
    used_.insert(i);
    if (units_[i].columns.size() > 1) rests_.erase({Longest(units_[i]), i});
    else SinglesOf(i).erase({Longest(units_[i]), i});
  }

  std::optional<FoldGroup> Around(size_t seed) const {
    Group group;
    group.Add(seed, units_[seed], kind_);
    if (std::optional<FoldGroup> filled = Fill(group)) return filled;
    if (units_[seed].columns.size() == 1 || group.columns() == kind_.k) return std::nullopt;
    // Rests of other folds, the nearest first.
    auto up = rests_.lower_bound({Longest(units_[seed]), seed});
    auto down = up;
    for (size_t tried = 0; tried < kFoldReach && (up != rests_.end() || down != rests_.begin()); ++tried) {
      const bool go_up = down == rests_.begin() || (up != rests_.end() && tried % 2 == 0);
      const size_t at = go_up ? (up++)->second : (--down)->second;
      if (at != seed) group.Add(at, units_[at], kind_);
    }
    return Fill(group);
  }

  // A unit without company goes by itself, without its dead columns. If one column lives, it is a mirror again.
  std::optional<FoldGroup> Alone(size_t seed) const {
    Group group;
    group.Add(seed, units_[seed], kind_);
    return IsGood(group) ? std::optional(std::move(group.units)) : std::nullopt;
  }

  // With single columns, the nearest by length to the longest that is there.
  std::optional<FoldGroup> Fill(Group group) const {
    struct Choice {
      uint64_t distance;
      size_t others;  // of the same domain
      Place place;
    };
    std::vector<Choice> choices;
    const uint64_t length = group.longest;
    Group best = group;
    for (const auto& [domain, line] : singles_) {
      if (group.columns() == kind_.k) break;
      if (line.empty() || group.domains.contains(domain)) continue;
      const auto up = line.lower_bound({length, 0});
      if (up != line.end()) choices.push_back({up->first - length, line.size(), *up});
      if (up != line.begin()) choices.push_back({length - std::prev(up)->first, line.size(), *std::prev(up)});
    }
    std::ranges::sort(choices, [length](const Choice& a, const Choice& b) {
      const uint64_t near_a = a.distance * kAboutAsNear / length, near_b = b.distance * kAboutAsNear / length;
      return std::tuple(near_a, b.others, a.distance, a.place) < std::tuple(near_b, a.others, b.distance, b.place);
    });
    for (const Choice& c : choices) {
      if (group.columns() == kind_.k) break;
      group.Add(c.place.second, units_[c.place.second], kind_);
      // By the part that they gain: a longer column may cost more than it brings.
      if (int128{group.Gain(kind_)} * best.apart > int128{best.Gain(kind_)} * group.apart) best = group;
    }
    if (rule_ == FoldRule::kTight) best = std::move(group);
    if (best.columns() == 1) return std::nullopt;
    return IsGood(best) ? std::optional(std::move(best.units)) : std::nullopt;
  }

  bool IsGood(const Group& g) const {
    if (rule_ == FoldRule::kTight) return g.columns() == kind_.k && IsFoldWithinBound(g.bytes, g.longest, kind_);
    return g.Saving(kind_) * 100 >= static_cast<int64_t>(g.stored * kMinSavingPercent);
  }

  std::span<const FoldUnit> units_;
  FoldKind kind_;
  FoldRule rule_;
  std::vector<size_t> seeds_;
  std::map<DomainKey, Line> singles_;  // units of one column
  Line rests_;                         // of several
  std::set<size_t> used_;
};

}  // namespace

bool IsFoldWithinBound(uint64_t columns_bytes, uint64_t longest, FoldKind kind) {
  // (bytes + m * longest) <= bytes * ((k + m) / k + waste), in whole numbers.
  const uint64_t k = kind.k, m = kind.m;
  return columns_bytes > 0 && 100 * k * m * longest <= columns_bytes * (100 * m + kMaxFoldPercent * k);
}

bool WantsFolding(const StripeShape& shape, uint64_t live_bytes, uint32_t live_columns, FoldKind kind) {
  if (!IsFoldable(kind) || !shape.gathered() || shape.groups != 1 || shape.m != kind.m) return false;
  if (live_bytes == 0 || live_columns == 0 || live_columns >= kind.k) return false;
  const uint64_t k = kind.k, m = kind.m;
  const uint64_t stored = shape.payload_bytes + m * GroupBytes(shape, 0);
  return 100 * k * stored > live_bytes * (100 * (k + m) + kMaxFoldPercent * k);
}

std::vector<FoldGroup> PlanFolds(std::span<const FoldUnit> units, FoldKind kind, size_t max_groups, FoldRule rule) {
  if (!IsFoldable(kind)) return {};
  return Planner(units, kind, rule).Plan(max_groups);
}

}  // namespace stria
