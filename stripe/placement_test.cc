#include "stripe/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "common/random.h"
#include "stripe/layout.h"
#include "stripe/layout_spec.h"

namespace stria {
namespace {

Layout Parse(const std::string& text) {
  auto layout = ParseLayout(text);
  CHECK(layout.ok(), layout.error().message);
  return *layout;
}

// `nodes` nodes with `disks` disks each, two disks on a channel. Disk d of node n is target n*100 + d, both
// from 1.
ClusterView Cluster(uint32_t nodes, uint32_t disks, uint64_t free_bytes = kTiB) {
  ClusterView view;
  for (uint32_t n = 1; n <= nodes; ++n) {
    for (uint32_t d = 1; d <= disks; ++d) {
      view.targets.push_back({.target = TargetId(n * 100 + d),
                              .node = NodeId(n),
                              .channel = (d - 1) / 2,
                              .capacity_bytes = kTiB,
                              .free_bytes = free_bytes,
                              .usable_for_new = true,
                              .configured = true});
    }
  }
  return view;
}

void Down(ClusterView* view, uint32_t node) {
  for (TargetView& t : view->targets) {
    if (t.node.v == node) t.usable_for_new = false;
  }
}

uint64_t DomainOf(const ClusterView& view, TargetId id, Domain domain) {
  const TargetView* t = view.Find(id);
  if (domain == Domain::kDisk) return id.v;
  return uint64_t{t->node.v} << 32 | (domain == Domain::kChannel ? t->channel : 0);
}

StripeShape ShapeOf(const Layout& layout, const Placement& p) {
  return {.groups = p.groups, .k = p.k, .m = layout.m, .codec = DefaultCodec(p.k, layout.m)};
}

// Every rule of placement.h that holds always.
void ExpectLegal(const ClusterView& view, const Layout& layout, const PlaceRequest& request,
                 const Placement& p, bool at_one_node) {
  const StripeShape shape = ShapeOf(layout, p);
  ASSERT_EQ(p.targets.size(), shape.columns());
  ASSERT_GE(p.k, 1);
  ASSERT_LE(p.k, layout.k);
  ASSERT_LE(p.groups, layout.groups);
  if (at_one_node) {
    ASSERT_EQ(std::tuple(p.k, p.groups, p.narrow), std::tuple(1, 1, false));
  } else {
    ASSERT_EQ(p.narrow, p.k < layout.k || p.groups < layout.groups);
  }
  std::set<TargetId> disks(p.targets.begin(), p.targets.end());
  ASSERT_EQ(disks.size(), p.targets.size()) << "one disk twice";
  std::set<uint64_t> available;
  for (const TargetView& t : view.targets) {
    if (t.configured && t.usable_for_new && t.free_bytes >= request.shard_bytes &&
        !std::ranges::count(request.excluded, t.target)) {
      available.insert(DomainOf(view, t.target, layout.domain));
    }
  }
  const bool crowded = available.size() < layout.m + 1u;  // every_room_test.cc covers this case
  ASSERT_EQ(p.m, layout.m);
  std::set<std::pair<uint32_t, uint64_t>> in_group;
  std::set<uint64_t> in_stripe;
  for (uint16_t c = 0; c < p.targets.size(); ++c) {
    const TargetView* t = view.Find(p.targets[c]);
    ASSERT_TRUE(t != nullptr && t->configured && t->usable_for_new && t->free_bytes >= request.shard_bytes);
    ASSERT_FALSE(std::ranges::count(request.excluded, t->target));
    const uint64_t domain = DomainOf(view, p.targets[c], layout.domain);
    ASSERT_TRUE(in_group.emplace(GroupOf(shape, ColumnIndex(c)), domain).second || crowded) << "two in one domain";
    in_stripe.insert(domain);
  }
  ASSERT_EQ(IsCrowded(view, shape, p.targets, layout.domain), crowded);
  if (available.size() >= p.targets.size()) ASSERT_EQ(in_stripe.size(), p.targets.size());
  if (layout.groups == 1 && !at_one_node && !crowded) ASSERT_EQ(p.k, std::min<size_t>(layout.k, available.size() - layout.m));
}

const char* const kLayouts[] = {"linear",    "raid0:4",   "raid1:2",      "raid1:3",
                                "raid4:3+1", "raid5:4+1", "raid6:4+2",    "rs:8+3",
                                "raid10:5",  "raid10:8",  "raid50:2x2+1", "raid50:3x4+1"};

TEST(PlaceStripeRandom, IsLegalOrRefusedForAReason) {
  std::map<FsError, int> seen;
  for (uint64_t seed = 1; seed <= 1500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random rng(seed);
    ClusterView view = Cluster(rng.Between(1, 12), rng.Between(1, 4));
    for (TargetView& t : view.targets) {
      t.free_bytes = rng.OneIn(6) ? 0 : rng.Between(1, 100) * kGiB;
      t.usable_for_new = !rng.OneIn(6);
      t.configured = !rng.OneIn(10);
    }
    Layout layout = Parse(kLayouts[rng.Below(std::size(kLayouts))]);
    layout.domain = static_cast<Domain>(rng.Between(1, 3));
    layout.place = static_cast<Place>(rng.Between(1, 3));
    layout.place_node = NodeId(rng.Between(1, 12));
    if (rng.OneIn(3)) layout.arrangement = Arrangement::kGathered;
    PlaceRequest request{.seed = rng.Next(), .shard_bytes = rng.Below(2) * kGiB, .preferred = NodeId(1)};
    if (rng.OneIn(3)) request.excluded = {view.targets.front().target};
    const auto placed = PlaceStripe(view, layout, request);
    ++seen[placed.code()];
    if (!placed.ok()) {
      ASSERT_FALSE(placed.error().message.empty());
      continue;
    }
    const NodeId wish = layout.place == Place::kNode    ? layout.place_node
                        : layout.place == Place::kLocal ? request.preferred
                                                        : NodeId();
    const bool possible = std::ranges::any_of(view.targets, [&](const TargetView& t) {
      return t.node == wish && t.configured && t.usable_for_new && t.free_bytes >= request.shard_bytes &&
             !std::ranges::count(request.excluded, t.target);
    });
    const bool gathered = layout.arrangement == Arrangement::kGathered;
    ExpectLegal(view, layout, request, *placed, gathered && possible);
    if (HasFatalFailure()) return;
    ASSERT_EQ(PlaceStripe(view, layout, request)->targets, placed->targets);
    if (!possible || (!layout.rotate && !gathered)) continue;
    auto on_wish = [&](TargetId id) { return view.Find(id)->node == wish; };
    if (gathered) {
      ASSERT_TRUE(on_wish(placed->targets[0]));
    } else {
      ASSERT_TRUE(std::any_of(placed->targets.begin(), placed->targets.begin() + placed->k * placed->groups,
                              on_wish));
    }
  }
  EXPECT_GT(seen[FsError::kOk], 500);
  EXPECT_GT(seen[FsError::kTooFewDomains], 20);
  EXPECT_GT(seen[FsError::kNoSpace], 0);
}

struct Row {
  uint32_t nodes, disks;
  std::vector<uint32_t> down;
  const char* layout;
  FsError code;
  int k, groups;
  bool narrow;
};

TEST(PlaceStripe, NarrowAndRefused) {
  const Row rows[] = {
      {5, 1, {}, "raid5:4+1", FsError::kOk, 4, 1, false},
      {5, 1, {2}, "raid5:4+1", FsError::kOk, 3, 1, true},
      {5, 1, {2, 3, 4}, "raid5:4+1", FsError::kOk, 1, 1, true},
      {5, 1, {2, 3, 4, 5}, "raid5:4+1", FsError::kTooFewDomains, 0, 0, false},
      {4, 9, {}, "raid5:4+1", FsError::kOk, 3, 1, true},
      {1, 5, {}, "raid5:4+1,domain=disk", FsError::kOk, 4, 1, false},
      {3, 2, {}, "raid5:4+1,domain=channel", FsError::kOk, 2, 1, true},
      {3, 4, {}, "raid5:4+1,domain=channel", FsError::kOk, 4, 1, false},
      {6, 1, {1, 2}, "raid6:4+2", FsError::kOk, 2, 1, true},
      {6, 1, {1, 2, 3, 4}, "raid6:4+2", FsError::kTooFewDomains, 0, 0, false},
      {3, 1, {1}, "raid1:2", FsError::kOk, 1, 1, false},
      {3, 1, {1}, "raid1:3", FsError::kTooFewDomains, 0, 0, false},
      {2, 1, {}, "raid1:3", FsError::kTooFewDomains, 0, 0, false},
      {4, 1, {1}, "raid0:4", FsError::kOk, 3, 1, true},
      {4, 1, {1, 2, 3}, "raid0:4", FsError::kOk, 1, 1, true},
      {4, 1, {1, 2, 3, 4}, "raid0:4", FsError::kTooFewDomains, 0, 0, false},
      {3, 1, {}, "raid10:3", FsError::kOk, 1, 1, false},
      {2, 2, {}, "raid10:4", FsError::kOk, 1, 2, false},
      {2, 1, {}, "raid10:4", FsError::kOk, 1, 1, true},
      {4, 1, {4}, "raid10:4", FsError::kOk, 1, 1, true},
      {3, 2, {}, "raid50:2x2+1", FsError::kOk, 2, 2, false},
      {6, 1, {6}, "raid50:2x2+1", FsError::kOk, 2, 1, true},
      {10, 1, {1}, "raid50:2x4+1", FsError::kOk, 3, 2, true},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(testing::Message() << row.layout << " on " << row.nodes << "x" << row.disks << ", "
                                    << row.down.size() << " down");
    ClusterView view = Cluster(row.nodes, row.disks);
    for (uint32_t node : row.down) Down(&view, node);
    const Layout layout = Parse(row.layout);
    const auto placed = PlaceStripe(view, layout, {.seed = 7});
    ASSERT_EQ(placed.code(), row.code) << placed.error().message;
    if (!placed.ok()) continue;
    EXPECT_EQ(placed->k, row.k);
    EXPECT_EQ(placed->groups, row.groups);
    EXPECT_EQ(placed->narrow, row.narrow);
    ExpectLegal(view, layout, {}, *placed, false);
  }
}

TEST(PlaceStripe, SaysWhatToDo) {
  auto refusal = [](uint32_t nodes, uint32_t disks, const char* layout) {
    return CheckLayoutFits(Cluster(nodes, disks), Parse(layout)).error().message;
  };
  EXPECT_EQ(refusal(3, 2, "raid5:4+1"),
            "layout raid5:4+1 with domain node needs 5 nodes and the cluster has 3: add 2 nodes, or use "
            "domain=disk, or layout raid5:2+1");
  EXPECT_EQ(
      refusal(2, 1, "raid1:3"),
      "layout raid1:3 with domain node needs 3 nodes and the cluster has 2: add 1 node, or layout raid1:2");
  EXPECT_EQ(refusal(1, 1, "raid5:2+1,domain=disk"),
            "layout raid5:2+1 with domain disk needs 3 disks and the cluster has 1: add 2 disks");
  EXPECT_EQ(refusal(3, 1, "raid10:4"),
            "layout raid10:4 with domain node needs 4 disks, at most 2 of one node, and the cluster has 3: "
            "add 1 disk, or layout raid1:2");
}

TEST(PlaceStripe, FullDisksNarrowAndThenRefuse) {
  ClusterView view = Cluster(3, 1);
  view.targets[0].free_bytes = 10;
  const Layout layout = Parse("raid5:2+1");
  auto placed = PlaceStripe(view, layout, {.shard_bytes = kMiB});
  ASSERT_TRUE(placed.ok());
  EXPECT_TRUE(placed->narrow);
  view.targets[1].free_bytes = 10;
  EXPECT_EQ(PlaceStripe(view, layout, {.shard_bytes = kMiB}).code(), FsError::kNoSpace);
  Down(&view, 1);
  Down(&view, 2);
  EXPECT_EQ(PlaceStripe(view, layout, {.shard_bytes = kMiB}).code(), FsError::kTooFewDomains);
}

// Shorter before narrower, and only then.
TEST(PlaceStripeRandom, GetsShorterBeforeItGetsNarrower) {
  int shorter = 0, narrower = 0;
  for (uint64_t seed = 1; seed <= 1500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random rng(seed);
    ClusterView view = Cluster(rng.Between(2, 12), rng.Between(1, 4));
    const uint64_t most = rng.Between(1, 20) * kMiB;
    for (TargetView& t : view.targets) t.free_bytes = rng.Below(most);
    Layout layout = Parse(kLayouts[rng.Below(std::size(kLayouts))]);
    layout.domain = static_cast<Domain>(rng.Between(1, 3));
    if (rng.OneIn(5)) layout.arrangement = Arrangement::kGathered;
    PlaceRequest request{.seed = rng.Next(), .shard_bytes = rng.Between(1, 8) * kMiB};
    const auto full = PlaceStripe(view, layout, request);
    PlaceRequest with_least = request;
    with_least.least_shard_bytes = rng.Between(1, request.shard_bytes);
    const auto placed = PlaceStripe(view, layout, with_least);
    PlaceRequest only_least = request;
    only_least.shard_bytes = with_least.least_shard_bytes;
    const auto least = PlaceStripe(view, layout, only_least);
    if (layout.m == 0 || layout.arrangement == Arrangement::kGathered) {
      ASSERT_EQ(placed.code(), full.code());
      if (!full.ok()) continue;
      ASSERT_EQ(placed->targets, full->targets);
      ASSERT_EQ(placed->shard_bytes, full->shard_bytes);
      continue;
    }
    ASSERT_EQ(placed.code(), least.code()) << "refused although the least fits";
    if (!placed.ok()) continue;
    // As wide as if the least were all that is asked for, and no disk gets more than it has free.
    const auto form = [&](const Placement& p) {
      return std::tuple(p.groups, p.k, IsCrowded(view, ShapeOf(layout, p), p.targets, layout.domain));
    };
    ASSERT_EQ(form(*placed), form(*least));
    ASSERT_GE(placed->shard_bytes, with_least.least_shard_bytes);
    ASSERT_LE(placed->shard_bytes, request.shard_bytes);
    PlaceRequest promised = request;
    promised.shard_bytes = placed->shard_bytes;
    ExpectLegal(view, layout, promised, *placed, false);
    if (HasFatalFailure()) return;
    ASSERT_EQ(PlaceStripe(view, layout, with_least)->targets, placed->targets);
    const bool as_full = full.ok() && form(*full) == form(*placed);
    ASSERT_EQ(as_full, placed->shard_bytes == request.shard_bytes);
    if (as_full) ASSERT_EQ(placed->targets, full->targets);
    for (TargetView& t : view.targets) t.free_bytes = kTiB;
    const auto roomy = PlaceStripe(view, layout, request);
    ASSERT_EQ(placed->short_of_space, !as_full || form(*placed) != form(*roomy));
    shorter += !as_full;
    narrower += placed->narrow;
  }
  EXPECT_GT(shorter, 100);
  EXPECT_GT(narrower, 20);
}

TEST(PlaceStripe, FullDisksShortenThenNarrowThenRefuse) {
  ClusterView view = Cluster(4, 1);
  const Layout layout = Parse("raid5:3+1");
  const PlaceRequest request{.shard_bytes = 16 * kMiB, .least_shard_bytes = kMiB};
  auto place = [&] { return PlaceStripe(view, layout, request); };
  EXPECT_EQ(place()->shard_bytes, 16 * kMiB);
  EXPECT_FALSE(place()->short_of_space);
  for (TargetView& t : view.targets) t.free_bytes = 5 * kMiB;
  EXPECT_EQ(place()->shard_bytes, 4 * kMiB);
  EXPECT_FALSE(place()->narrow);
  EXPECT_TRUE(place()->short_of_space);
  view.targets[1].free_bytes = kMiB;
  EXPECT_EQ(place()->shard_bytes, kMiB);
  EXPECT_EQ(place()->k, 3);
  view.targets[1].free_bytes = kMiB - 1;
  EXPECT_EQ(place()->shard_bytes, 4 * kMiB);
  EXPECT_EQ(place()->k, 2);
  EXPECT_TRUE(place()->narrow);
  for (TargetView& t : view.targets) t.free_bytes = kMiB - 1;
  EXPECT_EQ(place().code(), FsError::kNoSpace);
  // Nothing is short of space because a node is down.
  view = Cluster(4, 1);
  Down(&view, 2);
  EXPECT_TRUE(place()->narrow);
  EXPECT_FALSE(place()->short_of_space);
  EXPECT_EQ(place()->shard_bytes, 16 * kMiB);
}

// ---- Balance --------------------------------------------------------------------------------------

struct Use {
  std::map<TargetId, int> columns, parity;
  std::map<std::pair<TargetId, TargetId>, int> together;
};

Use PlaceMany(const ClusterView& view, const Layout& layout, int stripes) {
  Use use;
  for (int s = 0; s < stripes; ++s) {
    auto placed = PlaceStripe(view, layout, {.seed = 1000000 + uint64_t(s)});
    CHECK(placed.ok(), placed.error().message);
    for (size_t c = 0; c < placed->targets.size(); ++c) {
      ++use.columns[placed->targets[c]];
      if (c >= layout.data_columns()) ++use.parity[placed->targets[c]];
      for (size_t d = 0; d < placed->targets.size(); ++d)
        ++use.together[{placed->targets[c], placed->targets[d]}];
    }
  }
  return use;
}

void ExpectWithin(const std::map<TargetId, int>& counts, double expected, double slack) {
  for (const auto& [target, n] : counts) EXPECT_NEAR(n, expected, slack) << "target " << target;
}

TEST(Balance, EvenDisksGetEvenShares) {
  constexpr int kStripes = 10000;
  for (auto [nodes, disks, text] :
       {std::tuple(5, 1, "raid5:4+1"), std::tuple(7, 1, "raid5:4+1"), std::tuple(5, 3, "raid5:4+1"),
        std::tuple(13, 2, "raid6:4+2"), std::tuple(3, 1, "raid10:3"), std::tuple(2, 3, "raid10:4"),
        std::tuple(1, 9, "raid6:4+2,domain=disk"), std::tuple(6, 2, "linear")}) {
    SCOPED_TRACE(testing::Message() << text << " on " << nodes << "x" << disks);
    const Layout layout = Parse(text);
    const Use use = PlaceMany(Cluster(nodes, disks), layout, kStripes);
    const double fair = double(kStripes) * layout.columns() / (nodes * disks);
    EXPECT_EQ(use.columns.size(), size_t(nodes * disks));
    ExpectWithin(use.columns, fair, 0.01 * fair + 3);
    if (layout.m > 0) ExpectWithin(use.parity, fair * layout.m / (layout.k + layout.m), 0.04 * fair + 3);
  }
}

TEST(Balance, FiftyNodesMeetEachOther) {
  const Layout layout = Parse("raid5:4+1");
  const ClusterView view = Cluster(50, 2);
  const Use use = PlaceMany(view, layout, 4000);
  ExpectWithin(use.columns, 200, 10);
  std::map<NodeId, std::set<NodeId>> partners;
  for (const auto& [pair, n] : use.together) {
    partners[view.Find(pair.first)->node].insert(view.Find(pair.second)->node);
  }
  for (const auto& [node, others] : partners) EXPECT_GT(others.size(), 45u) << "node " << node;
}

TEST(Balance, UnequalDisksFillTogether) {
  ClusterView view = Cluster(8, 2);
  for (size_t i = 0; i < view.targets.size(); ++i) {
    view.targets[i].capacity_bytes = view.targets[i].free_bytes = (4000 + 500 * (i % 5)) * kMiB;
  }
  const Layout layout = Parse("raid5:3+1");
  for (uint64_t s = 0; s < 12000; ++s) {
    auto placed = PlaceStripe(view, layout, {.seed = s});
    ASSERT_TRUE(placed.ok());
    for (TargetId id : placed->targets) const_cast<TargetView*>(view.Find(id))->free_bytes -= kMiB;
  }
  for (const TargetView& t : view.targets) {
    EXPECT_NEAR(double(t.free_bytes) / double(t.capacity_bytes), 0.4, 0.05) << "target " << t.target;
  }
}

TEST(Balance, DisksOfANodeTakeTurns) {
  const ClusterView view = Cluster(5, 2);
  int changes = 0;
  TargetId last;
  for (uint64_t s = 0; s < 1000; ++s) {
    auto placed = PlaceStripe(view, Parse("raid5:4+1"), {.seed = s});
    for (TargetId id : placed->targets) {
      if (id.v / 100 != 3) continue;
      changes += id != last;
      last = id;
    }
  }
  EXPECT_GT(changes, 500);
}

TEST(PlaceStripe, Raid4KeepsItsParity) {
  ClusterView view = Cluster(6, 2);
  std::set<TargetId> parity;
  for (uint64_t s = 0; s < 200; ++s)
    parity.insert(PlaceStripe(view, Parse("raid4:4+1"), {.seed = s})->targets[4]);
  EXPECT_EQ(parity, std::set<TargetId>{TargetId(602)});
  Down(&view, 6);
  EXPECT_EQ(PlaceStripe(view, Parse("raid4:4+1"), {.seed = 1})->targets[4], TargetId(502));
}

TEST(PlaceStripe, SpreadsOverNodesWhateverTheDomain) {
  const ClusterView view = Cluster(3, 4);
  for (uint64_t s = 0; s < 200; ++s) {
    auto placed = PlaceStripe(view, Parse("raid5:5+1,domain=disk"), {.seed = s});
    std::map<NodeId, int> nodes;
    for (TargetId id : placed->targets) ++nodes[view.Find(id)->node];
    for (auto [node, n] : nodes) EXPECT_EQ(n, 2) << "node " << node;
  }
}

// ---- Repair ---------------------------------------------------------------------------------------

const StripeShape kRaid5{.groups = 1, .k = 2, .m = 1, .codec = Codec::kXor};

std::vector<TargetId> Targets(std::vector<uint32_t> ids) {
  std::vector<TargetId> out;
  for (uint32_t id : ids) out.push_back(TargetId(id));
  return out;
}

TEST(PlaceRepair, FreeDomainFirstThenCrowdedThenRefused) {
  ClusterView view = Cluster(4, 2);
  const auto columns = Targets({101, 201, 301});
  RepairRequest lost{
      .lost = ColumnIndex(0), .domain = Domain::kNode, .needed_bytes = kMiB, .may_stay = false};
  Down(&view, 1);
  EXPECT_EQ(FindRepairChoices(view, kRaid5, columns, lost)->targets, Targets({401, 402}));
  Down(&view, 4);
  auto crowded = FindRepairChoices(view, kRaid5, columns, lost);
  EXPECT_EQ(crowded->targets, Targets({202, 302}));
  EXPECT_TRUE(crowded->crowded);
  EXPECT_TRUE(PlaceRepair(view, kRaid5, columns, lost, 5)->crowded);
  for (TargetView& t : view.targets) {
    if (t.target.v % 100 == 2) t.free_bytes = 0;
  }
  EXPECT_EQ(FindRepairChoices(view, kRaid5, columns, lost).code(), FsError::kNoSpace);
  for (TargetView& t : view.targets) t.repair_reserve_bytes = kMiB;
  EXPECT_TRUE(FindRepairChoices(view, kRaid5, columns, lost).ok());
  for (TargetView& t : view.targets) t.usable_for_new &= t.target.v % 100 == 1;
  EXPECT_EQ(FindRepairChoices(view, kRaid5, columns, lost).code(), FsError::kTooFewDomains);
}

TEST(PlaceRepair, OwnDiskOnlyIfNothingIsBetterAndAllowed) {
  const ClusterView view = Cluster(3, 2);
  RepairRequest lost{.lost = ColumnIndex(1), .domain = Domain::kNode};
  EXPECT_EQ(FindRepairChoices(view, kRaid5, Targets({101, 201, 301}), lost)->targets, Targets({202}));
  const ClusterView small = Cluster(3, 1);
  EXPECT_EQ(FindRepairChoices(small, kRaid5, Targets({101, 201, 301}), lost)->targets, Targets({201}));
  lost.may_stay = false;
  EXPECT_EQ(FindRepairChoices(small, kRaid5, Targets({101, 201, 301}), lost).code(), FsError::kTooFewDomains);
}

TEST(PlaceRepairRandom, IsLegal) {
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random rng(seed);
    ClusterView view = Cluster(rng.Between(2, 9), rng.Between(1, 4));
    Layout layout = Parse(kLayouts[rng.Below(std::size(kLayouts))]);
    layout.domain = static_cast<Domain>(rng.Between(1, 3));
    const auto placed = PlaceStripe(view, layout, {.seed = seed});
    if (!placed.ok()) continue;
    const StripeShape shape = ShapeOf(layout, *placed);
    if (IsCrowded(view, shape, placed->targets, layout.domain)) continue;
    const ColumnIndex lost(rng.Below(shape.columns()));
    for (TargetView& t : view.targets) {
      t.usable_for_new = !rng.OneIn(4);
      t.free_bytes = rng.Below(5) * kGiB;
    }
    const RepairRequest request{.lost = lost,
                                .domain = layout.domain,
                                .needed_bytes = kGiB,
                                .may_stay = rng.OneIn(2),
                                .refuse = [&](const TargetView& t) { return t.target.v % 7 == seed % 7; }};
    std::set<uint64_t> taken;  // by the rest of the group
    for (uint16_t c = 0; c < shape.columns(); ++c) {
      if (c != lost.v && GroupOf(shape, ColumnIndex(c)) == GroupOf(shape, lost)) {
        taken.insert(DomainOf(view, placed->targets[c], layout.domain));
      }
    }
    bool any = false;
    bool any_uncrowded = false;
    for (const TargetView& t : view.targets) {
      const bool holds_other =
          std::ranges::count(placed->targets, t.target) && t.target != placed->targets[lost.v];
      if (!t.usable_for_new || t.free_bytes < kGiB || holds_other || request.refuse(t)) continue;
      if (t.target == placed->targets[lost.v] && !request.may_stay) continue;
      any = true;
      any_uncrowded |= !taken.contains(DomainOf(view, t.target, layout.domain));
    }
    const auto repair = PlaceRepair(view, shape, placed->targets, request, rng.Next());
    ASSERT_EQ(repair.ok(), any);
    if (!any) continue;
    ASSERT_EQ(repair->crowded, !any_uncrowded);
    auto after = placed->targets;
    after[lost.v] = repair->target;
    ASSERT_EQ(std::set(after.begin(), after.end()).size(), after.size());
    ASSERT_EQ(IsCrowded(view, shape, after, layout.domain), repair->crowded);
    ASSERT_TRUE(view.Find(repair->target)->usable_for_new);
  }
}

TEST(IsCrowded, NamesTheColumns) {
  const ClusterView view = Cluster(3, 2);
  StripeShape shape;
  shape.groups = 2;
  shape.k = 1;
  shape.m = 1;  // data 0, 1; parity 2 (of group 0), 3 (of group 1)
  EXPECT_TRUE(CrowdedColumns(view, shape, Targets({101, 102, 201, 301}), Domain::kNode).empty());
  EXPECT_EQ(CrowdedColumns(view, shape, Targets({101, 201, 102, 301}), Domain::kNode),
            (std::vector<ColumnIndex>{ColumnIndex(0), ColumnIndex(2)}));
  EXPECT_TRUE(CrowdedColumns(view, shape, Targets({101, 201, 102, 301}), Domain::kDisk).empty());
}

TEST(IsCrowded, LooksAtGroups) {
  const ClusterView view = Cluster(3, 3);
  EXPECT_FALSE(IsCrowded(view, Targets({101, 201, 301}), Domain::kNode));
  EXPECT_TRUE(IsCrowded(view, Targets({101, 201, 102}), Domain::kNode));
  EXPECT_TRUE(IsCrowded(view, Targets({101, 201, 102}), Domain::kChannel));
  EXPECT_FALSE(IsCrowded(view, Targets({101, 201, 103}), Domain::kChannel));
  EXPECT_FALSE(IsCrowded(view, Targets({0, 101, 0, 999}), Domain::kNode));
  const StripeShape raid10{.groups = 2, .k = 1, .m = 1, .codec = Codec::kCopy};
  EXPECT_FALSE(IsCrowded(view, raid10, Targets({101, 102, 201, 202}), Domain::kNode));
  EXPECT_TRUE(IsCrowded(view, raid10, Targets({101, 201, 102, 202}), Domain::kNode));
}

}  // namespace
}  // namespace stria
