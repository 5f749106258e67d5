// What happens to processes and the network, and when.
#include <algorithm>

#include "test/sim/world.h"

namespace stria {
namespace {
// What the metadata server has answered is durable after this, whatever becomes of its client.
constexpr int64_t kSyncedNs = 3 * kSecond;
}  // namespace

void SimWorld::After(int64_t ns, std::function<void()> fn) {
  std::erase_if(timers_, [](const auto& t) { return !t->pending(); });
  timers_.push_back(std::make_unique<Timer>());
  SimExecutor& ex = cluster_.executor();
  ex.StartTimer(timers_.back().get(), ex.NowNs() + ns, std::move(fn));
}

std::vector<std::pair<uint32_t, SimWorld::Fault>> SimWorld::Faults() const {
  const SimFaultPlan& p = options_.faults;
  return {{p.client_crash, &SimWorld::CrashClient}, {p.meta_crash, &SimWorld::CrashMeta},
          {p.node_crash, &SimWorld::CrashNode},     {p.partition, &SimWorld::PartitionSome},
          {p.isolation, &SimWorld::Isolate},        {p.blackout, &SimWorld::BlackOut},
          {p.gap, &SimWorld::Gap},                  {p.slow_disk, &SimWorld::SlowDisk},       {p.clock_jump, &SimWorld::JumpClocks},
          {p.bit_rot, &SimWorld::FlipBit},
          {p.bad_writes, &SimWorld::BadWrites},     {p.disk_errors, &SimWorld::DiskErrors},
          {p.dead_disk, &SimWorld::KillDisk},       {p.hung_disk, &SimWorld::HangDisk},
          {p.full_disk, &SimWorld::FillDisk},       {p.meta_disk, &SimWorld::FailMetaSync},
          {p.lose_node, &SimWorld::LoseNode},       {p.stale_node, &SimWorld::StaleNode},
          {p.drain, &SimWorld::Drain},              {p.add_node, &SimWorld::AddOne},
          {p.shrink, &SimWorld::Shrink}};
}

Task<void> SimWorld::Driver() {
  const int64_t end = cluster_.executor().NowNs() + options_.duration_ns;
  while (cluster_.executor().NowNs() < end && !failed()) {
    co_await Sleep(static_cast<int64_t>(rng_.Below(static_cast<uint64_t>(options_.fault_pause_ns))));
    OneFault();
  }
}

void SimWorld::OneFault() {
  const auto faults = Faults();
  uint64_t total = 0;
  for (const auto& [weight, fault] : faults) total += weight;
  if (total == 0) return;
  uint64_t pick = rng_.Below(total);
  for (const auto& [weight, fault] : faults) {
    if (pick < weight) return (this->*fault)();
    pick -= weight;
  }
}

// ---- At the worst moment

void SimWorld::Strike() {
  if (struck_ || faults_over_ || stopping() || !rng_.Percent(options_.faults.strike_percent)) return;
  struck_ = true;
  After(static_cast<int64_t>(rng_.Below(3 * kMillisecond)), [this] {
    struck_ = false;
    ++counts_["strikes"];
    const bool power = options_.faults.power_cuts;
    if (rng_.OneIn(2)) {
      if (options_.faults.meta_crash > 0) CrashMetaNow(power, static_cast<int64_t>(rng_.Below(3 * kSecond)));
    } else if (options_.faults.node_crash > 0) {
      CrashNode();
    }
  });
}

void SimWorld::StrikeClient(size_t c) {
  if (struck_ || faults_over_ || stopping() || options_.faults.client_crash == 0) return;
  if (!rng_.Percent(options_.faults.strike_percent)) return;
  struck_ = true;
  After(static_cast<int64_t>(rng_.Below(20 * kMillisecond)), [this, c] {
    struck_ = false;
    ++counts_["strikes"];
    CrashClientNow(c);
  });
}

// ---- Processes

void SimWorld::CrashClientNow(size_t c) {
  if (!cluster_.client_up(c)) return;
  ++counts_["client crashes"];
  Trace("client " + ClientName(c) + " crashes");
  // Its actors die with it.
  actors_ -= cluster_.scope(c).running();
  // What the metadata server has lost, or cannot make durable, this client alone could have replayed.
  MetaSession& session = cluster_.client(c).session();
  const bool replayed = cluster_.meta_up() && !meta_failing_ && session.LeaseLeftNs() > 0 &&
                        session.term() == cluster_.meta_server()->term();
  if (!replayed) names_[c]->all_unsure = true;
  names_[c]->cut = false;
  cluster_.CrashClient(c);
  client_died_ns_[c] = cluster_.executor().NowNs();
  for (auto& f : files_) {
    if (f->writer == c) f->unsure = true;
  }
  for (auto& w : works_) w->Died(c);
  After(static_cast<int64_t>(rng_.Below(20 * kSecond)), [this, c] {
    if (cluster_.client_up(c)) return;
    Trace("client " + ClientName(c) + " starts");
    cluster_.StartClient(c);
    if (!stopping()) StartActors(c);
  });
}

void SimWorld::CrashMetaNow(bool power_cut, int64_t down_ns) {
  if (!cluster_.meta_up()) return;
  ++counts_[power_cut ? "metadata power cuts" : "metadata kills"];
  Trace(power_cut ? "metadata power cut" : "metadata killed");
  // A client that died with what it alone could have replayed leaves room for loss.
  for (size_t c = 0; power_cut && c < names_.size(); ++c) {
    names_[c]->cut = true;
    if (cluster_.executor().NowNs() - client_died_ns_[c] > kSyncedNs) continue;
    names_[c]->all_unsure = true;
    for (auto& f : files_) {
      if (f->writer == c) f->unsure = true;
    }
  }
  for (auto& w : works_) {
    if (power_cut) w->BeforePowerCut();
  }
  cluster_.CrashMeta(power_cut);
  After(down_ns, [this] {
    if (cluster_.meta_up()) return;
    Trace("metadata server starts");
    cluster_.StartMeta();
  });
}

void SimWorld::CrashClient() { CrashClientNow(rng_.Below(options_.cluster.clients)); }

void SimWorld::CrashMeta() {
  CrashMetaNow(options_.faults.power_cuts && rng_.OneIn(2), static_cast<int64_t>(rng_.Below(5 * kSecond)));
}

void SimWorld::CrashNode() {
  const std::optional<size_t> n = PickNode();
  if (!n) return;
  const bool power = options_.faults.power_cuts && rng_.OneIn(2);
  ++counts_[power ? "node power cuts" : "node kills"];
  Trace(NodeHost(*n) + (power ? " power cut" : " killed"));
  ++troubles_[*n].active;
  audited_.Forget(*n);
  cluster_.CrashNode(*n, power);
  RestartNodeAfter(*n, static_cast<int64_t>(rng_.Below(25 * kSecond)));
}

void SimWorld::RestartNodeAfter(size_t n, int64_t ns) {
  After(ns, [this, n] {
    --troubles_[n].active;
    if (cluster_.node_up(n) || gone_.contains(n)) return;
    Trace(NodeHost(n) + " starts");
    cluster_.StartNode(n);
  });
}

void SimWorld::FailMetaSync() {
  if (!cluster_.meta_up()) return;
  ++counts_["failed metadata syncs"];
  Trace("the metadata store fails a sync");
  cluster_.FailNextMetaSync();
  meta_failing_ = true;
  // Nothing is acknowledged any more; the process ends and is started again.
  After(static_cast<int64_t>(rng_.Below(2 * kSecond)), [this] {
    meta_failing_ = false;
    CrashMetaNow(true, kSecond);
  });
}

// Everybody at once, at any moment. What was acknowledged is there when they come back.
void SimWorld::BlackOut() {
  ++counts_["blackouts"];
  const bool clients_too = rng_.OneIn(2);
  const int64_t down_ns = static_cast<int64_t>(rng_.Below(60 * kSecond));
  Trace("blackout");
  for (size_t c = 0; clients_too && c < options_.cluster.clients; ++c) CrashClientNow(c);
  for (size_t n = 0; n < cluster_.nodes(); ++n) {
    audited_.Forget(n);
    cluster_.CrashNode(n, true);
  }
  CrashMetaNow(true, down_ns + static_cast<int64_t>(rng_.Below(5 * kSecond)));
  for (size_t n = 0; n < cluster_.nodes(); ++n) {
    After(down_ns + static_cast<int64_t>(rng_.Below(10 * kSecond)), [this, n] {
      if (cluster_.node_up(n) || gone_.contains(n) || away_.contains(n)) return;
      Trace(NodeHost(n) + " starts");
      cluster_.StartNode(n);
    });
  }
}

// ---- Network

void SimWorld::PartitionSome() {
  // One client or one node against one other host, one way or both.
  const bool from_client = rng_.OneIn(2);
  std::string a = ClientHost(rng_.Below(options_.cluster.clients));
  std::optional<size_t> n;
  if (!from_client) {
    n = PickNode();
    if (!n) return;
    a = NodeHost(*n);
    ++troubles_[*n].active;
  }
  const bool to_node = from_client && rng_.OneIn(2);
  std::set<std::string> from = {a}, to = {to_node ? NodeHost(rng_.Below(cluster_.nodes())) : "meta"};
  const bool both = rng_.OneIn(2);
  if (!both && rng_.OneIn(2)) std::swap(from, to);
  ++counts_["partitions"];
  Trace("partition " + *from.begin() + (both ? " <-> " : " -> ") + *to.begin());
  if (both) cluster_.network().Partition(from, to);
  else cluster_.network().Block(from, to);
  After(static_cast<int64_t>(rng_.Below(25 * kSecond)), [this, from, to, both, n] {
    cluster_.network().Unblock(from, to);
    if (both) cluster_.network().Unblock(to, from);
    if (n) --troubles_[*n].active;
    Trace("partition of " + *from.begin() + " and " + *to.begin() + " ends");
  });
}

// Two hosts from each other, for a second or for minutes: longer than calls or leases last. Mostly a client and the metadata server,
// else a client and a node, or the metadata server and a node, which then counts against the budget.
void SimWorld::Gap() {
  const bool of_node = rng_.Percent(15);
  const std::optional<size_t> n = of_node ? PickNode() : std::nullopt;
  if (of_node && !n) return;
  if (n) ++troubles_[*n].active;
  const std::string a = n ? NodeHost(*n) : ClientHost(rng_.Below(options_.cluster.clients));
  const std::string b = n || rng_.Percent(70) ? "meta" : NodeHost(rng_.Below(cluster_.nodes()));
  const int64_t gap_ns = std::min<int64_t>(static_cast<int64_t>(rng_.Between(1, uint64_t{2} << rng_.Below(9))), 300) * kSecond;
  const bool longer = gap_ns > cluster_.options().meta.sessions.lease_ns;
  ++counts_[std::string(longer ? "long gaps" : "short gaps") + (n ? " of nodes" : "")];
  Trace("gap between " + a + " and " + b);
  cluster_.network().Partition({a}, {b});
  After(gap_ns, [this, a, b, n] {
    cluster_.network().Unblock({a}, {b});
    cluster_.network().Unblock({b}, {a});
    if (n) --troubles_[*n].active;
    Trace("gap between " + a + " and " + b + " ends");
  });
}

// All clients from the metadata server, or from all nodes, in one direction or both.
void SimWorld::Isolate() {
  std::set<std::string> clients, others;
  for (size_t c = 0; c < options_.cluster.clients; ++c) clients.insert(ClientHost(c));
  if (rng_.OneIn(2)) {
    others.insert("meta");
  } else {
    for (size_t n = 0; n < cluster_.nodes(); ++n) others.insert(NodeHost(n));
  }
  const uint64_t way = rng_.Below(3);
  ++counts_["isolations"];
  Trace("isolation of the clients from " + *others.begin() + " .., way " + std::to_string(way));
  if (way != 1) cluster_.network().Block(clients, others);
  if (way != 0) cluster_.network().Block(others, clients);
  After(static_cast<int64_t>(rng_.Below(60 * kSecond)), [this, clients, others, way] {
    if (way != 1) cluster_.network().Unblock(clients, others);
    if (way != 0) cluster_.network().Unblock(others, clients);
    Trace("isolation ends");
  });
}

void SimWorld::SlowDisk() {
  const size_t n = rng_.Below(cluster_.nodes());
  const size_t d = rng_.Below(cluster_.options().disks);
  ++counts_["slow disks"];
  Trace("slow disk on " + DiskName(n, d));
  cluster_.disks().media(n, d).faults.slow_factor = 200;
  After(static_cast<int64_t>(rng_.Below(10 * kSecond)),
        [this, n, d] { cluster_.disks().media(n, d).faults.slow_factor = 1; });
}

void SimWorld::JumpClocks() {
  constexpr int64_t kMostNs = 200 * 3600 * kSecond;
  ++counts_["clock jumps"];
  const int64_t by_ns = static_cast<int64_t>(rng_.Below(2 * kMostNs)) - kMostNs;
  Trace("all clocks jump by " + std::to_string(by_ns / kSecond) + " s");
  cluster_.executor().JumpWall(by_ns);
}

}  // namespace stria
