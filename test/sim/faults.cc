#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "test/sim/world.h"

namespace stria {

SimWorld::SimWorld(uint64_t seed, SimRunOptions options)
    : options_(options), tracing_(std::getenv("STRIA_SIM_TRACE") != nullptr), cluster_(seed, options.cluster), rng_(seed * 7919 + 13) {}

SimWorld::~SimWorld() = default;

void SimWorld::Fail(const std::string& what) {
  if (failure_.empty()) failure_ = "at " + Now() + ": " + what;
}

void SimWorld::Trace(const std::string& what) const {
  if (tracing_) std::fprintf(stderr, "%s: %s\n", Now().c_str(), what.c_str());
}

std::string SimWorld::Now() const {
  return std::to_string(const_cast<SimWorld*>(this)->cluster_.executor().NowNs() / kMillisecond) + " ms";
}

uint64_t SimWorld::trace() const {
  auto& cluster = const_cast<SimCluster&>(cluster_);
  return cluster.network().trace_hash() * 31 + cluster.executor().steps();
}

std::string SimWorld::Summary() const {
  std::string out;
  for (const auto& [name, n] : counts_) out += (out.empty() ? "" : ", ") + std::to_string(n) + " " + name;
  return out;
}

void SimWorld::After(int64_t ns, std::function<void()> fn) {
  std::erase_if(timers_, [](const auto& t) { return !t->pending(); });
  timers_.push_back(std::make_unique<Timer>());
  SimExecutor& ex = cluster_.executor();
  ex.StartTimer(timers_.back().get(), ex.NowNs() + ns, std::move(fn));
}

void SimWorld::CrashClientNow(size_t c) {
  if (!cluster_.client_up(c)) return;
  ++counts_["client crashes"];
  Trace("client c" + std::to_string(c + 1) + " crashes");
  // Its actors die with it.
  actors_ -= cluster_.scope(c).running();
  cluster_.CrashClient(c);
  for (auto& f : files_) {
    if (f->writer == c) f->unsure = true;
  }
}

void SimWorld::OneFault() {
  const SimFaultPlan& plan = options_.faults;
  const size_t max_impaired = 1;
  const bool power = plan.power_cuts && rng_.OneIn(2);
  switch (rng_.Below(8)) {
    case 0: {
      if (!plan.crash_clients) return;
      const size_t c = rng_.Below(options_.cluster.clients);
      if (!cluster_.client_up(c)) return;
      CrashClientNow(c);
      After(static_cast<int64_t>(rng_.Below(20 * kSecond)), [this, c] {
        if (cluster_.client_up(c)) return;
        cluster_.StartClient(c);
        if (!stopping()) StartActors(c);
      });
      return;
    }
    case 1: {
      if (!plan.crash_meta || !cluster_.meta_up()) return;
      ++counts_[power ? "metadata power cuts" : "metadata kills"];
      Trace(power ? "metadata power cut" : "metadata killed");
      // A client that died with what it alone could have replayed leaves room for loss.
      if (power) {
        for (size_t c = 0; c < names_.size(); ++c) {
          if (!cluster_.client_up(c)) names_[c]->all_unsure = true;
        }
      }
      cluster_.CrashMeta(power);
      After(static_cast<int64_t>(rng_.Below(5 * kSecond)), [this] {
        if (!cluster_.meta_up()) cluster_.StartMeta();
      });
      return;
    }
    case 2:
    case 3: {
      if (!plan.crash_nodes || impaired_.size() >= max_impaired) return;
      const size_t n = rng_.Below(cluster_.nodes());
      if (!cluster_.node_up(n) || lost_.contains(n)) return;
      ++counts_[power ? "node power cuts" : "node kills"];
      Trace(cluster_.node_host(n) + (power ? " power cut" : " killed"));
      impaired_.insert(n);
      cluster_.CrashNode(n, power);
      After(static_cast<int64_t>(rng_.Below(25 * kSecond)), [this, n] {
        if (!cluster_.node_up(n)) cluster_.StartNode(n);
        impaired_.erase(n);
      });
      return;
    }
    case 4: {
      if (!plan.partitions) return;
      // One client or one node against one other host, one way or both.
      const bool from_client = rng_.OneIn(2);
      std::string a = from_client ? cluster_.client_host(rng_.Below(options_.cluster.clients)) : "";
      size_t n = rng_.Below(cluster_.nodes());
      if (!from_client) {
        if (impaired_.size() >= max_impaired || lost_.contains(n)) return;
        a = cluster_.node_host(n);
        impaired_.insert(n);
      }
      const std::string b = from_client && rng_.OneIn(2) ? cluster_.node_host(n) : "meta";
      const bool both = rng_.OneIn(2);
      ++counts_["partitions"];
      Trace("partition " + a + (both ? " <-> " : " -> ") + b);
      if (both) cluster_.network().Partition({a}, {b});
      else cluster_.network().Block({a}, {b});
      After(static_cast<int64_t>(rng_.Below(25 * kSecond)), [this, a, b, from_client, n] {
        cluster_.network().Unblock({a}, {b});
        cluster_.network().Unblock({b}, {a});
        if (!from_client) impaired_.erase(n);
      });
      return;
    }
    case 5: {
      if (!plan.lose_nodes || !impaired_.empty() || !must_heal_.empty() || lost_.size() >= 2) return;
      const size_t n = rng_.Below(cluster_.nodes());
      if (lost_.contains(n) || !cluster_.node_up(n) || !cluster_.meta_up()) return;
      ++counts_["lost nodes"];
      impaired_.insert(n);
      must_heal_.insert(n);
      lost_.insert(n);
      cluster_.CrashNode(n, true);
      scope_.Spawn(ReplaceNode(n));
      return;
    }
    case 6: {
      if (!plan.bit_rot) return;
      // Always on the same node: two rotten columns of one stripe would exceed the budget.
      const size_t n = 0;
      const size_t d = rng_.Below(options_.cluster.disks);
      if (cluster_.disk(n, d).FlipRandomBit(rng_)) ++counts_["flipped bits"];
      return;
    }
    case 7: {
      if (!plan.slow_disks) return;
      const size_t n = rng_.Below(cluster_.nodes());
      SimDiskMedia* disk = &cluster_.disk(n, rng_.Below(options_.cluster.disks));
      disk->faults.slow_factor = 200;
      ++counts_["slow disks"];
      After(static_cast<int64_t>(rng_.Below(10 * kSecond)), [disk] { disk->faults.slow_factor = 1; });
      return;
    }
  }
}

Task<bool> SimWorld::AdminOnNode(AdminVerb verb, size_t n) {
  InodeRequest ask;
  ask.header = cluster_.AdminHeader();
  auto map = co_await cluster_.admin().GetMap(ask);
  if (!map.ok()) co_return false;
  AdminRequest r;
  r.header = cluster_.AdminHeader();
  r.verb = verb;
  for (const NodeInfo& i : map->nodes) {
    if (i.name == cluster_.node_host(n)) r.node = i.id;
  }
  if (!r.node) co_return verb == AdminVerb::kRemove;  // an answer may have been lost
  auto done = co_await cluster_.admin().Admin(r);
  Trace("admin verb " + std::to_string(static_cast<int>(verb)) + " on " + cluster_.node_host(n) + ": " +
        (done.ok() ? done->message : done.error().ToString()));
  co_return done.ok();
}

// An administrator declares the node gone; a fresh one has joined.
Task<void> SimWorld::ReplaceNode(size_t n) {
  (void)cluster_.AddNode();
  do {
    co_await Sleep(2 * kSecond);
  } while (!co_await AdminOnNode(AdminVerb::kOut, n));
}

bool SimWorld::Whole(const StatusReply& s) const {
  for (const RepairProgress& p : s.repairs) {
    if (p.stripes_done < p.stripes_total || p.stuck > 0) return false;
  }
  return s.degraded_stripes == 0 && s.lost_stripes == 0 && s.garbage_shards == 0;
}

// What was lost counts against the budget until the cluster says that it is whole again.
Task<void> SimWorld::FollowRepairs() {
  while (true) {
    co_await Sleep(3 * kSecond);
    if (must_heal_.empty() || !cluster_.meta_up()) continue;
    InodeRequest r;
    r.header = cluster_.AdminHeader();
    auto s = co_await cluster_.admin().Status(r);
    if (!s.ok() || s->degraded_stripes > 0) continue;
    bool out = true;
    for (size_t n : must_heal_) {
      for (const NodeInfo& i : s->map.nodes) {
        if (i.name == cluster_.node_host(n) && i.state != NodeState::kOut) out = false;
      }
    }
    if (!out) continue;
    for (size_t n : must_heal_) impaired_.erase(n);
    must_heal_.clear();
    ++counts_["healed losses"];
  }
}

Task<void> SimWorld::Driver() {
  const int64_t end = cluster_.executor().NowNs() + options_.duration_ns;
  while (cluster_.executor().NowNs() < end && !failed()) {
    co_await Sleep(static_cast<int64_t>(rng_.Below(3 * kSecond)));
    OneFault();
  }
}

void SimWorld::HealAll() {
  timers_.clear();
  cluster_.network().Heal();
  cluster_.network().SetFaults(SimFaults());
  if (!cluster_.meta_up()) cluster_.StartMeta();
  for (size_t n = 0; n < cluster_.nodes(); ++n) {
    if (lost_.contains(n)) continue;
    if (!cluster_.node_up(n)) cluster_.StartNode(n);
    for (size_t d = 0; d < options_.cluster.disks; ++d) cluster_.disk(n, d).faults = SimDiskFaults();
  }
  for (size_t c = 0; c < options_.cluster.clients; ++c) {
    if (!cluster_.client_up(c)) cluster_.StartClient(c);
  }
}

Task<void> SimWorld::Settle() {
  const int64_t end = cluster_.executor().NowNs() + options_.settle_ns;
  // Nodes that never return are removed once nothing depends on them; their garbage goes with them.
  for (size_t n : lost_) {
    while (cluster_.executor().NowNs() < end && !co_await AdminOnNode(AdminVerb::kRemove, n)) {
      co_await Sleep(2 * kSecond);
    }
  }
  std::string last = "no answer";
  while (cluster_.executor().NowNs() < end) {
    co_await Sleep(5 * kSecond);
    InodeRequest r;
    r.header = cluster_.AdminHeader();
    auto s = co_await cluster_.admin().Status(r);
    if (!s.ok()) {
      last = s.error().ToString();
      continue;
    }
    if (Whole(*s)) co_return;
    last = std::to_string(s->degraded_stripes) + " stripes degraded, " + std::to_string(s->lost_stripes) +
           " lost, " + std::to_string(s->garbage_shards) + " garbage shards, " + std::to_string(s->repairs.size()) +
           " repairs";
  }
  Fail("the cluster did not become whole again: " + last);
}

Task<void> SimWorld::FinalChecks() {
  for (size_t c = 0; c < options_.cluster.clients; ++c) {
    for (auto& f : files_) {
      auto opened = co_await OpenAndRead(c, f.get(), false);
      if (!opened.ok()) {
        Fail("final read of " + f->name + " by c" + std::to_string(c + 1) + ": " + opened.error().ToString());
        co_return;
      }
      if (!CheckContent(c, f.get(), opened->content, "final read by")) co_return;
      (void)co_await cluster_.vfs(c).Release(Caller(), opened->handle);
    }
    if (!co_await ResyncNames(c, names_[c].get())) Fail("final listing failed");
  }
  InodeRequest r;
  r.header = cluster_.AdminHeader();
  auto fsck = co_await cluster_.admin().Fsck(r);
  if (!fsck.ok()) {
    Fail("fsck: " + fsck.error().ToString());
  } else if (!fsck->problems.empty()) {
    Fail("fsck: " + std::to_string(fsck->problems.size()) + " problems, first: " + fsck->problems[0]);
  }
}

std::string SimWorld::RunAll() {
  auto booted = cluster_.Boot();
  if (!booted.ok()) return "boot: " + booted.error().ToString();
  if (!cluster_.Run(Setup(), 60 * kSecond)) Fail("setup took too long");
  if (failed()) return failure_;
  if (options_.faults.network) {
    SimFaults f;
    f.max_latency_ns = rng_.OneIn(3) ? 5 * kMillisecond : 300 * kMicrosecond;
    f.drop_request_ppm = static_cast<uint32_t>(rng_.Below(3000));
    f.drop_reply_ppm = static_cast<uint32_t>(rng_.Below(3000));
    f.duplicate_request_ppm = static_cast<uint32_t>(rng_.Below(20000));
    f.straggle_ppm = static_cast<uint32_t>(rng_.Below(5000));
    cluster_.network().SetFaults(f);
  }
  for (size_t c = 0; c < options_.cluster.clients; ++c) StartActors(c);
  scope_.Spawn(FollowRepairs());
  if (!cluster_.Run(Driver(), 2 * options_.duration_ns + kSecond) && !failed()) Fail("the driver hangs");
  if (failed()) return failure_;
  HealAll();
  stopping_ = true;
  if (!cluster_.executor().RunUntil([this] { return actors_ == 0 || failed(); },
                                    cluster_.executor().NowNs() + 600 * kSecond)) {
    Fail(std::to_string(actors_) + " actors hang");
  }
  if (!failed() && !cluster_.Run(Settle(), 2 * options_.settle_ns)) Fail("settling hangs");
  if (!failed() && !cluster_.Run(FinalChecks(), 600 * kSecond)) Fail("the final checks hang");
  scope_.CancelAll();
  return failure_;
}

}  // namespace stria
