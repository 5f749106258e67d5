// What happens to metadata servers, their coordinator and their network, and when.
#include <algorithm>

#include "proto/replica_stubs.h"
#include "test/sim/failover.h"

namespace stria {
namespace {

constexpr int64_t kBackNs = 12 * kSecond;    // of a member that has died, at most: beyond the grace
constexpr int64_t kCutMembersNs = 12 * kSecond;
constexpr int64_t kTakeOverNs = 5 * kSecond;  // after which another serves, if it may
constexpr int64_t kCutOthersNs = 7 * kSecond;  // of clients and nodes: leases last longer
constexpr int64_t kFullNs = 20 * kSecond;    // of a disk: more than one restart
constexpr int64_t kAskNs = 20 * kSecond;
constexpr char kAdminHost[] = "admin";

}  // namespace

Task<void> FailoverWorld::Driver() {
  while (true) {
    co_await Sleep(Upto(plan_.fault_pause_ns));
    if (faults_over_) co_return;
    OneFault();
  }
}

void FailoverWorld::OneFault() {
  const FailoverPlan& p = plan_;
  const std::vector<std::pair<uint32_t, Fault>> faults = {
      {p.kill, &FailoverWorld::Kill},
      {p.kill_two, &FailoverWorld::KillTwo},
      {p.kill_all, &FailoverWorld::KillAll},
      {p.cut_members, &FailoverWorld::CutMembers},
      {p.cut_off, &FailoverWorld::CutOffOne},
      {p.freeze, &FailoverWorld::Freeze},
      {p.cut_coordinator, &FailoverWorld::CutCoordinator},
      {p.cut_client, &FailoverWorld::CutClient},
      {p.cut_node, &FailoverWorld::CutNode},
      {p.coordinator_down, &FailoverWorld::StopCoordinator},
      {p.hand_over, &FailoverWorld::HandOver},
      {p.wipe, &FailoverWorld::Wipe},
      {p.client_death, &FailoverWorld::KillClient},
      {p.slow_disk, &FailoverWorld::SlowDisk},
      {p.full_disk, &FailoverWorld::FillDisk},
  };
  uint64_t total = 0;
  for (const auto& [weight, fault] : faults) total += weight;
  if (total == 0) return;
  uint64_t pick = rng_.Below(total);
  for (const auto& [weight, fault] : faults) {
    if (pick < weight) return (this->*fault)();
    pick -= weight;
  }
}

// Two times of three the primary, if there is one.
size_t FailoverWorld::PickMember() {
  const std::optional<size_t> primary = metas().Primary();
  return primary && !rng_.OneIn(3) ? *primary : rng_.Below(metas().size());
}

// ---- Processes ------------------------------------------------------------------------------------

void FailoverWorld::CrashFor(size_t m, bool power, int64_t ns) {
  if (!metas().up(m)) return;
  ++counts_[power ? "power cuts" : "kills"];
  Trace(MetaHost(m) + (power ? " loses its power" : " is killed"));
  metas().Crash(m, power);
  After(ns, [this, m] {
    if (metas().up(m)) return;
    Trace(MetaHost(m) + " starts");
    metas().Start(m);
  });
}

void FailoverWorld::Kill() { CrashFor(PickMember(), rng_.OneIn(2), Upto(kBackNs)); }

void FailoverWorld::KillTwo() {
  const size_t a = PickMember();
  const size_t b = (a + 1 + rng_.Below(metas().size() - 1)) % metas().size();
  const bool power = rng_.OneIn(2);
  CrashFor(a, power, Upto(kBackNs));
  CrashFor(b, power, Upto(kBackNs));
}

void FailoverWorld::KillAll() {
  for (size_t m = 0; m < metas().size(); ++m) CrashFor(m, true, Upto(kBackNs / 2));
}

void FailoverWorld::KillClient() { CrashClientNow(rng_.Below(plan_.clients)); }

void FailoverWorld::SlowDisk() {
  const size_t m = rng_.Below(metas().size());
  ++counts_["slow disks"];
  Trace("the disk of " + MetaHost(m) + " is slow");
  metas().SetSyncNs(m, 500 * kMillisecond);
  CrashFor(m, false, kSecond);
  After(kBackNs, [this, m] { metas().SetSyncNs(m, 2 * kMillisecond); });  // from its next start on
}

void FailoverWorld::FillDisk() {
  const size_t m = PickMember();
  if (!full_.insert(m).second) return;
  ++counts_["full disks"];
  Trace("the disk of " + MetaHost(m) + " is full");
  metas().SetFull(m, true);
  After(Upto(kFullNs), [this, m] {
    Trace("the disk of " + MetaHost(m) + " has room again");
    full_.erase(m);
    metas().SetFull(m, false);
  });
}

// ---- Network --------------------------------------------------------------------------------------

void FailoverWorld::Block(const std::set<std::string>& a, const std::set<std::string>& b, int64_t ns, const std::string& what) {
  const uint64_t way = rng_.Below(3);
  ++counts_[what];
  Trace(what + ": " + *a.begin() + (way == 0 ? " -> " : way == 1 ? " <- " : " <-> ") + *b.begin() + (b.size() > 1 ? " .." : ""));
  if (way != 1) cluster_.network().Block(a, b);
  if (way != 0) cluster_.network().Block(b, a);
  After(ns, [this, a, b, way] {
    if (way != 1) cluster_.network().Unblock(a, b);
    if (way != 0) cluster_.network().Unblock(b, a);
  });
}

void FailoverWorld::CutMembers() {
  const size_t a = PickMember();
  const size_t b = (a + 1 + rng_.Below(metas().size() - 1)) % metas().size();
  Block({MetaHost(a)}, {MetaHost(b)}, Upto(kCutMembersNs), "cuts between members");
}

// Counted, as in the network: the end of one cut does not end another.
void FailoverWorld::CutToCoordinator(const std::string& host, bool cut) {
  cuts_to_coordinator_[host] += cut ? 1 : -1;
  metas().coordinator().CutTo(host, cuts_to_coordinator_[host] > 0);
}

void FailoverWorld::CutFromCoordinator(const std::string& host, bool cut) {
  cuts_from_coordinator_[host] += cut ? 1 : -1;
  metas().coordinator().CutFrom(host, cuts_from_coordinator_[host] > 0);
}

void FailoverWorld::CutOff(size_t m, bool cut, bool coordinator_too) {
  std::set<std::string> others;
  for (size_t i = 0; i < metas().size(); ++i) {
    if (i != m) others.insert(MetaHost(i));
  }
  if (cut) {
    cluster_.network().Partition({MetaHost(m)}, others);
  } else {
    cluster_.network().Unblock({MetaHost(m)}, others);
    cluster_.network().Unblock(others, {MetaHost(m)});
  }
  if (!coordinator_too) return;
  CutToCoordinator(MetaHost(m), cut);
  CutFromCoordinator(MetaHost(m), cut);
}

void FailoverWorld::CutOffOne() {
  const size_t m = PickMember();
  ++counts_["members cut off"];
  const bool coordinator_too = rng_.OneIn(2);
  Trace(MetaHost(m) + " is cut off from the others" + (coordinator_too ? " and from the coordinator" : ""));
  CutOff(m, true, coordinator_too);
  After(kTakeOverNs + Upto(kCutMembersNs), [this, m, coordinator_too] { CutOff(m, false, coordinator_too); });
}

// What others see of a process that is stopped: all that is sent to it and by it is lost meanwhile.
void FailoverWorld::Freeze() {
  const size_t m = PickMember();
  ++counts_["freezes"];
  Trace("nothing reaches or leaves " + MetaHost(m));
  std::set<std::string> clients = {kAdminHost};
  for (size_t n = 0; n < cluster_.nodes(); ++n) clients.insert(NodeHost(n));
  for (size_t c = 0; c < plan_.clients; ++c) clients.insert(ClientHost(c));
  CutOff(m, true);
  cluster_.network().Partition({MetaHost(m)}, clients);
  After(kTakeOverNs + Upto(kCutMembersNs), [this, m, clients] {
    CutOff(m, false);
    cluster_.network().Unblock({MetaHost(m)}, clients);
    cluster_.network().Unblock(clients, {MetaHost(m)});
    Trace(MetaHost(m) + " is reached again");
  });
}

void FailoverWorld::CutClient() {
  std::set<std::string> to = {MetaHost(PickMember())};
  if (rng_.OneIn(3)) {
    for (size_t m = 0; m < metas().size(); ++m) to.insert(MetaHost(m));
  }
  Block({ClientHost(rng_.Below(plan_.clients))}, to, Upto(kCutOthersNs), "cuts of clients");
}

void FailoverWorld::CutNode() {
  std::set<std::string> to = {MetaHost(PickMember())};
  if (rng_.OneIn(3)) {
    for (size_t m = 0; m < metas().size(); ++m) to.insert(MetaHost(m));
  }
  Block({NodeHost(rng_.Below(cluster_.nodes()))}, to, Upto(kCutOthersNs), "cuts of nodes");
}

// ---- The coordinator ------------------------------------------------------------------------------

void FailoverWorld::CutCoordinator() {
  const std::string host = MetaHost(PickMember());
  const uint64_t way = rng_.Below(3);
  ++counts_["cuts from the coordinator"];
  Trace(host + " is cut off from the coordinator, way " + std::to_string(way));
  if (way != 1) CutToCoordinator(host, true);
  if (way != 0) CutFromCoordinator(host, true);
  After(Upto(kCutMembersNs), [this, host, way] {
    if (way != 1) CutToCoordinator(host, false);
    if (way != 0) CutFromCoordinator(host, false);
  });
}

void FailoverWorld::StopCoordinator() {
  if (coordinator_away_) return;  // the end of one time would be the end of another
  coordinator_away_ = true;
  ++counts_["times without the coordinator"];
  Trace("the coordinator is away");
  metas().coordinator().SetUp(false);
  After(plan_.coordinator_away_ns / 4 + Upto(plan_.coordinator_away_ns * 3 / 4), [this] {
    coordinator_away_ = false;
    Trace("the coordinator is back");
    metas().coordinator().SetUp(true);
  });
}

// ---- By people ------------------------------------------------------------------------------------

Task<void> FailoverWorld::AskToPromote(std::string at, std::string name) {
  MemberStub member(cluster_.network().MakeTransport(kAdminHost, at));
  ChangeMembersRequest r;
  r.header.cluster = cluster_.AdminHeader().cluster;
  r.header.timeout_ns = kAskNs;
  r.change = MemberChange::kPromote;
  r.name = name;
  const Result<ChangeMembersReply> done = co_await member.ChangeMembers(std::move(r));
  Trace("promote " + (name.empty() ? "any" : name) + " at " + at + ": " + done.error().ToString());
  ++counts_[done.ok() ? "hand-overs" : "hand-overs that failed"];
}

void FailoverWorld::HandOver() {
  const std::string name = rng_.OneIn(2) ? "" : MetaHost(rng_.Below(metas().size()));
  scope_.Spawn(AskToPromote(MetaAddress(rng_.Below(metas().size())), name));
}

// Not of the primary, nor while any other member is not in the set: then that one disk may have all that there is.
void FailoverWorld::Wipe() {
  const std::optional<size_t> primary = metas().Primary();
  if (!primary || !metas().AllIn()) return;
  const size_t m = (*primary + 1 + rng_.Below(metas().size() - 1)) % metas().size();
  if (metas().node(m)->role() != MetaRole::kStandby) return;
  ++counts_["wiped disks"];
  Trace("the disk of " + MetaHost(m) + " is replaced by an empty one");
  metas().Crash(m, true);
  Replace(m);
}

void FailoverWorld::Replace(size_t m) {
  metas().Wipe(m);
  metas().Start(m);
  scope_.Spawn(RemoveFormer(m));
}

Task<void> FailoverWorld::PromoteLosing(size_t m) {
  MemberStub member(cluster_.network().MakeTransport(kAdminHost, MetaAddress(m)));
  ChangeMembersRequest r;
  r.header.cluster = cluster_.AdminHeader().cluster;
  r.header.timeout_ns = kAskNs;
  r.change = MemberChange::kPromoteLosing;
  r.name = r.name_again = MetaHost(m);
  const Result<ChangeMembersReply> done = co_await member.ChangeMembers(std::move(r));
  Trace("promote " + MetaHost(m) + ", losing something: " + done.error().ToString());
  ++counts_[done.ok() ? "losses" : "losses that failed"];
}

// As an admin does who has replaced a PC; the new one asks to be taken in by itself.
Task<void> FailoverWorld::RemoveFormer(size_t m) {
  while (true) {
    const auto it = metas().InForce().members.find(MetaHost(m));
    if (it == metas().InForce().members.end() || it->second.uuid == metas().store_id(m)) co_return;
    MemberStub member(cluster_.network().MakeTransport(kAdminHost, MetaAddress(rng_.Below(metas().size()))));
    ChangeMembersRequest r;
    r.header.cluster = cluster_.AdminHeader().cluster;
    r.header.timeout_ns = kAskNs;
    r.change = MemberChange::kRemove;
    r.name = MetaHost(m);
    const Result<ChangeMembersReply> done = co_await member.ChangeMembers(std::move(r));
    Trace("remove the former " + MetaHost(m) + ": " + done.error().ToString());
    co_await Sleep(kSecond);
  }
}

// ---- Plans ----------------------------------------------------------------------------------------

namespace {

FailoverPlan Plan(const char* name, size_t metas) {
  FailoverPlan p;
  p.name = name;
  p.metas = metas;
  return p;
}

FailoverPlan Failover() {
  FailoverPlan p = Plan("Failover", 2);
  p.kill = 4;
  p.kill_all = 1;
  p.client_death = 1;
  return p;
}

// The primary loses its power right after it has said that something is durable.
FailoverPlan FailoverStrikes() {
  FailoverPlan p = Plan("FailoverStrikes", 2);
  p.strike_percent = 4;
  p.slow_disk = 1;
  p.fault_pause_ns = 20 * kSecond;
  return p;
}

FailoverPlan FailoverPartitions() {
  FailoverPlan p = Plan("FailoverPartitions", 2);
  p.cut_members = 3;
  p.cut_off = 2;
  p.cut_coordinator = 2;
  p.cut_client = p.cut_node = 1;
  return p;
}

FailoverPlan ThreeMetas() {
  FailoverPlan p = Plan("ThreeMetas", 3);
  p.kill = 3;
  p.kill_two = 2;
  p.kill_all = 1;
  p.cut_members = 2;
  p.cut_off = 2;
  p.cut_coordinator = 1;
  p.hand_over = 1;
  p.client_death = p.cut_client = p.slow_disk = 1;
  return p;
}

FailoverPlan Switchover() {
  FailoverPlan p = Plan("Switchover", 2);
  p.hand_over = 6;
  p.kill = 1;
  p.fault_pause_ns = 6 * kSecond;
  return p;
}

// Nothing is lost, and nothing changes, while nobody can change roles.
FailoverPlan EtcdDown() {
  FailoverPlan p = Plan("EtcdDown", 2);
  p.network = p.late_coordinator = false;
  p.coordinator_down = 1;
  p.coordinator_away_ns = 60 * kSecond;
  p.same_term = true;
  p.duration_ns = 90 * kSecond;
  return p;
}

// The same, and members fail meanwhile.
FailoverPlan EtcdDownAndMore() {
  FailoverPlan p = Plan("EtcdDownAndMore", 3);
  p.coordinator_down = 3;
  p.kill = 2;
  p.cut_members = 1;
  p.hand_over = 1;
  return p;
}

FailoverPlan MetaPauses() {
  FailoverPlan p = Plan("MetaPauses", 3);
  p.freeze = 4;
  p.kill = 1;
  p.fault_pause_ns = 15 * kSecond;
  return p;
}

// Members that can write nothing for a while, often the one that serves.
FailoverPlan FullDisks() {
  FailoverPlan p = Plan("FullDisks", 3);
  p.full_disk = 4;
  p.kill = 1;
  p.hand_over = 1;
  p.fault_pause_ns = 12 * kSecond;
  return p;
}

// Members that come back with logs that ended otherwise, or with nothing.
FailoverPlan Rejoin() {
  FailoverPlan p = Plan("Rejoin", 3);
  p.late_coordinator = false;  // a swap of a member that is wiped must not be carried out afterwards
  p.wipe = 3;
  p.cut_off = 2;
  p.kill = 1;
  p.duration_ns = 90 * kSecond;
  p.fault_pause_ns = 15 * kSecond;
  return p;
}

}  // namespace

const std::vector<FailoverPlan>& FailoverPlans() {
  static const std::vector<FailoverPlan> plans = {Failover(), FailoverStrikes(), FailoverPartitions(), ThreeMetas(), Switchover(),
                                                  EtcdDown(), EtcdDownAndMore(), MetaPauses(), FullDisks(), Rejoin()};
  return plans;
}

const FailoverPlan& FindFailoverPlan(const std::string& name) {
  for (const FailoverPlan& p : FailoverPlans()) {
    if (p.name == name) return p;
  }
  CHECK(false, "there is no plan " + name);
}

}  // namespace stria
