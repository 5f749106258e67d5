#include "stripe/placement.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "common/random.h"
#include "stripe/layout.h"
#include "stripe/stripe_form.h"

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
  for (size_t i = 0; i < shares.size() && total > 0; ++i) {  // the rest of rounding
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
  uint32_t channel = 0;  // the same
  uint64_t weight = 0;
  uint64_t share = 0;
  bool forced = false;  // holds a column, whatever its weight: share is one column
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

std::vector<Candidate> Candidates(const ClusterView& view, Domain domain, const DiskPredicate& pred) {
  std::vector<Candidate> out;
  std::vector<DomainKey> keys, channel_keys;
  for (const TargetView& t : view.targets) {
    if (!pred(t)) continue;
    keys.push_back(DomainOf(t, domain));
    channel_keys.push_back(DomainOf(t, Domain::kChannel));
    out.push_back({.target = &t, .weight = std::max<uint64_t>(1, t.free_bytes)});
  }
  const std::vector<uint32_t> domains = Densely(keys), channels = Densely(channel_keys);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].domain = domains[i];
    out[i].channel = channels[i];
  }
  return out;
}

// Disks that fail together, of one domain or channel.
struct Bundle {
  std::vector<Candidate*> free_choice;
  uint64_t weight = 0;
  uint32_t forced = 0;

  void Add(Candidate* c) {
    if (c->forced) {
      ++forced;
      return;
    }
    weight += c->weight;
    free_choice.push_back(c);
  }
  // Columns, beside those that are forced.
  uint64_t Room(uint32_t at_most) const {
    return std::min<uint64_t>(at_most - std::min(at_most, forced), free_choice.size());
  }
};

std::map<uint32_t, Bundle> ByChannel(const std::vector<Candidate*>& disks, const std::vector<Candidate>& all) {
  std::map<uint32_t, Bundle> out;
  for (Candidate* c : disks) out[c->channel].Add(c);
  for (const Candidate& c : all) {
    if (auto it = out.find(c.channel); c.forced && it != out.end()) ++it->second.forced;
  }
  return out;
}

// Most columns of the stripe in one domain, and in one channel.
struct Limits {
  uint32_t per_domain = 1;
  uint32_t per_channel = kMaxColumns;
};

uint64_t RoomIn(const Bundle& domain, const std::vector<Candidate>& all, const Limits& limits) {
  uint64_t room = domain.Room(limits.per_domain);
  if (limits.per_channel >= kMaxColumns) return room;
  uint64_t in_channels = 0;
  for (const auto& [_, channel] : ByChannel(domain.free_choice, all)) in_channels += channel.Room(limits.per_channel);
  return std::min(room, in_channels);
}

void ShareOut(const std::vector<Candidate*>& disks, uint64_t share) {
  if (disks.size() == 1) {
    disks[0]->share = share;
    return;
  }
  std::vector<uint64_t> weights;
  for (const Candidate* c : disks) weights.push_back(c->weight);
  const auto shares = WaterFill(weights, std::vector<uint64_t>(disks.size(), kOneColumn), share);
  for (size_t d = 0; d < disks.size(); ++d) disks[d]->share = shares[d];
}

