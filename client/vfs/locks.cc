// Locks. The server grants them; what this client holds is noted per inode, to be claimed again after a restart
// of the server (a claim that another client has too fences us) and to know at close whether there is anything to
// give up.
//
// Who waits stands in line at the server under a ticket and has no call under way: an event (kLockFree) says
// when to ask again. A lock is held only when a reply says so, so an interrupted wait leaves nothing behind but a
// place in line, which is withdrawn. What the server cannot be told at once, that an owner is gone or waits no more, it
// is told later: others wait for it.
//
// A request is among the calls that are under way, as the server answers each at once. A place in line is not: it is
// waited for somebody else's unlock, however long that takes.
//
// When a file is lost (Vfs::Lose) so are its locks, also one whose request is under way: whatever that is answered, nothing of it
// is noted as held, and the server is told to take it back.
#include <utility>

#include "client/vfs/inode.h"
#include "client/vfs/vfs.h"
#include "common/sabotage.h"

namespace stria {
namespace {
constexpr int64_t kTellAgainNs = 1 * kSecond;

FileLock ToFileLock(InodeId ino, const LockIn& in) {
  return {ino, in.kind, in.owner, in.range.type, in.range.first, in.range.last, in.range.pid};
}

LockIn AllOf(std::pair<LockKind, uint64_t> key) {
  LockIn all;
  all.kind = key.first;
  all.owner = key.second;
  return all;
}

Error LostLocks() { return Error(FsError::kFenced, "the mount lost its session, and its locks"); }

}  // namespace

// A ticket, from before the first question until its owner is gone.
class Vfs::LockLine {
 public:
  LockLine(Vfs* vfs, std::shared_ptr<LockWait> wait) : vfs_(vfs) {
    if (!wait) return;
    ticket_ = vfs_->next_lock_ticket_++;
    vfs_->lock_waits_[ticket_] = std::move(wait);
  }
  LockLine(const LockLine&) = delete;
  LockLine& operator=(const LockLine&) = delete;
  ~LockLine() { vfs_->lock_waits_.erase(ticket_); }
  uint64_t ticket() const { return ticket_; }

