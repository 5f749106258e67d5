// Sessions whose lease has run out, and what becomes of them when they are heard again (coherence.h).
#include <optional>
#include <utility>

#include "common/log.h"
#include "meta/coherence/coherence.h"
#include "meta/ops/ops.h"

namespace stria {

void Coherence::ForgetHeld(SessionId s) {
  notices_.Drop(s);
  grants_.ForgetDemands(s);
}

void Coherence::LapseSilent(SessionId s, std::string_view why) {
  if (sessions_.table().Exists(s)) sessions_.NoteSilent(s);
  Lapse(s, why);
}

void Coherence::Lapse(SessionId s, std::string_view why, bool whole) {
  const SessionRecord* found = sessions_.table().Find(s);
  if (found == nullptr || found->lapsed) return;
  if (!found->comes_back || sessions_.table().remember_ns() == 0) return Fence(s, why);
  LogWarning("session {} ({}) has lapsed: {}. Others may have what it held; if it is heard within {} s it goes on", s,
             found->client, why, sessions_.table().remember_ns() / kSecond);
  ++losses_.lapsed;
  const bool known = !sessions_.table().IsUnclaimed(s);
  if (known) lapsed_.Add(s, grants_.table().OpenBy(s), locks_.LocksOf(s), whole);
  for (InodeId ino : grants_.Drop(s)) cleaner_->ReapIfUnused(ino);
  const std::vector<LockNotice> free_locks = locks_.Drop(s);
  ForgetHeld(s);
  not_taken_.erase(s);
  sessions_.table_.Lapse(s, core_->Now());
  Txn txn(core_->store());
  txn.Put(Family::kSessions, SessionKey(s), EncodeSessionRecord(*sessions_.table().Find(s)));
  core_->fences().Note(core_->Commit(txn));
  core_->Committed();
  sessions_.PulsePoll(s);
  TellLocksFree(free_locks);
  core_->Pulse();
}

// Also if it has come back before, and did not hear that.
bool Coherence::MayComeBack(const OpenSessionRequest& r) const {
  const SessionRecord* record = sessions_.table().Find(r.header.session);
  if (record == nullptr || !r.comes_back || !record->comes_back || record->client_uuid != r.client_uuid) return false;
  if (r.header.epoch == record->epoch) return record->lapsed;
  return r.header.epoch.v + 1 == record->epoch.v;
}

Task<Result<OpenSessionReply>> Coherence::ComeBack(OpenSessionRequest r) {
  // What a restart has lost is done again first: files may be missing until then.
  CO_RETURN_IF_ERROR(co_await sessions_.AwaitReclaims(r.header));
  CO_RETURN_IF_ERROR(core_->CheckHeader(r.header));
  const SessionId s = r.header.session;
  if (r.header.peer && MayComeBack(r)) HoldToExport(s, r.header.peer->address);
  if (!MayComeBack(r)) co_return Error(FsError::kRetryLater, "the session has come back by another request");
  if (Error e = sessions_.MayOpen(OwnerOf(r.header), s); !e.ok()) co_return e;
  const bool again = sessions_.table().Exists(s) && sessions_.table().Attempt(s) == r.header.trace_id && r.header.trace_id != 0;
  if (!again) {
    if (sessions_.table().Exists(s)) Lapse(s, "it has not heard that it was taken back");
    if (!sessions_.table().IsLapsed(s)) co_return sessions_.table().Gone(s);
    const int64_t away_ns = sessions_.table().AwayNs(s, core_->Now());
    sessions_.table_.ComeBack(s, r.header.acked_below, r.header.trace_id, core_->Now());
    Txn txn(core_->store());
    txn.Put(Family::kSessions, SessionKey(s), EncodeSessionRecord(*sessions_.table().Find(s)));
    CO_RETURN_IF_ERROR(core_->Commit(txn));
    not_taken_[s] = TakeUp(r);
    LogInfo("session {} ({}) has come back after {} s; {} inodes are lost to it", s, r.client, away_ns / kSecond,
            not_taken_[s].size());
    core_->Pulse();
  }
  const Epoch epoch = sessions_.table().Find(s)->epoch;
  // Durable before the client does anything in its new epoch.
  CO_RETURN_IF_ERROR(co_await core_->Sync());
  if (Error e = sessions_.table().Check(s, epoch); !e.ok()) co_return e;
  OpenSessionReply reply = SessionReply(r.header, s, true);
  reply.lapsed = true;
  reply.not_taken = not_taken_[s];
  reply.survived = core_->store().found_seq();
  co_return reply;
}

std::vector<NotTaken> Coherence::TakeUp(const OpenSessionRequest& r) {
  const SessionId s = r.header.session;
  const bool read_only = sessions_.IsReadOnly(s);
  const bool known = lapsed_.Knows(s);
  std::vector<NotTaken> lost;
  for (const HeldInode& h : r.held) {
    if (h.idle) continue;
    const uint8_t rights = Proved(s, h.proof, h.ino);
    const std::optional<bool> writes = known ? lapsed_.OpenBy(s, h.ino) : std::optional(h.for_write);
    Txn txn(core_->store());
    InodeRequest get;
    get.ino = h.ino;
    if (!writes || (rights & (kOpenRead | kOpenWrite)) == 0 || !OpGetAttr(txn, OpCtx(), get).ok()) {
      lost.push_back({h.ino, false});
      continue;
    }
    grants_.TakeUp(s, h.ino, !read_only && h.for_write && *writes && (rights & kOpenWrite) != 0);
    if ((rights & kOpenRead) != 0) grants_.NoteReader(s, h.ino);
  }
  for (const FileLock& l : r.locks) {
    const bool valid = l.type != LockType::kNone && l.first <= l.last && l.last <= kLockToEnd;
    if (valid && lapsed_.Has(s, l) && locks_.Reclaim(s, l)) continue;
    if (lost.empty() || lost.back() != NotTaken{l.ino, true}) lost.push_back({l.ino, true});
  }
  for (InodeId ino : lapsed_.Drop(s)) cleaner_->ReapIfUnused(ino);
  return lost;
}

}  // namespace stria
