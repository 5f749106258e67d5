// Nodes that join, leave, and come back.
#include <algorithm>

#include "test/sim/world.h"

namespace stria {
namespace {
constexpr size_t kMaxSimNodes = 11;
constexpr size_t kFewestNodes = 3;  // one more may be in trouble, and a disk of each drained
constexpr int64_t kDrainPatienceNs = 60 * kSecond;
}  // namespace

Task<bool> SimWorld::AdminCall(AdminRequest r, const std::string& what) {
  r.header = cluster_.AdminHeader();
  auto done = co_await cluster_.admin().Admin(r);
  Trace("admin verb " + std::to_string(static_cast<int>(r.verb)) + " on " + what + ": " +
        (done.ok() ? done->message : done.error().ToString()));
  // It is not there any more: an answer may have been lost.
  co_return done.ok() || (r.verb == AdminVerb::kRemove && done.code() == FsError::kNoEnt);
}

Task<bool> SimWorld::AdminOnTarget(AdminVerb verb, TargetId target) {
  AdminRequest r;
  r.verb = verb;
  r.target = target;
  co_return co_await AdminCall(r, "target " + std::to_string(target.v));
}

Task<bool> SimWorld::AdminOnNode(AdminVerb verb, size_t n) {
  InodeRequest ask;
  ask.header = cluster_.AdminHeader();
  auto map = co_await cluster_.admin().GetMap(ask);
  if (!map.ok()) co_return false;
  AdminRequest r;
  r.verb = verb;
  for (const NodeInfo& i : map->nodes) {
    if (i.name == NodeHost(n)) r.node = i.id;
  }
  if (!r.node) co_return verb == AdminVerb::kRemove;
  co_return co_await AdminCall(r, NodeHost(n));
}

// ---- Lost for good; a fresh one has joined

void SimWorld::LoseNode() {
  if (cluster_.nodes() >= kMaxSimNodes || !cluster_.meta_up()) return;
  const std::optional<size_t> n = PickNode();
  if (!n || draining_.contains(*n)) return;
  ++counts_["lost nodes"];
  Trace(NodeHost(*n) + " is lost for good");
  troubles_[*n].rotten = true;
  gone_.insert(*n);
  cluster_.CrashNode(*n, true);
  (void)cluster_.AddNode();
  scope_.Spawn(OutAndRemoved(*n));
}

// ---- Lost for good, and the room stays smaller than the layout for a while

size_t SimWorld::InUse() const {
  size_t n = 0;
  for (size_t i = 0; i < cluster_.nodes(); ++i) n += !gone_.contains(i) && !draining_.contains(i);
  return n;
}

void SimWorld::Shrink() {
  if (InUse() <= kFewestNodes || cluster_.nodes() + 1 >= kMaxSimNodes || !cluster_.meta_up()) return;
  const std::optional<size_t> n = PickNode();
  if (!n || draining_.contains(*n)) return;
  ++counts_["nodes given up"];
  Trace(NodeHost(*n) + " is lost for good; " + std::to_string(InUse() - 1) + " are left");
  troubles_[*n].rotten = true;
  gone_.insert(*n);
  cluster_.CrashNode(*n, true);
  scope_.Spawn(OutAndRemoved(*n));
}

// As many as a whole stripe needs: else what is narrow stays so.
void SimWorld::FillUp() {
  while (options_.faults.shrink > 0 && InUse() < columns_) {
    Trace("a node joins");
    (void)cluster_.AddNode();
  }
}

// It counts against the budget until it is removed. That nothing of it is named is not enough: a client that had sealed
// a shard there before may commit that stripe until the metadata server has been told, and the loss of another node
// would then be the second of it.
Task<void> SimWorld::OutAndRemoved(size_t n) {
  bool out = false;
  do {
    co_await Sleep(2 * kSecond);
    if (!out) out = co_await AdminOnNode(AdminVerb::kOut, n);
  } while (!co_await AdminOnNode(AdminVerb::kRemove, n));  // refused while anything needs it
  removed_.insert(n);
}

// ---- Away, given up, and back with everything that it had

void SimWorld::StaleNode() {
  const std::optional<size_t> n = PickNode();
  if (!n || draining_.contains(*n)) return;
  ++counts_["stale nodes"];
  Trace(NodeHost(*n) + " is away");
  ++troubles_[*n].active;
  audited_.Forget(*n);
  cluster_.CrashNode(*n, options_.faults.power_cuts && rng_.OneIn(2));
  away_.insert(*n);
  scope_.Spawn(OutAndBack(*n, static_cast<int64_t>(rng_.Below(40 * kSecond))));
}

Task<void> SimWorld::OutAndBack(size_t n, int64_t away_ns) {
  const int64_t back_ns = cluster_.executor().NowNs() + away_ns;
  bool out = false;
  while (!out && !faults_over_ && cluster_.executor().NowNs() < back_ns) {
    co_await Sleep(kSecond);
    out = co_await AdminOnNode(AdminVerb::kOut, n);
  }
  while (!faults_over_ && cluster_.executor().NowNs() < back_ns) co_await Sleep(kSecond);
  away_.erase(n);
  --troubles_[n].active;
  Trace(NodeHost(n) + " is back");
  if (!cluster_.node_up(n)) cluster_.StartNode(n);
}

// ---- Emptied while it works

void SimWorld::Drain() {
  const size_t in_use = InUse();
  const size_t n = rng_.Below(cluster_.nodes());
  if (!cluster_.node_up(n) || troubles_.contains(n) || gone_.contains(n) || !draining_.insert(n).second) return;
  // With one drained and one in trouble a stripe must still find its domains.
  std::optional<size_t> disk;
  if (in_use < 7 || rng_.OneIn(2)) disk = rng_.Below(cluster_.options().disks);
  ++counts_[disk ? "drained disks" : "drained nodes"];
  Trace("drain of " + NodeHost(n) + (disk ? ":d" + std::to_string(*disk + 1) : ""));
  scope_.Spawn(DrainAndBack(n, disk, rng_.OneIn(2)));
}

Task<bool> SimWorld::AdminOnEither(AdminVerb verb, size_t n, std::optional<size_t> disk) {
  if (disk) co_return co_await AdminOnTarget(verb, cluster_.disks().target(n, *disk));
  co_return co_await AdminOnNode(verb, n);
}

Task<void> SimWorld::DrainAndBack(size_t n, std::optional<size_t> disk, bool for_good) {
  const int64_t end = cluster_.executor().NowNs() + kDrainPatienceNs;
  bool begun = false, empty = false;
  while (!faults_over_ && !empty && cluster_.executor().NowNs() < end && !gone_.contains(n)) {
    co_await Sleep(kSecond);
    if (!begun) begun = co_await AdminOnEither(AdminVerb::kDrain, n, disk);
    const NodeAudit audit = Audit().nodes[n];
    empty = begun && (disk ? audit.named_on[*disk] : audit.named) == 0;
  }
  if (empty) ++counts_["emptied"];
  if (empty && for_good && !disk && Room() && !troubles_.contains(n) && cluster_.nodes() < kMaxSimNodes) {
    ++counts_["removed nodes"];
    Trace(NodeHost(n) + " is empty and switched off");
    troubles_[n].rotten = true;  // as one that is lost: what was allocated on it before may still be committed
    gone_.insert(n);
    cluster_.CrashNode(n, false);
    (void)cluster_.AddNode();
    while (!co_await AdminOnNode(AdminVerb::kRemove, n)) co_await Sleep(kSecond);
    removed_.insert(n);
  }
  // Also if nobody knows whether it was begun. A disk that failed meanwhile stays out.
  while (!gone_.contains(n)) {
    const auto states = StatesInMeta();
    bool draining = false;
    for (size_t d = 0; d < cluster_.options().disks; ++d) {
      auto state = states.find(cluster_.disks().target(n, d));
      if (state == states.end() || state->second != TargetState::kDraining) continue;
      draining = true;
      (void)co_await AdminOnTarget(AdminVerb::kUndrain, cluster_.disks().target(n, d));
    }
    if (!draining) break;
    co_await Sleep(kSecond);
  }
  draining_.erase(n);
}

void SimWorld::AddOne() {
  if (cluster_.nodes() >= kMaxSimNodes) return;
  ++counts_["added nodes"];
  Trace("a node joins");
  (void)cluster_.AddNode();
}

}  // namespace stria
