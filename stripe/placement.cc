#include "stripe/placement.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "common/random.h"
#include "stripe/layout.h"
#include "stripe/layout_spec.h"

namespace stria {

DomainKey DomainOf(const TargetView& target, Domain domain) {
  switch (domain) {
    case Domain::kNode:
      return {target.node.v, 0};
    case Domain::kChannel:
      return {target.node.v, target.channel};
    case Domain::kDisk:
      return {target.target.v, 0};
  }
  CHECK(false, "unknown domain");
}

namespace {

using uint128 = unsigned __int128;

// Shares are fixed-point fractions of one column.
constexpr uint64_t kOneColumn = uint64_t{1} << 32;

std::string Count(uint64_t n, std::string_view what) {
  return std::to_string(n) + " " + std::string(what) + (n == 1 ? "" : "s");
}

std::string_view DomainNoun(Domain domain) {
  return domain == Domain::kNode ? "node" : domain == Domain::kChannel ? "channel" : "disk";
}

// "raid5:4+1": without the settings that do not matter here.
std::string ShortName(const Layout& layout) {
  std::string name = LayoutToString(layout);
  return name.substr(0, name.find(','));
}

// How many disks that satisfy `pred` each failure domain has; domains without any are left out.
template <class Pred>
std::vector<uint32_t> DisksPerDomain(const ClusterView& view, Domain domain, Pred pred) {
  std::vector<DomainKey> keys;
  for (const TargetView& t : view.targets) {
    if (pred(t)) keys.push_back(DomainOf(t, domain));
  }
  std::ranges::sort(keys);
  std::vector<uint32_t> out;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i == 0 || keys[i] != keys[i - 1]) out.push_back(0);
    ++out.back();
  }
  return out;
}

uint32_t UsableDisks(const std::vector<uint32_t>& disks_per_domain, uint32_t per_domain) {
  uint32_t sum = 0;
  for (uint32_t n : disks_per_domain) sum += std::min(n, per_domain);
  return sum;
}

// `groups` groups of `width` columns fit if every group finds `width` domains and all columns find a disk of
// their own; a domain takes at most one column of each group. (Dealing the disks, domain after domain, to
// the groups in turn shows that this is enough.)
bool Fits(const std::vector<uint32_t>& disks_per_domain, uint32_t groups, uint32_t width) {
  return disks_per_domain.size() >= width && UsableDisks(disks_per_domain, groups) >= groups * width;
}

struct Width {
  uint32_t groups = 0;
  uint32_t k = 0;
};

// The widest stripe of at most the layout's groups and k; more columns in a group before more groups.
std::optional<Width> Widest(const std::vector<uint32_t>& disks_per_domain, const Layout& layout) {
  Width best;
  for (uint32_t k = layout.k; k >= 1; --k) {
    for (uint32_t groups = layout.groups; groups * k > best.groups * best.k; --groups) {
      if (!Fits(disks_per_domain, groups, k + layout.m)) continue;
      best = {groups, k};
      break;
    }
  }
  if (best.k == 0) return std::nullopt;
  return best;
}

// ---- Refusals -------------------------------------------------------------------------------------

// What to do about too few configured domains: other domains and narrower layouts that would do.
std::string Alternatives(const ClusterView& view, const Layout& layout, size_t domains) {
  auto configured = [](const TargetView& t) { return t.configured; };
  std::string text;
  for (Domain domain : {Domain::kChannel, Domain::kDisk}) {
    if (domain <= layout.domain) continue;
    if (!Fits(DisksPerDomain(view, domain, configured), layout.groups, layout.k + layout.m)) continue;
    text += ", or use domain=" + std::string(DomainNoun(domain));
    break;
  }
  Layout other = layout;
  if (layout.k == 1 && layout.groups == 1 && domains >= 2) {
    other.m = static_cast<uint8_t>(domains - 1);
  } else if (auto widest = Widest(DisksPerDomain(view, layout.domain, configured), layout)) {
    other.groups = static_cast<uint8_t>(widest->groups);
    other.k = static_cast<uint8_t>(widest->k);
  } else {
    return text;
  }
  return text + ", or layout " + ShortName(other);
}

