#include "test/sim/patience.h"

#include <algorithm>

namespace stria {
namespace {
// From the end of a lease to when the server has looked at it: its ticks, and the time its client may be late.
constexpr int64_t kSlackNs = 2 * kSecond;
}  // namespace

Patience::Patience(SimCluster* cluster, size_t parity, Bounds bounds)
    : cluster_(cluster), parity_(parity), bounds_(bounds), circles_(cluster, bounds.message_ns), quiet_ns_(cluster->options().clients, 0) {}

void Patience::SetBounds(Bounds bounds) {
  bounds_ = bounds;
  quiet_ns_.assign(quiet_ns_.size(), cluster_->executor().NowNs());
}

Patience::Reach Patience::ReachOf(size_t c, const Troubles& troubles) const {
  const SimNetwork& net = cluster_->network();
  const std::string host = ClientHost(c);
  const bool blocks = net.AnyBlocked();
  const auto blocked = [&](const std::string& from, const std::string& to) { return blocks && net.Blocked(from, to); };
  Reach r;
  r.up = cluster_->client_up(c);
  r.asks = cluster_->meta_up() && !troubles.meta_failing && !blocked(host, "meta") && cluster_->hosts().IsBelieved(host);
  r.hears = r.asks && !blocked("meta", host);
  size_t bad = 0;
  for (size_t n = 0; n < cluster_->nodes(); ++n) {
    if (troubles.removed.contains(n)) continue;
    const std::string node = NodeHost(n);
    bad += !cluster_->node_up(n) || troubles.nodes.contains(n) || blocked(host, node) || blocked(node, host);
  }
  r.bytes = bad <= parity_ && !troubles.disks_full;
  return r;
}

bool Patience::OthersMayHold(const std::vector<Reach>& reach) {
  const int64_t now_ns = cluster_->executor().NowNs();
  const SessionTable& sessions = cluster_->meta_server()->sessions();
  const int64_t lease_ns = sessions.lease_ns() + kSlackNs;
  const int64_t answers_ns = cluster_->options().meta.answer_timeout_ns + lease_ns;
  std::map<SessionId, int64_t> unanswering;
  bool excused = false;
  for (const SessionId s : sessions.All()) {
    if (!sessions.Exists(s)) continue;
    bool lives = false, renews = false;
    for (size_t c = 0; c < reach.size(); ++c) {
      if (!reach[c].up || cluster_->client(c).session().id() != s) continue;
      lives = reach[c].all();
      renews = reach[c].asks;
    }
    if (lives) continue;
    const auto before = unanswering_ns_.find(s);
    const int64_t since_ns = unanswering[s] = before == unanswering_ns_.end() ? now_ns : before->second;
    excused = excused || now_ns - since_ns <= (renews ? answers_ns : lease_ns);
  }
  unanswering_ns_ = std::move(unanswering);
  return excused;
}

bool Patience::Recovers() {
  const int64_t now_ns = cluster_->executor().NowNs();
  const MetaServer& meta = *cluster_->meta_server();
  if (meta.term() != term_) {
    term_ = meta.term();
    started_ns_ = now_ns;
  }
  const SessionTable& sessions = meta.sessions();
  const bool busy = term_ == 0 || sessions.reclaiming() || sessions.replays().AwaitsOthers(SessionId(), now_ns);
  return busy && now_ns - started_ns_ <= 2 * (sessions.lease_ns() + kSlackNs);
}

std::string Patience::Look(const Troubles& troubles) {
  const int64_t now_ns = cluster_->executor().NowNs();
  std::vector<Reach> reach;
  for (size_t c = 0; c < quiet_ns_.size(); ++c) reach.push_back(ReachOf(c, troubles));
  const bool all_wait = !cluster_->meta_up() || Recovers() || OthersMayHold(reach);
  for (size_t c = 0; c < reach.size(); ++c) {
    if (all_wait || !reach[c].all()) quiet_ns_[c] = now_ns;
    if (!reach[c].up) continue;
    const CallList::Call* const oldest = cluster_->vfs(c).report().calls().oldest();
    if (oldest == nullptr) continue;
    const int64_t waited_ns = now_ns - std::max(oldest->since_ns(), quiet_ns_[c]);
    longest_seen_ns_ = std::max(longest_seen_ns_, waited_ns);
    if (waited_ns <= bounds_.longest_ns) continue;
    return ClientHost(c) + " has been able to reach all that it needs for " +
           std::to_string((now_ns - quiet_ns_[c]) / kMillisecond) + " ms, and a call waits for longer than " + std::to_string(bounds_.longest_ns / kMillisecond) + " ms:" + WhatWaits(*cluster_);
  }
  return circles_.Look();
}

}  // namespace stria
