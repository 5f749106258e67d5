#include "meta/coherence/coherence.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "common/log.h"

namespace stria {
namespace {

constexpr size_t kMaxClientNameBytes = 4096;
constexpr size_t kMaxNodeNameBytes = 64;  // as meta/cluster has it
constexpr std::string_view kConflict = "it claims what another session has claimed";
constexpr size_t kMaxHeldInodes = 1 << 20;
constexpr int kMaxTxnTries = 64;  // of a number that is not durable yet

}  // namespace

Coherence::Coherence(MetaCore* core, Cleaner* cleaner, const CoherenceOptions& options, Ended ended)
    : core_(core),
      cleaner_(cleaner),
      answer_timeout_ns_(options.answer_timeout_ns),
      ended_(std::move(ended)),
      sessions_(core, options.sessions, options.callers, [this](SessionId s, std::string_view why) { LapseSilent(s, why); },
                [this](SessionId s, const std::string& address) { HoldToExport(s, address); }),
      exported_(core),
      notices_(core, &sessions_, options.max_interests, options.answer_timeout_ns,
               [this](InodeId ino) { return grants_.table().HoldersExcept(SessionId(), ino); }),
      grants_(core, cleaner, &sessions_, &notices_) {}

void Coherence::UseExports(ExportRoom* exports, std::function<bool(const Peer&)> trusted_root) {
  exported_.Use(exports, std::move(trusted_root));
  exports->OnChange([this] { JudgeAll(); });
}

Result<void> Coherence::Load(Txn& txn) {
  sessions_.table_.SetTerm(core_->term());
  return sessions_.Load(txn, [this](SessionId s) { cleaner_->NoteEnded(s); });
}

void Coherence::Tick() {
  for (SessionId s : sessions_.table().Expired(core_->Now())) {
    Lapse(s, sessions_.table().IsUnclaimed(s) ? "it has not come back since the server was started" : "its lease has run out");
  }
  for (SessionId s : sessions_.table().Forgotten(core_->Now())) Fence(s, "it has been away for too long, or too many are");
  for (SessionId s : address_writes_.Due(core_->Now())) StoreRecord(s);
  LapseWhoIsSilent();
}

void Coherence::LapseWhoIsSilent() {
  std::set<SessionId> silent = grants_.Silent(answer_timeout_ns_);
  for (SessionId s : sessions_.table().All()) {
    const EventQueue& events = *sessions_.table().FindEvents(s);
    if (events.SilentNs(core_->Now()) >= sessions_.AnswersWithin(s, answer_timeout_ns_)) silent.insert(s);
  }
  for (SessionId s : silent) LapseSilent(s, "it renews its lease but does not answer recalls or take events");
  for (SessionId s : notices_.Hoarders(sessions_.table().lease_ns())) {
    LapseSilent(s, "it caches more than its share and does not forget it when others need the room");
  }
}

OpCtx Coherence::Ctx(const OpHeader& h, Touched* touched) {
  OpCtx ctx;
  CallerIds who = {h.uid, h.gid, h.groups};
  if (h.peer) {
    const SessionRecord* session = sessions_.table().Find(h.session);
    who = exported_.Squashed(h, session == nullptr ? nullptr : &session->grant);
  } else if (sessions_.callers().root_squash && h.uid == 0) {
    who = {sessions_.callers().squash_id, sessions_.callers().squash_id, {}};
  }
  ctx.uid = who.uid;
  ctx.gid = who.gid;
  ctx.groups = std::move(who.groups);
  ctx.now_ns = core_->Wall();
  ctx.session = h.session;
  ctx.open = &opens_;
  ctx.touched = touched;
  ctx.opened = h.opened;
  ctx.repeated = sessions_.Repeats(h);
  return ctx;
}

OpCtx Coherence::NamesCtx(const OpHeader& h) {
  OpCtx ctx = Ctx(h, nullptr);
  if (sessions_.IsAdmin(h)) ctx.uid = ctx.gid = 0;
  // Only of his own: with another's nothing would be left out of the names.
  if (const std::optional<Bound> bound = h.session && IsOwn(h) ? BoundOf(h.session) : std::nullopt) ctx.confined_to = bound->root;
  return ctx;
}

bool Coherence::IsBelieved(const OpHeader& h) {
  const OpCtx ctx = Ctx(h, nullptr);
  return ctx.uid == h.uid && ctx.gid == h.gid;
}

BelievedCallers Coherence::Believes(const OpHeader& h, const SessionGrant& grant) const {
  if (h.peer) return grant.by ? exported_.Believes(h, grant) : BelievedCallers();
  BelievedCallers out;
  out.root = !sessions_.callers().root_squash;
  out.uids = {{1, UINT32_MAX}};
  out.gids = {{0, UINT32_MAX}};
  return out;
}

std::optional<ConfinedSessions::Bound> Coherence::BoundOf(SessionId s) const {
  const SessionRecord* session = sessions_.table().Find(s);
  if (session == nullptr || !session->grant.confined()) return std::nullopt;
  return Bound{exported_.KeyOf(session->grant), session->grant.root};
}

std::string Coherence::ProofOfOpen(const OpHeader& h, InodeId ino) const {
  uint8_t rights = h.opened.empty() ? 0 : Proved(h.session, h.opened, ino);
  if (grants_.table().IsReader(h.session, ino)) rights |= kOpenRead;
  if (grants_.table().IsWriter(h.session, ino)) rights |= kOpenWrite;
  return ProofOf(h, ino, 1, rights);
}

OpenSessionReply Coherence::SessionReply(const OpHeader& h, SessionId s, bool reclaimed) const {
  const SessionRecord& record = *sessions_.table().Find(s);
  OpenSessionReply reply;
  reply.session = s;
  reply.epoch = record.epoch;
  reply.root = record.grant.root;
  reply.read_only = record.grant.read_only();
  reply.confined = record.grant.confined();
  reply.believed = Believes(h, record.grant);
  reply.reclaimed = reclaimed;
  reply.term = core_->term();
  reply.lease_ns = sessions_.table().lease_ns();
  reply.first_event = sessions_.table().FindEvents(s)->first();
  return reply;
}

Task<Result<OpenSessionReply>> Coherence::OpenSession(OpenSessionRequest r) {
  CO_RETURN_IF_ERROR(core_->CheckHeader(r.header));
  if (!r.client_uuid || r.client.size() > kMaxClientNameBytes || r.node_name.size() > kMaxNodeNameBytes ||
      r.held.size() > kMaxHeldInodes || r.locks.size() > kMaxLocksPerSession) {
    co_return Error(FsError::kBadRequest, "a session opens without a client uuid, or with too much");
  }
  const SessionId s = r.header.session;
  if (Error e = sessions_.CheckOwner(r.header); s && !e.ok()) co_return e;
  if (s && r.header.peer && sessions_.Check(r.header).ok()) HoldToExport(s, r.header.peer->address);
  if (s && sessions_.Check(r.header).ok()) {
    // What it has seen counts from its next renewal: reads of before the restart may still run.
    const bool first = sessions_.table_.Reclaim(s, r.header.acked_below, CommitSeq(), r.header.replay_next, core_->Now());
    const std::string_view refused = first ? ReclaimHeld(r) : "";
    sessions_.NoteReclaimed();
    if (refused.empty()) {
      Touched lost;  // while it held them, and it was perhaps not told
      for (const HeldInode& h : r.held) {
        if (cleaner_->IsOrphan(h.ino)) lost.orphaned.insert(h.ino);
      }
      notices_.TellOrphaned(lost);
      core_->Pulse();
      if (sessions_.table().Exists(s)) co_return SessionReply(r.header, s, true);
    }
    // What it holds is nobody's, and its bytes are as safe as their file's version says.
    if (sessions_.table().Exists(s)) Lapse(s, refused, /*whole=*/false);
  }
  if (MayComeBack(r)) co_return co_await ComeBack(std::move(r));
  if (const auto newer = sessions_.table().FindByClient(r.client_uuid, OwnerOf(r.header)); s && newer && newer->v > s.v) {
    // A reclaim that was long on its way: the client has a later session, which it must not end.
    co_return Error(FsError::kFenced, "this session is over");
  }
  co_return co_await OpenFresh(std::move(r));
}

std::string_view Coherence::ReclaimFiles(const OpenSessionRequest& r, std::set<InodeId>* held) {
  const SessionId s = r.header.session;
  const bool read_only = sessions_.IsReadOnly(s);
  Notices::Caching cache(&notices_, s);
  for (const HeldInode& h : r.held) {
    if (read_only && (h.for_write || h.lease == LeaseMode::kExclusive)) return "it claims to write, and its export is read-only";
    const uint8_t rights = Proved(s, h.proof, h.ino);
    if ((rights & (h.for_write ? kOpenWrite : kOpenRead | kOpenWrite)) == 0) return "it claims what it was not given";
    held->insert(h.ino);
    if (h.lease == LeaseMode::kNone) {
      grants_.TakeUp(s, h.ino, h.for_write);
    } else if (!grants_.Reclaim(s, h.ino, h.lease, h.for_write)) {
      return kConflict;
    }
    if ((rights & kOpenRead) != 0) grants_.NoteReader(s, h.ino);
    if (h.lease == LeaseMode::kNone) continue;
    // It may show what it has read of it, and is told of changes as before.
    cache.Attr(h.ino).Data(h.ino);
  }
  return "";
}

std::string_view Coherence::ReclaimHeld(const OpenSessionRequest& r) {
  const SessionId s = r.header.session;
  std::set<InodeId> held;
  if (const std::string_view refused = ReclaimFiles(r, &held); !refused.empty()) return refused;
  if (!sessions_.table().Exists(s)) return "it was told of more than it may leave untaken";
  for (const FileLock& l : r.locks) {
    if (l.type == LockType::kNone || l.first > l.last || !held.contains(l.ino)) return "it claims a lock of what it has not open";
    if (!locks_.Reclaim(s, l)) return kConflict;
  }
  return "";
}

Task<Result<OpenSessionReply>> Coherence::OpenFresh(OpenSessionRequest r) {
  const uint64_t nonce = r.header.trace_id;
  const SessionOwner owner = OwnerOf(r.header);
  if (auto former = sessions_.table().FindByClient(r.client_uuid, owner)) {
    // The same attempt again (its answer was lost) gets the same session; anything else replaces it.
    const bool live = sessions_.table().Exists(*former) && !sessions_.table().IsUnclaimed(*former);
    if (nonce != 0 && live && sessions_.table().OpenNonce(*former) == nonce) {
      CO_RETURN_IF_ERROR(co_await core_->Sync());
      if (sessions_.table().Exists(*former)) co_return SessionReply(r.header, *former, false);
    } else {
      Fence(*former, "its client has opened a new session", false);
    }
  }
  if (Error e = sessions_.MayOpen(owner, SessionId()); !e.ok()) co_return e;
  // Directories that a restart has lost are made again first.
  if (r.path.size() > 1) CO_RETURN_IF_ERROR(co_await sessions_.AwaitReclaims(r.header));
  for (int i = 0; i < kMaxTxnTries; ++i) {
    CO_RETURN_IF_ERROR(core_->CheckHeader(r.header));
    if (sessions_.table().full()) co_return Error(FsError::kRetryLater, "too many sessions; unmount unused clients");
    if (sessions_.owners_.Full(owner)) {
      co_return Error(FsError::kRetryLater, owner.name + " has " + std::to_string(kMaxSessionsOfOwner) +
                                                " sessions already, as many as a client may; unmount some there");
    }
    CO_ASSIGN_OR_RETURN(SessionGrant grant, exported_.Give(r.header, r.path));
    std::optional<SessionId> opened;
    {
      Txn txn(core_->store());
      const Result<uint64_t> id = txn.NewId(IdKind::kSession);
      if (id.ok()) {
        SessionRecord record;
        record.id = SessionId(*id);
        record.epoch = core_->signer().SecretEpoch(record.id, core_->rng().Next());
        record.client_uuid = r.client_uuid;
        record.client = r.client;
        record.node_name = r.node_name;
        record.comes_back = r.comes_back;
        record.owner = owner;
        record.grant = std::move(grant);
        txn.Put(Family::kSessions, SessionKey(record.id), EncodeSessionRecord(record));
        CO_ASSIGN_OR_RETURN(const CommitSeq seq, core_->Commit(txn));
        opened = record.id;
        sessions_.BeginPolls(record.id);
        sessions_.owners_.Add(owner);
        sessions_.table_.Open(std::move(record), nonce, seq, core_->Now());
      } else if (id.code() != FsError::kRetryLater) {
        co_return id.error();
      }
    }
    // Durable before the client buffers anything under it.
    CO_RETURN_IF_ERROR(co_await core_->Sync());
    if (!opened) continue;
    LogInfo("session {} opened: {}{}", *opened, r.client, r.header.peer ? ", " + r.header.peer->ToString() : "");
    if (!sessions_.table().Exists(*opened)) co_return Error(FsError::kFenced, "the session was replaced at once");
    co_return SessionReply(r.header, *opened, false);
  }
  co_return Error(FsError::kRetryLater, "no session number was free");
}

Result<RenewReply> Coherence::Renew(const RenewRequest& r) {
  RETURN_IF_ERROR(core_->CheckHeader(r.header));
  SessionTable& table = sessions_.table_;
  const SessionId s = r.header.session;
  if (Error e = sessions_.CheckHere(r.header); !e.ok()) return e;
  RenewReply reply;
  reply.term = core_->term();
  reply.current_seq = core_->store().last_seq();
  reply.durable_seq = core_->store().durable_seq();
  if (!table.IsUnclaimed(s)) {
    table.Renew(s, std::min(r.seen_seq, core_->store().last_seq()), core_->Now(), r.io);
    table.AckReplies(s, r.header.acked_below);
    reply.lease_ns = table.lease_ns();
  }
  return reply;
}

Result<void> Coherence::CloseSession(const OpHeader& h) {
  RETURN_IF_ERROR(core_->CheckHeader(h));
  if (Error e = sessions_.CheckOwner(h); !e.ok()) return e;
  if (Error e = sessions_.Check(h); e.ok() || e.code == FsError::kLapsed) Fence(h.session, "", false);
  return Ok();
}

Result<void> Coherence::EvictClient(SessionId s) {
  if (sessions_.table().Find(s) == nullptr) return Error(FsError::kNoEnt, "there is no session " + std::to_string(s.v));
  Fence(s, "an admin has evicted its client");
  return Ok();
}

// Its sessions that have lapsed are forgotten by themselves: it cannot come back.
void Coherence::EndHolder(const Sha256Hash& key) {
  for (SessionId s : sessions_.table().All()) {
    const SessionRecord* record = sessions_.table().Find(s);  // null: it went with another one
    if (record != nullptr && !record->owner.name.empty() && record->owner.key == key) Fence(s, "its certificate was revoked");
  }
  Peer holder;
  holder.key_hash = key;
  core_->tokens().CutOff(holder.Holder());
}

void Coherence::HoldToExport(SessionId s, const std::string& address) {
  const SessionRecord& record = *sessions_.table().Find(s);
  Result<SessionGrant> now = exported_.Keep(record.owner, record.grant, address);
  if (!now.ok()) return Fence(s, now.error().message);
  // (Two networks may have a line each, so the line may come and go with the address.)
  const bool moved = HostIn(now->address) != HostIn(record.grant.address);
  const bool write = moved ? address_writes_.Moved(s, core_->Now()) : now->by != record.grant.by;
  sessions_.table_.Rebind(s, std::move(*now));
  if (write) StoreRecord(s);
}

void Coherence::StoreRecord(SessionId s) {
  Txn txn(core_->store());
  txn.Put(Family::kSessions, SessionKey(s), EncodeSessionRecord(*sessions_.table().Find(s)));
  (void)core_->Commit(txn);
  core_->Committed();
}

// Those that have lapsed are judged when they come back.
void Coherence::JudgeAll() {
  for (SessionId s : sessions_.table().All()) {
    const SessionRecord* record = sessions_.table().Find(s);  // null: it went with another one
    if (record != nullptr) HoldToExport(s, std::string(record->grant.address));
  }
}

void Coherence::Fence(SessionId s, std::string_view why, bool cut_off) {
  const SessionRecord* found = sessions_.table().Find(s);
  if (found == nullptr) return;
  SessionRecord record = *found;
  if (cut_off) ++losses_.fenced;
  if (why.empty()) LogInfo("session {} ({}) has ended", s, record.client);
  else LogWarning("session {} ({}) is fenced: {}", s, record.client, why);
  std::vector<InodeId> open = lapsed_.Drop(s);
  for (InodeId ino : grants_.Drop(s)) open.push_back(ino);
  sessions_.table_.Remove(s);
  sessions_.owners_.Remove(record.owner);
  if (cut_off && !record.owner.name.empty() && !sessions_.owners_.Has(record.owner)) {
    Peer holder;
    holder.key_hash = record.owner.key;
    core_->tokens().CutOff(holder.Holder());
  }
  ForgetHeld(s);
  sessions_.NoteReclaimed();
  ended_(s);
  not_taken_.erase(s);
  address_writes_.Forget(s);
  for (InodeId ino : open) cleaner_->Reap(ino);
  const std::vector<LockNotice> free_locks = locks_.Drop(s);
  record.lapsed = false;
  record.fenced = true;
  Txn txn(core_->store());
  txn.Put(Family::kSessions, SessionKey(s), EncodeSessionRecord(record));
  core_->fences().Note(core_->Commit(txn));
  core_->Committed();
  cleaner_->NoteEnded(s);
  sessions_.EndPolls(s);
  TellLocksFree(free_locks);
  core_->Pulse();
}

}  // namespace stria
