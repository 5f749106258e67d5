#include "stripe/repair_plan.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "common/random.h"
#include "stripe/layout.h"

namespace stria {

namespace {

// After so many stripes in a row that wait for busy nodes the rest is not tried.
constexpr uint32_t kMaxDeferredInARow = 256;

// The next step for one stripe.
struct Job {
  const StripeHealth* health = nullptr;
  RepairKind kind = RepairKind::kRebuild;
  ColumnIndex column;
  int spare = 0;

  StripeId stripe() const { return health->info.id; }
  uint32_t group() const { return GroupOf(health->info.shape, column); }
  auto order() const { return std::tuple(spare, kind, stripe(), column); }
};

bool HasShard(const StripeInfo& info, ColumnIndex column) { return info.columns[column.v].length > 0; }

// Calls f(column) for each column of the group.
template <class F>
void ForGroup(const StripeShape& shape, uint32_t group, F f) {
  for (uint32_t i = 0; i < uint32_t{shape.k} + shape.m; ++i) f(ColumnOf(shape, group, i));
}

uint64_t Hash(StripeId stripe, uint64_t salt) {
  return Random(stripe.v * 0x9e3779b97f4a7c15ULL + salt).Next();
}

// Columns of the group by their state.
struct GroupState {
  std::vector<ColumnIndex> readable;  // with a shard
  uint32_t empty = 0;                 // known to be zeros
  uint32_t suspect = 0;
  std::vector<ColumnIndex> missing;
};

bool IsReadable(const ClusterView& view, const StripeHealth& health, ColumnIndex column) {
  const ColumnState state = health.columns[column.v];
  if (state == ColumnState::kMissing || state == ColumnState::kSuspect) return false;
  const TargetView* t = view.Find(health.info.columns[column.v].target);
  return t != nullptr && t->readable;
}

GroupState StateOf(const ClusterView& view, const StripeHealth& health, uint32_t group) {
  GroupState out;
  ForGroup(health.info.shape, group, [&](ColumnIndex c) {
    if (!HasShard(health.info, c)) {
      ++out.empty;
    } else if (health.columns[c.v] == ColumnState::kMissing) {
      out.missing.push_back(c);
    } else if (IsReadable(view, health, c)) {
      out.readable.push_back(c);
    } else {
      ++out.suspect;
    }
  });
  return out;
}

// The most urgent job of the stripe, if any. Groups that cannot be decoded now go to `plan`.
std::optional<Job> NextJob(const ClusterView& view, const StripeHealth& health, RepairPlan* plan) {
  std::optional<Job> best;
  auto offer = [&best](const Job& job) {
    if (!best || job.order() < best->order()) best = job;
  };
  const StripeInfo& info = health.info;
  for (uint32_t group = 0; group < info.shape.groups; ++group) {
    const GroupState state = StateOf(view, health, group);
    const uint32_t have = static_cast<uint32_t>(state.readable.size()) + state.empty;
    const bool decodable = have >= info.shape.k;
    const int spare = static_cast<int>(have) - info.shape.k;
    bool must_decode = !state.missing.empty();
    ForGroup(info.shape, group, [&](ColumnIndex c) {
      if (!HasShard(info, c)) return;
      const bool readable = IsReadable(view, health, c);
      switch (health.columns[c.v]) {
        case ColumnState::kOk:
        case ColumnState::kSuspect:
          break;
        case ColumnState::kMissing:
          if (decodable) offer({&health, RepairKind::kRebuild, c, spare});
          break;
        case ColumnState::kDraining:
          must_decode |= !readable;
          if (readable || decodable) offer({&health, RepairKind::kDrain, c, spare});
          break;
        case ColumnState::kMisplaced:
          if (readable) offer({&health, RepairKind::kMove, c, spare});
          break;
      }
    });
    if (!must_decode || decodable) continue;
    const bool hopeless = have + state.suspect < info.shape.k;
    (hopeless ? plan->unrepairable : plan->waiting)
        .push_back({info.id, group, have, info.shape.k, state.missing});
  }
  return best;
}

// Tasks under way, by node. Grows as tasks are planned.
class Load {
 public:
  void Add(const RepairTask& task) {
    ++tasks_;
    ++writes_[task.executor];
    ++writes_of_target_[task.new_target];
    promised_bytes_[task.new_target] += task.shard_bytes;
    for (const RepairTask::Source& s : task.sources) ++reads_[s.node];
  }
  uint64_t tasks() const { return tasks_; }
  uint32_t writes(NodeId node) const { return Get(writes_, node); }
  uint32_t writes(TargetId target) const { return Get(writes_of_target_, target); }
  uint32_t reads(NodeId node) const { return Get(reads_, node); }
  uint64_t promised_bytes(TargetId target) const { return Get(promised_bytes_, target); }

