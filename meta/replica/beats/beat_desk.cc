#include "meta/replica/beats/beat_desk.h"

#include <algorithm>
#include <utility>

#include "common/sabotage.h"

namespace stria {
namespace {
constexpr size_t kMaxWaiting = 16;  // beats to one member without an answer
}  // namespace

Result<void> CheckWatchdog(int64_t grace_ns, int64_t watchdog_ns) {
  if (watchdog_ns >= grace_ns) return Ok();
  return Error(FsError::kInval, "watchdog must be at least grace, or a busy primary loses its place sooner than one that is gone");
}

BeatDesk::BeatDesk(std::string self, const Uuid& cluster, const BeatOptions& options, int64_t now_ns)
    : self_(std::move(self)), cluster_(cluster), options_(options), promises_(now_ns), ticked_ns_(now_ns) {}

// ---- The logic's ----------------------------------------------------------------------------------

int64_t BeatDesk::Tick(int64_t now_ns) {
  std::lock_guard<std::mutex> lock(mu_);
  const int64_t step_ns = now_ns - ticked_ns_;
  figures_.longest_step_ns = std::max(figures_.longest_step_ns, step_ns);
  ticked_ns_ = now_ns;
  hung_ = false;
  return step_ns;
}

void BeatDesk::SetListed(bool listed) {
  std::lock_guard<std::mutex> lock(mu_);
  listed_ = listed;
}

void BeatDesk::Close() {
  std::lock_guard<std::mutex> lock(mu_);
  closed_ = true;
  life_ = {};
  peers_.clear();
}

void BeatDesk::BeginLife(const MetaLife& life) {
  std::lock_guard<std::mutex> lock(mu_);
  if (closed_) return;
  life_ = life;
  peers_.clear();
}

void BeatDesk::EndLife() {
  std::lock_guard<std::mutex> lock(mu_);
  life_ = {};
  peers_.clear();
}

void BeatDesk::Connect(const std::string& member, const std::string& address) {
  std::lock_guard<std::mutex> lock(mu_);
  if (life_.term == 0) return;
  Peer peer;
  peer.address = address;
  peer.connection = ++connections_;
  peers_[member] = std::move(peer);
}

void BeatDesk::Disconnect(const std::string& member) {
  std::lock_guard<std::mutex> lock(mu_);
  peers_.erase(member);
}

std::vector<BeatPromise> BeatDesk::TakePromises() {
  std::vector<BeatPromise> out;
  std::lock_guard<std::mutex> lock(mu_);
  for (auto& [name, peer] : peers_) {
    if (peer.news) out.push_back(*std::exchange(peer.news, std::nullopt));
  }
  return out;
}

uint64_t BeatDesk::TakeHigherTerm() {
  std::lock_guard<std::mutex> lock(mu_);
  return std::exchange(higher_term_, 0);
}

// ---- The beat thread's ----------------------------------------------------------------------------

bool BeatDesk::HangsLocked(int64_t now_ns) const {
  const bool hangs = now_ns - ticked_ns_ >= options_.watchdog_ns && !Sabotaged(Sabotage::kBeatForHung);
  if (hangs && !std::exchange(hung_, true)) ++figures_.hangs;
  return hangs;
}

bool BeatDesk::Hangs(int64_t now_ns) const {
  std::lock_guard<std::mutex> lock(mu_);
  return HangsLocked(now_ns);
}

Result<BeatReply> BeatDesk::Answer(const BeatRequest& request, int64_t now_ns) {
  if (request.header.cluster != cluster_) return Error(FsError::kWrongCluster, "this metadata server is of another cluster");
  if (request.to != self_) {
    return Error(FsError::kStale, "this is the metadata server " + self_ + ", not " + request.to + ": the address of " + request.to + " is wrong");
  }
  // Held over the promise: after Close or SetListed(false) has returned none is made.
  std::lock_guard<std::mutex> lock(mu_);
  if (closed_) return Error(FsError::kNotReady, "this metadata server has stopped");
  if (!listed_) return Error(FsError::kStale, "this metadata server's directory is not the one that the members know as " + self_);
  if (HangsLocked(now_ns)) return Error(FsError::kNotReady, "this metadata server hangs");
  BeatReply reply;
  switch (promises_.OnBeat({request.primary, request.term}, now_ns)) {
    case BeatAnswer::kPromised:
      ++figures_.given;
      reply.term = request.term;
      reply.promised = true;
      return reply;
    case BeatAnswer::kLowerTerm:
      reply.term = promises_.term();
      return reply;
    case BeatAnswer::kSilent:
      break;
    case BeatAnswer::kHigherTerm:
      higher_term_ = std::max(higher_term_, request.term);
      break;
  }
  return Error(FsError::kNotReady, "this metadata server follows nobody now");
}

std::vector<DueBeat> BeatDesk::Due(int64_t now_ns) {
  std::vector<DueBeat> out;
  std::lock_guard<std::mutex> lock(mu_);
  if (closed_ || life_.term == 0 || HangsLocked(now_ns)) return out;
  for (auto& [name, peer] : peers_) {
    if (now_ns < peer.next_ns || peer.waiting >= kMaxWaiting) continue;
    peer.next_ns = now_ns + options_.beat_ns;
    ++peer.waiting;
    ++figures_.sent;
    DueBeat beat;
    beat.member = name;
    beat.address = peer.address;
    beat.request.header.cluster = cluster_;
    beat.request.header.timeout_ns = options_.answer_ns;
    beat.request.term = life_.term;
    beat.request.primary = life_.member;
    beat.request.to = name;
    beat.connection = peer.connection;
    beat.sent_ns = now_ns;
    out.push_back(std::move(beat));
  }
  return out;
}

void BeatDesk::Answered(const DueBeat& beat, const Result<BeatReply>& reply, int64_t now_ns) {
  std::lock_guard<std::mutex> lock(mu_);
  // A connection is of one life.
  const auto it = peers_.find(beat.member);
  if (it == peers_.end() || it->second.connection != beat.connection) return;
  Peer& peer = it->second;
  --peer.waiting;
  if (!reply.ok()) return;
  if (!reply->promised) {
    if (reply->term > life_.term) higher_term_ = std::max(higher_term_, reply->term);
    return;
  }
  if (reply->term != life_.term) return;
  ++figures_.promised;
  if (!peer.news) peer.news = BeatPromise{beat.member, beat.sent_ns, now_ns};
  peer.news->sent_ns = std::max(peer.news->sent_ns, beat.sent_ns);
  peer.news->heard_ns = std::max(peer.news->heard_ns, now_ns);
}

BeatFigures BeatDesk::figures() const {
  std::lock_guard<std::mutex> lock(mu_);
  return figures_;
}

}  // namespace stria