 private:
  Vfs* const vfs_;
  uint64_t ticket_ = 0;
};

Task<Result<LockReply>> Vfs::AskLock(std::shared_ptr<VfsInode> inode, LockOp op, LockIn lock, uint64_t ticket) {
  LockRequest r;
  r.op = op;
  r.ticket = ticket;
  r.lock = ToFileLock(inode->ino, lock);
  r.header.opened = inode->proof;
  const uint64_t generation = session_.generation(), era = inode->era;
  const bool asks = op == LockOp::kTry || op == LockOp::kWait;
  auto mu = co_await inode->lock_mu.Lock();
  // What the next session is given here nobody would know of, and nobody would give up.
  if (generation != session_.generation()) co_return LostLocks();
  if (asks && era != inode->era) co_return inode->loss;
  if (op == LockOp::kTest) co_return co_await session_.Call(&MetaService::Lock, std::move(r));
  if (op == LockOp::kWithdraw) co_return co_await session_.Mutate(&MetaService::Lock, std::move(r));
  // A lock that is less than what we hold of some bytes, and may be refused because of others, is asked for in two
  // steps: first what it is more, then all of it, which nobody can be refused any more. Refused as a whole after a
  // restart of the server, it would leave us with what we have not claimed.
  const auto mine = inode->locks.find({lock.kind, lock.owner});
  if (lock.kind == LockKind::kPosix && op != LockOp::kUnlock && mine != inode->locks.end()) {
    const LockRanges& held = mine->second.held;
    LockRanges more = held, less = held;
    more.Strengthen(lock.range);
    less.Weaken(lock.range);
    if (more != held && less != held) {
      r.keep = true;
      auto reply = co_await ChangeLock(inode, r, lock.range);
      if (!reply.ok() || !reply->granted) co_return reply;
      if (generation != session_.generation()) co_return LostLocks();
      if (era != inode->era) co_return inode->loss;
      r.op = LockOp::kTry;
      r.ticket = 0;
      r.keep = false;
    }
  }
  co_return co_await ChangeLock(inode, std::move(r), lock.range);
}

// `lock_mu` is held. Should the server restart meanwhile, we claim no more than what is ours whatever it did: what it
// has taken away, somebody else may have by now. A refusal must leave us with no more than that. flock(2) gives up its
// old lock even if it does not get the new one.
Task<Result<LockReply>> Vfs::ChangeLock(std::shared_ptr<VfsInode> inode, LockRequest r, LockRange range) {
  const uint64_t generation = session_.generation(), era = inode->era;
  const auto key = std::pair(r.lock.kind, r.lock.owner);
  const bool flock = r.lock.kind == LockKind::kFlock;
  const bool keep = r.keep;
  const LockOp op = r.op;
  const LockRanges before = inode->locks[key].held;
  if (!keep) inode->locks[key].held.Weaken(flock ? LockRange() : range);
  auto reply = co_await session_.Mutate(&MetaService::Lock, std::move(r));
  if (generation != session_.generation() || era != inode->era) co_return reply;  // lost: as Vfs::Lose has left it
  VfsInode::OwnerLocks& mine = inode->locks[key];
  if (reply.ok() && reply->granted) {
    if (keep) mine.held.Strengthen(range);
    else mine.held.Set(range);
    if (op == LockOp::kUnlock && range.first == 0 && range.last == kLockToEnd) mine.more = false;
  } else if (ServerSilent(reply.code())) {
    mine.more = true;  // it is unlocked again when its owner goes
  } else if (!reply.ok() || !flock) {
    mine.held = before;
  }
  if (mine.empty()) inode->locks.erase(key);
  co_return reply;
}

Task<Result<void>> Vfs::SetLock(VfsHandlePtr h, LockIn lock, std::shared_ptr<LockWait> wait) {
  std::shared_ptr<VfsInode> inode = h->inode;
  CO_RETURN_IF_ERROR(CheckHandle(*h));
  if (lock.range.type == LockType::kNone) {
    const CallList::Call under_way(&calls_, "unlock of", inode->ino);
    co_return co_await Unlock(inode, lock);
  }
  const auto key = std::pair(lock.kind, lock.owner);
  if (inode->Dropped(key)) {
    CO_RETURN_IF_ERROR(co_await Unlock(inode, AllOf(key)));  // else it would go with the old ones
    CO_RETURN_IF_ERROR(CheckHandle(*h));
  }
  const LockLine line(this, wait);
  while (true) {
    if (wait) wait->free = false;
    Result<LockReply> reply = LockReply();
    {
      const CallList::Call under_way(&calls_, "lock of", inode->ino);
      reply = co_await AskLock(inode, wait ? LockOp::kWait : LockOp::kTry, lock, line.ticket());
    }
    // Whose file was lost meanwhile wants it no more, and says so: others stand behind it. (What it was granted goes with
    // all that its owner had: Vfs::Lose.)
    const auto still = [&] { return CheckHandle(*h); };
    const auto leave = [&] {
      if (wait) scope_.Spawn(Withdraw(inode, lock, line.ticket()));
    };
    if (ServerSilent(reply.code())) leave();
    CO_RETURN_IF_ERROR(reply);
    if (!still().ok()) {
      if (!reply->granted) leave();
      co_return still();
    }
    if (reply->granted) co_return Ok();
    if (!wait) co_return Error(FsError::kAgain);
    while (!wait->free && !wait->interrupted && still().ok()) co_await wait->changed.Wait();
    if (!still().ok()) {
      leave();
      co_return still();
    }
    if (!wait->interrupted) continue;
    const CallList::Call under_way(&calls_, "end of a wait for a lock of", inode->ino);
    const auto withdrawn = co_await AskLock(inode, LockOp::kWithdraw, lock, line.ticket());
    if (ServerSilent(withdrawn.code())) scope_.Spawn(Withdraw(inode, lock, line.ticket()));
    co_return Error(FsError::kIntr);
  }
}

Task<void> Vfs::Withdraw(std::shared_ptr<VfsInode> inode, LockIn lock, uint64_t ticket) {
  const uint64_t generation = session_.generation();
  while (generation == session_.generation()) {
    const auto withdrawn = co_await AskLock(inode, LockOp::kWithdraw, lock, ticket);
    if (!ServerSilent(withdrawn.code())) break;
    co_await Sleep(kTellAgainNs);
  }
  DropIfIdle(inode);
}

Task<Result<void>> Vfs::Unlock(std::shared_ptr<VfsInode> inode, LockIn lock) {
  CO_RETURN_IF_ERROR(co_await AskLock(inode, LockOp::kUnlock, lock, 0));
  co_return Ok();
}

Task<Result<std::optional<FileLock>>> Vfs::TestLock(VfsHandlePtr h, LockIn lock) {
  const CallList::Call under_way(&calls_, "test of a lock of", h->inode->ino);
  CO_RETURN_IF_ERROR(CheckHandle(*h));
  CO_ASSIGN_OR_RETURN(const LockReply reply, co_await AskLock(h->inode, LockOp::kTest, lock, 0));
  co_return reply.conflict;
}

Task<void> Vfs::DropLocks(std::shared_ptr<VfsInode> inode, LockKind kind, uint64_t owner) {
  const CallList::Call under_way(&calls_, "unlock of", inode->ino);
  const auto key = std::pair(kind, owner);
  // A request that is under way may bring the owner a lock.
  if (inode->lock_mu.locked()) (void)co_await inode->lock_mu.Lock();
  auto it = inode->locks.find(key);
  if (it == inode->locks.end()) co_return;
  it->second.dropped = true;
  if (!ServerSilent((co_await Unlock(inode, AllOf(key))).code())) DropIfIdle(inode);
  else scope_.Spawn(UnlockDropped(std::move(inode), key));
}

Task<void> Vfs::UnlockDropped(std::shared_ptr<VfsInode> inode, std::pair<LockKind, uint64_t> key) {
  while (inode->Dropped(key)) {
    if (!ServerSilent((co_await Unlock(inode, AllOf(key))).code())) break;
    co_await Sleep(kTellAgainNs);
  }
  DropIfIdle(inode);
}

std::vector<FileLock> Vfs::HeldLocks() {
  std::vector<FileLock> out;
  if (Sabotaged(Sabotage::kForgetLocks)) return out;
  for (const auto& [ino, n] : inodes_) {
    for (const auto& [key, owner] : n->locks) {
      for (const LockRange& r : owner.held.All()) out.push_back(ToFileLock(ino, {key.first, key.second, r}));
    }
  }
  return out;
}

void Vfs::WakeLockWait(uint64_t ticket) {
  auto it = lock_waits_.find(ticket);
  if (it == lock_waits_.end()) return;
  it->second->free = true;
  it->second->changed.Pulse();
}

void Vfs::WakeLockWaits() {
  for (auto& [ticket, wait] : lock_waits_) {
    wait->free = true;
    wait->changed.Pulse();
  }
}

}  // namespace stria