 private:
  template <class Map>
  static typename Map::mapped_type Get(const Map& map, typename Map::key_type key) {
    auto it = map.find(key);
    return it == map.end() ? 0 : it->second;
  }
  uint64_t tasks_ = 0;
  std::map<NodeId, uint32_t> writes_, reads_;
  std::map<TargetId, uint32_t> writes_of_target_;
  std::map<TargetId, uint64_t> promised_bytes_;
};

// A node that could take the next task. The best one has the least load for its space.
struct Contender {
  uint32_t load = 0;
  uint64_t weight = 0;  // free bytes
  uint64_t tie = 0;
  bool operator<(const Contender& o) const {
    const auto mine = static_cast<unsigned __int128>(load + 1) * std::max<uint64_t>(o.weight, 1);
    const auto theirs = static_cast<unsigned __int128>(o.load + 1) * std::max<uint64_t>(weight, 1);
    return mine != theirs ? mine < theirs : tie < o.tie;
  }
};

// Null if all their nodes are busy.
const TargetView* PickWriter(const ClusterView& view, const std::vector<TargetId>& choices, StripeId stripe,
                             const RepairBudget& budget, const Load& load) {
  std::map<NodeId, Contender> nodes;
  for (TargetId id : choices) {
    const TargetView& t = *view.Find(id);
    if (load.writes(t.node) >= budget.max_writes_per_node) continue;
    Contender& node = nodes[t.node];
    node.load = load.writes(t.node);
    node.weight += t.free_bytes;
    node.tie = Hash(stripe, t.node.v);
  }
  if (nodes.empty()) return nullptr;
  const NodeId node = std::min_element(nodes.begin(), nodes.end(), [](const auto& a, const auto& b) {
                        return a.second < b.second;
                      })->first;
  const TargetView* best = nullptr;
  Contender least;
  for (TargetId id : choices) {
    const TargetView& t = *view.Find(id);
    if (t.node != node) continue;
    const Contender c{load.writes(id), t.free_bytes, Hash(stripe, uint64_t{id.v} << 32)};
    if (best != nullptr && !(c < least)) continue;
    best = &t;
    least = c;
  }
  return best;
}

RepairTask::Source SourceAt(const ClusterView& view, const StripeInfo& info, ColumnIndex column) {
  const Column& c = info.columns[column.v];
  return {column, c.shard, c.target, view.Find(c.target)->node};
}

// Enough readable columns, from the nodes that read least, the executor's own first among equals. Empty if
// the nodes that have them are busy.
std::vector<RepairTask::Source> PickSources(const ClusterView& view, const Job& job, NodeId executor,
                                            const RepairBudget& budget, const Load& load) {
  const StripeHealth& health = *job.health;
  const GroupState state = StateOf(view, health, job.group());
  std::vector<ColumnIndex> from = state.readable;
  size_t needed = health.info.shape.k - std::min<uint32_t>(health.info.shape.k, state.empty);
  if (IsReadable(view, health, job.column)) {
    from = {job.column};
    needed = 1;
  }
  std::vector<RepairTask::Source> out;
  std::map<NodeId, uint32_t> mine;
  while (out.size() < needed) {
    std::optional<std::pair<std::tuple<uint32_t, bool, uint64_t>, RepairTask::Source>> best;
    for (ColumnIndex c : from) {
      if (std::ranges::count(out, c, &RepairTask::Source::column)) continue;
      const RepairTask::Source source = SourceAt(view, health.info, c);
      const uint32_t reads = load.reads(source.node) + mine[source.node];
      if (reads >= budget.max_reads_per_node) continue;
      const std::tuple rank(reads, source.node != executor, Hash(job.stripe(), c.v));
      if (!best || rank < best->first) best.emplace(rank, source);
    }
    if (!best) return {};
    ++mine[best->second.node];
    out.push_back(best->second);
  }
  std::ranges::sort(out, {}, &RepairTask::Source::column);
  return out;
}

enum class Outcome { kPlanned, kDeferred, kNoPlace };

// A long run of a file stays on its node, if it has another disk there: jobs were sent to it.
NodeId HomeOf(const ClusterView& view, const Job& job) {
  const StripeInfo& info = job.health->info;
  if (!info.shape.gathered() || IsParity(info.shape, job.column)) return NodeId();
  if (job.health->place_node) return job.health->place_node;
  const TargetView* old = view.Find(info.columns[job.column.v].target);
  return old == nullptr ? NodeId() : old->node;
}

Outcome TryJob(const ClusterView& view, const Job& job, const RepairBudget& budget, Load* load,
               RepairPlan* plan) {
  const StripeInfo& info = job.health->info;
  const Column& lost = info.columns[job.column.v];
  std::vector<TargetId> targets;
  for (const Column& c : info.columns) targets.push_back(c.target);
  const RepairRequest request{
      .lost = job.column,
      .domain = job.health->domain,
      .needed_bytes = lost.length,
      .home = HomeOf(view, job),
      .may_stay = job.kind == RepairKind::kRebuild,
      .refuse =
          [&](const TargetView& t) {
            if (std::ranges::count(job.health->avoid, t.node) > 0) return true;
            const uint64_t promised = load->promised_bytes(t.target);
            // The reserve is for stripes at risk.
            const uint64_t space = t.free_bytes + (job.kind == RepairKind::kMove ? 0 : t.repair_reserve_bytes);
            return promised > space || space - promised < lost.length;
          },
  };
  const auto choices = FindRepairChoices(view, info.shape, targets, request);
  if (!choices.ok()) return Outcome::kNoPlace;
  if (choices->crowded && job.kind == RepairKind::kMove) return Outcome::kNoPlace;
  const TargetView* place = PickWriter(view, choices->targets, info.id, budget, *load);
  if (place == nullptr) return Outcome::kDeferred;
  RepairTask task{.stripe = info.id,
                  .kind = job.kind,
                  .column = job.column,
                  .old_shard = lost.shard,
                  .old_target = lost.target,
                  .shard_bytes = lost.length,
                  .new_target = place->target,
                  .executor = place->node,
                  .sources = PickSources(view, job, place->node, budget, *load),
                  .crowded = choices->crowded,
                  .spare = job.spare};
  if (task.sources.empty()) return Outcome::kDeferred;
  load->Add(task);
  plan->tasks.push_back(std::move(task));
  return Outcome::kPlanned;
}

}  // namespace

int SpareShards(const StripeInfo& info, std::span<const ColumnState> states, uint32_t group) {
  CHECK(states.size() == info.columns.size() && group < info.shape.groups);
  int have = 0;
  ForGroup(info.shape, group, [&](ColumnIndex c) {
    const ColumnState state = states[c.v];
    have += !HasShard(info, c) || (state != ColumnState::kMissing && state != ColumnState::kSuspect);
  });
  return have - info.shape.k;
}

RepairPlan PlanRepairs(const ClusterView& view, std::span<const StripeHealth> health,
                       const RepairBudget& budget, std::span<const RepairTask> in_flight) {
  RepairPlan plan;
  Load load;
  std::set<StripeId> busy;
  for (const RepairTask& task : in_flight) {
    load.Add(task);
    busy.insert(task.stripe);
  }
  std::vector<Job> jobs;
  for (const StripeHealth& h : health) {
    CHECK(h.columns.size() == h.info.columns.size() && h.columns.size() == h.info.shape.columns(),
          "one state per column");
    const std::optional<Job> job = NextJob(view, h, &plan);
    if (job && !busy.contains(h.info.id)) jobs.push_back(*job);
  }
  std::ranges::sort(jobs, {}, &Job::order);
  uint32_t deferred_in_a_row = 0;
  for (const Job& job : jobs) {
    if (load.tasks() >= budget.max_tasks || deferred_in_a_row >= kMaxDeferredInARow) {
      ++plan.deferred;
      continue;
    }
    switch (TryJob(view, job, budget, &load, &plan)) {
      case Outcome::kPlanned:
        deferred_in_a_row = 0;
        break;
      case Outcome::kDeferred:
        ++plan.deferred;
        ++deferred_in_a_row;
        break;
      case Outcome::kNoPlace:
        (job.kind == RepairKind::kMove ? plan.unmovable : plan.homeless).push_back(job.stripe());
        break;
    }
  }
  return plan;
}

}  // namespace stria
