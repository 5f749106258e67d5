// MetaSession: pushed events and the cluster map.
#include <utility>

#include "client/session/meta_session.h"

namespace stria {

namespace {

// How long a poll that brings nothing new is held back while events are in hand: the server gives events
// that are not acknowledged again and again.
constexpr int64_t kPollPauseNs = 50 * kMillisecond;
// Handlers are quick as a rule: waiting this long saves a poll that would only carry an old ack.
constexpr int64_t kAckWaitNs = 1 * kMillisecond;

}  // namespace

void MetaSession::ResetEvents(uint64_t first_event) {
  ++numbering_;
  acked_event_ = taken_event_ = first_event - 1;
  handled_.clear();
  acked_.Pulse();
}

Task<Result<PollReply>> MetaSession::PollOnce(Try t) {
  PollRequest request;
  request.header = Header(Caller{}, OpSeq());
  request.header.timeout_ns = options_.poll_ns;
  request.acked_event = acked_event_;
  std::optional<Result<PollReply>> reply = co_await WithTimeout(
      options_.poll_ns + kTrySlackNs, t.service->Poll(std::move(request)));
  if (!reply) co_return Error(FsError::kDeadline, "no answer to a poll");
  co_return std::move(*reply);
}

Task<bool> MetaSession::AckedPast(uint64_t seq) {
  const uint64_t numbering = numbering_;
  while (acked_event_ <= seq && numbering == numbering_) co_await acked_.Wait();
  co_return true;
}

Task<void> MetaSession::KeepPolling() {
  Backoff backoff(&rng_);
  while (true) {
    if (!Live()) {
      co_await changed_.Wait();
      continue;
    }
    if (in_hand_ >= kMaxEventsInHand) {
      co_await acked_.Wait();
      continue;
    }
    const uint64_t numbering = numbering_;
    const uint64_t acked = acked_event_;
    const int64_t sent_ns = Executor::Current().NowNs();
    const Try t = BeginTry();
    // A new acknowledgement does not wait for the poll to end: the server may wait for it.
    auto [reply, more_acked] = co_await FirstOf(PollOnce(t), AckedPast(acked));
    if (!reply || numbering != numbering_) continue;
    if (!reply->ok()) {
      Retry(reply->error(), t);
      co_await Sleep(backoff.NextNs());
      continue;
    }
    if (const Error former = CheckTerm((*reply)->term); !former.ok()) {
      Retry(former, t);
      co_await Sleep(backoff.NextNs());
      continue;
    }
    backoff = Backoff(&rng_);
    if ((*reply)->term != term_) {
      SawTerm((*reply)->term);
      continue;
    }
    const bool fresh = TakeEvents(std::move((*reply)->events));
    const bool at_once = Executor::Current().NowNs() - sent_ns < kPollPauseNs;
    if (acked_event_ == acked && (fresh || at_once)) {
      co_await WithTimeout(fresh ? kAckWaitNs : kPollPauseNs, AckedPast(acked));
    }
  }
}

bool MetaSession::TakeEvents(std::vector<SessionEvent> events) {
  bool fresh = false;
  for (SessionEvent& e : events) {
    if (e.seq != taken_event_ + 1) continue;  // had it already
    fresh = true;
    taken_event_ = e.seq;
    if (e.kind == SessionEvent::Kind::kClusterMap) {
      map_stale_ = true;
      map_wanted_.Pulse();
      Acknowledge(e.seq, numbering_);
      continue;
    }
    if (handlers_.on_event_came) handlers_.on_event_came(e);
    // A recall under way may wait for an acknowledgement by another client, so it must not hold up acknowledgements by this
    // one: LeaseDone tells its end.
    const bool demand = e.kind == SessionEvent::Kind::kRecall || e.kind == SessionEvent::Kind::kFlush;
    if (demand) Acknowledge(e.seq, numbering_);
    const EventQueue queue{e.ino, demand};
    auto [it, started] = event_queues_.try_emplace(queue);
    it->second.push_back(Queued{std::move(e), demand ? 0 : numbering_});
    ++in_hand_;
    if (started) events_.Spawn(HandleEvents(queue));
  }
  return fresh;
}

Task<void> MetaSession::HandleEvents(EventQueue queue) {
  while (true) {
    auto it = event_queues_.find(queue);
    if (it->second.empty()) {
      event_queues_.erase(it);
      co_return;
    }
    const uint64_t seq = it->second.front().event.seq;
    const uint64_t numbering = it->second.front().numbering;
    if (handlers_.on_event) co_await handlers_.on_event(it->second.front().event);
    event_queues_.find(queue)->second.pop_front();
    --in_hand_;
    Acknowledge(seq, numbering);
    acked_.Pulse();
  }
}

std::vector<MetaSession::InHand> MetaSession::EventsInHand() const {
  std::vector<InHand> out;
  for (const auto& [queue, events] : event_queues_) {
    for (size_t i = 0; i < events.size(); ++i) out.push_back({queue.first, events[i].event.seq, queue.second, i == 0});
  }
  return out;
}

void MetaSession::Acknowledge(uint64_t seq, uint64_t numbering) {
  if (numbering != numbering_) return;
  handled_.insert(seq);
  const uint64_t before = acked_event_;
  while (!handled_.empty() && *handled_.begin() == acked_event_ + 1) {
    handled_.erase(handled_.begin());
    ++acked_event_;
  }
  if (acked_event_ != before) acked_.Pulse();
}

void MetaSession::SetMap(ClusterMap map) {
  // A later life of the server may have lost the last version, and its map goes with every request to data servers.
  if (map.term != 0 && map.term < map_->term) return;
  if (map.version < map_->version && map.incarnation == map_->incarnation && map.term == map_->term) return;
  const bool same = map.version == map_->version && map.cluster == map_->cluster && map.incarnation == map_->incarnation &&
                    map.term == map_->term;
  if (same) return;
  map_ = std::make_shared<const ClusterMap>(std::move(map));
  if (handlers_.on_map) handlers_.on_map(map_);
}

Task<void> MetaSession::KeepMap() {
  while (true) {
    if (!map_stale_) {
      co_await map_wanted_.Wait();
      continue;
    }
    map_stale_ = false;
    Result<ClusterMap> map = co_await Call(&MetaService::GetMap, InodeRequest{});
    if (map.ok()) {
      SetMap(std::move(*map));
    } else {
      map_stale_ = true;
      co_await Sleep(kBackoffMaxNs);
    }
  }
}

}  // namespace stria