Error TooFewConfigured(const ClusterView& view, const Layout& layout, const std::vector<uint32_t>& disks) {
  const uint32_t width = layout.k + layout.m;
  const std::string_view noun = DomainNoun(layout.domain);
  std::string text = "layout " + ShortName(layout) + " with domain " + std::string(noun) + " needs ";
  if (disks.size() < width) {
    const size_t missing = width - disks.size();
    text += Count(width, noun) + " and the cluster has " + std::to_string(disks.size()) + ": add " +
            Count(missing, noun);
  } else {
    const uint32_t usable = UsableDisks(disks, layout.groups);
    text += Count(layout.columns(), "disk") + ", at most " + std::to_string(layout.groups) + " of one " +
            std::string(noun) + ", and the cluster has " + std::to_string(usable) + ": add " +
            Count(layout.columns() - usable, "disk");
  }
  return Error(FsError::kTooFewDomains, text + Alternatives(view, layout, disks.size()));
}

Error TooFewUp(const Layout& layout, size_t up, size_t configured) {
  const uint32_t width = 1 + layout.m;
  const std::string_view noun = DomainNoun(layout.domain);
  return Error(FsError::kRetryLater, "layout " + ShortName(layout) + " needs at least " + Count(width, noun) +
                                         " up and " + std::to_string(up) + " of " +
                                         std::to_string(configured) + " can be written: bring back " +
                                         Count(width > up ? width - up : 1, noun));
}

Error TooFull(const Layout& layout, size_t with_space, size_t up) {
  const std::string_view noun = DomainNoun(layout.domain);
  return Error(FsError::kNoSpace, "layout " + ShortName(layout) + " needs space on at least " +
                                      Count(1 + layout.m, noun) + " and " + std::to_string(with_space) +
                                      " of the " + std::to_string(up) +
                                      " that are up have it: delete files or add disks");
}

// ---- Shares ---------------------------------------------------------------------------------------

// Splits `total` by weight, no share above its cap. REQUIRES: total <= sum of caps. Exact: the shares
// add up to total.
std::vector<uint64_t> WaterFill(const std::vector<uint64_t>& weights, const std::vector<uint64_t>& caps,
                                uint64_t total) {
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // Those that reach their cap first come first: after one that does not, none does.
  std::ranges::stable_sort(order, [&](size_t a, size_t b) {
    return uint128{caps[a]} * weights[b] < uint128{caps[b]} * weights[a];
  });
  uint128 weight_left = 0;
  for (uint64_t w : weights) weight_left += w;
  std::vector<uint64_t> shares(weights.size());
  for (size_t i : order) {
    const uint64_t fair =
        weight_left == 0 ? 0 : static_cast<uint64_t>(uint128{total} * weights[i] / weight_left);
    shares[i] = std::min(fair, caps[i]);
    total -= shares[i];
    weight_left -= weights[i];
  }
  for (size_t i = 0; i < shares.size() && total > 0; ++i) {  // what rounding left
    const uint64_t more = std::min(total, caps[i] - shares[i]);
    shares[i] += more;
    total -= more;
  }
  CHECK(total == 0, "shares do not fit under their caps");
  return shares;
}

// A disk on the line from which columns are drawn.
struct Candidate {
  const TargetView* target = nullptr;
  uint32_t domain = 0;  // dense: 0 .. number of domains - 1, in the order of their keys
  uint64_t weight = 0;
  uint64_t share = 0;
  bool forced = false;  // holds a column whatever its weight: share is one column
};

// Numbers the keys densely, in their order.
template <class Key>
std::vector<uint32_t> Densely(const std::vector<Key>& keys) {
  std::vector<Key> sorted = keys;
  std::ranges::sort(sorted);
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  std::vector<uint32_t> out;
  out.reserve(keys.size());
  for (const Key& key : keys) {
    out.push_back(static_cast<uint32_t>(std::ranges::lower_bound(sorted, key) - sorted.begin()));
  }
  return out;
}

template <class Pred>
std::vector<Candidate> Candidates(const ClusterView& view, Domain domain, Pred pred) {
  std::vector<Candidate> out;
  std::vector<DomainKey> keys;
  for (const TargetView& t : view.targets) {
    if (!pred(t)) continue;
    keys.push_back(DomainOf(t, domain));
    out.push_back({.target = &t, .weight = std::max<uint64_t>(1, t.free_bytes)});
  }
  const std::vector<uint32_t> domains = Densely(keys);
  for (size_t i = 0; i < out.size(); ++i) out[i].domain = domains[i];
  return out;
}

