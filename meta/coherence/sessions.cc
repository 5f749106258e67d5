#include "meta/coherence/sessions.h"

#include <algorithm>
#include <string>
#include <utility>

#include "meta/core/for_each.h"

namespace stria {

Result<void> Sessions::Load(Txn& txn, const std::function<void(SessionId)>& ended) {
  RETURN_IF_ERROR(ForEachEntry(txn, Family::kSessions, "", [&](const auto&, const auto& v) -> Result<void> {
    ASSIGN_OR_RETURN(SessionRecord s, DecodeSessionRecord(v));
    if (s.fenced) {
      ended(s.id);
      return Ok();
    }
    BeginPolls(s.id);
    owners_.Add(s.owner);
    table_.Load(std::move(s), core_->Now());
    return Ok();
  }));
  return ForEachEntry(txn, Family::kReplies, "", [&](const auto& k, const auto& v) -> Result<void> {
    uint64_t session = 0, seq = 0;
    if (!ParseKey64x2(k, &session, &seq)) return CorruptRecord(Family::kReplies, k, "its key is malformed");
    if (OnceOps* const ops = table_.FindOps(SessionId(session))) ops->Load(OpSeq(seq), v);
    else ended(SessionId(session));
    return Ok();
  });
}

Error Sessions::CheckOwner(const OpHeader& h) const {
  const SessionRecord* record = table_.Find(h.session);
  return record == nullptr ? Error() : MayUse(h.session, record->owner, h);
}

Error Sessions::Check(const OpHeader& h) const {
  if (Error e = CheckOwner(h); !e.ok()) return e;
  return table_.Check(h.session, h.epoch);
}

// Exports may name networks.
Error Sessions::CheckHere(const OpHeader& h) {
  Error e = Check(h);
  if (!e.ok() || !h.peer) return e;
  const SessionGrant& grant = table_.Find(h.session)->grant;
  if (!grant.by || HostIn(grant.address) == HostIn(h.peer->address)) return e;
  elsewhere_(h.session, h.peer->address);
  return Check(h);
}

bool Sessions::IsReadOnly(SessionId s) const {
  const SessionRecord* record = table_.Find(s);
  return record != nullptr && record->grant.read_only();
}

Result<void> Sessions::CheckSession(const OpHeader& h) {
  RETURN_IF_ERROR(core_->CheckHeader(h));
  if (Error e = CheckHere(h); !e.ok()) return e;
  if (table_.IsUnclaimed(h.session)) {
    return Error(FsError::kRetryLater, "the metadata server has restarted: reclaim the session first");
  }
  // On its way while the server restarted: it must not come before what the session repeats first.
  if (h.term != 0 && h.term != core_->term()) return Error(FsError::kRetryLater, "the metadata server has restarted: ask again");
  table_.AckReplies(h.session, h.acked_below);
  return Ok();
}

// What was acknowledged before the restart is shown to nobody, nor changed, before all of it is there again, in the
// order in which it was done.
bool Sessions::Recovers(const OpHeader& h) const {
  if (table_.reclaiming()) return true;
  const uint64_t order = ReplayOrder(h);
  const Replays& replays = table_.replays();
  return order != 0 ? replays.AwaitsOthersBefore(h.session, order, core_->Now()) : replays.AwaitsOthers(h.session, core_->Now());
}

// Only changes are repeated.
uint64_t Sessions::ReplayOrder(const OpHeader& h) const {
  if (h.replay_order == 0 || !h.op_seq || !table_.replays().MayRepeat(h.session, h.replay_order, core_->Now())) return 0;
  return h.replay_order;
}

void Sessions::NoteReclaimed() {
  if (replays_began_ || table_.reclaiming()) return;
  replays_began_ = true;
  table_.replays().AllBegin(core_->Now() + table_.lease_ns());
}

bool Sessions::IsAdmin(const OpHeader& h) const {
  if (h.peer) return h.peer->role == Role::kAdmin;
  const bool squashed = h.session && callers_.root_squash && h.uid == 0;
  return !squashed && callers_.admin_uids.count(h.uid) > 0;
}

Result<void> Sessions::CheckAdmin(const OpHeader& h, const char* does) {
  RETURN_IF_ERROR(CheckCaller(h));
  if (IsAdmin(h)) return Ok();
  if (h.peer) return Error::Denial(std::string("only an admin ") + does + "; this is " + h.peer->ToString(), FsError::kPerm);
  return Error(FsError::kPerm, std::string("only root ") + does);
}

void Sessions::ReplayIsAt(const OpHeader& h, uint64_t order) {
  if (!Repeats(h)) return;
  table_.replays().IsAt(h.session, order);
  core_->Pulse();
}

Task<Result<void>> Sessions::AwaitReclaims(const OpHeader& h) {
  const int64_t deadline_ns = core_->DeadlineOf(h);
  while (Recovers(h)) {
    if (core_->Now() >= deadline_ns) {
      co_return Error(FsError::kRetryLater, "waiting for clients to reclaim what they held before the restart");
    }
    co_await core_->WaitProgress(std::min(deadline_ns, core_->Now() + kSecond));
  }
  co_return Ok();
}

Task<Result<void>> Sessions::Gate(const OpHeader& h) {
  CO_RETURN_IF_ERROR(CheckSession(h));
  if (Recovers(h)) {
    CO_RETURN_IF_ERROR(co_await AwaitReclaims(h));
    CO_RETURN_IF_ERROR(CheckSession(h));
  }
  co_return Ok();
}

Task<Result<void>> Sessions::GateCaller(const OpHeader& h) {
  if (h.session) co_return co_await Gate(h);
  CO_RETURN_IF_ERROR(core_->CheckHeader(h));
  co_return co_await AwaitReclaims(h);
}

uint64_t Sessions::Push(SessionId s, SessionEvent e) {
  const uint64_t event = table_.Push(s, std::move(e), core_->Now());
  if (event != 0) {
    PulsePoll(s);
  } else if (table_.Exists(s)) {
    overflow_(s, "it does not take its events");  // everything it caches must be taken for stale
  }
  return event;
}

Task<Result<PollReply>> Sessions::Poll(PollRequest r) {
  const SessionId s = r.header.session;
  // A little less than the caller waits, so that a quiet answer still arrives.
  const int64_t until_ns = core_->Now() + std::clamp<int64_t>(r.header.timeout_ns, 0, kMaxCallNs) / 10 * 9;
  PollReply reply;
  reply.term = core_->term();
  bool acked = false;
  uint64_t number = 0;  // of this poll
  while (true) {
    CO_RETURN_IF_ERROR(core_->CheckHeader(r.header));
    if (Error e = Check(r.header); !e.ok()) co_return e;
    if (table_.IsUnclaimed(s)) co_return reply;  // the new term says it all
    Polls& polls = polls_.at(s);
    if (number == 0) {
      number = ++polls.newest;
      polls.event->Pulse();
    } else if (number != polls.newest) {
      co_return reply;
    }
    if (!acked) {
      acked = true;
      if (Error e = table_.events(s).Ack(r.acked_event); !e.ok()) co_return e;
      core_->Pulse();
    }
    if (EventQueue& events = table_.events(s); !events.empty()) {
      reply.events = events.Take();
      co_return reply;
    }
    if (core_->Now() >= until_ns) co_return reply;
    const std::shared_ptr<Event> event = polls.event;
    Timer timer;
    core_->executor()->StartTimer(&timer, until_ns, [event] { event->Pulse(); });
    co_await event->Wait();
  }
}

void Sessions::PushAll(SessionEvent::Kind kind) {
  for (SessionId s : table_.All()) {
    SessionEvent e;
    e.kind = kind;
    Push(s, std::move(e));
  }
}

void Sessions::PulsePoll(SessionId s) {
  if (auto it = polls_.find(s); it != polls_.end()) it->second.event->Pulse();
}

void Sessions::PulsePolls() {
  for (auto& [id, polls] : polls_) polls.event->Pulse();
}

void Sessions::EndPolls(SessionId s) {
  PulsePoll(s);
  polls_.erase(s);
}

void Sessions::Replayed(SessionId s) {
  table_.replays().End(s);
  core_->Pulse();
}

int64_t Sessions::AnswersWithin(SessionId s, int64_t most_ns) const {
  return WasSilent(s) ? std::min(most_ns, options_.lease_ns) : most_ns;
}

uint64_t Sessions::HolderOfOwner(SessionId s) const {
  const SessionRecord* record = table_.Find(s);
  if (record == nullptr || record->owner.name.empty()) return 0;
  Peer owner;
  owner.key_hash = record->owner.key;
  return owner.Holder();
}

bool Sessions::WasSilent(SessionId s) const {
  if (silent_.size() == 0) return false;
  const SessionRecord* record = table_.Find(s);
  return record != nullptr && silent_.Has(SilentOwners::KeyOf(record->owner, s), core_->Now());
}

void Sessions::NoteSilent(SessionId s) {
  if (const SessionRecord* record = table_.Find(s)) silent_.Note(SilentOwners::KeyOf(record->owner, s), options_.lease_ns, core_->Now());
}

Error Sessions::MayOpen(const SessionOwner& owner, SessionId of) const {
  const int64_t left_ns = silent_.OpensAt(SilentOwners::KeyOf(owner, of)) - core_->Now();
  if (left_ns <= 0) return Error();
  return Error(FsError::kRetryLater, (owner.name.empty() ? "session " + std::to_string(of.v) : owner.name) +
                                         " has kept others waiting again and again without an answer; it may come back in " +
                                         std::to_string(left_ns / kSecond + 1) + " s");
}

}  // namespace stria
