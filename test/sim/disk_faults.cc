// Disks that fail, and the fault budget: a node whose disks may hold less than the metadata says counts
// until an audit finds everything there again, on this node or elsewhere.
#include <algorithm>

#include "test/sim/world.h"

namespace stria {
namespace {
constexpr int64_t kFollowNs = 2 * kSecond;
// After the last fault of a disk: what was being written then has been sealed or given up.
constexpr int64_t kQuietNs = 10 * kSecond;
constexpr uint64_t kPlenty = kTiB;
}  // namespace

// Crowded stripes have several columns on one node, which then counts more than once.
bool SimWorld::Bearable(size_t n) {
  std::set<size_t> nodes = {n};
  for (const auto& [other, trouble] : troubles_) nodes.insert(other);
  return DecodesWithout(cluster_, nodes);
}

std::optional<size_t> SimWorld::PickNode() {
  const size_t n = rng_.Below(cluster_.nodes());
  if (!Room() || troubles_.contains(n) || gone_.contains(n) || !cluster_.node_up(n)) return std::nullopt;
  if (!Bearable(n)) return std::nullopt;
  return n;
}

std::optional<size_t> SimWorld::PickForDiskFault() {
  for (auto& [n, t] : troubles_) {
    if (t.rotten && !gone_.contains(n) && cluster_.node_up(n) && Bearable(n)) return n;  // what is bad becomes worse
  }
  return PickNode();
}

SimDiskFaults& SimWorld::DiskTrouble(size_t n, size_t d, const std::string& what, int64_t lasts_ns) {
  ++counts_[what];
  Trace(what + " on " + DiskName(n, d));
  Trouble& t = troubles_[n];
  t.rotten = true;
  t.quiet_ns = cluster_.executor().NowNs() + lasts_ns + kQuietNs;
  if (lasts_ns > 0) {
    ++t.active;
    After(lasts_ns, [this, n, d] {
      --troubles_[n].active;
      SimDiskFaults& f = cluster_.disks().media(n, d).faults;
      const bool dead = f.dead;
      f = SimDiskFaults();
      f.dead = dead;
      Trace("trouble of " + DiskName(n, d) + " ends");
    });
  }
  return cluster_.disks().media(n, d).faults;
}

// ---- Faults

void SimWorld::FlipBit() {
  const std::optional<size_t> n = PickForDiskFault();
  if (!n) return;
  const size_t d = rng_.Below(cluster_.options().disks);
  (void)DiskTrouble(*n, d, "flipped bits", 0);
  if (!rng_.OneIn(3)) {
    (void)cluster_.disks().media(*n, d).FlipRandomBit(rng_);
    return;
  }
  const KvFamily family = rng_.OneIn(5) ? kIndexState : kIndexShards;
  auto rows = cluster_.disks().Look(*n, d).index->Scan(family, "", "", SIZE_MAX);
  if (!rows.ok() || rows->empty()) return;
  (void)cluster_.disks().index(*n, d).CorruptValue(family, (*rows)[rng_.Below(rows->size())].first, rng_);
}

void SimWorld::BadWrites() {
  const std::optional<size_t> n = PickForDiskFault();
  if (!n) return;
  const int64_t lasts_ns = static_cast<int64_t>(rng_.Below(10 * kSecond));
  SimDiskFaults& f = DiskTrouble(*n, rng_.Below(cluster_.options().disks), "lost or misdirected writes", lasts_ns + 1);
  (rng_.OneIn(2) ? f.lost_write_percent : f.misdirected_write_percent) = 1 + static_cast<uint32_t>(rng_.Below(30));
}

void SimWorld::DiskErrors() {
  const std::optional<size_t> n = PickForDiskFault();
  if (!n) return;
  const int64_t lasts_ns = static_cast<int64_t>(rng_.Below(12 * kSecond));
  SimDiskFaults& f = DiskTrouble(*n, rng_.Below(cluster_.options().disks), "disk errors", lasts_ns + 1);
  const uint32_t percent = 1 + static_cast<uint32_t>(rng_.Below(40));
  switch (rng_.Below(4)) {
    case 0: f.read_error_percent = percent; break;
    case 1: f.write_error_percent = percent; break;
    case 2: f.sync_error_percent = percent; break;
    default: f.fail_sync_in = f.fail_write_in = 1 + static_cast<uint32_t>(rng_.Below(20));
  }
}

void SimWorld::KillDisk() {
  const std::optional<size_t> n = PickForDiskFault();
  if (!n) return;
  DiskTrouble(*n, rng_.Below(cluster_.options().disks), "dead disks", 0).dead = true;
}

void SimWorld::HangDisk() {
  const std::optional<size_t> n = PickForDiskFault();
  if (!n) return;
  const int64_t lasts_ns = static_cast<int64_t>(rng_.Below(40 * kSecond));
  DiskTrouble(*n, rng_.Below(cluster_.options().disks), "hung disks", lasts_ns + 1).hung = true;
}

// Costs no redundancy, so the budget does not matter: every disk may be full.
void SimWorld::FillDisk() {
  ++counts_["full disks"];
  const bool all = rng_.OneIn(4);
  const size_t one = rng_.Below(cluster_.nodes());
  Trace(all ? "all disks are full" : "full disks on " + NodeHost(one));
  for (size_t n = 0; n < cluster_.nodes(); ++n) {
    if (!all && n != one) continue;
    for (size_t d = 0; d < cluster_.options().disks; ++d) {
      SimDiskMedia& disk = cluster_.disks().media(n, d);
      disk.set_capacity_bytes(disk.used_bytes() + rng_.Below(2 * kMiB));
      ++disks_full_;
      After(static_cast<int64_t>(rng_.Below(15 * kSecond)), [this, n, d] {
        --disks_full_;
        cluster_.disks().media(n, d).set_capacity_bytes(kPlenty);
      });
    }
  }
}

// ---- The budget

std::map<TargetId, TargetState> SimWorld::StatesInMeta() {
  std::map<TargetId, TargetState> out;
  auto rows = cluster_.MetaContents().Scan(static_cast<KvFamily>(Family::kCluster), "T", "U", SIZE_MAX);
  for (const KvEntry& row : *rows) {
    auto t = DecodeTargetRecord(row.second);
    if (t.ok()) out[t->id] = t->state;
  }
  return out;
}

// Given up by its server, by the metadata server, or dead.
bool SimWorld::Broken(size_t n, size_t d, const std::map<TargetId, TargetState>& states) {
  const SimDisks::Now now = cluster_.disks().Look(n, d);
  if (cluster_.disks().media(n, d).faults.dead || now.fenced || now.left_out) return true;
  auto state = states.find(cluster_.disks().target(n, d));
  return state != states.end() && state->second != TargetState::kUp && state->second != TargetState::kDraining;
}

ClusterAudit SimWorld::Audit() {
  for (size_t n = 0; n < cluster_.nodes(); ++n) {
    auto trouble = troubles_.find(n);
    const bool sound = cluster_.node_up(n) && (trouble == troubles_.end() || !trouble->second.rotten);
    if (!sound) audited_.Forget(n);
  }
  return AuditCluster(cluster_, &audited_);
}

// What holds on nodes without a disk fault, at any moment.
void SimWorld::CheckSound(const ClusterAudit& audit) {
  for (const std::string& p : audit.problems) Fail("audit: " + p);
  if (audit.homeless > 0) Fail("audit: " + std::to_string(audit.homeless) + " columns are on disks that left");
  for (size_t n = 0; n < audit.nodes.size(); ++n) {
    const NodeAudit& a = audit.nodes[n];
    auto trouble = troubles_.find(n);
    if (a.named > 0 && removed_.contains(n)) {
      Fail("audit: " + NodeHost(n) + " was removed, and has " + std::to_string(a.named) +
           " columns of live stripes");
    }
    if (gone_.contains(n) || (trouble != troubles_.end() && trouble->second.rotten)) continue;
    if (a.damaged > 0) Fail("audit: " + a.first_damaged + "; no disk fault there");
    if (a.rotten > 0) Fail("audit: " + std::to_string(a.rotten) + " sealed shards are damaged on " +
                           NodeHost(n) + ", no disk fault there");
  }
}

Task<void> SimWorld::FollowTroubles() {
  while (true) {
    co_await Sleep(kFollowNs);
    const ClusterAudit audit = Audit();
    CheckSound(audit);
    std::vector<size_t> nodes;
    for (auto& [n, t] : troubles_) {
      if (t.active == 0) nodes.push_back(n);
    }
    for (size_t n : nodes) {
      if (co_await Recovered(n, audit.nodes[n])) {
        Trace(NodeHost(n) + " is out of trouble");
        troubles_.erase(n);
      }
    }
  }
}

Task<bool> SimWorld::Recovered(size_t n, const NodeAudit audit) {
  const Trouble trouble = troubles_[n];
  if (gone_.contains(n)) co_return removed_.contains(n);
  if (!trouble.rotten) co_return true;
  if (!cluster_.node_up(n)) co_return false;
  const std::map<TargetId, TargetState> states = StatesInMeta();
  std::vector<size_t> replace;
  bool broken = false;
  for (size_t d = 0; d < cluster_.options().disks; ++d) {
    const TargetId target = cluster_.disks().target(n, d);
    auto state = states.find(target);
    const bool drains = state != states.end() && state->second == TargetState::kDraining;
    if (!Broken(n, d, states)) {
      // It had too many errors and is drained by itself; an administrator forgives it.
      if (drains && !draining_.contains(n)) {
        broken = true;
        (void)co_await AdminOnTarget(AdminVerb::kUndrain, target);
      }
      continue;
    }
    broken = true;
    if (state == states.end() || state->second == TargetState::kRemoved) {
      replace.push_back(d);
    } else if (state->second == TargetState::kUp) {
      (void)co_await AdminOnTarget(AdminVerb::kOut, target);
    } else if (audit.named_on[d] == 0 && co_await AdminOnTarget(AdminVerb::kRemove, target)) {
      replace.push_back(d);  // what the audit saw may be lost in a power cut; what the administrator was answered is not
    }
  }
  // Nothing needs what is on them any more: an administrator puts fresh disks in.
  if (!replace.empty() && cluster_.node_up(n) && troubles_[n].active == 0) {
    cluster_.CrashNode(n, false);
    for (size_t d : replace) {
      ++counts_["replaced disks"];
      Trace("fresh disk for " + DiskName(n, d));
      cluster_.disks().Replace(n, d);
    }
    cluster_.StartNode(n);
  }
  co_return !broken && audit.damaged == 0 && audit.rotten == 0 &&
      cluster_.executor().NowNs() >= trouble.quiet_ns;
}

}  // namespace stria