// Gives every candidate its share of `columns`, at most `per_domain` columns in a domain.
void SetShares(std::vector<Candidate>* candidates, uint32_t columns, uint32_t per_domain) {
  struct DomainSum {
    std::vector<Candidate*> free_choice;
    uint64_t weight = 0;
    uint32_t forced = 0;
  };
  std::vector<DomainSum> domains;
  for (Candidate& c : *candidates) {
    if (c.domain >= domains.size()) domains.resize(c.domain + 1);
    DomainSum& sum = domains[c.domain];
    if (c.forced) {
      ++sum.forced;
      --columns;
      c.share = kOneColumn;
    } else {
      sum.weight += c.weight;
      sum.free_choice.push_back(&c);
    }
  }
  std::vector<uint64_t> weights;
  std::vector<uint64_t> caps;
  for (const DomainSum& sum : domains) {
    weights.push_back(std::max<uint64_t>(1, sum.weight));
    caps.push_back(kOneColumn * std::min<uint64_t>(per_domain - sum.forced, sum.free_choice.size()));
  }
  const std::vector<uint64_t> shares = WaterFill(weights, caps, columns * kOneColumn);
  for (size_t i = 0; i < domains.size(); ++i) {
    const auto& disks = domains[i].free_choice;
    if (disks.size() == 1) {
      disks[0]->share = shares[i];
      continue;
    }
    weights.clear();
    for (const Candidate* c : disks) weights.push_back(c->weight);
    const auto disk_shares = WaterFill(weights, std::vector<uint64_t>(disks.size(), kOneColumn), shares[i]);
    for (size_t d = 0; d < disks.size(); ++d) disks[d]->share = disk_shares[d];
  }
}

// ---- Taking turns ---------------------------------------------------------------------------------

// Where a seed stands: in which block, and at which of the block's evenly spaced points.
struct Turn {
  uint64_t index = 0;  // visits each of [0, size) once in a block
  uint64_t size = 1;
  uint64_t rotation = 0;  // of the roles, constant in a block
  uint64_t jitter = 0;
  Random order;  // for the block's order of disks

  uint64_t point() const { return static_cast<uint64_t>((uint128{index} * kOneColumn + jitter) / size); }
};

// Blocks are a multiple of `columns` seeds, at least one for each disk, so that a disk with an even share has
// each role once in a block. Consecutive seeds are about 0.618 of the line apart: neighbours in time use
// different disks of a node.
Turn TurnOf(uint64_t seed, uint32_t columns, size_t disks) {
  const uint64_t size = AlignUp(std::max<uint64_t>(disks, columns), columns);
  uint64_t step = std::max<uint64_t>(1, size * 618 / 1000);
  while (std::gcd(step, size) != 1) ++step;
  Random rng(seed / size);
  const uint64_t start = rng.Below(size);
  const uint64_t rotation = rng.Below(columns);
  const uint64_t jitter = rng.Below(kOneColumn);
  return {(seed % size * step + start) % size, size, rotation, jitter, rng};
}

// Random order in which the disks of a node stay together, and in it those of a channel: neighbours on the
// line are seldom drawn together.
void OrderLine(std::vector<Candidate>* candidates, Random rng) {
  const size_t n = candidates->size();
  for (size_t i = n; i > 1; --i) std::swap((*candidates)[i - 1], (*candidates)[rng.Below(i)]);
  std::vector<uint32_t> nodes;
  std::vector<DomainKey> channels;
  for (const Candidate& c : *candidates) {
    nodes.push_back(c.target->node.v);
    channels.push_back(DomainOf(*c.target, Domain::kChannel));
  }
  // First of the same node, first of the same channel, itself: positions in the shuffled order.
  const std::vector<uint32_t> node = Densely(nodes);
  const std::vector<uint32_t> channel = Densely(channels);
  std::vector<size_t> node_first(n, n);
  std::vector<size_t> channel_first(n, n);
  std::vector<std::array<size_t, 3>> rank(n);
  for (size_t i = 0; i < n; ++i) {
    node_first[node[i]] = std::min(node_first[node[i]], i);
    channel_first[channel[i]] = std::min(channel_first[channel[i]], i);
    rank[i] = {node_first[node[i]], channel_first[channel[i]], i};
  }
  std::ranges::sort(rank);
  std::vector<Candidate> ordered;
  ordered.reserve(n);
  for (const auto& r : rank) ordered.push_back((*candidates)[r[2]]);
  *candidates = std::move(ordered);
}

std::vector<const Candidate*> Draw(const std::vector<Candidate>& line, uint64_t point, uint32_t columns) {
  std::vector<const Candidate*> drawn;
  uint64_t begin = 0;
  for (const Candidate& c : line) {
    const uint64_t end = begin + c.share;
    if (point >= begin && point < end) {
      drawn.push_back(&c);
      point += kOneColumn;
    }
    begin = end;
  }
  CHECK(drawn.size() == columns, "line of another length");
  return drawn;
}

// ---- Wishes ---------------------------------------------------------------------------------------

