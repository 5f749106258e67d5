#include "stripe/repair_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "common/random.h"
#include "stripe/layout.h"

namespace stria {
namespace {

using enum ColumnState;

ClusterView Cluster(uint32_t nodes, uint32_t disks) {
  ClusterView view;
  for (uint32_t n = 1; n <= nodes; ++n) {
    for (uint32_t d = 1; d <= disks; ++d) {
      view.targets.push_back({.target = TargetId(n * 100 + d),
                              .node = NodeId(n),
                              .capacity_bytes = kTiB,
                              .free_bytes = kTiB,
                              .usable_for_new = true,
                              .configured = true});
    }
  }
  return view;
}

TargetView& At(ClusterView* view, TargetId id) { return const_cast<TargetView&>(*view->Find(id)); }

void Kill(ClusterView* view, uint32_t node) {
  for (TargetView& t : view->targets) {
    if (t.node.v == node) t.usable_for_new = t.readable = t.configured = false;
  }
}

// A stripe with all columns ok; shard c of stripe s is 1000 s + c.
StripeHealth Stripe(uint64_t id, uint8_t groups, uint8_t k, uint8_t m, const std::vector<uint32_t>& targets,
                    uint64_t payload_bytes = 0) {
  StripeHealth h;
  h.info.id = StripeId(id);
  h.info.shape = {.groups = groups, .k = k, .m = m, .codec = DefaultCodec(k, m), .unit_bytes = 4096};
  StripeShape& shape = h.info.shape;
  shape.payload_bytes = payload_bytes != 0 ? payload_bytes : uint64_t{4096} * shape.data_columns();
  h.info.columns.resize(shape.columns());
  for (uint16_t c = 0; c < shape.columns(); ++c) {
    Column& column = h.info.columns[c];
    column.length = ColumnBytes(shape, ColumnIndex(c));
    if (column.length == 0) continue;
    column.shard = ShardId(id * 1000 + c);
    column.target = TargetId(targets.at(c));
  }
  h.columns.assign(shape.columns(), kOk);
  return h;
}

StripeHealth With(StripeHealth h, std::vector<std::pair<int, ColumnState>> states) {
  for (auto [column, state] : states) h.columns[column] = state;
  return h;
}

std::vector<uint16_t> SourceColumns(const RepairTask& task) {
  std::vector<uint16_t> out;
  for (const auto& s : task.sources) out.push_back(s.column.v);
  return out;
}

TEST(SpareShards, CountsPerGroup) {
  const StripeHealth raid6 = Stripe(1, 1, 3, 2, {101, 201, 301, 401, 501});
  auto spare = [](const StripeHealth& h, uint32_t group) { return SpareShards(h.info, h.columns, group); };
  EXPECT_EQ(spare(raid6, 0), 2);
  EXPECT_EQ(spare(With(raid6, {{0, kMissing}}), 0), 1);
  EXPECT_EQ(spare(With(raid6, {{0, kMissing}, {4, kSuspect}}), 0), 0);
  EXPECT_EQ(spare(With(raid6, {{0, kMissing}, {1, kMissing}, {4, kSuspect}}), 0), -1);
  EXPECT_EQ(spare(With(raid6, {{0, kDraining}, {1, kMisplaced}}), 0), 2);
  const StripeHealth raid50 = With(Stripe(2, 2, 2, 1, {101, 201, 301, 401, 501, 601}), {{2, kMissing}});
  EXPECT_EQ(spare(raid50, 0), 1);
  EXPECT_EQ(spare(raid50, 1), 0);
  const StripeHealth small = Stripe(3, 1, 3, 1, {101, 201, 301, 401}, 100);  // columns 1 and 2 are empty
  EXPECT_EQ(spare(With(small, {{0, kMissing}}), 0), 0);
  EXPECT_EQ(spare(With(small, {{0, kMissing}, {3, kMissing}}), 0), -1);
}

// A mirrored run of a file: its data on `data`, a copy on `copy`.
StripeHealth Mirror(uint64_t id, uint32_t data, uint32_t copy) {
  StripeHealth h = Stripe(id, 1, 1, 1, {data, copy});
  h.info.shape.column_bytes = {h.info.shape.payload_bytes};
  return h;
}

TEST(PlanRepairs, ARunOfAFileStaysOnItsNode) {
  ClusterView view = Cluster(5, 2);
  At(&view, TargetId(102)).free_bytes = kGiB;  // others have far more
  const auto target_of = [&](StripeHealth h) {
    const RepairPlan plan = PlanRepairs(view, std::vector<StripeHealth>{std::move(h)}, {}, {});
    return plan.tasks.empty() ? 0 : plan.tasks[0].new_target.v;
  };
  for (uint64_t id = 1; id <= 20; ++id) {
    EXPECT_EQ(target_of(With(Mirror(id, 101, 201), {{0, kDraining}})), 102u);
    EXPECT_NE(target_of(With(Mirror(id, 201, 101), {{1, kDraining}})), 102u) << "a copy may be anywhere";
    StripeHealth placed = With(Mirror(id, 101, 201), {{0, kMissing}});
    placed.place_node = NodeId(4);
    EXPECT_EQ(target_of(placed) / 100, 4u) << "where the layout says";
    placed.place_node = NodeId(2);
    EXPECT_NE(target_of(placed) / 100, 2u) << "not beside its copy";
  }
  At(&view, TargetId(102)).free_bytes = At(&view, TargetId(102)).repair_reserve_bytes = 0;
  EXPECT_NE(target_of(With(Mirror(1, 101, 201), {{0, kDraining}})), 0u) << "full: anywhere";
  Kill(&view, 1);
  EXPECT_NE(target_of(With(Mirror(1, 101, 201), {{0, kMissing}})), 0u);
}

TEST(PlanRepairs, RebuildsALostShardInAFreeDomain) {
  ClusterView view = Cluster(4, 1);
  Kill(&view, 2);
  const std::vector<StripeHealth> health = {With(Stripe(7, 1, 2, 1, {101, 201, 301}), {{1, kMissing}})};
  const RepairPlan plan = PlanRepairs(view, health, {}, {});
  ASSERT_EQ(plan.tasks.size(), 1u);
  const RepairTask& task = plan.tasks[0];
  EXPECT_EQ(task.stripe, StripeId(7));
  EXPECT_EQ(task.kind, RepairKind::kRebuild);
  EXPECT_EQ(task.column, ColumnIndex(1));
  EXPECT_EQ(task.old_shard, ShardId(7001));
  EXPECT_EQ(task.old_target, TargetId(201));
  EXPECT_EQ(task.new_target, TargetId(401));
  EXPECT_EQ(task.executor, NodeId(4));
  EXPECT_EQ(SourceColumns(task), (std::vector<uint16_t>{0, 2}));
  EXPECT_FALSE(task.crowded);
  EXPECT_EQ(task.spare, 0);
  EXPECT_TRUE(PlanRepairs(view, health, {}, plan.tasks).tasks.empty()) << "one task of a stripe at a time";
}

struct Row {
  const char* what;
  StripeHealth health;
  size_t tasks, unrepairable, waiting, homeless;
  RepairKind kind = RepairKind::kRebuild;
  int column = -1;
  std::vector<uint16_t> sources = {};
  bool crowded = false;
};

TEST(PlanRepairs, TruthTable) {
  // Nodes 1 to 5 with one disk, node 6 with two; nodes 4 and 5 are not usable for new shards.
  ClusterView view = Cluster(6, 1);
  view.targets.push_back(view.targets.back());
  view.targets.back().target = TargetId(602);
  At(&view, TargetId(401)).usable_for_new = At(&view, TargetId(501)).usable_for_new = false;
  At(&view, TargetId(501)).readable = false;
  auto raid5 = [](uint32_t a, uint32_t b, uint32_t c) { return Stripe(1, 1, 2, 1, {a, b, c}); };
  const Row rows[] = {
      {"healthy", raid5(101, 201, 301), 0, 0, 0, 0},
      {"suspect only", With(raid5(101, 201, 301), {{0, kSuspect}}), 0, 0, 0, 0},
      {"bad checksum",
       With(raid5(101, 201, 301), {{2, kMissing}}),
       1,
       0,
       0,
       0,
       RepairKind::kRebuild,
       2,
       {0, 1}},
      {"two lost", With(raid5(101, 201, 301), {{0, kMissing}, {1, kMissing}}), 0, 1, 0, 0},
      {"lost and suspect", With(raid5(101, 201, 301), {{0, kMissing}, {1, kSuspect}}), 0, 0, 1, 0},
      {"lost and unreadable", With(raid5(101, 201, 501), {{0, kMissing}}), 0, 0, 1, 0},
      {"drain copies", With(raid5(401, 201, 301), {{0, kDraining}}), 1, 0, 0, 0, RepairKind::kDrain, 0, {0}},
      {"drain decodes",
       With(raid5(501, 201, 301), {{0, kDraining}}),
       1,
       0,
       0,
       0,
       RepairKind::kDrain,
       0,
       {1, 2}},
      {"drain waits", With(raid5(501, 201, 301), {{0, kDraining}, {1, kSuspect}}), 0, 0, 1, 0},
      {"drains what is left",
       With(raid5(401, 201, 301), {{0, kDraining}, {1, kMissing}, {2, kMissing}}),
       1,
       1,
       0,
       0,
       RepairKind::kDrain,
       0,
       {0}},
      {"rebuild before drain",
       With(raid5(401, 201, 301), {{0, kDraining}, {1, kMissing}}),
       1,
       0,
       0,
       0,
       RepairKind::kRebuild,
       1,
       {0, 2}},
      {"misplaced moves",
       With(raid5(601, 602, 101), {{0, kMisplaced}}),
       1,
       0,
       0,
       0,
       RepairKind::kMove,
       0,
       {0}},
      {"crowded",
       With(Stripe(1, 1, 3, 1, {401, 101, 201, 301}), {{0, kMissing}}),
       1,
       0,
       0,
       0,
       RepairKind::kRebuild,
       0,
       {1, 2, 3}},
      {"no place but crowded",
       With(Stripe(1, 1, 4, 1, {401, 101, 201, 301, 601}), {{0, kMissing}}),
       1,
       0,
       0,
       0,
       RepairKind::kRebuild,
       0,
       {1, 2, 3, 4},
       true},
      {"homeless", With(Stripe(1, 1, 5, 1, {401, 101, 201, 301, 601, 602}), {{0, kMissing}}), 0, 0, 0, 1},
      {"short stripe",
       With(Stripe(1, 1, 3, 1, {101, 201, 301, 601}, 100), {{0, kMissing}}),
       1,
       0,
       0,
       0,
       RepairKind::kRebuild,
       0,
       {3}},
      {"mirror",
       With(Stripe(1, 1, 1, 2, {101, 201, 301}), {{0, kMissing}, {2, kMissing}}),
       1,
       0,
       0,
       0,
       RepairKind::kRebuild,
       0,
       {1}},
      {"no parity", With(Stripe(1, 1, 2, 0, {101, 201}), {{0, kMissing}}), 0, 1, 0, 0},
      {"one group lost, other repaired",
       With(Stripe(1, 2, 1, 1, {101, 201, 301, 601}), {{0, kMissing}, {2, kMissing}, {1, kMissing}}),
       1,
       1,
       0,
       0,
       RepairKind::kRebuild,
       1,
       {3}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    const RepairPlan plan = PlanRepairs(view, std::vector{row.health}, {}, {});
    EXPECT_EQ(plan.unrepairable.size(), row.unrepairable);
    EXPECT_EQ(plan.waiting.size(), row.waiting);
    EXPECT_EQ(plan.homeless.size(), row.homeless);
    EXPECT_EQ(plan.deferred, 0u);
    ASSERT_EQ(plan.tasks.size(), row.tasks);
    if (row.tasks == 0) continue;
    EXPECT_EQ(plan.tasks[0].kind, row.kind);
    EXPECT_EQ(plan.tasks[0].column.v, row.column);
    EXPECT_EQ(SourceColumns(plan.tasks[0]), row.sources);
    EXPECT_EQ(plan.tasks[0].crowded, row.crowded);
  }
}

TEST(PlanRepairs, UnrepairableNamesTheGroup) {
  const auto health = With(Stripe(9, 2, 1, 1, {101, 201, 301, 401}), {{1, kMissing}, {3, kMissing}});
  const RepairPlan plan = PlanRepairs(Cluster(4, 1), std::vector{health}, {}, {});
  EXPECT_EQ(plan.unrepairable, (std::vector<GroupLoss>{{.stripe = StripeId(9),
                                                        .group = 1,
                                                        .readable = 0,
                                                        .needed = 1,
                                                        .missing = {ColumnIndex(1), ColumnIndex(3)}}}));
}

TEST(PlanRepairs, MovesOnlyIntoAFreeDomain) {
  const auto health = With(Stripe(1, 1, 2, 1, {101, 102, 201}), {{0, kMisplaced}});
  const RepairPlan stay = PlanRepairs(Cluster(2, 3), std::vector{health}, {}, {});
  EXPECT_TRUE(stay.tasks.empty());
  EXPECT_TRUE(stay.homeless.empty());
  EXPECT_EQ(PlanRepairs(Cluster(3, 3), std::vector{health}, {}, {}).tasks.size(), 1u);
}

TEST(PlanRepairs, FewestSpareShardsFirst) {
  std::vector<StripeHealth> health;
  health.push_back(With(Stripe(1, 1, 2, 1, {101, 201, 301}), {{0, kDraining}}));   // spare 1, drain
  health.push_back(With(Stripe(2, 1, 1, 2, {101, 201, 301}), {{0, kMissing}}));    // spare 1, rebuild
  health.push_back(With(Stripe(3, 1, 2, 1, {101, 201, 301}), {{0, kMissing}}));    // spare 0
  health.push_back(With(Stripe(4, 1, 2, 1, {101, 201, 301}), {{0, kMisplaced}}));  // spare 1, move
  health.push_back(With(Stripe(5, 1, 1, 2, {101, 201, 301}), {{0, kMissing}, {1, kMissing}}));  // spare 0
  const RepairPlan plan =
      PlanRepairs(Cluster(6, 1), health, {.max_writes_per_node = 10, .max_reads_per_node = 100}, {});
  std::vector<uint64_t> order;
  for (const RepairTask& t : plan.tasks) order.push_back(t.stripe.v);
  EXPECT_EQ(order, (std::vector<uint64_t>{3, 5, 2, 1, 4}));
}

TEST(PlanRepairs, ABusyClusterWaitsRatherThanCrowds) {
  std::vector<StripeHealth> health;
  for (uint64_t s = 1; s <= 3; ++s) {
    health.push_back(With(Stripe(s, 1, 2, 1, {101, 201, 301}), {{0, kMissing}}));
  }
  ClusterView view = Cluster(4, 2);
  Kill(&view, 1);
  const RepairPlan plan = PlanRepairs(view, health, {.max_writes_per_node = 1}, {});
  ASSERT_EQ(plan.tasks.size(), 1u);
  EXPECT_EQ(plan.tasks[0].executor, NodeId(4));
  EXPECT_EQ(plan.deferred, 2u);
}

TEST(PlanRepairs, PromisedSpaceIsNotPromisedTwice) {
  ClusterView view = Cluster(4, 1);
  Kill(&view, 1);
  At(&view, TargetId(401)).free_bytes = 4096;
  At(&view, TargetId(401)).repair_reserve_bytes = 4096;
  std::vector<StripeHealth> health;
  for (uint64_t s = 1; s <= 3; ++s) {
    health.push_back(With(Stripe(s, 1, 2, 1, {101, 201, 301}), {{0, kMissing}}));
  }
  const RepairPlan plan = PlanRepairs(view, health, {}, {});
  EXPECT_EQ(plan.tasks.size(), 2u);
  EXPECT_EQ(plan.homeless.size(), 1u);
}

// ---- A cluster that loses disks and heals --------------------------------------------------------

struct World {
  ClusterView view;
  std::vector<StripeHealth> health;
};

World RandomWorld(Random* rng) {
  World w;
  w.view = Cluster(rng->Between(4, 12), rng->Between(1, 3));
  for (TargetView& t : w.view.targets) t.free_bytes = rng->Between(1, 100) * kGiB;
  const uint64_t stripes = rng->Between(20, 120);
  for (uint64_t id = 1; id <= stripes; ++id) {
    static constexpr uint8_t kShapes[][3] = {{1, 2, 1}, {1, 2, 2}, {1, 1, 1},
                                             {2, 1, 1}, {1, 3, 0}, {1, 1, 2}};
    const auto& s = kShapes[rng->Below(std::size(kShapes))];
    const Layout layout{.groups = s[0], .k = s[1], .m = s[2], .codec = DefaultCodec(s[1], s[2])};
    const auto placed = PlaceStripe(w.view, layout, {.seed = id});
    if (!placed.ok()) continue;
    std::vector<uint32_t> targets;
    for (TargetId t : placed->targets) targets.push_back(t.v);
    const uint64_t payload = rng->Between(1, uint64_t{4096} * s[0] * s[1]);
    w.health.push_back(Stripe(id, s[0], s[1], s[2], targets, payload));
  }
  return w;
}

void Damage(Random* rng, World* w) {
  for (TargetView& t : w->view.targets) {
    const uint64_t fate = rng->Below(12);
    if (fate == 0) t.configured = t.usable_for_new = t.readable = false;
    if (fate == 1) t.usable_for_new = false;
    if (fate == 2) t.usable_for_new = t.readable = false;
  }
  for (StripeHealth& h : w->health) {
    for (size_t c = 0; c < h.columns.size(); ++c) {
      if (h.info.columns[c].length == 0) continue;
      const TargetView& t = *w->view.Find(h.info.columns[c].target);
      if (!t.configured) {
        h.columns[c] = kMissing;
      } else if (!t.usable_for_new) {
        h.columns[c] = t.readable ? kDraining : kSuspect;
      } else if (rng->OneIn(40)) {
        h.columns[c] = kMissing;
      }
    }
  }
}

void ExpectLegal(const World& w, const RepairBudget& budget, const RepairPlan& plan,
                 const std::vector<RepairTask>& in_flight) {
  std::map<StripeId, const StripeHealth*> by_id;
  for (const StripeHealth& h : w.health) by_id[h.info.id] = &h;
  std::map<NodeId, uint32_t> writes, reads;
  std::set<StripeId> stripes;
  std::vector<RepairTask> all = in_flight;
  all.insert(all.end(), plan.tasks.begin(), plan.tasks.end());
  ASSERT_LE(all.size(), budget.max_tasks);
  for (const RepairTask& task : all) {
    ASSERT_TRUE(stripes.insert(task.stripe).second) << "two tasks of one stripe";
    ASSERT_LE(++writes[task.executor], budget.max_writes_per_node);
    for (const auto& s : task.sources) ASSERT_LE(++reads[s.node], budget.max_reads_per_node);
  }
  for (const RepairTask& task : plan.tasks) {
    const StripeHealth& h = *by_id.at(task.stripe);
    const StripeShape& shape = h.info.shape;
    const ColumnState state = h.columns[task.column.v];
    const uint32_t group = GroupOf(shape, task.column);
    ASSERT_TRUE(state == kMissing || state == kDraining || state == kMisplaced);
    ASSERT_EQ(task.old_shard, h.info.columns[task.column.v].shard);
    ASSERT_EQ(w.view.Find(task.new_target)->node, task.executor);
    ASSERT_TRUE(w.view.Find(task.new_target)->usable_for_new);
    std::vector<TargetId> after;
    for (const Column& c : h.info.columns) after.push_back(c.target);
    after[task.column.v] = TargetId();
    ASSERT_FALSE(std::ranges::count(after, task.new_target)) << "one disk twice";
    uint32_t empty = 0;
    for (uint16_t c = 0; c < after.size(); ++c) {
      empty += GroupOf(shape, ColumnIndex(c)) == group && h.info.columns[c].length == 0;
    }
    for (const auto& s : task.sources) {
      ASSERT_TRUE(w.view.Find(s.target)->readable);
      ASSERT_TRUE(h.columns[s.column.v] != kMissing && h.columns[s.column.v] != kSuspect);
      ASSERT_EQ(GroupOf(shape, s.column), group);
      ASSERT_EQ(s.shard, h.info.columns[s.column.v].shard);
      ASSERT_EQ(s.column == task.column, task.copies_itself());
    }
    if (!task.copies_itself()) {
      ASSERT_EQ(task.sources.size() + empty, shape.k);
    } else {
      ASSERT_NE(state, kMissing);
    }
    if (!task.crowded) continue;
    // No disk of a free domain could have taken it.
    for (const TargetView& t : w.view.targets) {
      if (!t.usable_for_new || !t.configured) continue;
      if (t.target == task.old_target && state != kMissing) continue;
      bool shares = false;
      for (uint16_t c = 0; c < after.size(); ++c) {
        const TargetView* other = w.view.Find(after[c]);
        shares |= other != nullptr && other->target == t.target;
        shares |= other != nullptr && other->node == t.node && GroupOf(shape, ColumnIndex(c)) == group;
      }
      ASSERT_TRUE(shares) << "crowded although " << t.target << " is free";
    }
  }
}

TEST(PlanRepairsRandom, HealsWithinTheRules) {
  uint64_t healed = 0;
  uint64_t lost = 0;
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random rng(seed);
    World w = RandomWorld(&rng);
    Damage(&rng, &w);
    const RepairBudget budget{.max_tasks = static_cast<uint32_t>(rng.Between(1, 20)),
                              .max_writes_per_node = static_cast<uint32_t>(rng.Between(1, 4)),
                              .max_reads_per_node = static_cast<uint32_t>(rng.Between(3, 8))};
    std::vector<RepairTask> in_flight;
    for (int round = 0; round < 1000; ++round) {
      const RepairPlan plan = PlanRepairs(w.view, w.health, budget, in_flight);
      ASSERT_EQ(plan.tasks, PlanRepairs(w.view, w.health, budget, in_flight).tasks);
      ExpectLegal(w, budget, plan, in_flight);
      if (HasFatalFailure()) return;
      in_flight.insert(in_flight.end(), plan.tasks.begin(), plan.tasks.end());
      if (in_flight.empty()) {
        ASSERT_EQ(plan.deferred, 0u) << "idle, but tasks wait";
        break;
      }
      // Some of the tasks end.
      const size_t ends = rng.Between(1, in_flight.size());
      for (size_t i = 0; i < ends; ++i) {
        const RepairTask& task = in_flight[i];
        auto h = std::ranges::find(w.health, task.stripe, [](const StripeHealth& x) { return x.info.id; });
        h->info.columns[task.column.v].target = task.new_target;
        h->columns[task.column.v] = kOk;
        ++healed;
      }
      in_flight.erase(in_flight.begin(), in_flight.begin() + ends);
    }
    ASSERT_TRUE(in_flight.empty()) << "does not come to an end";
    // Stripes that are not healed are accounted for.
    const RepairPlan rest = PlanRepairs(w.view, w.health, budget, {});
    std::set<StripeId> named(rest.homeless.begin(), rest.homeless.end());
    for (const auto& list : {rest.unrepairable, rest.waiting}) {
      for (const GroupLoss& loss : list) named.insert(loss.stripe);
    }
    for (const StripeHealth& h : w.health) {
      if (std::ranges::count(h.columns, kMissing)) ASSERT_TRUE(named.contains(h.info.id)) << h.info.id;
    }
    lost += rest.unrepairable.size();
  }
  EXPECT_GT(healed, 1000u);
  EXPECT_GT(lost, 10u);
}

TEST(PlanRepairs, EveryNodeTakesPart) {
  ClusterView view = Cluster(10, 2);
  const Layout layout{.k = 4, .m = 1};
  std::vector<StripeHealth> health;
  for (uint64_t id = 1; id <= 2000; ++id) {
    const auto placed = PlaceStripe(view, layout, {.seed = id});
    std::vector<uint32_t> targets;
    for (TargetId t : placed->targets) targets.push_back(t.v);
    StripeHealth h = Stripe(id, 1, 4, 1, targets);
    for (size_t c = 0; c < 5; ++c) {
      if (targets[c] / 100 == 3) h.columns[c] = kMissing;
    }
    health.push_back(h);
  }
  Kill(&view, 3);
  const RepairPlan plan = PlanRepairs(view, health, {.max_tasks = 90, .max_writes_per_node = 12}, {});
  std::map<NodeId, int> writes, reads;
  for (const RepairTask& task : plan.tasks) {
    ++writes[task.executor];
    for (const auto& s : task.sources) ++reads[s.node];
  }
  EXPECT_EQ(writes.size(), 9u);
  EXPECT_EQ(reads.size(), 9u);
  for (auto [node, n] : writes) EXPECT_NEAR(n, double(plan.tasks.size()) / 9, 2.0) << "node " << node;
  for (auto [node, n] : reads) EXPECT_NEAR(n, double(plan.tasks.size()) * 4 / 9, 8.0) << "node " << node;
}

}  // namespace
}  // namespace stria
