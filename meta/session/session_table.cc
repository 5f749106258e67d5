#include "meta/session/session_table.h"

#include <algorithm>
#include <utility>

#include "common/codec.h"

namespace stria {
namespace {

constexpr uint8_t kRecordVersion = 2;  // 1: without owner and grant

void EncodeGrant(const SessionRecord& r, ByteWriter* w) {
  w->Str(r.owner.name);
  w->Raw({reinterpret_cast<const char*>(r.owner.key.data()), r.owner.key.size()});
  w->Str(r.grant.by ? FormatExport(*r.grant.by) : "");
  w->Str(r.grant.path);
  w->Str(r.grant.address);
  w->U64(r.grant.root.v);
}

void DecodeGrant(ByteReader* r, SessionRecord* s) {
  s->owner.name = std::string(r->Str());
  const std::string_view key = r->Raw(s->owner.key.size());
  std::copy(key.begin(), key.end(), s->owner.key.begin());
  if (const std::string_view line = r->Str(); !line.empty()) {
    Result<Export> by = ParseExport(line);
    if (by.ok()) s->grant.by = std::move(*by);
    else r->Fail();
  }
  s->grant.path = std::string(r->Str());
  s->grant.address = std::string(r->Str());
  s->grant.root = InodeId(r->U64());
}

}  // namespace

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
  EncodeGrant(r, &w);
  return SealRecord(kRecordVersion, w.str());
}

Result<SessionRecord> DecodeSessionRecord(std::string_view bytes) {
  uint8_t version = 0;
  std::string_view body;
  if (!OpenRecord(bytes, kRecordVersion, &version, &body)) return Error(FsError::kCorrupt, "a session record does not decode");
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
  if (version >= 2) DecodeGrant(&r, &s);
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
  const SessionId id = record.id;
  const OpSeq acked_below = record.acked_below;
  sessions_.erase(id);
  return sessions_.emplace(id, Session{std::move(record), EventQueue(first_event_), OnceOps(acked_below, options_.max_replies)})
      .first->second;
}

void SessionTable::Load(SessionRecord record, int64_t now_ns) {
  Session& s = Add(std::move(record));
  s.unclaimed = !s.record.lapsed;
  s.lapsed_ns = now_ns;
  lapsed_ += s.record.lapsed ? 1 : 0;
  s.expires_ns = now_ns + options_.lease_ns;
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
  replays_.Announce(id, replay_next);
  const bool first = s.unclaimed;
  s.unclaimed = false;
  s.expires_ns = now_ns + options_.lease_ns;
  if (first) {
    s.seen = seen;
    replays_.Begin(id, now_ns + options_.lease_ns);
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
  replays_.End(id);
  s.events.Drop();
  s.ops.LoseVolatile();  // what is in memory only goes to other sessions now
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
  s.events.SkipToEnd();
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
  replays_.End(id);
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

void SessionTable::Renew(SessionId id, CommitSeq seen, int64_t now_ns, const ClientIo& io) {
  Session& s = At(id);
  s.expires_ns = std::max(s.expires_ns, now_ns + options_.lease_ns);
  s.seen = std::max(s.seen, seen);
  s.io = io;
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

std::vector<SessionId> SessionTable::Expired(int64_t now_ns) const {
  std::vector<SessionId> out;
  for (const auto& [id, s] : sessions_) {
    if (!s.record.lapsed && now_ns >= s.expires_ns) out.push_back(id);
  }
  return out;
}

int64_t SessionTable::LeaseLeftNs(SessionId id, int64_t now_ns) const {
  const Session* s = Live(id);
  return s == nullptr ? 0 : std::max<int64_t>(0, s->expires_ns - now_ns);
}

const SessionRecord* SessionTable::Find(SessionId id) const {
  auto it = sessions_.find(id);
  return it == sessions_.end() ? nullptr : &it->second.record;
}

std::optional<SessionId> SessionTable::FindByClient(const Uuid& client_uuid, const SessionOwner& owner) const {
  for (const auto& [id, s] : sessions_) {
    if (s.record.client_uuid == client_uuid && s.record.owner == owner) return id;
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

uint64_t SessionTable::Push(SessionId id, SessionEvent e, int64_t now_ns) {
  if (!Exists(id)) return 0;
  EventQueue& events = At(id).events;
  return events.size() >= options_.max_events ? 0 : events.Push(std::move(e), now_ns);
}

bool SessionTable::Acked(SessionId id, uint64_t event) const {
  const Session* live = Live(id);
  return live == nullptr || live->events.Acked(event);
}

const EventQueue* SessionTable::FindEvents(SessionId id) const {
  const auto it = sessions_.find(id);
  return it == sessions_.end() ? nullptr : &it->second.events;
}

void SessionTable::AckReplies(SessionId id, OpSeq acked_below) {
  Session& s = At(id);
  s.record.acked_below = std::max(s.record.acked_below, acked_below);
  s.ops.Ack(acked_below);
}

OnceOps* SessionTable::FindOps(SessionId id) {
  const auto it = sessions_.find(id);
  return it == sessions_.end() ? nullptr : &it->second.ops;
}

}  // namespace stria