// One disk of `node`, by free space and turn, in a domain that has no forced one; null if there is none.
Candidate* PickOnNode(std::vector<Candidate>* candidates, NodeId node, const Turn& turn) {
  std::vector<bool> taken(candidates->size());
  for (const Candidate& c : *candidates) {
    if (c.forced) taken[c.domain] = true;
  }
  std::vector<Candidate*> mine;
  uint128 total = 0;
  for (Candidate& c : *candidates) {
    if (c.target->node != node || taken[c.domain]) continue;
    mine.push_back(&c);
    total += c.weight;
  }
  if (mine.empty()) return nullptr;
  uint128 at = total * turn.point() / kOneColumn;
  for (Candidate* c : mine) {
    if (at < c->weight) return c;
    at -= c->weight;
  }
  return mine.back();
}

// raid4: the highest disks of the m highest domains.
std::vector<TargetId> ForceParity(std::vector<Candidate>* candidates, uint32_t m) {
  std::vector<Candidate*> sorted;
  for (Candidate& c : *candidates) sorted.push_back(&c);
  std::ranges::sort(sorted, std::greater(),
                    [](const Candidate* c) { return std::pair(c->domain, c->target->target); });
  std::vector<TargetId> out;
  std::optional<uint32_t> last;
  for (Candidate* c : sorted) {
    if (out.size() == m) break;
    if (last == c->domain) continue;
    last = c->domain;
    c->forced = true;
    out.push_back(c->target->target);
  }
  return out;
}

// Where the columns of the drawn disks are. All moves after the first dealing stay inside a group.
class Roles {
 public:
  Roles(Width width, uint32_t m) : width_(width), m_(m), targets_(width.groups * (width.k + m)) {}

  void Deal(const std::vector<const Candidate*>& drawn, const Turn& turn, TargetId in_first_group) {
    const uint32_t in_group = width_.k + m_;
    const uint64_t spin = turn.index + turn.rotation;
    uint64_t group_shift = spin / in_group;
    for (size_t i = 0; i < drawn.size(); ++i) {
      if (drawn[i]->target->target == in_first_group) group_shift = width_.groups - i % width_.groups;
    }
    for (size_t i = 0; i < drawn.size(); ++i) {
      const uint64_t group = (i + group_shift) % width_.groups;
      const uint64_t role = (i / width_.groups + spin) % in_group;
      targets_[ColumnAt(group, role)] = drawn[i]->target->target;
    }
  }
  // Puts `target` at the role of its group, and what was there in its place.
  void Move(TargetId target, uint64_t role) {
    const size_t from = Find(target);
    std::swap(targets_[from], targets_[ColumnAt(GroupAt(from), role)]);
  }
  bool IsData(TargetId target) const { return Find(target) < size_t{width_.groups} * width_.k; }
  std::vector<TargetId> Take() { return std::move(targets_); }

 private:
  size_t ColumnAt(uint64_t group, uint64_t role) const {
    return role < width_.k ? group * width_.k + role
                           : size_t{width_.groups} * width_.k + group * m_ + (role - width_.k);
  }
  uint64_t GroupAt(size_t column) const {
    const size_t data = size_t{width_.groups} * width_.k;
    return column < data ? column / width_.k : (column - data) / m_;
  }
  size_t Find(TargetId target) const { return std::ranges::find(targets_, target) - targets_.begin(); }

  Width width_;
  uint32_t m_;
  std::vector<TargetId> targets_;
};

// The node that a data column is wanted on; 0: none.
NodeId WishOf(const Layout& layout, const PlaceRequest& request) {
  if (layout.place == Place::kNode) return layout.place_node;
  return layout.place == Place::kLocal ? request.preferred : NodeId();
}

std::vector<TargetId> Arrange(std::vector<Candidate> candidates, const Layout& layout,
                              const PlaceRequest& request, Width width, uint32_t per_domain, bool at_wish) {
  const uint32_t columns = width.groups * (width.k + layout.m);
  const Turn turn = TurnOf(request.seed, columns, candidates.size());
  std::vector<TargetId> parity;
  if (!layout.rotate && width.groups == 1 && !at_wish) parity = ForceParity(&candidates, layout.m);
  const NodeId wish = WishOf(layout, request);
  TargetId near;
  if (Candidate* c = wish ? PickOnNode(&candidates, wish, turn) : nullptr) {
    c->forced = true;
    near = c->target->target;
  }
  SetShares(&candidates, columns, per_domain);
  OrderLine(&candidates, turn.order);

  const bool gathered = layout.arrangement == Arrangement::kGathered;
  Roles roles(width, layout.m);
  roles.Deal(Draw(candidates, turn.point(), columns), turn, gathered ? near : TargetId());
  for (size_t i = 0; i < parity.size(); ++i) roles.Move(parity[i], width.k + i);
  if (near && gathered) {
    roles.Move(near, 0);
  } else if (near && !roles.IsData(near)) {
    roles.Move(near, (turn.index + turn.rotation) % width.k);
  }
  return roles.Take();
}

