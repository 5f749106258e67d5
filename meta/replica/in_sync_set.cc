#include "meta/replica/in_sync_set.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/sabotage.h"

namespace stria {
namespace {
constexpr int64_t kWantedGrainNs = 50 * kMillisecond;  // of what is remembered about who waits since when
}  // namespace

InSyncSet::InSyncSet(const MetaLife& self, const Register& named, const InSyncOptions& options, uint64_t last, int64_t now_ns)
    : self_(self), options_(options), known_(named), opened_at_(last), last_(last), written_before_(last) {
  CHECK(named.primary == self.member && named.term == self.term, "the register names another life");
  for (const auto& [name, member] : named.members) {
    if (name != self_.member) peers_[name].heard_ns = now_ns;
  }
}

InSyncSet::Peer* InSyncSet::Find(const std::string& member, uint64_t term) {
  const auto it = peers_.find(member);
  return term == self_.term && it != peers_.end() ? &it->second : nullptr;
}

void InSyncSet::OnWritten(uint64_t last) { last_ = std::max(last_, last); }

void InSyncSet::OnSynced(uint64_t seq) {
  synced_ = std::max(synced_, seq);
  Commit();
}

void InSyncSet::OnWanted(uint64_t seq, int64_t now_ns) {
  if (seq <= committed_) return;
  if (!wanted_.empty() && now_ns - wanted_.back().since_ns < kWantedGrainNs) {
    wanted_.back().seq = std::max(wanted_.back().seq, seq);
  } else {
    wanted_.push_back({seq, now_ns});
  }
}

void InSyncSet::OnPromise(const std::string& member, uint64_t term, int64_t sent_ns, int64_t now_ns) {
  Peer* peer = Find(member, term);
  if (peer == nullptr) return;
  const int64_t from = Sabotaged(Sabotage::kCountFromAnswer) ? now_ns : sent_ns;
  peer->until_ns = std::max(peer->until_ns, from + options_.promise_ns);
  peer->heard_ns = std::max(peer->heard_ns, now_ns);
}

void InSyncSet::OnAck(const Ack& ack) {
  Peer* peer = Find(ack.member, ack.term);
  if (peer == nullptr || ack.uuid != known_.members.at(ack.member).uuid) return;
  peer->whole = ack.whole;
  // What is not whole may lack values of what its log has.
  if (ack.whole) {
    peer->durable = std::max(peer->durable, ack.durable);
    peer->diverged = false;  // what said so was of before, and came late
  }
  Commit();
}

void InSyncSet::OnDiverged(const std::string& member, uint64_t term) {
  if (Peer* peer = Find(member, term)) peer->diverged = true;
}

void InSyncSet::OnRewound(const std::string& member, uint64_t term) {
  if (Peer* peer = Find(member, term)) peer->diverged = false;
}

void InSyncSet::Excuse(int64_t ns, int64_t now_ns) {
  const auto later = [&](int64_t at_ns) { return std::max(at_ns, std::min(at_ns + ns, now_ns)); };
  for (Wanted& w : wanted_) w.since_ns = later(w.since_ns);
  for (auto& [name, peer] : peers_) peer.heard_ns = later(peer.heard_ns);
}

bool InSyncSet::OnRegister(const Register& seen) {
  if (seen.version < known_.version) return true;  // a read that came late
  if (seen.primary != self_.member || seen.term != self_.term) return false;
  if (seen.version == known_.version) return seen == known_;  // two histories: not ours
  if (pending_ && FateOf(*pending_, seen) != SwapFate::kUndecided) {
    pending_.reset();
    leaving_.clear();
    if (offered_) hand_to_.clear();  // another change came first: it will never be carried out
    offered_ = false;
  }
  for (auto it = peers_.begin(); it != peers_.end();) {  // those that went, and those whose directory is another now
    const auto now = seen.members.find(it->first);
    const bool same = now != seen.members.end() && now->second.uuid == known_.members.at(it->first).uuid;
    it = same ? std::next(it) : peers_.erase(it);
  }
  known_ = seen;
  for (const auto& [name, member] : seen.members) {
    if (name != self_.member) peers_.try_emplace(name);
  }
  if (seen.in_sync.contains(joiner_) || !seen.members.contains(joiner_)) joiner_.clear();
  Commit();
  return true;
}

std::set<std::string> InSyncSet::Required() const {
  std::set<std::string> out = known_.in_sync;
  if (!joiner_.empty() && !Sabotaged(Sabotage::kGrowBeforeRequired)) out.insert(joiner_);
  if (Sabotaged(Sabotage::kAnswerBeforeShrink)) out.erase(leaving_);
  out.erase(self_.member);
  return out;
}

void InSyncSet::Commit() {
  if (known_.in_sync.size() < known_.min_in_sync || offered_) return;
  std::vector<uint64_t> durable = {synced_};
  for (const std::string& name : Required()) durable.push_back(peers_.at(name).durable);
  std::sort(durable.begin(), durable.end());
  committed_ = std::max(committed_, durable[Sabotaged(Sabotage::kMajorityCommits) ? (durable.size() - 1) / 2 : 0]);
  while (!wanted_.empty() && wanted_.front().seq <= committed_) wanted_.pop_front();
}

int64_t InSyncSet::AuthorityUntilNs() const {
  int64_t until = INT64_MAX;
  for (const std::string& name : Required()) until = std::min(until, peers_.at(name).until_ns);
  return until;
}

bool InSyncSet::HasAuthority(int64_t now_ns) const {
  return !Stopped() && (now_ns < AuthorityUntilNs() || Sabotaged(Sabotage::kIgnoreAuthority));
}

bool InSyncSet::Stopped() const { return offered_ && !Sabotaged(Sabotage::kServeWhileHanding); }

bool InSyncSet::HoldsChanges() const { return !hand_to_.empty() && !(offered_ && Sabotaged(Sabotage::kServeWhileHanding)); }

int64_t InSyncSet::OwesNs(const Peer& peer, int64_t now_ns) const {
  const auto owed = std::find_if(wanted_.begin(), wanted_.end(), [&](const Wanted& w) { return w.seq > peer.durable; });
  return owed == wanted_.end() ? 0 : now_ns - owed->since_ns;
}

bool InSyncSet::OwnDiskHangs(int64_t now_ns) const {
  const auto owed = std::find_if(wanted_.begin(), wanted_.end(), [&](const Wanted& w) { return w.seq > synced_; });
  if (owed == wanted_.end() || now_ns - owed->since_ns < options_.own_disk_ns) return false;
  return std::any_of(peers_.begin(), peers_.end(), [&](const auto& p) {
    return known_.in_sync.contains(p.first) && p.second.until_ns > now_ns && p.second.durable >= owed->seq;
  });
}

Lapse InSyncSet::LapseOf(const std::string& member, int64_t now_ns) const {
  const Peer& peer = peers_.at(member);
  Lapse lapse;
  lapse.member = member;
  lapse.silent_ns = now_ns - peer.heard_ns;
  lapse.suspect_ns = options_.suspect_ns;
  lapse.owes_ns = OwesNs(peer, now_ns);
  lapse.ack_timeout_ns = options_.ack_timeout_ns;
  lapse.diverged = peer.diverged;
  return lapse;
}

bool InSyncSet::Lapsed(const Lapse& lapse) const {
  return lapse.silent_ns >= lapse.suspect_ns || lapse.owes_ns >= lapse.ack_timeout_ns || lapse.diverged;
}

std::optional<RegisterSwap> InSyncSet::Begin(Result<Register> next, int64_t now_ns) {
  if (!next.ok()) return std::nullopt;
  pending_ = RegisterSwap{known_, std::move(next).value()};
  again_ns_ = now_ns + options_.again_ns;
  return pending_;
}

std::optional<RegisterSwap> InSyncSet::NextHandOver(int64_t now_ns, const Uuid& nonce) {
  if (!known_.in_sync.contains(hand_to_)) {
    hand_to_.clear();
    return std::nullopt;
  }
  const Drained drained{hand_to_, /*stopped=*/true, last_, committed_, peers_.at(hand_to_).durable};
  std::optional<RegisterSwap> swap = Begin(HandOver(known_, self_, drained, nonce), now_ns);
  offered_ = swap.has_value();  // before it is asked for: nothing is served from here on
  return swap;
}

std::optional<RegisterSwap> InSyncSet::NextShrink(int64_t now_ns, const Uuid& nonce) {
  for (const std::string& name : known_.in_sync) {
    if (name == self_.member) continue;
    const Lapse lapse = LapseOf(name, now_ns);
    if (!Lapsed(lapse)) continue;
    std::optional<RegisterSwap> swap = Begin(Shrink(known_, self_, lapse, nonce), now_ns);
    if (swap) leaving_ = name;
    if (Sabotaged(Sabotage::kAnswerBeforeShrink)) Commit();
    return swap;
  }
  return std::nullopt;
}

void InSyncSet::NoteWritten(int64_t now_ns) {
  if (last_ > (written_.empty() ? written_before_ : written_.back().last)) written_.push_back({last_, now_ns});
  while (!written_.empty() && now_ns - written_.front().at_ns >= options_.join_behind_ns) {
    written_before_ = written_.front().last;
    written_.pop_front();
  }
}

// Also of what nobody waits for: whose disk hangs lacks little while little is written, and would hold up whoever writes next.
bool InSyncSet::KeepsUp(const Peer& peer) const {
  return peer.durable >= written_before_ && peer.durable + options_.join_lag >= last_;
}

std::optional<RegisterSwap> InSyncSet::NextGrow(int64_t now_ns, const Uuid& nonce) {
  // Nothing is undecided: who was to join and lapsed is forgotten without the register.
  if (!joiner_.empty() && (Lapsed(LapseOf(joiner_, now_ns)) || !peers_.at(joiner_).whole || !coordinator_answers_)) {
    joiner_.clear();
    Commit();
  }
  if (joiner_.empty() && coordinator_answers_) {
    for (const auto& [name, peer] : peers_) {
      if (known_.in_sync.contains(name) || !peer.whole || peer.diverged || peer.until_ns <= now_ns) continue;
      if (!KeepsUp(peer) || Lapsed(LapseOf(name, now_ns))) continue;
      joiner_ = name;
      // What was committed in former terms is not known until the set has synced what this life began with.
      joiner_from_ = std::max(committed_, opened_at_);
      break;
    }
  }
  if (joiner_.empty()) return std::nullopt;
  const Peer& peer = peers_.at(joiner_);
  CaughtUp caught;
  caught.member = joiner_;
  caught.uuid = known_.members.at(joiner_).uuid;
  caught.whole = peer.whole;
  caught.required = true;
  caught.promises = peer.until_ns > now_ns;
  caught.durable = peer.durable;
  caught.required_from = joiner_from_;
  return Begin(Grow(known_, self_, caught, nonce), now_ns);
}

std::optional<RegisterSwap> InSyncSet::Next(int64_t now_ns, const std::function<Uuid()>& nonce) {
  NoteWritten(now_ns);
  // Also while another change is not decided, which may take as long as the coordinator is away.
  if (!offered_ && now_ns >= hand_until_ns_) hand_to_.clear();
  if (pending_) {
    if (now_ns < again_ns_) return std::nullopt;
    again_ns_ = now_ns + options_.again_ns;
    return pending_;
  }
  if (!hand_to_.empty()) {
    if (std::optional<RegisterSwap> swap = NextHandOver(now_ns, nonce())) return swap;
  }
  if (std::optional<RegisterSwap> swap = NextShrink(now_ns, nonce())) return swap;
  return hand_to_.empty() ? NextGrow(now_ns, nonce()) : std::nullopt;
}

Result<RegisterSwap> InSyncSet::Ask(const Register& next, int64_t now_ns) {
  if (pending_ || !hand_to_.empty()) return Error(FsError::kBusy, "another change of the metadata servers is under way; try again in a few seconds");
  if (next.version != known_.version + 1 || next.primary != self_.member || next.term != self_.term || next.in_sync != known_.in_sync) {
    return Error(FsError::kConflict, "the metadata servers have changed meanwhile; try again");
  }
  return *Begin(next, now_ns);
}

Result<void> InSyncSet::BeginHandOver(const std::string& to, int64_t now_ns) {
  if (!hand_to_.empty()) return Error(FsError::kBusy, hand_to_ + " is being made primary; try again in a few seconds");
  if (to == self_.member) return Error(FsError::kExist, to + " is the primary already");
  if (!known_.members.contains(to)) return Error(FsError::kNoEnt, to + " is no member; 'stria meta status' lists them");
  if (!known_.in_sync.contains(to)) {
    return Error(FsError::kConflict, to + " is not in the in-sync set: it would lack acknowledged operations; wait until it has caught up");
  }
  hand_to_ = to;
  hand_until_ns_ = now_ns + options_.handover_ns;
  return Ok();
}

}  // namespace stria