// Gives every candidate its share of `columns`, with no more in a domain and a channel than `limits`.
void SetShares(std::vector<Candidate>* candidates, uint32_t columns, Limits limits) {
  std::vector<Bundle> domains;
  for (Candidate& c : *candidates) {
    if (c.domain >= domains.size()) domains.resize(c.domain + 1);
    domains[c.domain].Add(&c);
    if (!c.forced) continue;
    --columns;
    c.share = kOneColumn;
  }
  const auto room = [&] {
    uint64_t sum = 0;
    for (const Bundle& d : domains) sum += RoomIn(d, *candidates, limits);
    return sum;
  };
  while (limits.per_channel < kMaxColumns && room() < columns) ++limits.per_channel;
  std::vector<uint64_t> weights;
  std::vector<uint64_t> caps;
  for (const Bundle& d : domains) {
    weights.push_back(std::max<uint64_t>(1, d.weight));
    caps.push_back(kOneColumn * RoomIn(d, *candidates, limits));
  }
  const std::vector<uint64_t> shares = WaterFill(weights, caps, columns * kOneColumn);
  for (size_t i = 0; i < domains.size(); ++i) {
    if (limits.per_channel >= kMaxColumns) {
      ShareOut(domains[i].free_choice, shares[i]);
      continue;
    }
    weights.clear();
    caps.clear();
    const auto channels = ByChannel(domains[i].free_choice, *candidates);
    for (const auto& [_, channel] : channels) {
      weights.push_back(std::max<uint64_t>(1, channel.weight));
      caps.push_back(kOneColumn * channel.Room(limits.per_channel));
    }
    const auto of_channel = WaterFill(weights, caps, shares[i]);
    size_t c = 0;
    for (const auto& [_, channel] : channels) ShareOut(channel.free_choice, of_channel[c++]);
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

// Random order in which the disks of a node, and of a channel within it, stay together: neighbours on the line are seldom drawn
// together.
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
  explicit Roles(const StripeForm& form) : width_(form), m_(form.m), targets_(form.columns()) {}

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
  // Puts `target` at the role of its group, and the target from there in its place.
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

  StripeForm width_;
  uint32_t m_;
  std::vector<TargetId> targets_;
};

// The node that a data column is wanted on; 0: none.
NodeId WishOf(const Layout& layout, const PlaceRequest& request) {
  if (layout.place == Place::kNode) return layout.place_node;
  return layout.place == Place::kLocal ? request.preferred : NodeId();
}

std::vector<TargetId> Arrange(std::vector<Candidate> candidates, const Layout& layout,
                              const PlaceRequest& request, const StripeForm& form, uint32_t domains, bool at_wish) {
  const uint32_t columns = form.columns();
  const Turn turn = TurnOf(request.seed, columns, candidates.size());
  std::vector<TargetId> parity;
  if (!layout.rotate && form.groups == 1 && !at_wish) parity = ForceParity(&candidates, form.m);
  const NodeId wish = WishOf(layout, request);
  TargetId near;
  if (Candidate* c = wish ? PickOnNode(&candidates, wish, turn) : nullptr) {
    c->forced = true;
    near = c->target->target;
  }
  Limits limits;
  if (form.crowd == 1) {
    limits.per_domain = domains >= columns ? 1 : form.groups;
  } else {
    limits = {form.groups * form.crowd, form.groups};  // on as many channels as there are, at least
  }
  SetShares(&candidates, columns, limits);
  OrderLine(&candidates, turn.order);

  const bool gathered = layout.arrangement == Arrangement::kGathered;
  Roles roles(form);
  roles.Deal(Draw(candidates, turn.point(), columns), turn, gathered ? near : TargetId());
  for (size_t i = 0; i < parity.size(); ++i) roles.Move(parity[i], form.k + i);
  if (near && gathered) {
    roles.Move(near, 0);
  } else if (near && !roles.IsData(near)) {
    roles.Move(near, (turn.index + turn.rotation) % form.k);
  }
  return roles.Take();
}

// A possible form of a stripe, and the room for each of its columns.
struct Room {
  StripeForm form;
  uint64_t shard_bytes = 0;
};

uint64_t LeastShardBytes(const Layout& layout, const PlaceRequest& request) {
  if (request.least_shard_bytes == 0 || layout.m == 0 || layout.arrangement == Arrangement::kGathered) {
    return request.shard_bytes;
  }
  return std::min(request.least_shard_bytes, request.shard_bytes);
}

// The best stripe on disks that satisfy `is_up` and have space; of equally good ones the longest.
std::optional<Room> FindRoom(const ClusterView& view, const Layout& layout, const PlaceRequest& request,
                             const DiskPredicate& is_up) {
  const uint64_t least = LeastShardBytes(layout, request);
  std::optional<Room> best;
  for (uint64_t bytes = request.shard_bytes;; bytes = std::max(bytes / 2, least)) {
    auto has_space = [&](const TargetView& t) { return is_up(t) && t.free_bytes >= bytes; };
    const std::optional<StripeForm> form = BestForm(DisksPerDomain(view, layout.domain, has_space), layout);
    if (form && (!best || form->BetterThan(best->form))) best = Room{*form, bytes};
    if (bytes <= least || (best && best->form.IsWhole(layout))) return best;
  }
}

}  // namespace

const TargetView* ClusterView::Find(TargetId target) const {
  auto it = std::ranges::lower_bound(targets, target, {}, &TargetView::target);
  return it == targets.end() || it->target != target ? nullptr : &*it;
}

Result<Placement> PlaceStripe(const ClusterView& view, const Layout& layout, const PlaceRequest& request) {
  auto is_up = [&](const TargetView& t) {
    return t.configured && t.usable_for_new && !std::ranges::count(request.excluded, t.target);
  };
  const std::optional<Room> room = FindRoom(view, layout, request, is_up);
  const uint64_t shard_bytes = room ? room->shard_bytes : LeastShardBytes(layout, request);
  auto is_candidate = [&](const TargetView& t) { return is_up(t) && t.free_bytes >= shard_bytes; };
  const std::vector<uint32_t> disks = DisksPerDomain(view, layout.domain, is_candidate);
  const std::optional<StripeForm> if_empty = BestForm(DisksPerDomain(view, layout.domain, is_up), layout);
  if (!if_empty) return TooFewUp(view, layout);
  if (!room) {
    return TooFull(layout, static_cast<size_t>(std::ranges::count_if(view.targets, is_candidate)),
                   static_cast<size_t>(std::ranges::count_if(view.targets, is_up)));
  }
  StripeForm form = room->form;
  const bool squeezed = if_empty->BetterThan(form);
  const bool narrow = form.groups < layout.groups || form.k < layout.k;
  const NodeId wish = WishOf(layout, request);
  const bool at_wish = layout.arrangement == Arrangement::kGathered && wish &&
                       std::ranges::any_of(view.targets, [&](const TargetView& t) {
                         return t.node == wish && is_candidate(t);
                       });
  if (at_wish) {
    Layout one = layout;
    one.groups = one.k = 1;
    form = *BestForm(disks, one);
  }
  Placement out;
  out.targets = Arrange(Candidates(view, layout.domain, is_candidate), layout, request, form,
                        static_cast<uint32_t>(disks.size()), at_wish);
  out.groups = static_cast<uint8_t>(form.groups);
  out.k = static_cast<uint8_t>(form.k);
  out.m = static_cast<uint8_t>(form.m);
  out.narrow = (narrow && !at_wish) || form.m < layout.m;
  out.shard_bytes = shard_bytes;
  out.short_of_space = shard_bytes < request.shard_bytes || (squeezed && !at_wish);
  return out;
}

}  // namespace stria
