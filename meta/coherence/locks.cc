// File locks (meta/session/lock_table.h). They are in memory: a session claims them again after a restart of the server.
#include "common/sabotage.h"
#include "meta/coherence/coherence.h"

namespace stria {

LockTable::Answer Coherence::Lock(SessionId s, const LockRequest& r) {
  LockTable::Answer a;
  switch (r.op) {
    case LockOp::kTest: a = locks_.Test(s, r.lock); break;
    case LockOp::kTry: a = locks_.Try(s, r.lock, r.keep); break;
    case LockOp::kWait: a = locks_.Wait(s, r.lock, r.ticket, r.keep); break;
    case LockOp::kUnlock: a.notices = locks_.Unlock(s, r.lock); break;
    case LockOp::kWithdraw: a.notices = locks_.Withdraw(s, r.lock.ino, r.ticket); break;
  }
  const bool asks = r.op == LockOp::kTry || r.op == LockOp::kWait;
  if (asks && a.outcome == LockTable::Outcome::kGranted) lapsed_.Strike(r.lock);
  return a;
}

void Coherence::TellLocksFree(const std::vector<LockNotice>& notices) {
  if (Sabotaged(Sabotage::kLoseLockFree)) return;
  for (const LockNotice& n : notices) {
    SessionEvent e;
    e.kind = SessionEvent::Kind::kLockFree;
    e.ino = n.ino;
    e.ticket = n.ticket;
    sessions_.Push(n.session, std::move(e));  // a session that cannot be told lapses, and waits no more
  }
}

}  // namespace stria