bool IsConfigured(const TargetView& t) { return t.configured; }

bool IsNarrow(const Layout& layout, Width width) { return width.groups < layout.groups || width.k < layout.k; }

bool IsWider(Width a, Width b) { return std::pair(a.groups * a.k, a.k) > std::pair(b.groups * b.k, b.k); }

// How wide a stripe can be, and how much each of its columns has room for.
struct Room {
  Width width;
  uint64_t shard_bytes = 0;
};

uint64_t LeastShardBytes(const Layout& layout, const PlaceRequest& request) {
  if (request.least_shard_bytes == 0 || layout.m == 0 || layout.arrangement == Arrangement::kGathered) {
    return request.shard_bytes;
  }
  return std::min(request.least_shard_bytes, request.shard_bytes);
}

// The widest stripe on disks that satisfy `is_up` and have space; of equally wide ones the longest.
template <class Pred>
std::optional<Room> FindRoom(const ClusterView& view, const Layout& layout, const PlaceRequest& request, Pred is_up) {
  const uint64_t least = LeastShardBytes(layout, request);
  std::optional<Room> best;
  for (uint64_t bytes = request.shard_bytes;; bytes = std::max(bytes / 2, least)) {
    auto has_space = [&](const TargetView& t) { return is_up(t) && t.free_bytes >= bytes; };
    const std::optional<Width> width = Widest(DisksPerDomain(view, layout.domain, has_space), layout);
    if (width && (!best || IsWider(*width, best->width))) best = Room{*width, bytes};
    if (bytes <= least || (best && !IsNarrow(layout, best->width))) return best;
  }
}

}  // namespace

const TargetView* ClusterView::Find(TargetId target) const {
  auto it = std::ranges::lower_bound(targets, target, {}, &TargetView::target);
  return it == targets.end() || it->target != target ? nullptr : &*it;
}

Result<void> CheckLayoutFits(const ClusterView& view, const Layout& layout) {
  const std::vector<uint32_t> disks = DisksPerDomain(view, layout.domain, IsConfigured);
  if (!Fits(disks, layout.groups, layout.k + layout.m)) return TooFewConfigured(view, layout, disks);
  return Ok();
}

Result<Placement> PlaceStripe(const ClusterView& view, const Layout& layout, const PlaceRequest& request) {
  RETURN_IF_ERROR(CheckLayoutFits(view, layout));
  auto is_up = [&](const TargetView& t) {
    return t.configured && t.usable_for_new && !std::ranges::count(request.excluded, t.target);
  };
  const std::optional<Room> room = FindRoom(view, layout, request, is_up);
  const uint64_t shard_bytes = room ? room->shard_bytes : LeastShardBytes(layout, request);
  auto is_candidate = [&](const TargetView& t) { return is_up(t) && t.free_bytes >= shard_bytes; };
  const std::vector<uint32_t> disks = DisksPerDomain(view, layout.domain, is_candidate);
  const std::vector<uint32_t> up = DisksPerDomain(view, layout.domain, is_up);
  if (!room) {
    if (Widest(up, layout)) return TooFull(layout, disks.size(), up.size());
    return TooFewUp(layout, up.size(), DisksPerDomain(view, layout.domain, IsConfigured).size());
  }
  Width width = room->width;
  const bool narrow = IsNarrow(layout, width);
  const bool squeezed = narrow && IsWider(*Widest(up, layout), width);
  const NodeId wish = WishOf(layout, request);
  const bool at_wish = layout.arrangement == Arrangement::kGathered && wish &&
                       std::ranges::any_of(view.targets, [&](const TargetView& t) {
                         return t.node == wish && is_candidate(t);
                       });
  if (at_wish) width = Width{1, 1};
  const uint32_t columns = width.groups * (width.k + layout.m);
  const uint32_t per_domain = disks.size() >= columns ? 1 : width.groups;
  Placement out;
  out.targets = Arrange(Candidates(view, layout.domain, is_candidate), layout, request, width, per_domain,
                        at_wish);
  out.groups = static_cast<uint8_t>(width.groups);
  out.k = static_cast<uint8_t>(width.k);
  out.narrow = narrow && !at_wish;
  out.shard_bytes = shard_bytes;
  out.short_of_space = shard_bytes < request.shard_bytes || (squeezed && !at_wish);
  return out;
}

}  // namespace stria
