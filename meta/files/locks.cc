// File locks (meta/session/lock_table.h). They are in memory: a session claims them again after a restart of
// the server, and nobody is granted any before the window of reclaims is over.
#include "common/sabotage.h"
#include "meta/files/files.h"
#include "meta/files/request_digest.h"

namespace stria {

Task<Result<LockReply>> Files::Lock(LockRequest r) {
  if (r.op == LockOp::kTest) return TestLock(std::move(r));
  return runs_.Mutate<LockRequest, LockReply>(OpKind::kLock, std::move(r), this, &Files::RunLock, nullptr);
}

Task<Result<LockReply>> Files::TestLock(LockRequest r) {
  CO_RETURN_IF_ERROR(co_await sessions_->Gate(r.header));
  CO_RETURN_IF_ERROR(CheckLock(r));
  co_return LockReplyOf(r.header.session, coherence_->Lock(r.header.session, r));
}

// A request that was on its way while the server restarted says nothing of what its session claims now.
Result<void> Files::CheckLock(const LockRequest& r) {
  if (r.header.term != core_->term()) return Error(FsError::kRetryLater, "the metadata server has restarted");
  const bool asks = r.op == LockOp::kTest || r.op == LockOp::kTry || r.op == LockOp::kWait;
  if ((asks && r.lock.type == LockType::kNone) || r.lock.first > r.lock.last || r.lock.last > kLockToEnd) {
    return Error(FsError::kBadRequest, "a lock of no type or no bytes");
  }
  if ((r.op == LockOp::kWait || r.op == LockOp::kWithdraw) && r.ticket == 0) {
    return Error(FsError::kBadRequest, "a wait for a lock without a ticket");
  }
  if (!asks) return Ok();
  Txn txn(core_->store());
  return OpMayUse(txn, coherence_->Ctx(r.header, nullptr), r.lock.ino);
}

LockReply Files::LockReplyOf(SessionId s, const LockTable::Answer& a) {
  LockReply reply;
  reply.granted = a.outcome == LockTable::Outcome::kGranted;
  reply.conflict = a.conflict;
  if (reply.conflict && a.holder != s) reply.conflict->pid = 0, reply.conflict->owner = 0;
  return reply;
}

Task<Result<LockReply>> Files::RunLock(LockRequest r) {
  // What gives something up is in nobody's way.
  const bool asks = r.op == LockOp::kTry || r.op == LockOp::kWait;
  if (asks) CO_RETURN_IF_ERROR(co_await sessions_->Gate(r.header));
  else CO_RETURN_IF_ERROR(sessions_->CheckSession(r.header));
  CO_RETURN_IF_ERROR(CheckLock(r));
  // No await from here on: what is done, its reply and who is told are one.
  const SessionId s = r.header.session;
  const LockTable::Answer a = coherence_->Lock(s, r);
  const bool refused = a.outcome == LockTable::Outcome::kDeadlock || a.outcome == LockTable::Outcome::kTooMany;
  const LockReply reply = LockReplyOf(s, a);
  if (r.header.op_seq && !refused) {
    ReplyRecord stored;
    stored.kind = static_cast<uint16_t>(OpKind::kLock);
    stored.bytes = EncodeReply(reply);
    stored.digest = RequestDigest(r);
    sessions_->ops(s).CommitVolatile(r.header.op_seq, stored.Encode());
  }
  coherence_->TellLocksFree(a.notices);  // last: sessions can lapse by it, this one too
  if (a.outcome == LockTable::Outcome::kDeadlock) {
    co_return Error(FsError::kDeadlock, "to wait for this lock would be for ever");
  }
  if (refused) co_return Error(FsError::kNoLock, "the client holds or waits for too many locks");
  if (asks) CO_RETURN_IF_ERROR(co_await WaitFences(core_));
  co_return reply;
}

}  // namespace stria
