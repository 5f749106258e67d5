// One run from boot to the final checks.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "common/log.h"
#include "stripe/layout_spec.h"
#include "test/sim/progress.h"
#include "test/sim/world.h"

namespace stria {
namespace {
constexpr int64_t kLookNs = kMillisecond;  // between two looks at what clients hold
constexpr int64_t kLookAtCallsNs = 10 * kMillisecond;
constexpr int64_t kFlushNs = 20 * kSecond;  // longest that a client needs to write what it has, when all is well

// Every fourth seed resumes coroutines in the order in which they became ready, as the real loop does: chance also
// leads out of circles that the real one never leaves.
SimClusterOptions OfSeed(SimClusterOptions o, uint64_t seed) {
  if (seed % 4 == 3) o.shuffle = 1;
  if (seed % 2 == 1) o.kernel_ns = 5 * kMillisecond;
  if (seed % 5 == 1) o.signals = true;
  if (seed % 3 == 2) o.mapping_bytes = 4 * kKiB;  // a few stripes
  return o;
}
}  // namespace

SimWorld::SimWorld(uint64_t seed, SimRunOptions options)
    : options_(std::move(options)),
      tracing_(std::getenv("STRIA_SIM_TRACE") != nullptr),
      columns_(ParseLayout(options_.cluster.layout)->columns()),
      cluster_(seed, OfSeed(options_.cluster, seed)),
      rng_(seed * 7919 + 13),
      client_died_ns_(options_.cluster.clients, INT64_MIN / 2),
      patience_(&cluster_, ParseLayout(options_.cluster.layout)->m, BoundsOf(options_)) {
  if (!tracing_) return;
  SetLogSink([](void* world, LogLevel, std::string_view line) { static_cast<SimWorld*>(world)->Trace("log: " + std::string(line)); }, this,
             LogLevel::kInfo);
}

// Actors may hold what is ours.
SimWorld::~SimWorld() {
  if (tracing_) SetLogSink(nullptr, nullptr);
  for (size_t c = 0; c < options_.cluster.clients; ++c) {
    if (cluster_.client_up(c)) cluster_.scope(c).CancelAll();
  }
}

void SimWorld::Fail(const std::string& what) {
  if (!failure_.empty()) return;
  failure_ = "at " + Now() + ": " + what;
  Trace("FAILED: " + what);
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

void SimWorld::SetNetworkFaults() {
  SimFaults f;
  f.max_latency_ns = rng_.OneIn(3) ? 5 * kMillisecond : 300 * kMicrosecond;
  f.drop_request_ppm = static_cast<uint32_t>(rng_.Below(3000));
  f.drop_reply_ppm = static_cast<uint32_t>(rng_.Below(3000));
  f.duplicate_request_ppm = static_cast<uint32_t>(rng_.Below(20000));
  f.straggle_ppm = static_cast<uint32_t>(rng_.Below(5000));
  if (options_.faults.straggle_ppm > 0) f.straggle_ppm = options_.faults.straggle_ppm;
  cluster_.network().SetFaults(f);
  Trace("network: latency up to " + std::to_string(f.max_latency_ns / kMicrosecond) + " us; of a million messages " +
        std::to_string(f.drop_request_ppm) + " requests and " + std::to_string(f.drop_reply_ppm) + " answers are lost, " +
        std::to_string(f.duplicate_request_ppm) + " come twice, " + std::to_string(f.straggle_ppm) + " are late");
}

void SimWorld::HealAll() {
  faults_over_ = true;
  disks_full_ = 0;
  patience_.SetBounds(BoundsAfterFaults());
  if (meta_failing_) CrashMetaNow(true, 0);
  timers_.clear();
  cluster_.network().Heal();
  cluster_.network().SetFaults(SimFaults());
  if (!cluster_.meta_up()) cluster_.StartMeta();
  for (size_t n = 0; n < cluster_.nodes(); ++n) {
    for (size_t d = 0; d < cluster_.options().disks; ++d) {
      SimDiskFaults& f = cluster_.disks().media(n, d).faults;
      const bool dead = f.dead;
      f = SimDiskFaults();
      f.dead = dead;
      cluster_.disks().media(n, d).set_capacity_bytes(kTiB);
    }
    if (gone_.contains(n) || away_.contains(n)) continue;
    if (auto t = troubles_.find(n); t != troubles_.end()) t->second.active = 0;
    if (!cluster_.node_up(n)) cluster_.StartNode(n);
  }
  FillUp();
  for (size_t c = 0; c < options_.cluster.clients; ++c) {
    if (!cluster_.client_up(c)) cluster_.StartClient(c);
  }
}

bool SimWorld::Whole(const StatusReply& s) const {
  for (const RepairProgress& p : s.repairs) {
    if (p.stripes_done < p.stripes_total || p.stuck > 0) return false;
  }
  return s.degraded_stripes == 0 && s.lost_stripes == 0 && s.garbage_shards == 0;
}

// As the metadata server has it, and what the clients say themselves.
std::string SimWorld::WhoHasOpen(InodeId ino) {
  std::string out;
  for (size_t c = 0; c < options_.cluster.clients; ++c) {
    if (!cluster_.client_up(c) || !cluster_.meta_up()) continue;
    if (!cluster_.meta_server()->leases().IsOpenBy(cluster_.client(c).session().id(), ino)) continue;
    out += ", open by " + ClientName(c) + ", which says: " + cluster_.vfs(c).report().Describe(ino);
  }
  return out;
}

Task<void> SimWorld::FollowLeases() {
  while (!stopping()) {
    co_await Sleep(kLookNs);
    if (const std::string unknown = cluster_.UnknownLease(); !unknown.empty()) {
      Fail("the metadata server does not know that " + unknown);
    }
  }
}

// From beside the run, so that looking changes nothing of it.
void SimWorld::LookAtCalls() {
  const int64_t now_ns = cluster_.executor().NowNs();
  if (now_ns < looked_ns_ + kLookAtCallsNs) return;
  looked_ns_ = now_ns;
  Patience::Troubles t;
  t.meta_failing = meta_failing_;
  t.disks_full = disks_full_ > 0;
  for (const auto& [n, trouble] : troubles_) t.nodes.insert(n);
  t.removed = removed_;
  if (const std::string waits = patience_.Look(t); !waits.empty()) Fail(waits);
}

bool SimWorld::RunUntil(const std::function<bool()>& done, int64_t limit_ns) {
  SimExecutor& ex = cluster_.executor();
  (void)ex.RunUntil([&] { return LookAtCalls(), failed() || done(); }, ex.NowNs() + limit_ns);
  return done();
}

bool SimWorld::Run(Task<void> task, int64_t limit_ns) {
  bool done = false;
  TaskScope scope;
  scope.Spawn([](Task<void> t, bool* d) -> Task<void> {
    co_await std::move(t);
    *d = true;
  }(std::move(task), &done));
  return RunUntil([&done] { return done; }, limit_ns);
}

Task<std::string> SimWorld::WhatIsLeft() {
  InodeRequest r;
  r.header = cluster_.AdminHeader();
  auto s = co_await cluster_.admin().Status(r);
  if (!s.ok()) co_return s.error().ToString();
  if (!Whole(*s)) {
    std::string left = std::to_string(s->degraded_stripes) + " stripes degraded, " + std::to_string(s->lost_stripes) +
                       " lost, " + std::to_string(s->garbage_shards) + " garbage shards, " +
                       std::to_string(s->repairs.size()) + " repairs";
    for (const RepairProgress& p : s->repairs) {
      left += "; " + std::to_string(p.stripes_done) + " of " + std::to_string(p.stripes_total) + " stripes, " +
              std::to_string(p.stuck) + " stuck";
    }
    co_return left;
  }
  if (const size_t folds = cluster_.meta_server()->repair_summary().folds; folds > 0) {
    co_return std::to_string(folds) + " folds are under way";
  }
  if (options_.cluster.meta.fold.enabled) {
    // What there is in the end more than parity asks for has no company.
    for (const auto& [kind, units] : cluster_.meta_server()->upkeep()->folder().queue().Ripe(INT64_MAX)) {
      const auto groups = PlanFolds(units, kind, SIZE_MAX);
      if (!groups.empty()) co_return std::to_string(groups.size()) + " folds could be made and are not";
    }
    if (const auto lonely = LonelyColumns(cluster_); !lonely.empty()) co_return lonely.front();
  }
  if (s->narrow_stripes > 0) co_return std::to_string(s->narrow_stripes) + " stripes are narrow";
  if (!draining_.empty()) co_return NodeHost(*draining_.begin()) + " is still drained";
  const ClusterAudit audit = Audit();
  for (size_t n = 0; n < audit.nodes.size(); ++n) {
    const NodeAudit& a = audit.nodes[n];
    if (gone_.contains(n)) continue;
    if (a.damaged > 0) co_return a.first_damaged;
    if (a.rotten > 0) co_return "damaged garbage on " + NodeHost(n);
    if (a.unknown > 0) co_return a.first_unknown + " is not known to the metadata";
    if (a.strays > 0) co_return a.first_stray + " belongs to no shard";
  }
  if (!audit.orphans.empty()) {
    co_return std::to_string(audit.orphans.size()) + " unlinked files are still there, inode " +
        std::to_string(audit.orphans[0].v) + WhoHasOpen(audit.orphans[0]);
  }
  if (!troubles_.empty()) co_return NodeHost(troubles_.begin()->first) + " is not sound";
  co_return "";
}

Task<void> SimWorld::Settle() {
  const int64_t end = cluster_.executor().NowNs() + options_.settle_ns;
  // Nodes that never return are removed once nothing depends on them; their garbage goes with them.
  for (size_t n : std::set<size_t>(gone_)) {
    while (cluster_.executor().NowNs() < end && !co_await AdminOnNode(AdminVerb::kRemove, n)) {
      co_await Sleep(2 * kSecond);
    }
  }
  std::string left = co_await WhatIsLeft();
  while (cluster_.executor().NowNs() < end && !left.empty() && !failed()) {
    co_await Sleep(5 * kSecond);
    left = co_await WhatIsLeft();
    Trace("settling: " + (left.empty() ? "all is whole" : left));
  }
  if (!left.empty()) Fail("the cluster did not become whole again: " + left);
}

// A reader keeps what it may need from being collected: as long as its first session does not lapse it never has to ask for
// a mapping again because the shards are gone. Not where columns move to other disks, of which nobody tells it: what it
// knew since before the last moves may name more columns that are gone than parity makes up for.
void SimWorld::CheckMappings() {
  const SimFaultPlan& f = options_.faults;
  if (f.has_disk_faults() || f.lose_node + f.shrink + f.stale_node + f.drain > 0) return;
  for (size_t c = 0; c < options_.cluster.clients; ++c) {
    if (cluster_.client(c).session().era() > 1) continue;
    const uint64_t lost = cluster_.vfs(c).report().counters().lost_mappings;
    if (lost == 0) continue;
    Fail("c" + std::to_string(c + 1) + " found the shards of " + std::to_string(lost) + " mappings gone");
  }
}

Task<void> SimWorld::FinalChecks() {
  // What a client that was cut off has yet to write nobody else sees until it is back, and has written it.
  const auto written = [this] {
    for (size_t c = 0; c < options_.cluster.clients; ++c) {
      if (cluster_.client_up(c) && cluster_.vfs(c).report().dirty_bytes() > 0) return false;
    }
    return true;
  };
  for (const int64_t until_ns = cluster_.executor().NowNs() + kFlushNs; !written() && cluster_.executor().NowNs() < until_ns;) {
    co_await Sleep(kLookNs);
  }
  for (size_t c = 0; c < options_.cluster.clients; ++c) {
    for (auto& f : files_) {
      // An impatient client, and only such a one, may have to ask again while another one writes what it has of it.
      const int64_t until_ns = cluster_.executor().NowNs() + kFlushNs;
      auto opened = co_await OpenAndRead(c, f.get(), false);
      while (opened.code() == FsError::kTimedOut && cluster_.executor().NowNs() < until_ns) {
        opened = co_await OpenAndRead(c, f.get(), false);
      }
      if (!opened.ok()) {
        Fail("final read of " + f->name + " by c" + std::to_string(c + 1) + ": " + opened.error().ToString());
        co_return;
      }
      const uint64_t session = cluster_.client(f->writer).session().generation();
      if (f->opened_generation != 0 && f->opened_generation != session) f->unsure = true;
      if (!CheckContent(c, f.get(), opened->content, "final read by")) co_return;
      (void)co_await cluster_.vfs(c).Release(Caller(), opened->handle);
    }
    if (!co_await ResyncNames(c, names_[c].get())) Fail("final listing failed");
  }
  co_await CheckWatched();
  for (auto& w : works_) {
    if (!failed()) co_await w->FinalChecks();
  }
  if (!failed()) co_await CheckStore();
}

Task<void> SimWorld::CheckStore() {
  InodeRequest r;
  r.header = cluster_.AdminHeader();
  auto fsck = co_await cluster_.admin().Fsck(r);
  if (!fsck.ok()) {
    Fail("fsck: " + fsck.error().ToString());
  } else if (!fsck->problems.empty()) {
    Fail("fsck: " + std::to_string(fsck->problems.size()) + " problems, first: " + fsck->problems[0]);
  }
}

// Deletes every file but those of one client's writers: columns on its node lose what they were folded with, and there is
// nothing else on other nodes that they could go with.
Task<void> SimWorld::ThinOut() {
  // What they have open would stay.
  for (size_t c = 0; c < options_.cluster.clients; ++c) {
    CrashClientNow(c);
    cluster_.StartClient(c);
  }
  const size_t keeper = rng_.Below(options_.cluster.clients);
  Vfs& vfs = cluster_.vfs(keeper);
  std::set<std::string> kept;
  for (auto& f : files_) {
    if (f->writer == keeper) kept.insert(f->name);
  }
  std::vector<std::string> names;
  for (uint64_t cookie = 0;;) {
    const auto page = co_await vfs.ReadDir(Caller(), kRootInode, cookie, 100, false);
    if (!page.ok()) co_return Fail("thinning out: " + page.error().ToString());
    for (const DirEntry& e : page->entries) {
      cookie = e.cookie;
      if (e.type == FileType::kFile && !kept.contains(e.name)) names.push_back(e.name);
    }
    if (page->end) break;
  }
  Trace("thinning out: the files of " + ClientName(keeper) + " stay, " + std::to_string(names.size()) + " others go");
  for (const std::string& name : names) {
    const auto gone = co_await vfs.Unlink(Caller(), kRootInode, name);
    if (!gone.ok()) co_return Fail("thinning out: unlink of " + name + ": " + gone.error().ToString());
  }
  co_await Settle();
  for (size_t c = 0; c < options_.cluster.clients && !failed(); ++c) {
    for (auto& f : files_) {
      if (f->writer != keeper) continue;
      auto opened = co_await OpenAndRead(c, f.get(), false);
      if (!opened.ok()) co_return Fail("last read of " + f->name + ": " + opened.error().ToString());
      if (!CheckContent(c, f.get(), opened->content, "last read by")) co_return;
      (void)co_await cluster_.vfs(c).Release(Caller(), opened->handle);
    }
  }
  if (!failed()) co_await CheckStore();
}

std::string SimWorld::RunAll() {
  auto booted = cluster_.Boot();
  if (!booted.ok()) return "boot: " + booted.error().ToString();
  if (!cluster_.Run(Setup(), 60 * kSecond)) Fail("setup took too long");
  if (failed()) return failure_;
  Trace("setup is done");
  if (options_.faults.network) SetNetworkFaults();
  for (size_t c = 0; c < options_.cluster.clients; ++c) StartActors(c);
  scope_.Spawn(FollowTroubles());
  scope_.Spawn(FollowLeases());
  if (!Run(Driver(), 2 * options_.duration_ns + kSecond) && !failed()) Fail("the driver hangs");
  if (failed()) return failure_;
  Trace("faults end");
  HealAll();
  stopping_ = true;
  const auto idle = [this] {
    for (size_t c = 0; c < options_.cluster.clients; ++c) {
      if (!cluster_.client_up(c)) return false;
    }
    return actors_ == 0 && std::ranges::all_of(works_, [](const auto& w) { return w->Idle(); });
  };
  if (!RunUntil(idle, 600 * kSecond)) {
    const std::string waits = Progress(&cluster_, 0).Stalled();
    Fail(std::to_string(actors_) + " actors hang" + (waits.empty() ? "" : "; " + waits));
  }
  if (!failed()) CheckMappings();
  if (!failed() && !Run(Settle(), 2 * options_.settle_ns)) Fail("settling hangs");
  if (!failed() && !Run(FinalChecks(), 600 * kSecond)) Fail("the final checks hang");
  if (!failed() && options_.thin_out && !Run(ThinOut(), 2 * options_.settle_ns)) Fail("thinning out hangs");
  counts_["ms was the longest wait"] = static_cast<uint64_t>(patience_.longest_ns() / kMillisecond);
  if (!failed() && cluster_.meta_server()->upkeep()->folder().folded() > 0) counts_["folds"] += cluster_.meta_server()->upkeep()->folder().folded();
  if (!failed() && cluster_.meta_server()->upkeep()->folder().unfolded() > 0) counts_["mirrored again"] += cluster_.meta_server()->upkeep()->folder().unfolded();
  scope_.CancelAll();
  return failure_;
}

}  // namespace stria
