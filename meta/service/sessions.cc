// Sessions, events, data leases.
#include <algorithm>

#include "common/log.h"
#include "meta/service/meta_server_impl.h"

namespace stria {
namespace {

constexpr size_t kMaxClientNameBytes = 4096;
constexpr size_t kMaxHeldInodes = 1 << 20;

}  // namespace

OpenSessionReply MetaServer::SessionReply(SessionId s, bool reclaimed) {
  OpenSessionReply reply;
  reply.session = s;
  reply.epoch = sessions_.Find(s)->epoch;
  reply.reclaimed = reclaimed;
  reply.term = core_.term();
  reply.lease_ns = sessions_.lease_ns();
  reply.first_event = sessions_.first_event(s);
  reply.map = cluster_.state().Map();
  return reply;
}

std::string_view MetaServer::ReclaimHeld(const OpenSessionRequest& r) {
  constexpr std::string_view kConflict = "it claims what another session has claimed";
  const SessionId s = r.header.session;
  std::vector<InterestTable::Notice> evicted;
  std::set<InodeId> held;
  for (const HeldInode& h : r.held) {
    const uint8_t rights = Proved(s, h.proof, h.ino);
    if ((rights & (h.for_write ? kOpenWrite : kOpenRead | kOpenWrite)) == 0) return "it claims what it was not given";
    held.insert(h.ino);
    if (h.lease == LeaseMode::kNone) {
      leases_.TakeUp(s, h.ino, h.for_write);
    } else if (!leases_.Reclaim(s, h.ino, h.lease, h.for_write)) {
      return kConflict;
    }
    if ((rights & kOpenRead) != 0) leases_.NoteReader(s, h.ino);
    if (h.lease == LeaseMode::kNone) continue;
    // It may show what it has read of it, and is told of changes as before.
    interests_.NoteAttr(s, h.ino, &evicted);
    interests_.NoteData(s, h.ino, &evicted);
  }
  NoteEvictions(evicted);
  if (!sessions_.Exists(s)) return "it was told of more than it may leave untaken";
  for (const FileLock& l : r.locks) {
    if (l.type == LockType::kNone || l.first > l.last || !held.contains(l.ino)) return "it claims a lock of what it has not open";
    if (!locks_.Reclaim(s, l)) return kConflict;
  }
  return "";
}

uint8_t MetaServer::Proved(SessionId s, std::string_view proof, InodeId ino) const {
  return core_.verifier().OpenRights(proof, s, ino);
}

std::string MetaServer::ProofOf(const OpHeader& h, InodeId first, uint32_t count, uint8_t rights) const {
  return core_.signer().ProveOpen({h.session, first, count, rights});
}

std::string MetaServer::ProofOfOpen(const OpHeader& h, InodeId ino) const {
  uint8_t rights = h.opened.empty() ? 0 : Proved(h.session, h.opened, ino);
  if (leases_.IsReader(h.session, ino)) rights |= kOpenRead;
  if (leases_.IsWriter(h.session, ino)) rights |= kOpenWrite;
  return ProofOf(h, ino, 1, rights);
}

Task<Result<OpenSessionReply>> MetaServer::OpenSession(OpenSessionRequest r) {
  CO_RETURN_IF_ERROR(core_.CheckHeader(r.header));
  if (!r.client_uuid || r.client.size() > kMaxClientNameBytes || r.node_name.size() > kMaxNodeNameBytes ||
      r.held.size() > kMaxHeldInodes || r.locks.size() > kMaxLocksPerSession) {
    co_return Error(FsError::kBadRequest, "a session opens without a client uuid, or with too much");
  }
  const SessionId s = r.header.session;
  if (s && sessions_.Check(s, r.header.epoch).ok()) {
    // What it has seen counts from its next renewal: reads of before the restart may still run.
    const bool first = sessions_.Reclaim(s, r.header.acked_below, CommitSeq(), r.header.replay_next, core_.Now());
    const std::string_view refused = first ? ReclaimHeld(r) : "";
    NoteReclaimed();
    if (refused.empty()) {
      Touched lost;  // while it held them, and it was perhaps not told
      for (const HeldInode& h : r.held) {
        if (cleaner_.IsOrphan(h.ino)) lost.orphaned.insert(h.ino);
      }
      TellOrphaned(lost);
      core_.Pulse();
      if (sessions_.Exists(s)) co_return SessionReply(s, true);
    }
    // What it holds is nobody's, and its bytes are as safe as their file's version says.
    if (sessions_.Exists(s)) Lapse(s, refused);
  }
  if (MayComeBack(r)) co_return co_await ComeBack(std::move(r));
  if (const auto newer = sessions_.FindByClient(r.client_uuid); s && newer && newer->v > s.v) {
    // A reclaim that was long on its way: the client has a later session, which it must not end.
    co_return Error(FsError::kFenced, "this session is over");
  }
  co_return co_await OpenFresh(std::move(r));
}

Task<Result<OpenSessionReply>> MetaServer::OpenFresh(OpenSessionRequest r) {
  const uint64_t nonce = r.header.trace_id;
  if (auto former = sessions_.FindByClient(r.client_uuid)) {
    // The same attempt again (its answer was lost) gets the same session; anything else replaces it.
    const bool live = sessions_.Exists(*former) && !sessions_.IsUnclaimed(*former);
    if (nonce != 0 && live && sessions_.OpenNonce(*former) == nonce) {
      CO_RETURN_IF_ERROR(co_await core_.Sync());
      if (sessions_.Exists(*former)) co_return SessionReply(*former, false);
    } else {
      Fence(*former, "its client has opened a new session");
    }
  }
  for (int i = 0; i < kMaxTxnTries; ++i) {
    CO_RETURN_IF_ERROR(core_.CheckHeader(r.header));
    if (sessions_.full()) co_return Error(FsError::kRetryLater, "too many sessions; unmount unused clients");
    std::optional<SessionId> opened;
    {
      Txn txn(core_.store());
      const Result<uint64_t> id = txn.NewId(IdKind::kSession);
      if (id.ok()) {
        SessionRecord record;
        record.id = SessionId(*id);
        record.epoch = core_.signer().SecretEpoch(record.id, core_.rng().Next());
        record.client_uuid = r.client_uuid;
        record.client = r.client;
        record.node_name = r.node_name;
        record.comes_back = r.comes_back;
        txn.Put(Family::kSessions, SessionKey(record.id), EncodeSessionRecord(record));
        CO_ASSIGN_OR_RETURN(const CommitSeq seq, core_.Commit(txn));
        opened = record.id;
        polls_[record.id] = std::make_shared<stria::Event>();
        sessions_.Open(std::move(record), nonce, seq, core_.Now());
      } else if (id.code() != FsError::kRetryLater) {
        co_return id.error();
      }
    }
    // Durable before the client buffers anything under it.
    CO_RETURN_IF_ERROR(co_await core_.Sync());
    if (!opened) continue;
    LogInfo("session {} opened: {}", *opened, r.client);
    if (!sessions_.Exists(*opened)) co_return Error(FsError::kFenced, "the session was replaced at once");
    co_return SessionReply(*opened, false);
  }
  co_return Error(FsError::kRetryLater, "no session number was free");
}

Task<Result<RenewReply>> MetaServer::Renew(RenewRequest r) {
  CO_RETURN_IF_ERROR(core_.CheckHeader(r.header));
  const SessionId s = r.header.session;
  if (Error e = sessions_.Check(s, r.header.epoch); !e.ok()) co_return e;
  RenewReply reply;
  reply.term = core_.term();
  reply.current_seq = core_.store().last_seq();
  reply.durable_seq = core_.store().durable_seq();
  reply.map_version = cluster_.state().version();
  cluster_.NoteUnreachable(sessions_.Find(s)->client, r.unreachable);
  if (!sessions_.IsUnclaimed(s)) {
    sessions_.Renew(s, std::min(r.seen_seq, core_.store().last_seq()), core_.Now());
    sessions_.AckReplies(s, r.header.acked_below);
    reply.lease_ns = sessions_.lease_ns();
  }
  co_return reply;
}

Task<Result<PollReply>> MetaServer::Poll(PollRequest r) {
  const SessionId s = r.header.session;
  // A little less than the caller waits, so that a quiet answer still arrives.
  const int64_t until_ns = core_.Now() + std::clamp<int64_t>(r.header.timeout_ns, 0, kMaxCallNs) / 10 * 9;
  PollReply reply;
  reply.term = core_.term();
  bool acked = false;
  while (true) {
    CO_RETURN_IF_ERROR(core_.CheckHeader(r.header));
    if (Error e = sessions_.Check(s, r.header.epoch); !e.ok()) co_return e;
    if (sessions_.IsUnclaimed(s)) co_return reply;  // the new term says it all
    if (!acked) {
      acked = true;
      if (Error e = sessions_.Ack(s, r.acked_event); !e.ok()) co_return e;
      core_.Pulse();
    }
    if (sessions_.HasEvents(s)) {
      reply.events = sessions_.Take(s);
      co_return reply;
    }
    if (core_.Now() >= until_ns) co_return reply;
    const std::shared_ptr<stria::Event> event = polls_.at(s);
    Timer timer;
    core_.executor()->StartTimer(&timer, until_ns, [event] { event->Pulse(); });
    co_await event->Wait();
  }
}

Task<Result<Empty>> MetaServer::CloseSession(InodeRequest r) {
  CO_RETURN_IF_ERROR(core_.CheckHeader(r.header));
  if (Error e = sessions_.Check(r.header.session, r.header.epoch); e.ok() || e.code == FsError::kLapsed) {
    Fence(r.header.session, "");
  }
  co_return Empty();
}

void MetaServer::Fence(SessionId s, std::string_view why) {
  const SessionRecord* found = sessions_.Find(s);
  if (found == nullptr) return;
  SessionRecord record = *found;
  if (why.empty()) LogInfo("session {} ({}) has ended", s, record.client);
  else LogWarning("session {} ({}) is fenced: {}", s, record.client, why);
  std::vector<InodeId> open = lapsed_.Drop(s);
  for (InodeId ino : leases_.Drop(s)) open.push_back(ino);
  sessions_.Remove(s);
  ForgetHeld(s);
  NoteReclaimed();
  numbers_.Drop(s);
  not_taken_.erase(s);
  for (InodeId ino : open) cleaner_.Reap(ino);
  const std::vector<LockNotice> free_locks = locks_.Drop(s);
  record.lapsed = false;
  record.fenced = true;
  Txn txn(core_.store());
  txn.Put(Family::kSessions, SessionKey(s), EncodeSessionRecord(record));
  (void)core_.Commit(txn);
  core_.Committed();
  cleaner_.NoteEnded(s);
  if (auto it = polls_.find(s); it != polls_.end()) {
    it->second->Pulse();
    polls_.erase(it);
  }
  TellLocksFree(free_locks);
  core_.Pulse();
}

void MetaServer::ExpireSessions() {
  for (SessionId s : sessions_.Expired(core_.Now())) {
    Lapse(s, sessions_.IsUnclaimed(s) ? "it has not come back since the server was started" : "its lease has run out");
  }
  for (SessionId s : sessions_.Forgotten(core_.Now())) Fence(s, "it has been away for too long, or too many are");
}

// Sessions that renew their lease and do not answer.
void MetaServer::LapseSilent() {
  std::set<SessionId> silent;
  const int64_t limit_ns = core_.Now() - options_.answer_timeout_ns;
  for (SessionId s : sessions_.All()) {
    if (!sessions_.HasEvents(s)) {
      oldest_event_.erase(s);
      continue;
    }
    const uint64_t front = sessions_.first_event(s);
    auto& [event, since_ns] = oldest_event_[s];
    if (event != front) {
      event = front;
      since_ns = core_.Now();
    } else if (since_ns <= limit_ns) {
      silent.insert(s);
    }
  }
  for (auto it = demands_.begin(); it != demands_.end();) {
    const auto& [key, demand] = *it;
    if (!leases_.Pending(key.first, demand.first, key.second)) {
      it = demands_.erase(it);
      continue;
    }
    if (demand.second <= limit_ns) silent.insert(key.first);
    ++it;
  }
  for (SessionId s : silent) Lapse(s, "it renews its lease but does not answer recalls or take events");
}

// ---- Data leases ----

Task<Result<LeaseMode>> MetaServer::AcquireLease(const OpHeader& h, InodeId ino, bool for_write, bool data) {
  const SessionId s = h.session;
  const int64_t deadline_ns = core_.DeadlineOf(h);
  const uint64_t call = h.trace_id;
  const bool had_exclusive = leases_.ModeOf(s, ino) == LeaseMode::kExclusive;
  bool first = true;
  LeaseMode mode = LeaseMode::kNone;
  std::optional<WaitList::Wait> wait;
  while (true) {
    if (Error e = sessions_.Check(s, h.epoch); !e.ok()) co_return e;  // and what it waited for is not its any more
    const LeaseTable::OpenOutcome o = leases_.Open(s, ino, for_write, data, first, call);
    first = false;
    if (o.late) {
      cleaner_.ReapIfUnused(ino);
      co_return Error(FsError::kRetryLater, "the file was released by a later call");
    }
    const bool fenced = PushDemands(o.demands);
    if (o.granted) {
      mode = o.mode;
      break;
    }
    if (fenced) continue;
    if (core_.Now() >= deadline_ns || core_.HasFailed()) {
      leases_.AbandonOpen(s, ino);
      cleaner_.ReapIfUnused(ino);
      co_return Error(FsError::kDeadline, "another client does not give up its lease of the file");
    }
    if (!wait) wait.emplace(&waits_, WaitList::For::kOpen, s, ino);
    co_await core_.WaitProgress(deadline_ns);
  }
  wait.reset();
  if (mode == LeaseMode::kExclusive) {
    // From now on only the holder knows size and times: nobody else may go on with what they cached. An earlier try of this
    // call may have told them, and they may not know yet.
    if (!had_exclusive) TellAndNote(ino, s);
    co_await WaitTold(&untold_attrs_, ino, s, WaitList::For::kOpen);
  }
  co_return mode;
}

Task<Result<void>> MetaServer::ClearForChange(SessionId s, InodeId ino, int64_t deadline_ns) {
  std::optional<WaitList::Wait> wait;
  while (true) {
    const LeaseTable::Outcome o = leases_.ClearForChange(s, ino);
    if (o.clear) co_return Ok();
    if (PushDemands(o.demands)) continue;
    if (core_.Now() >= deadline_ns || core_.HasFailed()) {
      co_return Error(FsError::kDeadline, "another client does not give up its lease of the file");
    }
    if (!wait) wait.emplace(&waits_, WaitList::For::kChange, s, ino);
    co_await core_.WaitProgress(deadline_ns);
  }
}

Task<Result<void>> MetaServer::FlushOthers(SessionId s, InodeId ino, int64_t deadline_ns, WaitList::For why) {
  const SessionId holder = leases_.DirtyHolder(s, ino);
  if (!holder) co_return Ok();
  uint64_t event = leases_.NewestFlush(holder, ino);
  if (event == 0 || event <= sessions_.delivered(holder)) {
    // One that was delivered may have been carried out before the latest write.
    if (PushDemands({{holder, ino, SessionEvent::Kind::kFlush, LeaseMode::kNone}})) co_return Ok();
    event = leases_.NewestFlush(holder, ino);
  }
  const WaitList::Events flush = {{holder, event}};
  std::optional<WaitList::Wait> wait;
  while (!leases_.FlushDone(holder, ino, event)) {
    if (core_.Now() >= deadline_ns || core_.HasFailed()) {
      co_return Error(FsError::kDeadline, "another client does not write back what it holds of the file");
    }
    if (!wait) wait.emplace(&waits_, why, s, ino, &flush);
    co_await core_.WaitProgress(deadline_ns);
  }
  co_return Ok();
}

Task<Result<Empty>> MetaServer::Release(InodeRequest r) {
  CO_RETURN_IF_ERROR(CheckSession(r.header));
  GiveBack(r.header, r.ino);
  co_return Empty();
}

void MetaServer::GiveBack(const OpHeader& h, InodeId ino) {
  leases_.Release(h.session, ino, h.trace_id);
  cleaner_.ReapIfUnused(ino);
  core_.Pulse();
}

Task<Result<Empty>> MetaServer::LeaseDone(LeaseDoneRequest r) {
  CO_RETURN_IF_ERROR(CheckSession(r.header));
  if (Error e = leases_.LeaseDone(r.header.session, r.ino, r.lease, r.event_seq, r.header.trace_id); !e.ok()) co_return e;
  cleaner_.ReapIfUnused(r.ino);
  core_.Pulse();
  co_return Empty();
}

}  // namespace stria
