#include "meta/session/session_table.h"

#include <algorithm>
#include <utility>

#include "common/codec.h"

namespace stria {

std::string EncodeSessionRecord(const SessionRecord& r) {
  ByteWriter w;
  w.U64(r.id.v);
  w.U64(r.epoch.v);
  w.U64(r.client_uuid.hi);
  w.U64(r.client_uuid.lo);
  w.Str(r.client);
  w.Str(r.node_name);
  w.U64(r.acked_below.v);
  w.Bool(r.fenced);
  w.Bool(r.lapsed);
  w.Bool(r.comes_back);
  return SealRecord(1, w.str());
}

Result<SessionRecord> DecodeSessionRecord(std::string_view bytes) {
  uint8_t version = 0;
  std::string_view body;
  if (!OpenRecord(bytes, 1, &version, &body)) return Error(FsError::kCorrupt, "a session record does not decode");
  ByteReader r(body);
  SessionRecord s;
  s.id = SessionId(r.U64());
  s.epoch = Epoch(r.U64());
  s.client_uuid.hi = r.U64();
  s.client_uuid.lo = r.U64();
  s.client = std::string(r.Str());
  s.node_name = std::string(r.Str());
  s.acked_below = OpSeq(r.U64());
  s.fenced = r.Bool();
  if (r.left() > 0) {  // older ones end here
    s.lapsed = r.Bool();
    s.comes_back = r.Bool();
  }
  if (!r.ok() || !s.id) return Error(FsError::kCorrupt, "a session record does not decode");
  return s;
}

SessionTable::Session& SessionTable::At(SessionId id) {
  auto it = sessions_.find(id);
  CHECK(it != sessions_.end(), "no such session");
  return it->second;
}
const SessionTable::Session& SessionTable::At(SessionId id) const {
  auto it = sessions_.find(id);
  CHECK(it != sessions_.end(), "no such session");
  return it->second;
}

SessionTable::Session& SessionTable::Add(SessionRecord record) {
  Session& s = sessions_[record.id];
  s.record = std::move(record);
  s.next_event = first_event_;
  s.delivered = first_event_ - 1;
  return s;
}

void SessionTable::Load(SessionRecord record, int64_t now_ns) {
  Session& s = Add(std::move(record));
  s.unclaimed = !s.record.lapsed;
  s.lapsed_ns = now_ns;
  lapsed_ += s.record.lapsed ? 1 : 0;
  s.expires_ns = now_ns + options_.lease_ns;
}

void SessionTable::LoadReply(SessionId id, OpSeq seq, std::string reply) {
  Session& s = At(id);
  if (seq < s.record.acked_below) s.forgotten.insert(seq);
  else s.replies[seq] = std::move(reply);
}

void SessionTable::Open(SessionRecord record, uint64_t open_nonce, CommitSeq seen, int64_t now_ns) {
  const SessionId id = record.id;
  CHECK(!full() && sessions_.count(id) == 0);
  Session& s = Add(std::move(record));
  s.open_nonce = open_nonce;
  s.seen = seen;
  s.expires_ns = now_ns + options_.lease_ns;
}

bool SessionTable::Reclaim(SessionId id, OpSeq acked_below, CommitSeq seen, uint64_t replay_next, int64_t now_ns) {
  Session& s = At(id);
  s.replay_next = replay_next;
  const bool first = s.unclaimed;
  s.unclaimed = false;
  s.expires_ns = now_ns + options_.lease_ns;
  if (first) {
    s.seen = seen;
    s.replays_until_ns = now_ns + options_.lease_ns;
  }
  AckReplies(id, acked_below);
  return first;
}

void SessionTable::Lapse(SessionId id, int64_t now_ns) {
  Session& s = At(id);
  CHECK(!s.record.lapsed);
  s.record.lapsed = true;
  ++lapsed_;
  s.unclaimed = false;
  s.lapsed_ns = now_ns;
  s.attempt = 0;
  s.replays_until_ns = 0;
  s.events.clear();
  // Their effects are in memory only and go to other sessions now: as after a restart, they are done again.
  for (const OpSeq seq : s.volatile_replies) s.replies.erase(seq);
  s.volatile_replies.clear();
}

void SessionTable::ComeBack(SessionId id, OpSeq acked_below, uint64_t attempt, int64_t now_ns) {
  Session& s = At(id);
  CHECK(s.record.lapsed);
  s.record.lapsed = false;
  --lapsed_;
  ++s.record.epoch.v;
  s.attempt = attempt;
  s.expires_ns = now_ns + options_.lease_ns;
  s.seen = CommitSeq();  // earlier reads may still run
  s.delivered = s.next_event - 1;
  AckReplies(id, acked_below);
}

bool SessionTable::IsLapsed(SessionId id) const {
  auto it = sessions_.find(id);
  return it != sessions_.end() && it->second.record.lapsed;
}

uint64_t SessionTable::Attempt(SessionId id) const { return At(id).attempt; }

int64_t SessionTable::AwayNs(SessionId id, int64_t now_ns) const { return now_ns - At(id).lapsed_ns; }

std::vector<SessionId> SessionTable::Forgotten(int64_t now_ns) const {
  std::vector<std::pair<int64_t, SessionId>> lapsed;
  for (const auto& [id, s] : sessions_) {
    if (s.record.lapsed) lapsed.emplace_back(s.lapsed_ns, id);
  }
  std::sort(lapsed.begin(), lapsed.end());
  std::vector<SessionId> out;
  const size_t too_many = lapsed.size() - std::min(lapsed.size(), options_.max_lapsed);
  for (size_t i = 0; i < lapsed.size(); ++i) {
    if (i < too_many || now_ns - lapsed[i].first >= options_.remember_ns) out.push_back(lapsed[i].second);
  }
  return out;
}

void SessionTable::Remove(SessionId id) {
  if (IsLapsed(id)) --lapsed_;
  sessions_.erase(id);
}

const SessionTable::Session* SessionTable::Live(SessionId id) const {
  auto it = sessions_.find(id);
  return it == sessions_.end() || it->second.record.lapsed ? nullptr : &it->second;
}

bool SessionTable::Exists(SessionId id) const { return Live(id) != nullptr; }

Error SessionTable::Gone(SessionId id) const {
  const std::string who = "session " + std::to_string(id.v);
  if (IsLapsed(id)) return Error(FsError::kLapsed, "the lease of " + who + " has run out; it may come back");
  return Error(FsError::kFenced, who + " has expired or was replaced; its uncommitted bytes are lost");
}

Error SessionTable::Check(SessionId id, Epoch epoch) const {
  auto it = sessions_.find(id);
  if (it == sessions_.end()) return Gone(id);
  const SessionRecord& record = it->second.record;
  if (record.comes_back && epoch < record.epoch) {
    return Error(FsError::kRetryLater, "session " + std::to_string(id.v) + " has come back since this was asked");
  }
  if (epoch != record.epoch) {
    return Error(FsError::kFenced, "session " + std::to_string(id.v) + " was never in epoch " + std::to_string(epoch.v));
  }
  return record.lapsed ? Gone(id) : Error();
}

void SessionTable::Renew(SessionId id, CommitSeq seen, int64_t now_ns) {
  Session& s = At(id);
  s.expires_ns = std::max(s.expires_ns, now_ns + options_.lease_ns);
  s.seen = std::max(s.seen, seen);
}

void SessionTable::Excuse(int64_t ns) {
  for (auto& [id, s] : sessions_) s.expires_ns += ns;
}

bool SessionTable::IsUnclaimed(SessionId id) const {
  auto it = sessions_.find(id);
  return it != sessions_.end() && it->second.unclaimed;
}

bool SessionTable::reclaiming() const {
  return std::any_of(sessions_.begin(), sessions_.end(), [](const auto& e) { return e.second.unclaimed; });
}

bool SessionTable::AwaitsReplays(SessionId id, int64_t now_ns) const {
  return std::any_of(sessions_.begin(), sessions_.end(),
                     [&](const auto& e) { return e.first != id && now_ns < e.second.replays_until_ns; });
}

bool SessionTable::AwaitsReplaysBefore(SessionId id, uint64_t order, int64_t now_ns) const {
  return std::any_of(sessions_.begin(), sessions_.end(), [&](const auto& e) {
    const Session& s = e.second;
    return e.first != id && now_ns < s.replays_until_ns && s.replay_next != 0 && s.replay_next < order;
  });
}

void SessionTable::ReplayIsAt(SessionId id, uint64_t order) {
  if (auto it = sessions_.find(id); it != sessions_.end()) it->second.replay_next = order;
}

void SessionTable::Replayed(SessionId id) {
  if (auto it = sessions_.find(id); it != sessions_.end()) it->second.replays_until_ns = 0;
}

void SessionTable::ReplaysBegin(int64_t now_ns) {
  for (auto& [id, s] : sessions_) {
    if (s.replays_until_ns != 0) s.replays_until_ns = now_ns + options_.lease_ns;
  }
}

bool SessionTable::MayRepeat(SessionId id, uint64_t order, int64_t now_ns) const {
  auto it = sessions_.find(id);
  if (it == sessions_.end() || now_ns >= it->second.replays_until_ns) return false;
  // Unanswered changes, which have no place, come after all others.
  return order == UINT64_MAX || (it->second.replay_next != 0 && order >= it->second.replay_next);
}

std::vector<SessionId> SessionTable::Expired(int64_t now_ns) const {
  std::vector<SessionId> out;
  for (const auto& [id, s] : sessions_) {
    if (!s.record.lapsed && now_ns >= s.expires_ns) out.push_back(id);
  }
  return out;
}

int64_t SessionTable::NextExpiryNs() const {
  int64_t next = INT64_MAX;
  for (const auto& [id, s] : sessions_) {
    if (!s.record.lapsed) next = std::min(next, s.expires_ns);
  }
  return next;
}

int64_t SessionTable::LeaseLeftNs(SessionId id, int64_t now_ns) const {
  const Session* s = Live(id);
  return s == nullptr ? 0 : std::max<int64_t>(0, s->expires_ns - now_ns);
}

const SessionRecord* SessionTable::Find(SessionId id) const {
  auto it = sessions_.find(id);
  return it == sessions_.end() ? nullptr : &it->second.record;
}

std::optional<SessionId> SessionTable::FindByClient(const Uuid& client_uuid) const {
  for (const auto& [id, s] : sessions_) {
    if (s.record.client_uuid == client_uuid) return id;
  }
  return std::nullopt;
}

uint64_t SessionTable::OpenNonce(SessionId id) const { return At(id).open_nonce; }

std::vector<SessionId> SessionTable::All() const {
  std::vector<SessionId> out;
  for (const auto& [id, s] : sessions_) {
    if (!s.record.lapsed) out.push_back(id);
  }
  return out;
}

CommitSeq SessionTable::MinSeen() const {
  CommitSeq least(UINT64_MAX);
  for (const auto& [id, s] : sessions_) {
    if (!s.record.lapsed) least = std::min(least, s.unclaimed ? CommitSeq() : s.seen);
  }
  return least;
}

uint64_t SessionTable::Push(SessionId id, SessionEvent e) {
  if (!Exists(id)) return 0;
  Session& s = At(id);
  if (s.events.size() >= options_.max_events) return 0;
  e.seq = s.next_event++;
  s.events.push_back(std::move(e));
  return s.next_event - 1;
}

std::vector<SessionEvent> SessionTable::Take(SessionId id, size_t limit) {
  Session& s = At(id);
  std::vector<SessionEvent> out;
  for (const SessionEvent& e : s.events) {
    if (out.size() >= limit) break;
    out.push_back(e);
  }
  if (!out.empty()) s.delivered = std::max(s.delivered, out.back().seq);
  return out;
}

Error SessionTable::Ack(SessionId id, uint64_t event) {
  Session& s = At(id);
  if (event > s.delivered) {
    return Error(FsError::kBadRequest, "event " + std::to_string(event) + " was acknowledged but never sent");
  }
  while (!s.events.empty() && s.events.front().seq <= event) s.events.pop_front();
  return Error();
}

bool SessionTable::Acked(SessionId id, uint64_t event) const {
  const Session* live = Live(id);
  if (live == nullptr) return true;
  const Session& s = *live;
  return s.events.empty() ? event < s.next_event : event < s.events.front().seq;
}

uint64_t SessionTable::delivered(SessionId id) const {
  auto it = sessions_.find(id);
  return it == sessions_.end() ? 0 : it->second.delivered;
}

uint64_t SessionTable::first_event(SessionId id) const {
  const Session& s = At(id);
  return s.events.empty() ? s.next_event : s.events.front().seq;
}

bool SessionTable::HasEvents(SessionId id) const { return Queued(id) > 0; }

size_t SessionTable::Queued(SessionId id) const {
  auto it = sessions_.find(id);
  return it == sessions_.end() ? 0 : it->second.events.size();
}

void SessionTable::AckReplies(SessionId id, OpSeq acked_below) {
  Session& s = At(id);
  if (acked_below <= s.record.acked_below) return;
  s.record.acked_below = acked_below;
  s.refusals.erase(s.refusals.begin(), s.refusals.lower_bound(acked_below));
  while (!s.replies.empty() && s.replies.begin()->first < acked_below) {
    // An op whose reply has arrived does not run any more; a running op keeps its reply until Finish.
    const OpSeq seq = s.replies.begin()->first;
    if (s.volatile_replies.erase(seq) == 0) s.forgotten.insert(seq);
    s.replies.erase(s.replies.begin());
  }
}

OpState SessionTable::Lookup(SessionId id, OpSeq seq) const {
  const Session& s = At(id);
  if (s.running.count(seq)) return OpState::kRunning;
  if (seq < s.record.acked_below) return OpState::kForgotten;
  if (s.replies.count(seq)) return OpState::kDone;
  if (s.refusals.count(seq)) return OpState::kRefused;
  if (s.replies.size() + s.refusals.size() + s.running.size() >= options_.max_replies) return OpState::kTooMany;
  return OpState::kNew;
}

const std::string& SessionTable::Reply(SessionId id, OpSeq seq) const {
  const Session& s = At(id);
  auto it = s.replies.find(seq);
  CHECK(it != s.replies.end(), "no stored reply");
  return it->second;
}

void SessionTable::Begin(SessionId id, OpSeq seq) { CHECK(At(id).running.insert(seq).second); }

void SessionTable::Abandon(SessionId id, OpSeq seq) { Finish(id, seq); }

void SessionTable::Commit(SessionId id, OpSeq seq, std::string reply) {
  Session& s = At(id);
  if (seq < s.record.acked_below) s.forgotten.insert(seq);
  else s.replies[seq] = std::move(reply);
}

void SessionTable::CommitVolatile(SessionId id, OpSeq seq, std::string reply) {
  Session& s = At(id);
  if (seq < s.record.acked_below) return;
  s.replies[seq] = std::move(reply);
  s.volatile_replies.insert(seq);
}

void SessionTable::Refuse(SessionId id, OpSeq seq, Error error) {
  auto it = sessions_.find(id);
  if (it == sessions_.end()) return;
  Session& s = it->second;
  if (seq < s.record.acked_below || s.replies.count(seq)) return;
  s.refusals[seq] = std::move(error);
}

const Error& SessionTable::Refusal(SessionId id, OpSeq seq) const {
  const Session& s = At(id);
  auto it = s.refusals.find(seq);
  CHECK(it != s.refusals.end(), "no stored refusal");
  return it->second;
}

void SessionTable::Finish(SessionId id, OpSeq seq) {
  auto it = sessions_.find(id);
  if (it != sessions_.end()) it->second.running.erase(seq);
}

std::vector<OpSeq> SessionTable::ForgottenReplies(SessionId id, size_t limit) const {
  std::vector<OpSeq> out;
  for (OpSeq seq : At(id).forgotten) {
    if (out.size() >= limit) break;
    out.push_back(seq);
  }
  return out;
}

void SessionTable::RepliesDeleted(SessionId id, const std::vector<OpSeq>& seqs) {
  auto it = sessions_.find(id);
  if (it == sessions_.end()) return;
  for (OpSeq seq : seqs) it->second.forgotten.erase(seq);
}

std::vector<OpSeq> SessionTable::StoredReplies(SessionId id) const {
  const Session& s = At(id);
  std::vector<OpSeq> out(s.forgotten.begin(), s.forgotten.end());
  for (const auto& [seq, reply] : s.replies) out.push_back(seq);
  return out;
}

}  // namespace stria
