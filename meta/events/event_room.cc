#include "meta/events/event_room.h"

#include <algorithm>
#include <utility>

#include "meta/core/cluster_keys.h"
#include "meta/core/for_each.h"
#include "meta/events/event_record.h"

namespace stria {
namespace {

constexpr size_t kMaxVersionBytes = 128;
constexpr int64_t kMostAheadNs = 400 * 86'400 * kSecond;  // clocks that are off by more are off by this

Error InContext(const Error& e, std::string_view key) { return CorruptRecord(Family::kCluster, key, e.message); }

}  // namespace

Result<void> EventRoom::Load(Txn& txn) {
  events_.clear();
  ToldStates told;
  RETURN_IF_ERROR(ForEachEntry(txn, Family::kCluster, EventPrefix(), [&](const auto& k, const auto& v) -> Result<void> {
    uint64_t seq = 0;
    if (!ParseEventRecordKey(k, &seq)) return CorruptRecord(Family::kCluster, k, "it is no key of an event");
    Result<ClusterEvent> e = DecodeEvent(seq, v);
    if (!e.ok()) return InContext(e.error(), k);
    events_.push_back(std::move(*e));
    return Ok();
  }));
  RETURN_IF_ERROR(ForEachEntry(txn, Family::kCluster, ToldPrefix(), [&](const auto& k, const auto& v) -> Result<void> {
    EventKey key;
    const Result<ToldState> state = DecodeTold(k, v, &key);
    if (!state.ok()) return InContext(state.error(), k);
    told[key] = *state;
    return Ok();
  }));
  EventNumbers numbers;
  ASSIGN_OR_RETURN(const auto stored, txn.Get(Family::kCluster, EventNumbersKey()));
  adopt_ = !stored.has_value();
  if (stored) {
    const Result<EventNumbers> n = DecodeEventNumbers(*stored);
    if (!n.ok()) return InContext(n.error(), EventNumbersKey());
    numbers = *n;
    if (numbers.incarnation != core_->store().super()->incarnation) numbers.next_seq += kEventsJump;
  }
  teller_.Load(std::move(told), numbers.next_seq);
  return Ok();
}

void EventRoom::Stop() {
  scope_.CancelAll();
  Pulse();
}

void EventRoom::NoteBeat(NodeId node, int64_t wall_ns, const std::string& version) {
  NodeFacts& f = facts_[node];
  f.has_clock = wall_ns != 0;
  const int64_t here_ns = core_->Wall();
  f.ahead_ns = f.has_clock ? std::clamp(wall_ns, here_ns - kMostAheadNs, here_ns + kMostAheadNs) - here_ns : 0;
  f.version = version.substr(0, kMaxVersionBytes);
}

Task<void> EventRoom::Loop(Look look) {
  while (!core_->HasFailed()) {
    co_await Sleep(options_.look_ns);
    Result<ClusterSeen> seen = co_await look();
    if (seen.ok()) (void)co_await Take(std::move(*seen));  // an error is the store's, and ends the server
  }
}

Task<Result<void>> EventRoom::Take(ClusterSeen seen) {
  std::erase_if(facts_, [&](const auto& f) { return seen.map.FindNode(f.first) == nullptr; });
  if (core_->room() != nullptr && core_->room()->Level() == RoomLevel::kNone) co_return Ok();
  EventTeller::Step step = teller_.Look(Judge(seen, teller_.told()), adopt_, core_->Now(), core_->Wall());
  if (step.empty() && !adopt_) co_return Ok();
  {
    Txn txn(core_->store());
    for (const uint64_t seq : step.counted) {
      ClusterEvent* e = Find(seq);
      if (e == nullptr) continue;
      ++e->count;
      e->last_ns = core_->Wall();
      txn.Put(Family::kCluster, EventRecordKey(seq), EncodeEvent(*e));
    }
    for (const ClusterEvent& e : step.events) txn.Put(Family::kCluster, EventRecordKey(e.seq), EncodeEvent(e));
    for (const EventKey& key : step.forgotten) txn.Delete(Family::kCluster, ToldKey(static_cast<uint8_t>(key.track), key.subject));
    for (const auto& [key, state] : step.changed) {
      txn.Put(Family::kCluster, ToldKey(static_cast<uint8_t>(key.track), key.subject), EncodeTold(state));
    }
    for (size_t all = events_.size() + step.events.size(); all > options_.max_events && !events_.empty(); --all) {
      txn.Delete(Family::kCluster, EventRecordKey(events_.front().seq));
      events_.pop_front();
    }
    txn.Put(Family::kCluster, EventNumbersKey(), EncodeEventNumbers({teller_.next_seq(), core_->store().super()->incarnation}));
    CO_RETURN_IF_ERROR(core_->Commit(txn));
  }
  CO_RETURN_IF_ERROR(co_await core_->Sync());
  adopt_ = adopt_ && step.more;
  if (step.events.empty()) co_return Ok();
  for (ClusterEvent& e : step.events) events_.push_back(std::move(e));
  new_.Pulse();
  co_return Ok();
}

ClusterEvent* EventRoom::Find(uint64_t seq) {
  const auto it = std::ranges::lower_bound(events_, seq, {}, &ClusterEvent::seq);
  return it != events_.end() && it->seq == seq ? &*it : nullptr;
}

ReadEventsReply EventRoom::Page(const ReadEventsRequest& r, bool certificates) const {
  ReadEventsReply reply;
  reply.next = r.after;
  reply.first = events_.empty() ? 0 : events_.front().seq;
  const size_t limit = std::clamp<size_t>(r.limit, 1, kMaxEvents);
  for (auto it = std::ranges::upper_bound(events_, r.after, {}, &ClusterEvent::seq); it != events_.end(); ++it) {
    const bool wanted = it->time_ns >= r.since_ns && it->severity >= r.least && (certificates || !it->kind.starts_with("certificate-"));
    if (wanted && reply.events.size() == limit) {
      reply.more = true;
      break;
    }
    reply.next = it->seq;
    if (wanted) reply.events.push_back(*it);
  }
  return reply;
}

Task<Result<ReadEventsReply>> EventRoom::Read(ReadEventsRequest r, bool certificates) {
  const int64_t call_ns = std::clamp<int64_t>(r.header.timeout_ns, 0, kMaxCallNs);
  const int64_t until_ns = core_->Now() + std::clamp<int64_t>(std::min(r.wait_ns, call_ns - kSecond), 0, kMaxCallNs);
  const uint64_t who = r.header.peer ? r.header.peer->Holder() : 0;
  while (true) {
    CO_RETURN_IF_ERROR(core_->CheckHeader(r.header));
    ReadEventsReply reply = Page(r, certificates);
    if (!reply.events.empty() || core_->Now() >= until_ns || waiting_.size() >= kMaxWaitingForEvents) co_return std::move(reply);
    if (who != 0 && waiting_.count(who) >= kMaxWaitingOfOne) co_return std::move(reply);
    r.after = reply.next;
    const auto place = waiting_.insert(who);
    {
      Timer timer;
      core_->executor()->StartTimer(&timer, until_ns, [this] { new_.Pulse(); });
      co_await new_.Wait();
    }
    waiting_.erase(place);
  }
}

}  // namespace stria
